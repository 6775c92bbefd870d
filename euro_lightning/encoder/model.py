"""The encoder over packed tokens, and the head that predicts hidden ones.

T tokens, D width, N hidden positions, V vocabulary.
"""

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, linear
from torch.utils.checkpoint import checkpoint

from euro_lightning.encoder.attention import Layout, Segments, local_mask
from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.encoder.layers import Block, Scope, norm_of, rotary_tables
from euro_lightning.errors import ConfigError
from euro_lightning.keys import key_of


class Prediction(NamedTuple):
    """What became of the hidden tokens."""

    losses_N: Tensor
    """float32 [N]: cross entropy in nats."""
    correct_N: Tensor | None
    """bool [N]: whether the likeliest token is the hidden one; None while training."""


LOCAL_BASE = 10_000.0
"""Rotary base of local layers unless told otherwise: ModernBERT's in all its phases."""


class Encoder(nn.Module):
    """Token ids to hidden states; segments do not see each other."""

    def __init__(self, config: EncoderConfig, backend: str = "sdpa") -> None:
        super().__init__()
        if config.vocabulary is None:
            raise ConfigError("model.encoder.vocabulary is not known yet: it comes from the tokenizer")
        self.config = config
        self.backend = backend
        self.rotary_base = 10_000.0
        """Base of the rotary embedding in global layers; a phase sets it, see `set_rotary_base`."""
        self.local_rotary_base = LOCAL_BASE
        """The same in local layers."""
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.embedding_norm = norm_of(config) if config.embedding_norm else nn.Identity()
        self.blocks = nn.ModuleList(Block(config, layer, backend) for layer in range(config.layers))
        self.compiled = False
        self.recompute_every = 0
        """Every so many blocks, one keeps only its input while training and is computed again backward:
        1 all of them, 0 none."""
        self.final_norm = norm_of(config)

    def set_rotary_base(self, base: float, local: float | None = None) -> None:
        """Changes the rotary bases from the next call on; tables are computed in each call.

        Args:
            base: of the global layers.
            local: of the local layers; None leaves it.
        """
        self.rotary_base = base
        self.local_rotary_base = self.local_rotary_base if local is None else local

    def compile_blocks(self) -> None:
        """Compiles the blocks where they are, so that no weight gets another name.

        All blocks of a kind share the code that the first one needs, so this takes as long for a
        deep encoder as for a shallow one.
        """
        for block in self.blocks:
            block.compile(fullgraph=True)
        self.compiled = True

    def _layout(self, segments: Segments) -> Layout:
        layout = segments.layout()
        if self.compiled:
            # their number changes with every micro-batch, and is not to be compiled into the code
            for ends in layout[:2]:
                torch._dynamo.maybe_mark_dynamic(ends, 0)
        return layout

    def _scopes(self, segments: Segments) -> tuple[Scope, Scope]:
        """Of the global and of the local layers; the same where there are none."""
        config, positions_T, layout = self.config, segments.positions(), self._layout(segments)
        whole = Scope(layout, None, rotary_tables(positions_T, config.head_size, self.rotary_base), None)
        if not config.has_local_layers:
            return whole, whole
        tables = rotary_tables(positions_T, config.head_size, self.local_rotary_base)
        if segments.max_length <= config.reach + 1:  # every token sees its whole segment
            return whole, Scope(layout, None, tables, None)
        mask = local_mask(segments, config.reach) if self.backend == "sdpa" else None
        return whole, Scope(layout, config.reach, tables, mask)

    def forward(self, ids_T: Tensor, segments: Segments, key: int | None = None) -> Tensor:
        """int64 [T] to the hidden states [T, D] after the final norm.

        Args:
            ids_T: token ids.
            segments: where segments lie in the T tokens.
            key: what dropout depends on while training; None drops nothing.
        """
        whole, local = self._scopes(segments)
        hidden_TD = self.embedding_norm(self.embedding(ids_T))
        drops = key is not None and self.training and self.config.attention_output_dropout > 0
        for layer, block in enumerate(self.blocks):
            # a number would be compiled into the code, so the key of each block is a tensor
            own = torch.tensor(key_of(key or 0, layer)) if drops else None
            scope = whole if block.is_global else local
            if self.training and self.recompute_every and layer % self.recompute_every == 0:
                # nothing in a block draws from the global random state
                hidden_TD = checkpoint(
                    block, hidden_TD, scope, own, use_reentrant=False, preserve_rng_state=False
                )
            else:
                hidden_TD = block(hidden_TD, scope, own)
        return self.final_norm(hidden_TD)  # type: ignore[no-any-return]


