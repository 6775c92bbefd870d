"""How far the tasks of a stage are: each writes it down, whoever waits adds it up."""

import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

_EVERY = 0.5
"""Seconds between two notes of a task."""


@dataclass
class Amounts:
    """What a task has done so far."""

    documents: int = 0
    bytes: int = 0
    """Of text, in UTF-8."""
    tokens: int = 0
    share: float = 0.0
    """Of the task, 0 to 1."""

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(*(a + b for a, b in zip(asdict(self).values(), asdict(other).values(), strict=True)))


class Tick:
    """Counts what a task does and notes it now and then."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.amounts = Amounts()
        self._noted = 0.0

    def __call__(self, documents: int = 0, size: int = 0, tokens: int = 0, share: float = 0.0) -> None:
        """Adds to the amounts; `share` is how much of the task is done in all."""
        amounts = self.amounts
        amounts.documents, amounts.bytes = amounts.documents + documents, amounts.bytes + size
        amounts.tokens, amounts.share = amounts.tokens + tokens, min(share, 1.0)
        now = time.monotonic()
        if now - self._noted > _EVERY:
            self._noted = now
            self.note()

    def finish(self) -> None:
        """Notes that the task is done."""
        self.amounts.share = 1.0
        self.note()

    def note(self) -> None:
        """Writes the amounts down. A reader may see half of them: it skips what it cannot read."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(asdict(self.amounts)))


def progress_file(work: Path, stage: str, rank: int) -> Path:
    """Where a task notes how far it is."""
    return work / "progress" / stage / f"{rank:05d}.json"


def add_up(work: Path, stage: str, weights: Sequence[int]) -> Amounts:
    """What all tasks of a stage have noted; the share is of the stage, each task by its weight."""
    total, done = Amounts(), 0.0
    for file in sorted((work / "progress" / stage).glob("*.json")):
        with contextlib.suppress(ValueError, TypeError, OSError):
            noted = Amounts(**json.loads(file.read_text()))
            total += noted
            done += weights[int(file.stem)] * noted.share
    total.share = done / max(sum(weights), 1)
    return total
