"""What came of a trial, read from the files of its folder and an exit code."""

import json
import math
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from euro_lightning.ablation.trial import LOG, last_line
from euro_lightning.callbacks.reports import REPORTS, STOPPED
from euro_lightning.checkpoint import checkpoint_tokens, list_checkpoints
from euro_lightning.files import read_json
from euro_lightning.results import SCORES, read_results

EVALUATION = "evaluation.json"
"""Scores of downstream tasks in a trial's folder."""

_NOT_FINITE = "not-finite-step-*.json"


@dataclass(frozen=True)
class Outcome:
    """The end of a trial, or of one attempt of it."""

    kind: Literal["complete", "pruned", "diverged", "failed"]
    reason: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Tokens, seconds, FLOPs, parameters."""
    killed: bool = False
    """Whether somebody else ended it, which says nothing of the experiment."""


def ended(folder: Path, judged: bool) -> Outcome | None:
    """How a trial ended by what its folder holds; None when it has not.

    Args:
        folder: of the trial.
        judged: whether its encoder is judged on tasks, too.
    """
    if (folder / STOPPED).is_file():
        stopped = read_json(folder / STOPPED)
        return Outcome(stopped["outcome"], stopped["reason"], facts={"tokens": stopped["tokens"]})
    if any(folder.glob(_NOT_FINITE)):
        said = last_line(folder / LOG) if (folder / LOG).is_file() else ""
        reason = said if "not finite" in said else "the loss is not finite"
        return Outcome("diverged", reason, facts={"tokens": progress(folder)})
    if not (folder / SCORES).is_file() or (judged and not (folder / EVALUATION).is_file()):
        return None
    results = read_results(folder)
    metrics = results.metrics()
    if judged:
        tasks: dict[str, float] = read_json(folder / EVALUATION)
        metrics |= {f"evaluation/{task}": value for task, value in tasks.items()}
        metrics["evaluation/mean"] = sum(tasks.values()) / len(tasks)
    facts = {
        "tokens": results.tokens, "seconds": results.seconds, "flops": results.flops,
        "parameters": results.parameters,
    }  # fmt: skip
    return Outcome("complete", metrics=metrics, facts=facts)


def failure(folder: Path, code: int) -> Outcome:
    """An attempt that ended without a result."""
    if code - 128 in {int(number) for number in signal.Signals}:
        number = signal.Signals(code - 128)
        killed = number in (signal.SIGKILL, signal.SIGTERM)
        return Outcome("failed", f"ended by {number.name}", killed=killed)
    said = last_line(folder / LOG)
    return Outcome("failed", said if code else f"it ended without {SCORES}: {said}")


def fitted(folder: Path) -> bool:
    """Whether the training of a trial is done."""
    return (folder / SCORES).is_file()


def progress(folder: Path) -> int:
    """Tokens that a trial goes on from: those of its last checkpoint; 0 without one."""
    checkpoints = list_checkpoints(folder / "checkpoints")
    return checkpoint_tokens(checkpoints[-1]) if checkpoints else 0


def reports(folder: Path) -> list[dict[str, float]]:
    """Validations during training, each clock once; a line that is being written is left for later."""
    path = folder / REPORTS
    if not path.is_file():
        return []
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            row = json.loads(line)
            found[row["tokens"]] = {k: math.nan if v is None else v for k, v in row.items()}
    return [found[tokens] for tokens in sorted(found)]
