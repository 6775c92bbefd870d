"""Masking ratio, learning rate and rotary base as functions of the token clock.

Each reads the clock at which a global batch begins from the batch itself, so nothing is saved
or restored, and all micro-batches and ranks of a step agree.
"""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from euro_lightning.callbacks.token_clock import data_of
from euro_lightning.data.packing import PackedBatch


class MaskingRatio(Callback):
    """Sets how many tokens the next micro-batch hides (a phase's `masking_ratio`)."""

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: PackedBatch, batch_idx: int
    ) -> None:
        pl_module.masking_ratio = data_of(trainer).timeline.masking_ratio(batch.plan.clock)  # type: ignore[assignment]


class Annealing(Callback):
    """Sets the learning rate of every parameter group (a phase's `learning_rate`)."""

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: PackedBatch, batch_idx: int
    ) -> None:
        rate = data_of(trainer).timeline.learning_rate(batch.plan.clock)
        for optimizer in trainer.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate


class RotaryBase(Callback):
    """Sets the bases of the rotary position embedding (a phase's `rotary_base`, `local_rotary_base`)."""

    def _set(self, trainer: Trainer, pl_module: Any, clock: int) -> None:
        bases = data_of(trainer).timeline.rotary_bases(clock)
        if bases != pl_module.network.rotary_bases:
            pl_module.network.set_rotary_base(*bases)

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: PackedBatch, batch_idx: int
    ) -> None:
        self._set(trainer, pl_module, batch.plan.clock)

    def _evaluate(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # the base of the tokens last trained on, not of those to come
        self._set(trainer, pl_module, max(data_of(trainer).clock - 1, 0))

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._evaluate(trainer, pl_module)

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._evaluate(trainer, pl_module)

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._evaluate(trainer, pl_module)
