"""Keeps Lightning on the token clock: accumulation, validation, the cursor, the end of the run."""

from typing import Any, TypeVar

from lightning.pytorch import Callback, LightningModule, Trainer

from euro_lightning.data.datamodule import TextDataModule
from euro_lightning.data.packing import PackedBatch

Kind = TypeVar("Kind", bound=Callback)


def data_of(trainer: Trainer) -> TextDataModule:
    """The data module of a trainer."""
    data = trainer.datamodule  # type: ignore[attr-defined]
    assert isinstance(data, TextDataModule)
    return data


def callback_of(trainer: Trainer, kind: type[Kind]) -> Kind:
    """The trainer's callback of a class."""
    return next(c for c in trainer.callbacks if isinstance(c, kind))  # type: ignore[attr-defined]


class TokenClock(Callback):
    """Advances the clock once per global batch and stops the run at its last token."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Turns tokens into the micro-batches that Lightning counts."""
        if stage != "fit":
            return
        data = data_of(trainer)
        trainer.accumulate_grad_batches = data.accumulation
        every = data.evaluation.every_tokens or data.timeline.tokens
        steps = max(1, round(every / data.timeline.batch_tokens))
        trainer.check_val_every_n_epoch = None
        trainer.val_check_interval = steps * data.accumulation

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Restates Lightning's micro-batch counters for the ranks and accumulation of now.

        Lightning counts the micro-batches of one rank; saved by another number of ranks, the
        count would put optimizer steps at the wrong micro-batches.
        """
        loops = checkpoint["loops"]["fit_loop"]
        done = int(checkpoint["global_step"]) * data_of(trainer).accumulation
        progress = loops["epoch_loop.batch_progress"]
        for counts in (progress["total"], progress["current"]):
            counts.update(ready=done, started=done, processed=done, completed=done - 1)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A run that is at its end already has nothing to do."""
        self._stop_at_the_end(trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: PackedBatch, batch_idx: int
    ) -> None:
        """Moves the cursor after the last micro-batch of a global batch."""
        if batch.plan.closes:
            data_of(trainer).cursor = batch.plan.cursor
            self._stop_at_the_end(trainer)

    @staticmethod
    def _stop_at_the_end(trainer: Trainer) -> None:
        data = data_of(trainer)
        if data.clock >= data.timeline.tokens:
            trainer.should_stop = True
