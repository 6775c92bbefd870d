"""What is trained on while measuring: documents of drawn lengths, whose tokens are drawn, too."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from euro_lightning.data.cropping import Lengths
from euro_lightning.data.packing import PackedBatch, pack
from euro_lightning.data.phase import Phase, Timeline
from euro_lightning.data.planner import Planner
from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.errors import ConfigError
from euro_lightning.schedule import LearningRate

SPECIAL = 5
"""Ids that are never drawn: begin, end, pad, mask, separator."""

MASK = 3

_LOCATION, _SCALE, _SHORTEST, _LONGEST = 5.0, 0.8, 16, 1024
"""Natural lengths: exp(N(5, 0.8)) tokens between 16 and 1,024, as paragraphs of web text have."""

_POOL = 1 << 20
"""Drawn tokens that documents are cut from."""


DENSE = 512
"""Tokens in a row of dense chunks."""


class Documents:
    """Documents of given lengths; a `DocumentReader`."""

    separator = None

    def __init__(self, lengths: np.ndarray[Any, Any], vocabulary: int, seed: int) -> None:
        self.sizes = lengths.astype(np.int64)
        self.quality = np.zeros(len(lengths), dtype=np.int8)
        draw = np.random.default_rng(seed)
        self.pool = draw.integers(SPECIAL, vocabulary, _POOL + int(lengths.max()), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.sizes)

    def lengths(self, documents: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Tokens in each of the given documents."""
        found: np.ndarray[Any, Any] = self.sizes[documents]
        return found

    def tokens(self, document: int, start: int = 0, length: int | None = None) -> np.ndarray[Any, Any]:
        """A slice of a document's tokens."""
        first = document * 7919 % _POOL + start
        end = first + (int(self.sizes[document]) - start if length is None else length)
        return self.pool[first:end]

    def swapped(self, document: int) -> np.ndarray[Any, Any]:
        """There are no pairs here."""
        return self.tokens(document)


@dataclass(frozen=True)
class Workload:
    """What all contestants train on."""

    encoder: EncoderConfig
    lengths: str
    """natural, or the number of tokens that every document has."""
    masking_ratio: float
    tokens: int
    """Tokens of a step."""
    seed: int = 7

    @property
    def vocabulary(self) -> int:
        assert self.encoder.vocabulary is not None
        return self.encoder.vocabulary

    def documents(self, count: int = 20_000) -> Documents:
        """The documents.

        Raises:
            ConfigError: the lengths are neither natural nor a number.
        """
        draw = np.random.default_rng(self.seed)
        if self.lengths == "natural":
            sizes = np.exp(draw.normal(_LOCATION, _SCALE, count)).round().clip(_SHORTEST, _LONGEST)
        elif self.lengths.isdigit() and int(self.lengths) > 0:
            sizes = np.full(count, int(self.lengths))
        else:
            raise ConfigError(f"--lengths {self.lengths}: give natural, or a number of tokens such as 512")
        return Documents(sizes, self.vocabulary, self.seed)

    @property
    def longest(self) -> int:
        return _LONGEST if self.lengths == "natural" else int(self.lengths)

    def planner(self, documents: Documents, tokens: int) -> Planner:
        """Plans micro-batches of `self.tokens` tokens, each a global batch of its own."""
        lengths = Lengths("fixed", self.longest, min(12, self.longest))
        phase = Phase(tokens, {"en": 1.0}, LearningRate(1e-4), lengths=lengths)
        return Planner({"en": documents}, Timeline({"only": phase}, self.tokens), self.tokens, self.seed)  # type: ignore[dict-item]

    def batches(self) -> Iterator[PackedBatch]:
        """Micro-batches as the data module makes them, without end."""
        documents = self.documents()
        special = np.zeros(self.vocabulary, dtype=bool)
        special[:SPECIAL] = True
        for plans in self.planner(documents, 1 << 50).global_batches(Planner.beginning()):
            for plan in plans:
                yield pack(plan, {"en": documents}, special)

    def padded(self, documents_in_batch: int = 16) -> Iterator[tuple[Tensor, Tensor]]:
        """int64 [B, L] ids and bool [B, L] which are tokens, padded to the longest of a batch."""
        documents, first = self.documents(), 0
        while True:
            numbers = [(first + i) % len(documents) for i in range(documents_in_batch)]
            first += documents_in_batch
            sizes = documents.lengths(np.array(numbers))
            ids = np.zeros((documents_in_batch, int(sizes.max())), dtype=np.int64)
            for row, number in enumerate(numbers):
                ids[row, : sizes[row]] = documents.tokens(number)
            yield torch.from_numpy(ids), torch.from_numpy(np.arange(ids.shape[1]) < sizes[:, None])

    def dense(self, length: int = DENSE) -> Iterator[tuple[Tensor, Tensor]]:
        """The same documents end to end, cut into rows of one length, whatever they are cut from."""
        rows = max(1, self.tokens // length)
        for batch in self.batches():
            ids = batch.ids[: rows * length]
            if len(ids) < rows * length:
                ids = ids.repeat(math.ceil(rows * length / len(ids)))[: rows * length]
            yield ids.view(rows, length), torch.ones(rows, length, dtype=torch.bool)

    def attended(self) -> float:
        """Tokens that a token of a global layer attends to on average, when packed."""
        sizes = np.minimum(self.documents().sizes, self.longest).astype(np.float64)
        return float((sizes**2).sum() / sizes.sum())
