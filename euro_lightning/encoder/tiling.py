"""Weight tiling: a larger encoder from a trained smaller one of the same family.

Each axis of each tensor is a cyclic repetition of the smaller one's, with the smaller one in its
centre: place i of the new axis takes place (i − (new − old) // 2) mod old of the old (Rae et al.:
Gopher, 2021, appendix G.3.3; ModernBERT, 2024, section 2.3.2, whose large model so comes from its
base one). Heads are repeated whole, the gate and the value of the MLP each for itself, and a new
group of heads takes its key, its value and its queries from one old group.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.encoder.model import MaskedLanguageEncoder
from euro_lightning.errors import UserError, raise_all

LayerMap = Literal["type_preserving", "nearest"]
Rescale = Literal["none", "even", "uneven"]

_GROWING = ("layers", "width", "heads", "key_value_heads", "feed_forward")
_FREE = (*_GROWING, "max_length", "attention_output_dropout", "initialisation", "initializer_std")


def wrap(new: int, old: int) -> Tensor:
    """int64 [new]: the old place that each new place of an axis takes."""
    return (torch.arange(new) - (new - old) // 2) % old


def layer_map(source: EncoderConfig, target: EncoderConfig, kind: LayerMap) -> list[int]:
    """The source's layer that each layer of the target takes.

    Args:
        source: the smaller encoder.
        target: the larger one.
        kind: nearest is round(layer × old ÷ new), half to even, as ModernBERT's code has it, which
            gives some global layers the weights of local ones and the reverse; type_preserving
            takes the nearest so among the layers of the same type.
    """
    if kind == "nearest":
        return [_nearest(layer, target.layers, source.layers) for layer in range(target.layers)]
    chosen = [0] * target.layers
    for is_global in (True, False):
        every = range(source.layers)
        old = [layer for layer in every if source.is_global(layer) == is_global] or list(every)
        new = [layer for layer in range(target.layers) if target.is_global(layer) == is_global]
        for place, layer in enumerate(new):
            chosen[layer] = old[_nearest(place, len(new), len(old))]
    return chosen


def _nearest(place: int, new: int, old: int) -> int:
    return min(round(place * old / new), old - 1)


def tiling_problems(source: EncoderConfig, target: EncoderConfig) -> list[str]:
    """Why a source cannot be tiled into a target, one line each."""
    found = [
        f"{name} would shrink from {getattr(source, name)} to {getattr(target, name)}"
        for name in _GROWING
        if getattr(target, name) < getattr(source, name)
    ]
    found += [
        f"{name} differs: {getattr(source, name)} and {getattr(target, name)}"
        for name in source.differing(target, _FREE)
    ]
    if source.head_size != target.head_size:
        found.append(
            f"the head size differs: {source.head_size} and {target.head_size}; heads are kept whole"
        )
    old, new = source.heads // source.key_value_heads, target.heads // target.key_value_heads
    if new < old:
        found.append(f"query heads of a key/value head would shrink from {old} to {new}")
    return found


def tile(
    weights: Mapping[str, Tensor],
    source: EncoderConfig,
    target: EncoderConfig,
    layers: LayerMap = "type_preserving",
    rescale: Rescale = "uneven",
    seed: int = 0,
) -> dict[str, Tensor]:
    """The state dict of a larger encoder with its head.

    Args:
        weights: of a `MaskedLanguageEncoder` of the source's configuration.
        source: the smaller encoder.
        target: the larger one; no axis may shrink and the family must be the same.
        layers: see `layer_map`.
        rescale: what happens to the weights of an input that now comes in several copies. In a
            comparison (experiments/growth), the rescaled starts reached the final loss of a random one
            in less than half of the tokens that the others took. none:
            nothing, so that sums grow (by √2 from width 768 to 1,024). even: each copy has an equal
            part of the weight, so that sums stay as they were. uneven: each has a random part, which
            also keeps the sums, and keeps copies from learning the same for ever, for equal copies
            have equal gradients (Wang et al.: LEMON, 2024, section 3).
        seed: of the random parts.

    Raises:
        UserError: all reasons why the source cannot be tiled into the target.
    """
    problems = tiling_problems(source, target)
    raise_all([f"weight tiling: {'; '.join(problems)}"] if problems else [], UserError)
    axes = _Axes(source, target)
    chosen = layer_map(source, target, layers)
    generator = torch.Generator().manual_seed(seed)
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in MaskedLanguageEncoder(target).state_dict().items()}
    result = {}
    for name, shape in shapes.items():
        old = _source_name(name, chosen)
        if old.endswith("attention_norm.weight") and old not in weights:  # the source's first block has none
            result[name] = torch.ones(shape)
            continue
        tensor = weights[old]
        rows, columns = axes.of(name)
        tiled = tensor if rows is None else tensor[rows]
        tiled = tiled if columns is None else tiled[:, columns]
        inputs = (
            rows if name == axes.before_output else None if name.endswith("embedding.weight") else columns
        )
        if rescale != "none" and inputs is not None:
            tiled = tiled * _parts(inputs, rescale, generator).to(tiled.dtype)
        result[name] = tiled.contiguous()
    return result


def _source_name(name: str, chosen: list[int]) -> str:
    if not name.startswith("encoder.blocks."):
        return name
    _, _, layer, suffix = name.split(".", 3)
    return f"encoder.blocks.{chosen[int(layer)]}.{suffix}"


def _parts(places: Tensor, rescale: Rescale, generator: torch.Generator) -> Tensor:
    """float32 [new]: which part of the old weight each copy has; the parts of a place sum to one."""
    size = torch.ones(len(places))
    if rescale == "uneven":
        size = 0.5 + torch.rand(len(places), generator=generator)
    totals = torch.zeros(int(places.max()) + 1).index_add(0, places, size)
    return size / totals[places]


class _Axes:
    """Old places of the rows and columns of each tensor; None leaves an axis as it is."""

    def __init__(self, source: EncoderConfig, target: EncoderConfig) -> None:
        self.width = wrap(target.width, source.width)
        inner = wrap(target.feed_forward, source.feed_forward)
        self.inner, self.gate_up = inner, torch.cat([inner, inner + source.feed_forward])
        groups = wrap(target.key_value_heads, source.key_value_heads)
        old, new = source.heads // source.key_value_heads, target.heads // target.key_value_heads
        heads = (groups[:, None] * old + wrap(new, old)[None, :]).flatten()
        size = source.head_size
        self.heads = _places(heads, size)
        key = _places(groups, size) + source.width
        value = key + source.key_value_heads * size
        self.query_key_value = torch.cat([self.heads, key, value])
        self.before_output: str | None = None
        """The norm that stands before a tied output matrix and is rescaled in its place, for the
        embedding cannot be both: as the input it is the same whatever the copies are."""
        if target.tied:
            self.before_output = "head.norm.weight" if target.head_transform else "encoder.final_norm.weight"

    def of(self, name: str) -> tuple[Tensor | None, Tensor | None]:
        """Old places of the rows and of the columns of a tensor."""
        if name.endswith("query_key_value.weight"):
            return self.query_key_value, self.width
        if name.endswith("attention.output.weight"):
            return self.width, self.heads
        if name.endswith("gate_up.weight"):
            return self.gate_up, self.width
        if name.endswith("mlp.down.weight"):
            return self.width, self.inner
        if name.endswith("head.dense.weight"):
            return self.width, self.width
        if name in ("head.weight", "encoder.embedding.weight"):
            return None, self.width
        return (None if name == "head.bias" else self.width), None


def _places(heads: Tensor, size: int) -> Tensor:
    """The rows of whole heads."""
    return (heads[:, None] * size + torch.arange(size)[None, :]).flatten()
