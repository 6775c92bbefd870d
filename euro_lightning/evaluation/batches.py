"""Batches of encoded sequences, laid end to end.

T tokens, S sequences.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from euro_lightning.encoder.attention import Segments
from euro_lightning.evaluation.encoding import Ids
from euro_lightning.keys import key_of, permute


@dataclass(frozen=True)
class Batch:
    """Sequences laid end to end, and what is to be learned of them."""

    ids: Tensor
    """int64 [T]: token ids."""
    segments: Segments
    """The S sequences."""
    targets: Tensor
    """What a family of tasks learns from; see its class."""
    number: int = 0
    """Number of the step, on which dropout depends."""

    def to(self, device: torch.device, non_blocking: bool = False) -> "Batch":
        """The same on a device."""
        ends = self.segments.cu_seqlens.to(device, non_blocking=non_blocking)
        return replace(
            self,
            ids=self.ids.to(device, non_blocking=non_blocking),
            segments=replace(self.segments, cu_seqlens=ends),
            targets=self.targets.to(device, non_blocking=non_blocking),
        )


def pack_sequences(sequences: Sequence[Ids], targets: Tensor | None = None, number: int = 0) -> Batch:
    """A batch of sequences in their order.

    Args:
        sequences: int64 [length] each; at least one.
        targets: see `Batch`; None where nothing is learned.
        number: see `Batch`.
    """
    segments = Segments.from_lengths([len(sequence) for sequence in sequences])
    nothing = torch.empty(0) if targets is None else targets
    return Batch(torch.from_numpy(np.concatenate(sequences)), segments, nothing, number)


def examples_of_step(step: int, batch_size: int, examples: int, seed: int) -> list[int]:
    """Which examples a step learns from: a pure function, so that no state need be kept.

    All examples come once, in a new order in every epoch, before any comes again; a step at the end
    of an epoch goes on with the next.

    Args:
        step: counted from 0.
        batch_size: examples in a step.
        examples: how many there are.
        seed: of the order.
    """
    places = np.arange(step * batch_size, (step + 1) * batch_size, dtype=np.int64)
    chosen: list[int] = []
    for epoch in np.unique(places // examples).tolist():
        inside = places[places // examples == epoch] % examples
        chosen += permute(inside, examples, key_of("order", seed, epoch)).tolist()
    return chosen


def groups_by_length(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Numbers of sequences to run together, those of similar length.

    Args:
        lengths: of each sequence.
        tokens: of a group at most, unless one sequence is longer.
    """
    groups: list[list[int]] = []
    room = 0
    for number in sorted(range(len(lengths)), key=lambda each: -lengths[each]):
        if not groups or lengths[number] > room:
            groups.append([])
            room = tokens
        groups[-1].append(number)
        room -= lengths[number]
    return groups


class Steps(Dataset[Batch]):
    """The batches of a fine-tuning, by step."""

    def __init__(self, learner: Any, prepared: Any, steps: int, batch_size: int, seed: int) -> None:
        """
        Args:
            learner: makes batches of prepared examples, see `Learner.batch`.
            prepared: the examples, see `Learner.prepare`.
            steps: how many.
            batch_size: examples in each.
            seed: of their order.
        """
        self._learner, self._prepared, self._steps = learner, prepared, steps
        self._batch_size, self._seed = batch_size, seed

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, step: int) -> Batch:
        chosen = examples_of_step(step, self._batch_size, len(self._prepared), self._seed)
        batch: Batch = self._learner.batch(self._prepared, chosen)
        return replace(batch, number=step)
