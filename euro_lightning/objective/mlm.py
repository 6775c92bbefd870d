"""Masked language modelling: encoder, masking, loss and scores as a LightningModule."""

import contextlib
from typing import Any, Literal

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor

from euro_lightning.allocator import keep_freed_memory
from euro_lightning.checkpoint import check_shapes, network_weights
from euro_lightning.data.datamodule import TextDataModule
from euro_lightning.data.packing import PackedBatch
from euro_lightning.encoder.attention import Segments, resolve_backend
from euro_lightning.encoder.model import MaskedLanguageEncoder
from euro_lightning.errors import ConfigError, UserError, raise_all
from euro_lightning.keys import key_of
from euro_lightning.objective.compiling import Compile, compiles, run_flops
from euro_lightning.objective.masking import Masking, Replacement
from euro_lightning.objective.network import Network, NetworkPlan, Start
from euro_lightning.objective.optimizers import Optimizer, build_optimizer
from euro_lightning.objective.scores import Score, SourceScores, mean_score, unigram_tables

LOGITS_GIB = (0.5, 4.0)
"""Largest logits held at once on a CPU and on a GPU: of the hidden half of 4,096 and 32,768 tokens at a
vocabulary of 65,536."""


def _segments_of(batch: PackedBatch) -> Segments:
    return Segments(batch.cu_seqlens, batch.lengths, batch.max_length)


