"""What a person sees while a sweep runs: a live table in a terminal, a line for each event elsewhere."""

import sys
import time
from collections.abc import Callable, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from euro_lightning.ablation.operations import describe
from euro_lightning.ablation.outcome import progress
from euro_lightning.ablation.slots import Slot
from euro_lightning.ablation.space import params_of
from euro_lightning.ablation.trials import Claim, Counts
from euro_lightning.ablation.wording import number
from euro_lightning.callbacks.progress import duration, short

EVERY = 1.0
"""Seconds between looks at the storage."""


class View:
    """Progress of a study; usable as a context."""

    def __init__(self, name: str, workers: int, console: Console | None = None) -> None:
        self.name, self.workers = name, workers
        self._console = console or Console(stderr=True, soft_wrap=True)
        self._live = Live(console=self._console, refresh_per_second=2) if self._console.is_terminal else None
        self._counts: Counts | None = None
        self._looked = 0.0
        self._seconds: list[float] = []

    def __enter__(self) -> "View":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, line: str) -> None:
        """An event."""
        if self._live is not None:
            self._console.print(line, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def ended(self, claim: Claim, kind: str, result: str, seconds: float) -> None:
        """A trial has ended."""
        if kind == "complete":
            self._seconds.append(seconds)
        self.say(
            f"trial {claim.number}: {describe(params_of(claim.point))}: {kind} after {duration(seconds)}: {result}"
        )
        self._looked = 0.0

    def show(self, count: Callable[[], Counts], slots: Sequence[Slot]) -> Counts:
        """Shows how far it is; returns the counts, which are a second old at most."""
        if self._counts is None or time.monotonic() - self._looked > EVERY:
            self._counts, self._looked = count(), time.monotonic()
            if self._live is not None:
                self._live.update(Group(self._running(slots), Text(self.line(self._counts))))
        return self._counts

    def line(self, counts: Counts) -> str:
        """The study in a line."""
        done = f"{counts.complete + counts.pruned} of {counts.total} done"
        parts = [done, f"{counts.running} running", f"{counts.pruned} pruned", f"{counts.failed} failed"]
        if counts.best is not None:
            value, params = counts.best
            parts.append(f"best {number(value)} ({describe(params)})")
        left = counts.waiting + counts.running
        if self._seconds and left:
            mean = sum(self._seconds) / len(self._seconds)
            parts.append(f"about {duration(mean * left / self.workers)} to go")
        return f"{self.name}: " + " · ".join(parts)

    @staticmethod
    def _running(slots: Sequence[Slot]) -> Table:
        table = Table("trial", "setting", "stage", "tokens", "loss", "time", box=None)
        for slot in slots:
            curve = slot.curve
            tokens = max(progress(slot.folder), curve[-1][0] if curve else 0)
            point = describe(params_of(slot.claim.point))
            loss = f"{curve[-1][1]:.4f}" if curve else "–"
            spent = duration(time.monotonic() - slot.since)
            table.add_row(str(slot.claim.number), point, slot.stage, short(tokens), loss, spent)
        return table
