"""Stops a run whose loss is no longer a number, before the weights are."""

from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.optim import Optimizer

from euro_lightning.callbacks.token_clock import data_of
from euro_lightning.data.packing import PackedBatch, Plan
from euro_lightning.errors import UserError
from euro_lightning.files import write_json


class FiniteLoss(Callback):
    """Checks the losses of a global batch before its optimizer step; saves its plans for replay.

    On a GPU the check waits for the device once per optimizer step.
    """

    def __init__(self) -> None:
        self._plans: list[Plan] = []
        self._losses: list[torch.Tensor] = []
        self.folder: Path | None = None
        """The run folder, where the plans go."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """All ranks write where the first one does."""
        self.folder = trainer.strategy.broadcast(self.folder)

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: PackedBatch, batch_idx: int
    ) -> None:
        self._plans.append(batch.plan)

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: torch.Tensor) -> None:
        self._losses.append(loss.detach())

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        losses = torch.stack(self._losses)
        if not torch.isfinite(losses).all():
            self._stop(trainer, losses.tolist())
        self._plans, self._losses = [], []

    def _stop(self, trainer: Trainer, losses: list[float]) -> None:
        step = trainer.global_step + 1
        where = "nowhere"
        if self.folder is not None:
            path = self.folder / f"not-finite-step-{step}-rank-{trainer.global_rank}.json"
            record: dict[str, Any] = {
                "step": step,
                "tokens": data_of(trainer).clock,
                "losses": [str(loss) for loss in losses],
                "plans": [plan._asdict() for plan in self._plans],
            }
            write_json(path, record)
            where = str(path)
        raise UserError(
            f"the loss is not finite at step {step} (after {data_of(trainer).clock:,} tokens); the weights were not"
            f" changed and the batch's plan is in {where}; continue from the last checkpoint with a lower learning rate"
        )
