"""The encoder over packed tokens, and the head that predicts hidden ones.

T tokens, D width, N hidden positions, V vocabulary.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from euro_lightning.encoder.attention import Segments
from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.encoder.layers import Block, RMSNorm, rotary_tables
from euro_lightning.errors import ConfigError


class Prediction(NamedTuple):
    """What became of the hidden tokens."""

    losses_N: Tensor
    """float32 [N]: cross entropy in nats."""
    correct_N: Tensor | None
    """bool [N]: whether the likeliest token is the hidden one; None while training."""


class Encoder(nn.Module):
    """Token ids to hidden states; segments do not see each other."""

    def __init__(self, config: EncoderConfig, backend: str = "sdpa") -> None:
        super().__init__()
        if config.vocabulary is None:
            raise ConfigError("model.encoder.vocabulary is not known yet: it comes from the tokenizer")
        self.config = config
        self.rotary_base = 10_000.0
        """Base of the rotary embedding; a phase of the training sets it, see `set_rotary_base`."""
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(Block(config, backend) for _ in range(config.layers))
        self.final_norm = RMSNorm(config.width, config.norm_epsilon)

    def set_rotary_base(self, base: float) -> None:
        """Changes the rotary base from the next call on; tables are computed in each call."""
        self.rotary_base = base

    def forward(self, ids_T: Tensor, segments: Segments) -> Tensor:
        """int64 [T] to the hidden states [T, D] after the final norm."""
        tables = rotary_tables(segments.positions(), self.config.head_size, self.rotary_base)
        hidden_TD = self.embedding(ids_T)
        for block in self.blocks:
            hidden_TD = block(hidden_TD, segments, tables)
        return self.final_norm(hidden_TD)  # type: ignore[no-any-return]


class MaskedLanguageEncoder(nn.Module):
    """Encoder and output matrix (untied, without bias or transform, as EuroBERT)."""

    def __init__(self, config: EncoderConfig, backend: str = "sdpa") -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config, backend)
        self.head = nn.Linear(config.width, config.vocabulary or 0, bias=False)

    @property
    def rotary_base(self) -> float:
        return self.encoder.rotary_base

    def set_rotary_base(self, base: float) -> None:
        """See `Encoder.set_rotary_base`."""
        self.encoder.set_rotary_base(base)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Normal matrices of the configured deviation, norms of one; the same for a seed everywhere."""
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.parameters():
            if parameter.ndim < 2:
                parameter.fill_(1.0)
            else:
                values = torch.empty(parameter.shape).normal_(
                    0, self.config.initializer_std, generator=generator
                )
                parameter.copy_(values)

    def logits(self, ids_T: Tensor, segments: Segments, positions_N: Tensor) -> Tensor:
        """[N, V] at the given positions."""
        hidden_ND = self.encoder(ids_T, segments)[positions_N]
        return self.head(hidden_ND)  # type: ignore[no-any-return]

    def forward(
        self, ids_T: Tensor, segments: Segments, positions_N: Tensor, targets_N: Tensor
    ) -> Prediction:
        """Predicts the tokens at some positions; the head sees no others.

        Args:
            ids_T: int64 [T], with hidden tokens replaced.
            segments: where segments lie in the T tokens.
            positions_N: int64 [N], which tokens are predicted.
            targets_N: int64 [N], what they were.
        """
        logits_NV = self.logits(ids_T, segments, positions_N).float()
        losses_N = cross_entropy(logits_NV, targets_N, reduction="none")
        correct_N = None if self.training else logits_NV.argmax(-1) == targets_N
        return Prediction(losses_N, correct_N)
