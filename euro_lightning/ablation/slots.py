"""A trial in a driver's hands: its processes, from the first to its outcome."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from euro_lightning.ablation.config import Sweep
from euro_lightning.ablation.downstream import judging_command
from euro_lightning.ablation.outcome import Outcome, ended, failure, fitted, progress, reports
from euro_lightning.ablation.trial import LOG, Job, Process, is_free
from euro_lightning.ablation.trials import Claim
from euro_lightning.callbacks.reports import ANSWER
from euro_lightning.files import write_json

PATIENCE = 60.0
"""Seconds to wait until nothing else writes to a trial's folder."""

BUSY = "its folder is still in use"


@dataclass
class Slot:
    """What a worker works on."""

    worker: int
    claim: Claim
    job: Job
    records: Path
    """Folder of what was judged before."""
    environment: Mapping[str, str]
    stage: Literal["waiting", "training", "judging"] = "waiting"
    since: float = field(default_factory=time.monotonic)
    began: int = 0
    """Tokens that this attempt goes on from."""
    curve: list[tuple[int, float]] = field(default_factory=list)
    """Tokens and validation loss."""
    _process: Process | None = None
    _answered: int = 0

    @property
    def folder(self) -> Path:
        """Of the trial."""
        return self.job.folder

    @property
    def moved(self) -> bool:
        """Whether this attempt got further than those before."""
        return progress(self.folder) > self.began

    def step(self, sweep: Sweep, should_prune: Callable[[int, float], bool]) -> Outcome | None:
        """Starts what comes next and answers reports; returns the outcome once there is one.

        Args:
            sweep: the sweep.
            should_prune: asked with tokens and value of each new report.
        """
        judged = sweep.evaluation is not None
        if self._process is None:
            if not is_free(self.folder):
                late = time.monotonic() - self.since > PATIENCE
                return Outcome("failed", BUSY) if late else None
            self.began = progress(self.folder)
            self._answer(sweep, should_prune)
            if (outcome := ended(self.folder, judged)) is None:
                self._start(sweep)
            return outcome
        code = self._process.poll()
        self._answer(sweep, should_prune)
        if code is None:
            return None
        if (outcome := ended(self.folder, judged)) is not None:
            return outcome
        if self.stage == "training" and code == 0 and judged and fitted(self.folder):
            self._start(sweep)
            return None
        return failure(self.folder, code)

    def _start(self, sweep: Sweep) -> None:
        if sweep.evaluation is not None and fitted(self.folder):
            self.stage = "judging"
            command = judging_command(sweep.evaluation, self.folder, self.records)
        else:
            self.stage = "training"
            command = self.job.command(self.worker)
        self._process = Process(command, self.folder / LOG, self.environment)

    def _answer(self, sweep: Sweep, should_prune: Callable[[int, float], bool]) -> None:
        """What is reported is the accuracy where more is better, else the loss."""
        rows = reports(self.folder)
        self.curve = [(int(row["tokens"]), float(row["loss"])) for row in rows]
        kind = "accuracy" if sweep.objectives[0].direction == "maximize" else "loss"
        for row in rows[self._answered :]:
            tokens = int(row["tokens"])
            prune = should_prune(tokens, float(row[kind]))
            if sweep.pruner is not None:
                reason = f"pruned by {sweep.pruner.name} at {kind} {row[kind]:.4g}" if prune else ""
                write_json(self.folder / ANSWER, {"tokens": tokens, "prune": prune, "reason": reason})
        self._answered = len(rows)

    def stop(self) -> None:
        """Asks the processes to end."""
        if self._process is not None:
            self._process.stop()

    def wait(self) -> None:
        """Waits for the end of the processes."""
        if self._process is not None:
            self._process.wait()