class MaskedLanguageModel(LightningModule):
    """Learns to predict hidden tokens; the loss is the mean over the hidden tokens of a global batch."""

    def __init__(
        self,
        encoder: str | dict[str, Any] | None = None,
        optimizer: Optimizer = Optimizer(),  # noqa: B008 - frozen
        replacement: Replacement = Replacement(),  # noqa: B008 - frozen
        attention: Literal["auto", "sdpa", "varlen", "flash_attn"] = "auto",
        baseline: str | None = None,
        compile: Compile = "auto",
        logits_gib: float | None = None,
        recompute_every: int = 0,
    ) -> None:
        """
        Args:
            encoder: A preset's name, or a mapping with `preset` and the fields to change; by default tiny.
            optimizer: Optimizer of all phases; the learning rate belongs to a phase.
            replacement: What stands in the place of a hidden token.
            attention: Attention backend; auto takes the fastest that this machine has.
            baseline: An encoder of transformers to train in place of ours: a directory or Hub name. One
                without weights starts at random.
            compile: Whether training compiles the encoder; auto does from 1e14 FLOPs a run on a CPU and 1e17
                on a GPU, which is about ten minutes of training.
            logits_gib: Largest float32 logits held at once, in GiB; beyond it the head works in chunks and
                computes its products twice. Null: 0.5 on a CPU, 4 on a GPU.
            recompute_every: Saves memory: every so many blocks, one keeps only its input and is computed
                again backward. 1 does so for all of them (a third more work, least memory), 0 for none.
        """
        super().__init__()
        self.network_plan = NetworkPlan(encoder, baseline)
        self.optimizer_config = optimizer
        self.replacement = replacement
        self.attention_backend: str = attention
        self.compile_choice: Compile = compile
        self.logits_gib = logits_gib
        self.recompute_every = recompute_every
        self.masking_ratio = 0.0
        self.evaluation_ratio: float | None = None
        """Share that validate and test hide; None takes data.evaluation.masking_ratio."""
        self.start: Start | None = None
        """The weights that a new run starts with; None are random ones."""
        self.allow_changes = False
        """Whether to go on although the corpus is not the checkpoint's."""
        self.compiled = False
        """Whether training runs compiled code."""
        self.run_flops: float | None = None
        """FLOPs of the whole run; None for a baseline."""
        self.scores: dict[str, Score] = {}
        self.network: Network
        self._metrics: dict[str, SourceScores] = {}

    @property
    def data(self) -> TextDataModule:
        """The data module that is trained on."""
        module = self.trainer.datamodule  # type: ignore[attr-defined]
        if not isinstance(module, TextDataModule):
            raise ConfigError("this module needs a TextDataModule")
        return module

    def configure_model(self) -> None:
        """Builds the network once the tokenizer is known; the same weights on every rank."""
        if hasattr(self, "network"):
            return
        data = self.data
        tokenizer = data.tokenizer
        device = self.trainer.strategy.root_device
        half = str(self.trainer.precision).startswith(("bf16", "16"))
        self.attention_backend = resolve_backend(
            self.attention_backend, device, torch.bfloat16 if half else torch.float32
        )
        lengths = {name: phase.lengths.maximum for name, phase in data.timeline.phases.items()}
        plan = self.network_plan
        problems = self.replacement.problems("model.replacement") + plan.problems(tokenizer, lengths)
        if self.recompute_every < 0:
            problems.append(f"model.recompute_every is {self.recompute_every}: it must not be below 0")
        if self.logits_gib is not None and self.logits_gib <= 0:
            problems.append(f"model.logits_gib is {self.logits_gib}: it must be above 0")
        raise_all(problems)
        self.network = plan.build(tokenizer, lengths, self.attention_backend, data.seed)
        if self.start is not None:
            self.start.apply(self.network, tokenizer, data.timeline.rotary_bases(0), data.seed)
        config = self.network.config if isinstance(self.network, MaskedLanguageEncoder) else None
        if isinstance(self.network, MaskedLanguageEncoder):
            limit = LOGITS_GIB[device.type == "cuda"] if self.logits_gib is None else self.logits_gib
            self.network.logits_bytes = round(limit * 2**30)
            self.network.encoder.recompute_every = self.recompute_every
        self.run_flops = run_flops(config, data.timeline) if config is not None else None
        training = self.trainer.state.fn == "fit"
        if training and device.type == "cpu":
            keep_freed_memory()
        if training and compiles(
            self.compile_choice, config, data.timeline, device.type, self.attention_backend
        ):
            assert isinstance(self.network, MaskedLanguageEncoder)
            self.network.compile_step()
            self.compiled = True
        self.masking = Masking(tokenizer.vocabulary, tokenizer.special_ids, tokenizer.mask, self.replacement)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuses another tokenizer, another encoder, and to go on with another corpus."""
        facts, store = checkpoint["euro_lightning"], self.data.store
        if facts["tokenizer_hash"] != store.tokenizer_hash:
            raise UserError("the checkpoint was trained with another tokenizer than this configuration has")
        changed = facts["corpus"] != store.manifest["corpus"]
        if self.trainer.state.fn == "fit" and changed and not self.allow_changes:
            raise UserError(
                "data.corpus has other content than the checkpoint's; --allow_changes continues anyway"
            )
        check_shapes(self.network, network_weights(checkpoint), "checkpoint")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The learning rate is set on the token clock by a callback."""
        if (weak := self.optimizer_config.weak_decay()) is not None:
            rank_zero_warn(weak)
        # a fused step unscales float16 gradients itself, which is too late for clipping
        fused = not str(self.trainer.precision).startswith("16")
        return build_optimizer(self.optimizer_config, self.network, fused)

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clips as the Trainer is told to; Lightning itself refuses to with a fused optimizer in mixed precision."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if gradient_clip_algorithm == "value" and gradient_clip_val:
            torch.nn.utils.clip_grad_value_(parameters, gradient_clip_val)
        elif gradient_clip_val:
            torch.nn.utils.clip_grad_norm_(parameters, gradient_clip_val)

    def forward(
        self, batch: PackedBatch, ratio: float, *key: int | str
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Hides tokens and predicts them.

        Args:
            batch: T tokens.
            ratio: share of the tokens to hide.
            key: what the draw of positions, and of dropout while training, depends on.

        Returns:
            float32 [N] losses in nats, bool [N] whether the likeliest token is right (None while
            training), int64 [N] hidden tokens.
        """
        hidden = self.masking.to(batch.ids.device)(batch.ids, batch.ordinary, ratio, *key)
        segments = _segments_of(batch)
        dropout = key_of("dropout", *key)
        prediction = self.network(hidden.ids, segments, hidden.positions, hidden.targets, dropout)
        return prediction.losses_N, prediction.correct_N, hidden.targets

    def training_step(self, batch: PackedBatch, _: int) -> Tensor:
        """Mean loss of a micro-batch; all micro-batches hide equally many tokens."""
        losses, _, _ = self(batch, self.masking_ratio, "train", self.data.seed, batch.plan.number)
        mean: Tensor = losses.mean()
        return mean

    def _start_scores(self, split: str) -> None:
        if split not in self._metrics:
            data = self.data
            sources = data.evaluated_sources(split)
            special = data.tokenizer.special_ids
            tables = unigram_tables(data.store.token_counts(), data.timeline, special, sources)
            lengths = torch.from_numpy(data.tokenizer.byte_lengths())
            self._metrics[split] = SourceScores(sources, tables, lengths).to(self.device)
        self._metrics[split].reset()

    def _evaluate(self, batch: PackedBatch, split: str) -> None:
        ratio = self.evaluation_ratio or self.data.evaluation.masking_ratio
        # the last micro-batch of a source is shorter than others: not worth to compile for
        eager = torch.compiler.set_stance("force_eager") if self.compiled else contextlib.nullcontext()
        with eager:
            losses, correct, targets = self(batch, ratio, split, batch.plan.number)
        assert correct is not None
        self._metrics[split].update(batch.plan.segments[0].source, losses, correct, targets)

    def _finish_scores(self, split: str) -> None:
        self.scores = self._metrics[split].compute()
        self.log(f"{split}/loss", mean_score(self.scores).loss, logger=False, rank_zero_only=True)

    def on_validation_epoch_start(self) -> None:
        self._start_scores("validation")

    def validation_step(self, batch: PackedBatch, _: int) -> None:
        self._evaluate(batch, "validation")

    def on_validation_epoch_end(self) -> None:
        self._finish_scores("validation")

    def on_test_epoch_start(self) -> None:
        self._start_scores("test")

    def test_step(self, batch: PackedBatch, _: int) -> None:
        self._evaluate(batch, "test")

    def on_test_epoch_end(self) -> None:
        self._finish_scores("test")

    def predict_step(self, batch: PackedBatch, _: int) -> Any:
        """Mean-pooled vectors, float [S, D]; or, where texts hold masks, the likeliest tokens.

        The latter is a list of (text number, [(token id, probability), …]), one per mask.
        """
        segments = _segments_of(batch)
        if self.data.mask_literal is None:
            hidden = self.network.encode(batch.ids, segments)
            return torch.stack([part.float().mean(0) for part in torch.split(hidden, list(batch.lengths))])
        positions = (batch.ids == self.data.tokenizer.mask).nonzero().squeeze(1)
        best = self.network.logits(batch.ids, segments, positions).float().softmax(-1).topk(5)
        rows = torch.bucketize(positions, batch.cu_seqlens[1:].long(), right=True).tolist()
        return [
            (batch.plan.segments[row].document, list(zip(tokens, shares, strict=True)))
            for row, tokens, shares in zip(rows, best.indices.tolist(), best.values.tolist(), strict=True)
        ]
