"""Judges the encoder of a trial on tasks, in a process of its own: python -m euro_lightning.ablation.downstream."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from euro_lightning.ablation.config import Evaluation
from euro_lightning.ablation.outcome import EVALUATION
from euro_lightning.errors import UserError
from euro_lightning.evaluating import objective, read_protocol
from euro_lightning.evaluation.protocol import Protocol
from euro_lightning.evaluation.task import read_task
from euro_lightning.files import write_json
from euro_lightning.settings import flatten


def judging_command(evaluation: Evaluation, folder: Path, records: Path) -> list[str]:
    """The command that judges a trial.

    Args:
        evaluation: tasks and protocol.
        folder: of the trial; the scores go there.
        records: folder of what was judged before.
    """
    plan = json.dumps(asdict(evaluation))
    return [sys.executable, "-m", "euro_lightning.ablation.downstream", str(folder), str(records), plan]


def protocol_of(path: str, overrides: Mapping[str, Any]) -> Protocol:
    """A protocol's file, changed.

    Raises:
        ConfigError: what is wrong with either, in one line.
    """
    return read_protocol(path, [f"--{key}={json.dumps(value)}" for key, value in flatten(overrides).items()])


def problems_of_tasks(evaluation: Evaluation) -> list[str]:
    """What is wrong with the files of tasks and protocol, one line each."""
    checks: list[Callable[[], Any]] = [
        partial(protocol_of, evaluation.protocol, evaluation.protocol_overrides),
        *(partial(read_task, path) for path in evaluation.tasks),
    ]
    found = []
    for check in checks:
        try:
            check()
        except UserError as error:
            found.append(f"evaluation: {error}")
    return found


def judge(folder: Path, records: Path, plan: Mapping[str, Any]) -> None:
    """Writes the main score of each task, as the mean over languages and seeds, into the trial's folder."""
    from euro_lightning.cli import quiet

    quiet()
    protocol = protocol_of(plan["protocol"], plan["protocol_overrides"])
    write_json(
        folder / EVALUATION, dict(objective(str(folder), plan["tasks"], protocol, records, plan["limit"]))
    )


if __name__ == "__main__":
    try:
        judge(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
