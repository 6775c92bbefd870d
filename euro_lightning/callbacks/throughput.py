"""Measures training every few steps: loss, tokens per second, waiting for data, padding."""

import time
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from euro_lightning.callbacks.token_clock import data_of
from euro_lightning.data.packing import PackedBatch


class Throughput(Callback):
    """Keeps the latest measurements in `measured`, for the progress bar and for tracking."""

    def __init__(self, every_steps: int = 10) -> None:
        """
        Args:
            every_steps: Optimizer steps between measurements; the loss is the mean over them.
        """
        self.every_steps = every_steps
        self.measured: dict[str, float] = {}
        self.clock = -1
        """Token clock of the latest measurement; −1 before the first."""
        self.seconds = 0.0
        """Seconds of training without validations, over all attempts up to the last checkpoint of each."""

    def state_dict(self) -> dict[str, Any]:
        """What a continued run goes on counting from."""
        return {"seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on counting."""
        self.seconds = float(state_dict["seconds"])

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._restart()
        self._ended: float | None = None
        self._counted = self._since

    def _restart(self) -> None:
        self._losses: list[torch.Tensor] = []
        self._tokens = self._steps = self._places = 0
        self._waiting = 0.0
        self._since = time.monotonic()

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: PackedBatch, batch_idx: int
    ) -> None:
        if self._ended is not None:
            self._waiting += time.monotonic() - self._ended

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._paused = time.monotonic()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if hasattr(self, "_since"):
            self._since += time.monotonic() - self._paused
            self._counted += time.monotonic() - self._paused
            self._ended = None

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: PackedBatch, batch_idx: int
    ) -> None:
        data = data_of(trainer)
        self._losses.append(outputs["loss"].detach())
        self._tokens += sum(batch.lengths)
        self._places += batch.ids.numel()
        self._ended = time.monotonic()
        self.seconds += self._ended - self._counted
        self._counted = self._ended
        if not batch.plan.closes:
            return
        self._steps += 1
        if self._steps >= self.every_steps or trainer.should_stop:
            # Lightning hands out the loss divided by the accumulation
            loss = torch.stack(self._losses).mean() * trainer.accumulate_grad_batches
            loss = trainer.strategy.reduce(loss, reduce_op="mean")
            seconds = max(time.monotonic() - self._since, 1e-9)
            self.measured = {
                "train/loss": float(loss),
                "train/masked_share": data.timeline.masking_ratio(batch.plan.clock),
                "train/learning_rate": data.timeline.learning_rate(batch.plan.clock),
                "train/rotary_base": data.timeline.rotary_bases(batch.plan.clock)[0],
                "speed/tokens_per_second": self._tokens * trainer.world_size / seconds,
                "speed/data_wait_share": self._waiting / seconds,
                "speed/padding_share": 1 - self._tokens / self._places,
            }
            self.clock = int(batch.plan.cursor["tokens"])
            self._restart()
