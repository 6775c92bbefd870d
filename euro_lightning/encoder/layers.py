"""Norm, rotary embedding, attention, gated MLP and the block that joins them.

T tokens, D width, H query heads, G key/value heads, K head size, F inner width of the MLP.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, silu

from euro_lightning.encoder.attention import Layout, attend
from euro_lightning.encoder.config import EncoderConfig


class RMSNorm(nn.Module):
    """x / √(mean(x²) + ε) · w, with float32 statistics (Zhang, Sennrich: RMSNorm, NeurIPS 2019)."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, hidden_TD: Tensor) -> Tensor:
        return nn.functional.rms_norm(hidden_TD, (hidden_TD.shape[-1],), self.weight, self.epsilon)


def norm_of(config: EncoderConfig) -> nn.Module:
    """RMSNorm, or LayerNorm without bias (Ba, Kiros, Hinton 2016)."""
    if config.norm == "rms":
        return RMSNorm(config.width, config.norm_epsilon)
    return nn.LayerNorm(config.width, config.norm_epsilon, bias=False)


def rotary_tables(positions_T: Tensor, head_size: int, base: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each token's angles, float32 [T, 1, K] (Su et al.: RoFormer, 2021, section 3.2).

    Args:
        positions_T: int64 [T], place of each token in its segment.
        head_size: K.
        base: angles fall as base^(−2i/K).
    """
    exponents = torch.arange(0, head_size, 2, device=positions_T.device, dtype=torch.float32) / head_size
    angles = positions_T.float()[:, None] * (1.0 / base**exponents)[None, :]
    angles = torch.cat([angles, angles], dim=-1)[:, None, :]
    return angles.cos(), angles.sin()


def rotate(states_THK: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
    """Rotates the first half of each head against the second, in float32, as EuroBERT and Llama do."""
    cosine, sine = tables
    first, second = states_THK.float().chunk(2, dim=-1)
    states = torch.cat([first, second], dim=-1) * cosine + torch.cat([-second, first], dim=-1) * sine
    return states.to(states_THK.dtype)


@torch.library.custom_op("euro_lightning::keyed_draw", mutates_args=())
def keyed_draw(like: Tensor, key: Tensor) -> Tensor:
    """Numbers in [0, 1) that a key determines, float32 of a tensor's shape.

    An operation of its own, because compilers stop at generators.

    Args:
        like: gives shape and device.
        key: int64 on the host.
    """
    generator = torch.Generator(like.device).manual_seed(int(key))
    return torch.rand(like.shape, generator=generator, device=like.device)


@keyed_draw.register_fake
def _(like: Tensor, key: Tensor) -> Tensor:
    return like.new_empty(like.shape, dtype=torch.float32)


def keyed_dropout(states: Tensor, probability: float, key: Tensor) -> Tensor:
    """Dropout (Srivastava et al. 2014) whose draw is a pure function of a key.

    So a resumed run and any number of ranks drop the same elements, and no random state is saved.
    """
    draw: Tensor = keyed_draw(states.detach(), key)
    return states * (draw >= probability) / (1 - probability)


class Scope(NamedTuple):
    """What all layers of a kind, global or local, share within one call."""

    layout: Layout
    reach: int | None
    """How far a token sees to each side; None sees its whole segment."""
    tables: tuple[Tensor, Tensor]
    """Of the rotary embedding, see `rotary_tables`."""
    mask: Tensor | None
    """See `local_mask`; None where it is not needed."""


class Attention(nn.Module):
    """Grouped-query attention over packed segments (Ainslie et al.: GQA, EMNLP 2023)."""

    def __init__(self, config: EncoderConfig, backend: str) -> None:
        super().__init__()
        self.heads, self.key_value_heads = config.heads, config.key_value_heads
        self.head_size = config.head_size
        self.backend = backend
        self.query_key_value = nn.Linear(
            config.width, (config.heads + 2 * config.key_value_heads) * config.head_size, bias=False
        )
        self.output = nn.Linear(config.width, config.width, bias=False)

    def forward(self, hidden_TD: Tensor, scope: Scope) -> Tensor:
        sizes = [self.heads, self.key_value_heads, self.key_value_heads]
        query_THK, key_TGK, value_TGK = (
            self.query_key_value(hidden_TD).unflatten(-1, (-1, self.head_size)).split(sizes, dim=1)
        )
        query_THK, key_TGK = rotate(query_THK, scope.tables), rotate(key_TGK, scope.tables)
        attended_THK = attend(
            query_THK, key_TGK, value_TGK, scope.layout, self.backend, scope.reach, scope.mask
        )
        return self.output(attended_THK.flatten(1))  # type: ignore[no-any-return]


class GatedMLP(nn.Module):
    """SwiGLU or GeGLU (Shazeer: GLU variants improve transformer, 2020)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.activation = silu if config.activation == "silu" else gelu
        self.gate_up = nn.Linear(config.width, 2 * config.feed_forward, bias=False)
        self.down = nn.Linear(config.feed_forward, config.width, bias=False)

    def forward(self, hidden_TD: Tensor) -> Tensor:
        gate_TF, up_TF = self.gate_up(hidden_TD).chunk(2, dim=-1)
        return self.down(self.activation(gate_TF) * up_TF)  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention and MLP, each behind a norm and added to the residual stream."""

    def __init__(self, config: EncoderConfig, layer: int, backend: str) -> None:
        super().__init__()
        self.layer = layer
        self.is_global = config.is_global(layer)
        self.dropout = config.attention_output_dropout
        has_norm = layer > 0 or config.first_attention_norm
        self.attention_norm = norm_of(config) if has_norm else nn.Identity()
        self.attention = Attention(config, backend)
        self.mlp_norm = norm_of(config)
        self.mlp = GatedMLP(config)

    def forward(self, hidden_TD: Tensor, scope: Scope, key: Tensor | None) -> Tensor:
        """One step of the residual stream, [T, D] to [T, D]; a key is what dropout depends on."""
        attended_TD = self.attention(self.attention_norm(hidden_TD), scope)
        if self.training and self.dropout and key is not None:
            attended_TD = keyed_dropout(attended_TD, self.dropout, key)
        hidden_TD = hidden_TD + attended_TD
        return hidden_TD + self.mlp(self.mlp_norm(hidden_TD))  # type: ignore[no-any-return]
