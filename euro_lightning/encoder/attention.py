"""Full attention within each of the segments of a packed batch, never across.

T tokens, S segments, H query heads, G key/value heads, K head size, L length of a segment.
"""

import importlib.util
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from euro_lightning.errors import ConfigError

BACKENDS = ("sdpa", "varlen", "flash_attn")


@dataclass(frozen=True)
class Segments:
    """Where segments begin and end in a packed batch."""

    cu_seqlens: Tensor
    """int32 [S + 1]: first token of each segment, and the end of the last, on the device."""
    lengths: tuple[int, ...]
    """The S lengths on the host, so that no backend waits for the device to learn them."""
    max_length: int
    """The longest of them."""

    @classmethod
    def from_lengths(
        cls, lengths: list[int] | tuple[int, ...], device: torch.device | None = None
    ) -> "Segments":
        """Segments of the given lengths, end to end."""
        ends = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
        return cls(ends.to(device or "cpu"), tuple(lengths), max(lengths))

    def positions(self) -> Tensor:
        """int64 [T]: place of each token in its segment."""
        total = sum(self.lengths)
        tokens = torch.arange(total, device=self.cu_seqlens.device)
        starts = self.cu_seqlens[:-1].long()
        counts = self.cu_seqlens.diff().long()
        return tokens - torch.repeat_interleave(starts, counts, output_size=total)


def resolve_backend(name: str, device: torch.device, dtype: torch.dtype) -> str:
    """The attention backend to use.

    Args:
        name: a backend, or auto for the fastest that works.
        device: where tensors are; ROCm devices count as cuda.
        dtype: type of queries, keys and values.

    Raises:
        ConfigError: the backend is unknown or cannot work there.
    """
    half = dtype in (torch.bfloat16, torch.float16)
    cuda = device.type == "cuda"
    flash = importlib.util.find_spec("flash_attn") is not None
    varlen = (
        cuda
        and torch.version.hip is None
        and importlib.util.find_spec("torch.nn.attention.varlen") is not None
    )
    if name == "auto":
        return "flash_attn" if flash and cuda and half else "varlen" if varlen and half else "sdpa"
    if name == "sdpa":
        return name
    if name not in BACKENDS:
        raise ConfigError(f"model.attention: no backend {name!r}; choose auto, {', '.join(BACKENDS)}")
    reason = ""
    if not cuda:
        reason = f"needs a GPU, and this runs on {device.type}"
    elif not half:
        reason = "needs trainer.precision bf16-mixed or 16-mixed"
    elif name == "flash_attn" and not flash:
        reason = "needs the flash-attn package (pip install 'euro_lightning[flash]')"
    elif name == "varlen" and not varlen:
        reason = "needs a torch build for CUDA with torch.nn.attention.varlen"
    if reason:
        raise ConfigError(f"model.attention {name} {reason}; sdpa works everywhere, auto chooses")
    return name


def attention(
    query_THK: Tensor, key_TGK: Tensor, value_TGK: Tensor, segments: Segments, backend: str
) -> Tensor:
    """softmax(q kᵀ / √K) v within each segment; H is a multiple of G.

    Returns:
        [T, H, K] in the type of the query.
    """
    if backend == "sdpa":
        return _sdpa(query_THK, key_TGK, value_TGK, segments)
    ends, longest = segments.cu_seqlens, segments.max_length
    if backend == "flash_attn":
        from flash_attn import flash_attn_varlen_func

        result: Tensor = flash_attn_varlen_func(query_THK, key_TGK, value_TGK, ends, ends, longest, longest)
        return result
    from torch.nn.attention.varlen import varlen_attn

    grouped = query_THK.shape[1] != key_TGK.shape[1]
    output = varlen_attn(query_THK, key_TGK, value_TGK, ends, ends, longest, longest, enable_gqa=grouped)
    assert isinstance(output, Tensor)
    return output


def _sdpa(query_THK: Tensor, key_TGK: Tensor, value_TGK: Tensor, segments: Segments) -> Tensor:
    """One call per run of segments of the same length."""
    grouped = query_THK.shape[1] != key_TGK.shape[1]
    runs = [(length, len(list(run))) for length, run in groupby(segments.lengths)]
    sizes = [length * count for length, count in runs]
    outputs = []
    parts = zip(runs, *(torch.split(x, sizes) for x in (query_THK, key_TGK, value_TGK)), strict=True)
    for (length, count), *tensors in parts:
        query, key, value = (x.unflatten(0, (count, length)).transpose(1, 2) for x in tensors)
        output = scaled_dot_product_attention(query, key, value, enable_gqa=grouped)
        outputs.append(output.transpose(1, 2).flatten(0, 1))
    return torch.cat(outputs) if len(outputs) > 1 else outputs[0]
