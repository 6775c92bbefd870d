"""A trial of a study: it reports its validations to the sweep that started it, and stops when that says so.

The two talk through files of the run folder, so that the trial may be any number of processes on any machine that
sees the folder: `trial.json` says that the run is a trial, `reports.jsonl` has one line for each validation, and
`answer.json` the sweep's answer to the latest.
"""

import json
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

from lightning.pytorch import Callback, LightningModule, Trainer

from euro_lightning.callbacks.token_clock import data_of
from euro_lightning.files import read_json, write_json
from euro_lightning.objective.scores import mean_score

TRIAL, REPORTS, ANSWER, STOPPED = "trial.json", "reports.jsonl", "answer.json", "stopped.json"
PATIENCE = 60.0
"""Seconds to wait for an answer; training goes on without one."""


class Trial(NamedTuple):
    """What a run folder knows of the study that it belongs to."""

    tags: dict[str, str]
    """Tags of the MLflow run: its parent, the study, the number."""
    parameters: dict[str, Any]
    """Setting and seed by the names that a person uses."""
    prune: bool
    """Whether the sweep answers reports."""


def trial_of(folder: Path) -> Trial | None:
    """The trial that a run folder is; None when it is a run by itself."""
    path = folder / TRIAL
    return Trial(**read_json(path)) if path.is_file() else None


class Reports(Callback):
    """Reports validations of a trial and stops it on all ranks when the sweep prunes it."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        """The run folder of a trial; None when the run is none."""
        self.outcome: str | None = None
        """pruned or diverged, when the run was stopped for it."""
        self.reason = ""
        """Why, in words."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """All ranks know whether the first one reports."""
        self.folder = trainer.strategy.broadcast(self.folder)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn != "fit" or self.folder is None or self.outcome is not None:
            return
        said: tuple[str | None, str] = (None, "")
        if trainer.is_global_zero:
            said = self._report(trainer, pl_module)
        self.outcome, self.reason = trainer.strategy.broadcast(said)
        if self.outcome is not None:
            trainer.should_stop = True

    def _report(self, trainer: Trainer, module: Any) -> tuple[str | None, str]:
        """Writes the scores; returns how the run ends now, or None, and why."""
        assert self.folder is not None
        data, score = data_of(trainer), mean_score(module.scores)
        values = {"tokens": data.clock, "loss": score.loss, "accuracy": score.accuracy}
        line = json.dumps({key: value if math.isfinite(value) else None for key, value in values.items()})
        with open(self.folder / REPORTS, "a", encoding="utf-8") as file:
            file.write(line + "\n")
        blind = math.log(data.tokenizer.vocabulary)
        if not score.loss < 2 * blind:
            return "diverged", (
                f"diverged: validation loss {score.loss:.3g} after {data.clock:,} tokens;"
                f" guessing blindly has {blind:.3g}"
            )
        if data.clock >= data.timeline.tokens:
            return None, ""
        return self._answer(data.clock)

    def _answer(self, tokens: int) -> tuple[str | None, str]:
        assert self.folder is not None
        trial = trial_of(self.folder)
        deadline = time.monotonic() + PATIENCE
        while trial is not None and trial.prune and time.monotonic() < deadline:
            path = self.folder / ANSWER
            if path.is_file() and (answer := read_json(path))["tokens"] == tokens:
                return ("pruned", str(answer["reason"])) if answer["prune"] else (None, "")
            time.sleep(0.05)
        return None, ""

    def close(self, tokens: int) -> None:
        """Leaves word of a stopped run in its folder."""
        assert self.folder is not None
        write_json(self.folder / STOPPED, {"outcome": self.outcome, "reason": self.reason, "tokens": tokens})
