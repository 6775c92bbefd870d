"""Callbacks that break a run on purpose, and one that writes down what it saw."""

import hashlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from euro_lightning.callbacks.throughput import Throughput


class KillAt(Callback):
    """SIGKILL at a moment of training, once for each marker file."""

    def __init__(self, step: int, moment: str, marker: str) -> None:
        """
        Args:
            step: optimizer steps done before.
            moment: between (micro-batches of one step), step (right after one), or checkpoint
                (written, but not yet in its place).
            marker: a file that remembers that it has happened.
        """
        self.step, self.moment, self.marker = step, moment, Path(marker)

    def _kill(self, trainer: Trainer) -> None:
        if trainer.global_step >= self.step and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: torch.Tensor) -> None:
        if self.moment == "between" and trainer.fit_loop.epoch_loop.batch_idx % 2 == 1:
            self._kill(trainer)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        if self.moment == "step":
            self._kill(trainer)

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if self.moment == "checkpoint" and trainer.global_step >= self.step:
            replace = os.replace

            def killing(source: Any, target: Any) -> None:
                if str(target).endswith(".ckpt"):
                    self._kill(trainer)
                replace(source, target)

            os.replace = killing  # type: ignore[assignment]


class Record(Callback):
    """Appends each micro-batch and each measured loss to a file of the rank."""

    def __init__(self, path: str) -> None:
        self.path = path

    def _write(self, trainer: Trainer, **row: Any) -> None:
        with open(f"{self.path}.{trainer.global_rank}", "a") as file:
            file.write(json.dumps(row) + "\n")

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, _: int) -> None:
        self._write(
            trainer,
            number=batch.plan.number,
            step=trainer.global_step,
            ids=hashlib.sha256(batch.ids.numpy().tobytes()).hexdigest(),
            lengths=batch.lengths,
        )

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._write(trainer, end=trainer.datamodule.clock, steps=trainer.global_step)  # type: ignore[attr-defined]


class RecordLoss(Callback):
    """Writes the loss of every step, as measured over all ranks."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._clock = -1

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        self._write(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._write(trainer)

    def _write(self, trainer: Trainer) -> None:
        source = next(c for c in trainer.callbacks if isinstance(c, Throughput))  # type: ignore[attr-defined]
        if trainer.is_global_zero and source.clock > self._clock:
            self._clock = source.clock
            with open(self.path, "a") as file:
                file.write(json.dumps([source.clock, source.measured["train/loss"]]) + "\n")


class Poison(Callback):
    """Makes a weight NaN before a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: Trainer, pl_module: Any, *_: Any) -> None:
        if trainer.global_step == self.step:
            with torch.no_grad():
                pl_module.network.head.weight[0, 0] = float("nan")


class FullDisk(Callback):
    """Lets no file grow beyond some bytes, as a full disk would, from a step on."""

    def __init__(self, step: int, limit: int) -> None:
        self.step, self.limit = step, limit

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        import resource

        if trainer.global_step >= self.step:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.limit, resource.RLIM_INFINITY))


def rows(path: Path) -> list[dict[str, Any]]:
    """What a recorder wrote."""
    return [json.loads(line) for line in path.read_text().splitlines()]
