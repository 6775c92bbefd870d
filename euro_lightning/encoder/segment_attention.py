"""Attention within segments on the CPU, as one operation that compilers do not look into.

Calls per segment depend on how many segments there are, which changes with every micro-batch: a
compiler would stop at them or compile anew. As a registered operation with its own backward they are
one node of the graph. T tokens, S segments, H query heads, G key/value heads, K head size.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward

_WHOLE = 512
"""Tokens up to which all queries of a segment meet its keys at once; of longer segments, a few rows do, so
that their scores stay in the cache. In bfloat16 plain products beat the CPU's fused kernel, forward and
backward together: by 5 times at 64 tokens, 2 at 250 and 500, 1.4 at 1,024, 1.5 at 2,048 and 1.6 at 8,192
(2 cores with AVX-512 BF16). In float32 the kernel is faster."""

_SCORES = 1 << 16
"""Scores of a head in such rows."""


def _runs(ends: Tensor) -> list[tuple[int, int]]:
    """Length and number of the segments in each run of segments of one length."""
    lengths = ends.diff().tolist()
    return [(length, len(list(run))) for length, run in groupby(lengths)]


def _parts(ends: Tensor, *tensors: Tensor) -> Iterator[list[Tensor]]:
    """Each run of segments as [segments, heads, length, K], of every tensor."""
    runs = _runs(ends)
    sizes = [length * count for length, count in runs]
    for (length, count), *parts in zip(runs, *(torch.split(x, sizes) for x in tensors), strict=True):
        yield [part.unflatten(0, (count, length)).transpose(1, 2) for part in parts]


def _packed(part: Tensor) -> Tensor:
    """[segments, heads, length, K] to [tokens, heads, K]."""
    return part.transpose(1, 2).flatten(0, 1)


def _fused(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    result, logarithms = _flash(query, key, value, 0.0, False)
    return result, logarithms


def _fused_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, output: Tensor, logarithms: Tensor
) -> Any:
    return _flash_backward(gradient, query, key, value, output, logarithms, 0.0, False)


def _by_group(states: Tensor, groups: int) -> Tensor:
    """[segments, H, length, K] to [segments, G, (H / G) × length, K]: all queries of a key head."""
    segments, heads, length, size = states.shape
    return states.reshape(segments, groups, heads // groups * length, size)


def _shares(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Scaled queries by group, and the softmax of their products with the keys."""
    queries = _by_group(query, key.shape[1]) * query.shape[-1] ** -0.5
    return queries, torch.softmax(queries @ key.transpose(-1, -2), -1)


def _rows(length: int) -> int:
    return length if length <= _WHOLE else max(32, _SCORES // length)


def _plain(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Attention by products of whole matrices, whose softmax backward computes again."""
    outputs = []
    for some in torch.split(query, _rows(query.shape[2]), 2):
        _, shares = _shares(some, key)
        outputs.append((shares @ value).view(some.shape))
    return torch.cat(outputs, 2), query.new_zeros(query.shape[:3], dtype=torch.float32)


def _plain_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, output: Tensor, logarithms: Tensor
) -> Any:
    found: list[Tensor] = []
    # sums over rows in bfloat16 would lose what later rows add
    key_sum, value_sum = (torch.zeros(x.shape, dtype=torch.float32) for x in (key, value))
    rows = _rows(query.shape[2])
    for some, change in zip(torch.split(query, rows, 2), torch.split(gradient, rows, 2), strict=True):
        queries, shares = _shares(some, key)
        gradients = _by_group(change, key.shape[1])
        changes = torch.ops.aten._softmax_backward_data(
            gradients @ value.transpose(-1, -2), shares, -1, shares.dtype
        )
        found.append((changes @ key).mul_(query.shape[-1] ** -0.5).view(some.shape))
        key_sum += changes.transpose(-1, -2) @ queries
        value_sum += shares.transpose(-1, -2) @ gradients
    return torch.cat(found, 2), key_sum.to(key), value_sum.to(value)


def _is_plain(query: Tensor) -> bool:
    return query.dtype == torch.bfloat16


@torch.library.custom_op("euro_lightning::segment_attention", mutates_args=(), device_types="cpu")
def segment_attention(
    query_THK: Tensor, key_TGK: Tensor, value_TGK: Tensor, ends: Tensor
) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ / √K) v within each segment.

    Args:
        query_THK: queries.
        key_TGK: keys; H is a multiple of G.
        value_TGK: values.
        ends: int32 [S + 1] on the host: first token of each segment, and the end of the last.

    Returns:
        [T, H, K] in the type of the query, and what backward needs besides: the logarithms of the
        softmax's sums, float32 [H × T].
    """
    outputs, sums = [], []
    for query, key, value in _parts(ends, query_THK, key_TGK, value_TGK):
        output, logarithms = (_plain if _is_plain(query) else _fused)(query, key, value)
        outputs.append(_packed(output))
        sums.append(logarithms.flatten())
    return torch.cat(outputs), torch.cat(sums)


@segment_attention.register_fake
def _(query_THK: Tensor, key_TGK: Tensor, value_TGK: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    output = torch.empty_like(query_THK, memory_format=torch.contiguous_format)
    return output, query_THK.new_empty(query_THK.shape[0] * query_THK.shape[1], dtype=torch.float32)


@torch.library.custom_op("euro_lightning::segment_attention_backward", mutates_args=(), device_types="cpu")
def _backward(
    gradient_THK: Tensor,
    query_THK: Tensor,
    key_TGK: Tensor,
    value_TGK: Tensor,
    output_THK: Tensor,
    sums: Tensor,
    ends: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    heads, sizes = query_THK.shape[1], [length * count for length, count in _runs(ends)]
    found: list[list[Tensor]] = []
    parts = _parts(ends, gradient_THK, query_THK, key_TGK, value_TGK, output_THK)
    for part, own in zip(parts, torch.split(sums, [heads * size for size in sizes]), strict=True):
        backward: Callable[..., Any] = _plain_backward if _is_plain(part[1]) else _fused_backward
        found.append([_packed(x) for x in backward(*part, own.view(len(part[1]), heads, -1))])
    query, key, value = (torch.cat(column) for column in zip(*found, strict=True))
    return query, key, value


@_backward.register_fake
def _(
    gradient_THK: Tensor,
    query_THK: Tensor,
    key_TGK: Tensor,
    value_TGK: Tensor,
    output_THK: Tensor,
    sums: Tensor,
    ends: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = (
        torch.empty_like(x, memory_format=torch.contiguous_format) for x in (query_THK, key_TGK, value_TGK)
    )
    return query, key, value


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:3], *output, inputs[3])


def _differentiate(ctx: Any, gradient_THK: Tensor, _: Any) -> tuple[Tensor, Tensor, Tensor, None]:
    query, key, value, output, sums, ends = ctx.saved_tensors
    return (*_backward(gradient_THK, query, key, value, output, sums, ends), None)


def attention_by_runs(query_THK: Tensor, key_TGK: Tensor, value_TGK: Tensor, ends: Tensor) -> Tensor:
    """The same on other devices, by PyTorch's SDPA and its own backward; not for compiled code."""
    grouped = query_THK.shape[1] != key_TGK.shape[1]
    outputs = [
        _packed(scaled_dot_product_attention(query, key, value, enable_gqa=grouped))
        for query, key, value in _parts(ends, query_THK, key_TGK, value_TGK)
    ]
    return torch.cat(outputs) if len(outputs) > 1 else outputs[0]


segment_attention.register_autograd(_differentiate, setup_context=_keep)
