"""The shape of an encoder: EuroBERT's family, ModernBERT's, and what lies between."""

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from euro_lightning.errors import ConfigError, nearest, raise_all
from euro_lightning.schema import check, fields_of


@dataclass(frozen=True)
class EncoderConfig:
    """A pre-norm encoder with gated MLPs, rotary positions and no biases in its blocks."""

    layers: int
    """Number of blocks."""

    width: int
    """Size of a token's hidden state."""

    heads: int
    """Attention heads; the width divided by them is the head size."""

    key_value_heads: int
    """Heads of keys and values; each serves heads ÷ key_value_heads query heads."""

    feed_forward: int
    """Inner width of the gated MLP."""

    vocabulary: int | None = None
    """Rows of the embedding and of the output matrix; null takes the tokenizer's."""

    max_length: int = 8192
    """Longest segment."""

    norm: Literal["rms", "layer"] = "rms"
    """RMSNorm (EuroBERT), or LayerNorm without bias (ModernBERT)."""

    norm_epsilon: float = 1e-5
    """Added to the mean square or the variance in a norm."""

    activation: Literal["silu", "gelu"] = "silu"
    """Activation of the MLP's gate: silu makes SwiGLU (EuroBERT), gelu makes GeGLU (ModernBERT)."""

    embedding_norm: bool = False
    """Whether a norm follows the embedding (ModernBERT)."""

    first_attention_norm: bool = True
    """Whether the first block has a norm before attention; ModernBERT, with its embedding norm, has none."""

    global_every: int = 1
    """Every so many layers, from the first on, attention is global; else local (ModernBERT: 3)."""

    window: int = 128
    """Tokens that a token of a local layer sees besides itself, half on each side (ModernBERT: 128)."""

    tied: bool = False
    """Whether the output matrix is the embedding (ModernBERT)."""

    head_transform: bool = False
    """Whether a dense layer, GELU and a norm stand before the output matrix (ModernBERT)."""

    output_bias: bool = False
    """Whether the output matrix has a bias (ModernBERT)."""

    attention_output_dropout: float = 0.0
    """Dropout of what attention adds to the residual stream, while training (ModernBERT: 0.1), and
    nowhere else."""

    initialisation: Literal["normal", "truncated"] = "normal"
    """normal: all matrices alike (EuroBERT); truncated: cut at two deviations, and matrices that write
    to the residual stream smaller by √(2 × layers) (ModernBERT, after Megatron-LM)."""

    initializer_std: float = 0.02
    """Standard deviation of matrices at the start; EuroBERT's code, not the 0.2 of its table 4."""

    @property
    def head_size(self) -> int:
        return self.width // self.heads

    @property
    def reach(self) -> int:
        """How far a token of a local layer sees to each side."""
        return self.window // 2

    def is_global(self, layer: int) -> bool:
        """Whether a layer, counted from 0, attends to the whole segment."""
        return layer % self.global_every == 0

    @property
    def global_layers(self) -> list[int]:
        return [layer for layer in range(self.layers) if self.is_global(layer)]

    @property
    def has_local_layers(self) -> bool:
        return len(self.global_layers) < self.layers

    def differing(self, other: "EncoderConfig", free: Collection[str]) -> list[str]:
        """The fields, but for the free ones, in which another encoder differs."""
        names = (field.name for field in fields(self) if field.name not in free)
        return [name for name in names if getattr(self, name) != getattr(other, name)]

    def problems(self, where: str = "model.encoder") -> list[str]:
        """What is wrong with this shape, one line each."""
        counts = (
            "layers", "width", "heads", "key_value_heads", "feed_forward", "vocabulary", "max_length",
            "global_every", "window",
        )  # fmt: skip
        found = [
            f"{where}.{name} is {getattr(self, name)}: it must be at least 1"
            for name in counts
            if getattr(self, name) is not None and getattr(self, name) < 1
        ]
        for name in ("norm_epsilon", "initializer_std"):
            if not 0 < getattr(self, name) < math.inf:
                found.append(f"{where}.{name} is {getattr(self, name)}: it must be above 0")
        if not 0 <= self.attention_output_dropout < 1:
            found.append(
                f"{where}.attention_output_dropout is {self.attention_output_dropout}: it is at least 0, below 1"
            )
        if found:
            return found
        if self.width % self.heads:
            found.append(f"{where}.width {self.width} is not a multiple of heads {self.heads}")
        elif self.head_size % 2:
            found.append(f"{where}: the head size width/heads = {self.head_size} must be even")
        if self.heads % self.key_value_heads:
            found.append(
                f"{where}.heads {self.heads} is not a multiple of key_value_heads {self.key_value_heads}"
            )
        if self.window % 2:
            found.append(f"{where}.window {self.window} must be even: half of it lies on each side")
        return found