class Head(nn.Module):
    """Hidden states to a score for each token of the vocabulary.

    Its output matrix is its own or, when tied, the embedding, which is then given in each call, so
    that no weight has two names.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        assert config.vocabulary is not None
        self.dense = nn.Linear(config.width, config.width, bias=False) if config.head_transform else None
        self.norm = norm_of(config) if config.head_transform else None
        self.weight = None if config.tied else nn.Parameter(torch.empty(config.vocabulary, config.width))
        self.bias = nn.Parameter(torch.zeros(config.vocabulary)) if config.output_bias else None

    def forward(self, hidden_ND: Tensor, embedding_VD: Tensor) -> Tensor:
        """[N, D] to [N, V]."""
        if self.dense is not None and self.norm is not None:
            hidden_ND = self.norm(gelu(self.dense(hidden_ND)))
        return linear(hidden_ND, embedding_VD if self.weight is None else self.weight, self.bias)


class MaskedLanguageEncoder(nn.Module):
    """Encoder and the head that predicts hidden tokens."""

    def __init__(self, config: EncoderConfig, backend: str = "sdpa") -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config, backend)
        self.head = Head(config)
        self.logits_bytes: int | None = None
        """Largest float32 logits held at once while training; None holds them all."""
        self._score: Callable[[Tensor, Tensor, bool], Prediction] = score

    def compile_step(self) -> None:
        """Compiles the blocks and the loss, see `Encoder.compile_blocks`."""
        self.encoder.compile_blocks()
        self._score = torch.compile(score, fullgraph=True)

    @property
    def rotary_bases(self) -> tuple[float, float]:
        """Of the global and of the local layers."""
        return self.encoder.rotary_base, self.encoder.local_rotary_base

    def set_rotary_base(self, base: float, local: float | None = None) -> None:
        """See `Encoder.set_rotary_base`."""
        self.encoder.set_rotary_base(base, local)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Random weights as the configuration says; the same for a seed everywhere."""
        initialise(self, self.config, seed)

    def facts(self) -> dict[str, Any]:
        """What a checkpoint must remember to build it again."""
        return {
            "encoder": asdict(self.config),
            "rotary_base": self.encoder.rotary_base,
            "local_rotary_base": self.encoder.local_rotary_base,
        }

    def encode(self, ids_T: Tensor, segments: Segments, key: int | None = None) -> Tensor:
        """See `Encoder.forward`."""
        return self.encoder(ids_T, segments, key)  # type: ignore[no-any-return]

    def logits(
        self, ids_T: Tensor, segments: Segments, positions_N: Tensor, key: int | None = None
    ) -> Tensor:
        """[N, V] at the given positions."""
        hidden_ND = self.encoder(ids_T, segments, key)[positions_N]
        return self.head(hidden_ND, self.encoder.embedding.weight)  # type: ignore[no-any-return]

    def forward(
        self,
        ids_T: Tensor,
        segments: Segments,
        positions_N: Tensor,
        targets_N: Tensor,
        key: int | None = None,
    ) -> Prediction:
        """Predicts the tokens at some positions; the head sees no others.

        Args:
            ids_T: int64 [T], with hidden tokens replaced.
            segments: where segments lie in the T tokens.
            positions_N: int64 [N], which tokens are predicted.
            targets_N: int64 [N], what they were.
            key: what dropout depends on while training; None drops nothing.
        """
        return self.judge(self.encoder(ids_T, segments, key), positions_N, targets_N)

    def judge(self, hidden_TD: Tensor, positions_N: Tensor, targets_N: Tensor) -> Prediction:
        """What the hidden states of a packed batch say of the tokens at some positions.

        While training, logits of more than `logits_bytes` are made in chunks, and made again backward
        instead of being kept: the head's first product is then computed twice.
        """
        hidden_ND = hidden_TD[positions_N]
        rows = max(1, (self.logits_bytes or 1 << 62) // (4 * (self.config.vocabulary or 1)))
        if not self.training or len(hidden_ND) <= rows:
            return self._predict(hidden_ND, targets_N)
        chunks = zip(torch.split(hidden_ND, rows), torch.split(targets_N, rows), strict=True)
        parts = [checkpoint(self._losses, *chunk, use_reentrant=False) for chunk in chunks]
        return Prediction(torch.cat(parts), None)

    def _predict(self, hidden_ND: Tensor, targets_N: Tensor) -> Prediction:
        return self._score(self.head(hidden_ND, self.encoder.embedding.weight), targets_N, self.training)

    def _losses(self, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        return self._predict(hidden_ND, targets_N).losses_N


def score(logits_NV: Tensor, targets_N: Tensor, training: bool) -> Prediction:
    """What logits are worth, in float32."""
    logits_NV = logits_NV.float()
    losses_N = cross_entropy(logits_NV, targets_N, reduction="none")
    return Prediction(losses_N, None if training else logits_NV.argmax(-1) == targets_N)


def initialise(network: nn.Module, config: EncoderConfig, seed: int) -> None:
    """Norms of one, biases of zero, matrices drawn by `config.initialisation`.

    normal: all of one deviation (Optimus, the code of EuroBERT). truncated: cut at two deviations,
    and what writes to the residual stream, the head's transform and an own output matrix smaller by
    √(2 × layers) (Shoeybi et al.: Megatron-LM, 2019, section 4; transformers' ModernBERT).
    """
    generator = torch.Generator().manual_seed(seed)
    small = ("attention.output.weight", "mlp.down.weight", "head.dense.weight", "head.weight")
    for name, parameter in network.named_parameters():
        if parameter.ndim < 2:
            parameter.fill_(0.0 if name.endswith("bias") else 1.0)
            continue
        values = torch.empty(parameter.shape)
        if config.initialisation == "normal":
            values.normal_(0, config.initializer_std, generator=generator)
        else:
            deviation = config.initializer_std / (math.sqrt(2 * config.layers) if name.endswith(small) else 1)
            nn.init.trunc_normal_(values, 0, deviation, -2 * deviation, 2 * deviation, generator=generator)
        parameter.copy_(values)
