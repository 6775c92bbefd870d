"""Checkpoints on the token clock: whole or absent, the last few kept."""

import os
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from euro_lightning.callbacks.token_clock import data_of
from euro_lightning.checkpoint import PREFIX, checkpoint_tokens, list_checkpoints
from euro_lightning.data.packing import PackedBatch
from euro_lightning.data.store import TOKENIZER
from euro_lightning.errors import UserError
from euro_lightning.files import sync_directory


class Checkpoints(Callback):
    """Saves every so many tokens and at the end of each phase."""

    def __init__(self, every_tokens: int = 0, keep: int = 2) -> None:
        """
        Args:
            every_tokens: Tokens between checkpoints; 0 saves at the end of each phase only.
            keep: Checkpoints kept besides those at the end of a phase.
        """
        self.every_tokens = every_tokens
        self.keep = keep
        self.folder: Path | None = None
        """Where checkpoints go; None saves nothing."""
        self.facts: dict[str, Any] = {}
        """What else a checkpoint remembers: the recipe, for comparison on resume."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """All ranks write where the first one does."""
        self.folder = trainer.strategy.broadcast(self.folder)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Puts the tokenizer beside the weights, so that a run folder is complete."""
        if self.folder is not None and trainer.is_global_zero:
            data_of(trainer).tokenizer.save(self.folder.parent / TOKENIZER)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        data = data_of(trainer)
        checkpoint["euro_lightning"] = {
            **self.facts,
            "tokenizer_hash": data.store.tokenizer_hash,
            "corpus": data.store.manifest["corpus"],
            **pl_module.network.facts(),
            "tokens": data.clock,
        }

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: PackedBatch, batch_idx: int
    ) -> None:
        if self.folder is None or not batch.plan.closes:
            return
        before, now = batch.plan.clock, int(batch.plan.cursor["tokens"])
        due = self.every_tokens and before // self.every_tokens != now // self.every_tokens
        if due or now in data_of(trainer).timeline.ends():
            self.save(trainer, now)

    def save(self, trainer: Trainer, tokens: int) -> None:
        """Writes the checkpoint of a clock; called on every rank.

        Raises:
            UserError: it could not be written; earlier checkpoints are untouched.
        """
        assert self.folder is not None
        path = self.folder / f"{PREFIX}{tokens:015d}.ckpt"
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            trainer.save_checkpoint(temporary)
            if trainer.is_global_zero:
                with open(temporary, "rb+") as file:
                    os.fsync(file.fileno())
                os.replace(temporary, path)
                sync_directory(self.folder)
        except (OSError, RuntimeError) as error:
            temporary.unlink(missing_ok=True)
            earlier = list_checkpoints(self.folder)
            good = f"{earlier[-1]} is good" if earlier else "there is no earlier one"
            raise UserError(
                f"checkpoint {path} could not be written ({error}); {good}; make room and continue with --resume last"
            ) from error
        if trainer.is_global_zero:
            self._retire(data_of(trainer).timeline.ends())
        trainer.strategy.barrier("checkpoint")

    def _retire(self, milestones: list[int]) -> None:
        assert self.folder is not None
        ordinary = [p for p in list_checkpoints(self.folder) if checkpoint_tokens(p) not in milestones]
        for path in ordinary[: -self.keep or None]:
            path.unlink()
