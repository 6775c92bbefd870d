"""Segments laid end to end in micro-batches: plans, and the batches made of them.

A plan is a few integers; a worker turns it into a `PackedBatch`. A batch holds exactly
`micro_batch_tokens` tokens and never a padding token, and it carries the cursor from which
planning goes on after its global batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from euro_lightning.data.store import Documents


class Slice(NamedTuple):
    """A segment before its tokens are read: which part of which document."""

    source: str
    document: int
    start: int
    length: int
    epoch: int


class Plan(NamedTuple):
    """A micro-batch before its tokens are read."""

    index: int
    """Number of this micro-batch in the run, over all ranks."""
    clock: int
    """Token clock when its global batch begins."""
    cursor: Mapping[str, Any]
    """Planner state after its global batch."""
    closes: bool
    """Whether it is its rank's last micro-batch of the global batch."""
    segments: Sequence[Slice]


@dataclass(frozen=True)
class PackedBatch:
    """Segments laid end to end. T tokens, S segments."""

    ids: Tensor
    """int64 [T]: token ids."""
    cu_seqlens: Tensor
    """int32 [S + 1]: where each segment begins, and the end of the last."""
    lengths: tuple[int, ...]
    """The S segment lengths, on the host."""
    sources: tuple[str, ...]
    """Source of each segment."""
    index: int
    clock: int
    cursor: Mapping[str, Any]
    closes: bool
    plan: Plan | None = None
    """What the batch was made from, for replay."""

    @property
    def max_length(self) -> int:
        return max(self.lengths)

    def to(self, device: torch.device, non_blocking: bool = False) -> "PackedBatch":
        """The same batch with its tensors on a device."""
        return replace(
            self,
            ids=self.ids.to(device, non_blocking=non_blocking),
            cu_seqlens=self.cu_seqlens.to(device, non_blocking=non_blocking),
        )

    def pin_memory(self) -> "PackedBatch":
        """The same batch in page-locked memory."""
        return replace(self, ids=self.ids.pin_memory(), cu_seqlens=self.cu_seqlens.pin_memory())


def read_slice(documents: Documents, part: Slice) -> np.ndarray[Any, Any]:
    """The tokens of a segment.

    A parallel pair is read in the other direction in every other epoch, half of the pairs
    beginning with the one and half with the other.
    """
    if documents.separator is not None and (part.document + part.epoch) % 2:
        return documents.swapped(part.document)[part.start : part.start + part.length]
    return documents.tokens(part.document, part.start, part.length)


def pack(plan: Plan, documents: Mapping[str, Documents]) -> PackedBatch:
    """Reads the tokens of a plan."""
    lengths = tuple(part.length for part in plan.segments)
    tokens = np.empty(sum(lengths), dtype=np.int64)
    ends = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=ends[1:])
    for part, start in zip(plan.segments, ends.tolist(), strict=False):
        tokens[start : start + part.length] = read_slice(documents[part.source], part)
    return PackedBatch(
        ids=torch.from_numpy(tokens),
        cu_seqlens=torch.from_numpy(ends),
        lengths=lengths,
        sources=tuple(part.source for part in plan.segments),
        index=plan.index,
        clock=plan.clock,
        cursor=plan.cursor,
        closes=plan.closes,
        plan=plan,
    )


def sequential(sources: Mapping[str, Documents], tokens: int, longest: int, micro_batch_tokens: int) -> list[Plan]:
    """Plans that read the first documents of each source in order, for evaluation.

    Every micro-batch holds one source, so that sums per source need no bookkeeping; the last
    of a source may be shorter than `micro_batch_tokens`.

    Args:
        sources: documents by source.
        tokens: tokens to read of each source at most.
        longest: longest segment, in tokens.
        micro_batch_tokens: tokens in a micro-batch at most.
    """
    plans: list[Plan] = []
    for source, documents in sources.items():
        room, left = min(micro_batch_tokens, tokens), tokens
        segments: list[Slice] = []
        sizes = documents.lengths(np.arange(min(len(documents), tokens), dtype=np.int64)).tolist()
        for document, size in enumerate(sizes):
            start = 0
            while start < size and left > 0:
                length = min(size - start, longest, room, left)
                segments.append(Slice(source, document, start, length, 0))
                start, room, left = start + length, room - length, left - length
                if room == 0:
                    plans.append(Plan(len(plans), 0, {}, True, segments))
                    segments, room = [], micro_batch_tokens
            if left <= 0:
                break
        if segments:
            plans.append(Plan(len(plans), 0, {}, True, segments))
    return plans
