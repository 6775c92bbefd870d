"""The progress bar, in tokens: phase, loss, speed, masked share, time left."""

import sys
import time
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from euro_lightning.callbacks.throughput import Throughput
from euro_lightning.callbacks.token_clock import callback_of, data_of


def short(tokens: float) -> str:
    """A count in few characters: 1.25M, 4.8T.

    >>> short(1_250_000)
    '1.25M'
    """
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if tokens >= size:
            return f"{tokens / size:.3g}{unit}"
    return f"{tokens:.0f}"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> duration(3725)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class TokenProgress(Callback):
    """A live bar in a terminal, a line now and then elsewhere; on the first rank only."""

    def __init__(self, every_seconds: float = 15.0, enabled: bool = True) -> None:
        """
        Args:
            every_seconds: Seconds between lines where the output is not a terminal.
            enabled: Whether to show progress at all.
        """
        self.every_seconds = every_seconds
        self.enabled = enabled
        self._bar: Progress | None = None
        self._task: TaskID

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._throughput = callback_of(trainer, Throughput)
        self._started, self._from = time.monotonic(), data_of(trainer).clock
        self._shown = self._started
        if not (self.enabled and trainer.is_global_zero and sys.stderr.isatty()):
            return
        columns = (TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.fields[facts]}"))
        self._bar = Progress(*columns, console=Console(stderr=True), refresh_per_second=4, expand=True)
        self._task = self._bar.add_task("starting", total=data_of(trainer).timeline.tokens, facts="")
        self._bar.start()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not (self.enabled and trainer.is_global_zero and batch.plan.closes):
            return
        now = time.monotonic()
        if self._bar is None and now - self._shown < self.every_seconds and not trainer.should_stop:
            return
        data = data_of(trainer)
        phase = data.timeline.at(batch.plan.clock)[0]
        total, clock = data.timeline.tokens, data.clock
        speed = (clock - self._from) / max(now - self._started, 1e-9)
        measured = self._throughput.measured
        facts = [f"{short(clock)}/{short(total)} tokens"]
        if measured:
            facts.append(f"loss {measured['train/loss']:.3f}")
            facts.append(f"{short(measured['speed/tokens_per_second'])} tokens/s")
        facts.append(f"masked {data.timeline.masking_ratio(batch.plan.clock):.0%}")
        facts.append(f"ETA {duration((total - clock) / speed)}")
        if self._bar is not None:
            self._bar.update(self._task, completed=clock, description=phase, facts="  ".join(facts))
        else:
            print(f"{phase:>10}  {'  '.join(facts)}", file=sys.stderr, flush=True)
            self._shown = now

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._stop()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._stop()