_EUROBERT_VOCABULARY = 128_256  # the released checkpoints; the paper's table 3 rounds to 128,000
_MODERNBERT_VOCABULARY = 50_368
_BERTOMELO_VOCABULARY = 32_768


def _modernbert(layers: int, width: int, heads: int, feed_forward: int, **other: Any) -> EncoderConfig:
    family: dict[str, Any] = {
        "norm": "layer",
        "activation": "gelu",
        "embedding_norm": True,
        "first_attention_norm": False,
        "global_every": 3,
        "tied": True,
        "head_transform": True,
        "output_bias": True,
        "attention_output_dropout": 0.1,
        "initialisation": "truncated",
    }
    return EncoderConfig(layers, width, heads, heads, feed_forward, **{**family, **other})


PRESETS: dict[str, EncoderConfig] = {
    "tiny": EncoderConfig(2, 128, 2, 1, 1280, max_length=1024, initializer_std=0.1),
    "eurobert-210m": EncoderConfig(12, 768, 12, 12, 3072, _EUROBERT_VOCABULARY),
    "eurobert-610m": EncoderConfig(26, 1152, 18, 6, 4096, _EUROBERT_VOCABULARY),
    "eurobert-2.1b": EncoderConfig(32, 2304, 18, 6, 6144, _EUROBERT_VOCABULARY),
    "tiny-modernbert": _modernbert(4, 128, 2, 384, max_length=1024, initializer_std=0.1),
    "modernbert-base": _modernbert(22, 768, 12, 1152, vocabulary=_MODERNBERT_VOCABULARY),
    "modernbert-large": _modernbert(28, 1024, 16, 2624, vocabulary=_MODERNBERT_VOCABULARY),
    "bertomelo-base": _modernbert(22, 768, 12, 1152, vocabulary=_BERTOMELO_VOCABULARY),
    "bertomelo-large": _modernbert(28, 1024, 16, 2624, vocabulary=_BERTOMELO_VOCABULARY),
}
"""EuroBERT's sizes are those of its table 3, ModernBERT's those of its released checkpoints; BERTomelo
is ModernBERT with a vocabulary of its own. The tiny ones are not published. `tiny` is what learned
most in 1.6 million tokens among a dozen shapes of at least a million parameters: at width 128 the
published deviation of 0.02 leaves all activations so small that learning starts late (at width 192:
6.77 nats against 6.48 after 0.45 million tokens)."""


def encoder_config(
    spec: str | Mapping[str, Any] | EncoderConfig, where: str = "model.encoder"
) -> EncoderConfig:
    """A configuration from a preset's name or a mapping.

    Args:
        spec: a preset's name, or a mapping of fields, which may name a `preset` to start from.
        where: what the configuration is called in messages.

    Raises:
        ConfigError: an unknown preset or field, or a shape that cannot be built.
    """
    if isinstance(spec, EncoderConfig):
        raise_all(spec.problems(where))
        return spec
    given = {"preset": spec} if isinstance(spec, str) else dict(spec)
    preset = given.pop("preset", None)
    if preset is not None and preset not in PRESETS:
        known = ", ".join(PRESETS)
        raise ConfigError(f"{where}: no preset {preset!r}{nearest(preset, PRESETS)}; presets are {known}")
    names = [field.name for field in fields(EncoderConfig)]
    raise_all(f"unknown key '{where}.{key}'{nearest(key, names)}" for key in given if key not in names)
    merged = {**(asdict(PRESETS[preset]) if preset else {}), **given}
    declared = fields_of(EncoderConfig)
    raise_all(
        f"{where}.{name} is missing: give it or a preset"
        for name, (_, required) in declared.items()
        if required and name not in merged
    )
    raise_all(p for name, value in merged.items() for p in check(value, declared[name][0], f"{where}.{name}"))
    config = EncoderConfig(**merged)
    raise_all(config.problems(where))
    return config
