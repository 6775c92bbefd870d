"""Encoders of another shape with as many parameters: what makes shapes comparable."""

from collections.abc import Iterator
from dataclasses import replace

from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.encoder.cost import parameter_count
from euro_lightning.errors import ConfigError

STEP = 8
"""The inner width of the MLP is a multiple of this."""

TOLERANCE = 0.01
"""How far the parameters may be from those that are wanted, as a share of them."""


def _widths(base: EncoderConfig) -> Iterator[EncoderConfig]:
    """The encoder with other numbers of heads of the same size, and as many queries to a key as before."""
    queries = base.heads // base.key_value_heads
    for groups in range(1, 4 * base.key_value_heads + 1):
        heads = groups * queries
        yield replace(base, heads=heads, key_value_heads=groups, width=heads * base.head_size)


def resized(base: EncoderConfig, layers: int, width: int) -> EncoderConfig:
    """The encoder with other layers and another width, a multiple of its head size; the MLP in proportion."""
    heads = width // base.head_size
    groups = max(heads * base.key_value_heads // base.heads, 1)
    while heads % groups:
        groups -= 1
    feed_forward = max(round(width * base.feed_forward / base.width / STEP) * STEP, STEP)
    return replace(
        base, layers=layers, width=width, heads=heads, key_value_heads=groups, feed_forward=feed_forward
    )


def fitted(shape: EncoderConfig, parameters: int, *, core: bool) -> EncoderConfig | None:
    """The shape with the inner width of its MLP that comes nearest to a number of parameters.

    Args:
        shape: layers, width and heads; its vocabulary must be known.
        parameters: how many are wanted.
        core: whether those of the vocabulary are left out of the count.

    Returns:
        None when no inner width comes within `TOLERANCE`.
    """

    def count(feed_forward: int) -> int:
        found = parameter_count(replace(shape, feed_forward=feed_forward))
        return found.core if core else found.total

    each = count(2) - count(1)
    feed_forward = round((parameters - count(0)) / each / STEP) * STEP
    if feed_forward < STEP or abs(count(feed_forward) / parameters - 1) > TOLERANCE:
        return None
    return replace(shape, feed_forward=feed_forward)


def equal_parameters(base: EncoderConfig, wanted: EncoderConfig, *, core: bool, what: str) -> EncoderConfig:
    """An encoder with the layers and the vocabulary of `wanted` and the parameters of `base`.

    The width changes by whole heads (with as many queries to a key), the MLP makes up the rest; of all
    widths that fit, the one is taken whose MLP is nearest to `base` in proportion to its width.

    Args:
        base: whose parameters are kept; its vocabulary must be known.
        wanted: has other layers or another vocabulary.
        core: whether parameters of the vocabulary are left out of the comparison.
        what: the setting, for messages.

    Raises:
        ConfigError: no width fits.
    """
    count = parameter_count(base)
    parameters = count.core if core else count.total
    proportion = base.feed_forward / base.width
    found = [shape for width in _widths(wanted) if (shape := fitted(width, parameters, core=core))]
    if not found:
        raise ConfigError(
            f"{what}: no encoder of this shape has {parameters:,} parameters; choose a nearer one"
        )

    def distance(shape: EncoderConfig) -> float:
        ratio = shape.feed_forward / shape.width / proportion
        return max(ratio, 1 / ratio)

    return min(found, key=distance)
