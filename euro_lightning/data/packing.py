"""Segments laid end to end in micro-batches: plans, and the batches made of them.

A plan is a few integers; a worker turns it into a `PackedBatch`. A batch holds exactly
`micro_batch_tokens` tokens and never a padding token, and it carries the cursor from which
planning goes on after its global batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor


class DocumentReader(Protocol):
    """What planning and packing need of documents; a token store's `Documents` are one."""

    @property
    def separator(self) -> int | None:
        """For parallel text, the token between the two sides."""

    def __len__(self) -> int: ...

    def lengths(self, documents: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Tokens in each of the given documents."""

    def tokens(self, document: int, start: int = 0, length: int | None = None) -> np.ndarray[Any, Any]:
        """A slice of a document's tokens."""

    def swapped(self, document: int) -> np.ndarray[Any, Any]:
        """A parallel pair in the other direction."""


class Slice(NamedTuple):
    """A segment before its tokens are read, or a piece of one: which part of which document."""

    source: str
    document: int
    start: int
    length: int
    epoch: int
    joined: bool = False
    """Whether it goes on with the segment of the piece before it: concatenated streams alone."""


class Plan(NamedTuple):
    """A micro-batch before its tokens are read."""

    number: int
    """Number of this micro-batch in the run, over all ranks."""
    clock: int
    """Token clock when its global batch begins."""
    cursor: Mapping[str, Any]
    """Planner state after its global batch."""
    segments: Sequence[Slice]
    """The segments in order; of concatenated streams, their pieces."""
    closes: bool = False
    """Whether it is its rank's last micro-batch of the global batch."""


@dataclass(frozen=True)
class PackedBatch:
    """Segments laid end to end. T tokens, S segments."""

    ids: Tensor
    """int64 [T]: token ids."""
    cu_seqlens: Tensor
    """int32 [S + 1]: where each segment begins, and the end of the last."""
    lengths: tuple[int, ...]
    """The S segment lengths, on the host."""
    ordinary: int
    """How many of the tokens are not special, on the host."""
    plan: Plan
    """What the batch was made from: its number, clock, cursor and segments."""

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


def read_slice(documents: DocumentReader, part: Slice) -> np.ndarray[Any, Any]:
    """The tokens of a segment.

    A parallel pair is read in the other direction in every other epoch, half of the pairs
    beginning with the one and half with the other.
    """
    if documents.separator is not None and (part.document + part.epoch) % 2:
        return documents.swapped(part.document)[part.start : part.start + part.length]
    return documents.tokens(part.document, part.start, part.length)


def pack(
    plan: Plan, documents: Mapping[str, DocumentReader], is_special: np.ndarray[Any, Any]
) -> PackedBatch:
    """Reads the tokens of a plan.

    Args:
        plan: what to read.
        documents: the documents by source.
        is_special: bool [vocabulary], true for special and added tokens.
    """
    tokens = np.empty(sum(part.length for part in plan.segments), dtype=np.int64)
    begins, place = [], 0
    for part in plan.segments:
        tokens[place : place + part.length] = read_slice(documents[part.source], part)
        if not part.joined:
            begins.append(place)
        place += part.length
    ends = np.array([*begins, place], dtype=np.int32)
    lengths = tuple(np.diff(ends).tolist())
    return PackedBatch(
        ids=torch.from_numpy(tokens),
        cu_seqlens=torch.from_numpy(ends),
        lengths=lengths,
        ordinary=len(tokens) - int(np.count_nonzero(is_special[tokens])),
        plan=plan,
    )


def sequential(
    sources: Mapping[str, DocumentReader], tokens: int, longest: int, micro_batch_tokens: int
) -> list[Plan]:
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
                    plans.append(Plan(len(plans), 0, {}, segments))
                    segments, room = [], micro_batch_tokens
            if left <= 0:
                break
        if segments:
            plans.append(Plan(len(plans), 0, {}, segments))
    return plans


def one_by_one(documents: DocumentReader, micro_batch_tokens: int) -> list[Plan]:
    """Plans that read every document whole, in order, for prediction."""
    plans: list[Plan] = []
    segments: list[Slice] = []
    room = micro_batch_tokens
    for document, length in enumerate(documents.lengths(np.arange(len(documents))).tolist()):
        if length > room and segments:
            plans.append(Plan(len(plans), 0, {}, segments))
            segments, room = [], micro_batch_tokens
        segments.append(Slice("text", document, 0, length, 0))
        room -= length
    return [*plans, Plan(len(plans), 0, {}, segments)] if segments else plans
