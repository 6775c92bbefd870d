"""Attention within each of the segments of a packed batch, never across.

Global attention sees the whole segment, local attention a window of it.
T tokens, S segments, H query heads, G key/value heads, K head size, L length of a segment; local
attention works in B blocks of R tokens.
"""

import contextlib
import importlib.util
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from euro_lightning.encoder.segment_attention import attention_by_runs, segment_attention
from euro_lightning.errors import ConfigError

BACKENDS = ("sdpa", "varlen", "flash_attn")


class Layout(NamedTuple):
    """Where segments lie, as compiled code may know it: in tensors alone, whose values change freely."""

    ends: Tensor
    """int32 [S + 1]: first token of each segment, and the end of the last, on the device."""
    host_ends: Tensor
    """The same on the host, so that no backend waits for the device to learn it."""
    longest: int
    """A power of two that no segment is longer than: few different values, for each may be compiled."""


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

    def layout(self) -> Layout:
        """The same for compiled code."""
        host = self.cu_seqlens
        if host.device.type != "cpu":
            host = torch.tensor([0, *self.lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
        return Layout(self.cu_seqlens, host, 1 << (self.max_length - 1).bit_length())

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


def available_backends(device: torch.device, dtype: torch.dtype) -> list[str]:
    """The backends that work on a device with a type."""
    found = []
    for name in BACKENDS:
        with contextlib.suppress(ConfigError):
            found.append(resolve_backend(name, device, dtype))
    return found


def attention(
    query_THK: Tensor,
    key_TGK: Tensor,
    value_TGK: Tensor,
    segments: Segments,
    backend: str,
    reach: int | None = None,
    mask_BRR: Tensor | None = None,
) -> Tensor:
    """softmax(q kᵀ / √K) v within each segment; H is a multiple of G.

    Args:
        query_THK: queries.
        key_TGK: keys.
        value_TGK: values.
        segments: where segments lie in the T tokens.
        backend: see `resolve_backend`.
        reach: how far a token sees to each side; None sees the whole segment.
        mask_BRR: `local_mask` of the segments and the reach, which sdpa needs and other backends do not.

    Returns:
        [T, H, K] in the type of the query.
    """
    if reach is not None and segments.max_length <= reach + 1:
        reach = None  # every token sees its whole segment
    if backend == "sdpa" and reach is not None and mask_BRR is None:
        mask_BRR = local_mask(segments, reach)
    return attend(query_THK, key_TGK, value_TGK, segments.layout(), backend, reach, mask_BRR)


def attend(
    query_THK: Tensor,
    key_TGK: Tensor,
    value_TGK: Tensor,
    layout: Layout,
    backend: str,
    reach: int | None,
    mask_BRR: Tensor | None,
) -> Tensor:
    """See `attention`; with sdpa, a reach needs its mask."""
    if backend == "sdpa":
        if mask_BRR is not None:
            return _local_sdpa(query_THK, key_TGK, value_TGK, mask_BRR)
        if query_THK.device.type != "cpu":
            return attention_by_runs(query_THK, key_TGK, value_TGK, layout.host_ends)
        result: Tensor = segment_attention(query_THK, key_TGK, value_TGK, layout.host_ends)[0]
        return result
    ends, longest = layout.ends, layout.longest
    window = (-1, -1) if reach is None else (reach, reach)
    if backend == "flash_attn":
        from flash_attn import flash_attn_varlen_func

        flash: Tensor = flash_attn_varlen_func(
            query_THK, key_TGK, value_TGK, ends, ends, longest, longest, window_size=window
        )
        return flash
    from torch.nn.attention.varlen import varlen_attn

    grouped = query_THK.shape[1] != key_TGK.shape[1]
    output = varlen_attn(
        query_THK, key_TGK, value_TGK, ends, ends, longest, longest, window_size=window, enable_gqa=grouped
    )
    assert isinstance(output, Tensor)
    return output


def local_mask(segments: Segments, reach: int) -> Tensor:
    """Which keys each query sees in local attention by blocks.

    The T tokens are cut into B blocks of R = max(reach, 32) tokens, whatever the segments are, and
    the queries of a block meet the keys of the block itself and of its two neighbours. So the work
    grows with T × 3R, not with the square of a segment's length.

    Returns:
        bool [B, 1, R, 3R]: true where the key is in the query's segment and at most `reach` away.
    """
    block = max(reach, 32)
    device = segments.cu_seqlens.device
    total = sum(segments.lengths)
    blocks = -(-total // block)
    # the tokens that fill the last block are a segment of their own, those around all blocks another
    numbers = torch.arange(len(segments.lengths), device=device)
    owner = torch.full((blocks * block + 2 * block,), -2, device=device)
    owner[block : block + blocks * block] = -1
    lengths = segments.cu_seqlens.diff().long()
    owner[block : block + total] = torch.repeat_interleave(numbers, lengths, output_size=total)
    query_owner = owner[block:-block].view(blocks, block, 1)
    key_owner = owner.unfold(0, 3 * block, block)[:, None, :]
    query_place = torch.arange(block, 2 * block, device=device)[:, None]
    near = (torch.arange(3 * block, device=device) - query_place).abs() <= reach
    return ((query_owner == key_owner) & near)[:, None]


def _local_sdpa(query_THK: Tensor, key_TGK: Tensor, value_TGK: Tensor, mask_BRR: Tensor) -> Tensor:
    """One call for all blocks; see `local_mask`."""
    grouped = query_THK.shape[1] != key_TGK.shape[1]
    total = len(query_THK)
    blocks, _, block, _ = mask_BRR.shape
    fill = blocks * block - total
    query = pad(query_THK, (0, 0, 0, 0, 0, fill)) if fill else query_THK
    key, value = (
        _Neighbours.apply(pad(x, (0, 0, 0, 0, block, fill + block)), block)  # type: ignore[no-untyped-call]
        for x in (key_TGK, value_TGK)
    )
    query = query.view(blocks, block, *query.shape[1:])
    output = scaled_dot_product_attention(
        query.transpose(1, 2), key, value, attn_mask=mask_BRR, enable_gqa=grouped
    )
    return output.transpose(1, 2).flatten(0, 1)[:total]


class _Neighbours(torch.autograd.Function):
    """[(B + 2) R, G, K] to [B, G, 3R, K]: each block between its neighbours, without copying.

    The gradient adds whole blocks; that of a view by `unfold` takes as long as attention itself.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, block: int) -> Tensor:
        ctx.block = block
        return states.unfold(0, 3 * block, block).transpose(2, 3)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        left, middle, right = torch.split(gradients[0].transpose(1, 2), ctx.block, dim=1)
        states = middle.new_empty(len(middle) + 2, *middle.shape[1:])
        states[0] = states[-1] = 0
        states[1:-1] = middle
        states[:-2] += left
        states[2:] += right
        return states.flatten(0, 1), None
