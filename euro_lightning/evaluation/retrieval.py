"""Queries and the documents that answer them: vectors whose cosine says how well.

Q queries, M different documents in a batch, S sequences, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize
from torch.utils.checkpoint import checkpoint

from euro_lightning.encoder.attention import Segments
from euro_lightning.errors import DataError
from euro_lightning.evaluation.batches import Batch, pack_sequences
from euro_lightning.evaluation.encoding import Encoded, Ids
from euro_lightning.evaluation.examples import Pair, Search, Text
from euro_lightning.evaluation.heads import pool
from euro_lightning.evaluation.learner import Learner
from euro_lightning.keys import key_of

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class PreparedPairs:
    """Queries and documents as token ids; equal documents are one."""

    encoded: Encoded
    """The queries, then the documents."""
    positives: list[int]
    """Number of the sequence that answers each query."""
    negatives: list[int | None]
    """Number of one that does not."""

    @property
    def cut(self) -> int:
        """How many sequences were too long and are cut."""
        return self.encoded.cut

    def __len__(self) -> int:
        return len(self.positives)


@dataclass(frozen=True)
class PreparedSearch:
    """Queries and the documents that are searched, as token ids."""

    queries: Encoded
    documents: Encoded

    @property
    def cut(self) -> int:
        """How many sequences were too long and are cut."""
        return self.queries.cut + self.documents.cut

    def __len__(self) -> int:
        return len(self.queries.ids)


class Retriever(Learner):
    """Learns vectors by InfoNCE (van den Oord et al. 2018), with the documents of the whole batch.

    Every query is compared with every different document of the batch, the hard negatives among
    them; a document that answers several queries of the batch is never a negative of one of them.
    """

    def prepare(self, items: Sequence[Pair] | Search) -> PreparedPairs | PreparedSearch:
        """Queries and documents as token ids."""
        if isinstance(items, Search):
            queries, documents = items.queries, items.documents
            return PreparedSearch(self._encode(queries), self._encode(documents))
        return self._prepare_pairs(items)

    def _prepare_pairs(self, items: Sequence[Pair]) -> PreparedPairs:
        documents: dict[str, int] = {}
        for item in items:
            for text in (item.positive, item.negative):
                if text is not None:
                    documents.setdefault(text, len(items) + len(documents))
        texts = [(item.query,) for item in items]
        texts += [(text,) for text in documents]
        rows = [item.row for item in items] + [f"of the document {text[:40]!r}" for text in documents]
        return PreparedPairs(
            self.encoding.texts(texts, rows),
            [documents[item.positive] for item in items],
            [None if item.negative is None else documents[item.negative] for item in items],
        )

    def batch(self, prepared: PreparedPairs, chosen: Sequence[int]) -> Batch:
        """Queries, then documents; int64 [Q] which of the documents answers each query."""
        places: dict[int, int] = {}
        wanted = [places.setdefault(prepared.positives[each], len(places)) for each in chosen]
        for each in chosen:
            negative = prepared.negatives[each]
            if negative is not None:
                places.setdefault(negative, len(places))
        ids = prepared.encoded.ids
        return pack_sequences([ids[each] for each in (*chosen, *places)], torch.tensor(wanted))

    def vectors(self, ids_T: Tensor, segments: Segments, key: int | None = None) -> Tensor:
        """Vectors of length 1, float32 [S, D]."""
        states = self.body(ids_T, segments, key)
        return normalize(pool(states, segments, self.protocol.pooling), dim=1)

    def loss(self, batch: Batch, key: int) -> Tensor:
        """Mean over the queries, in nats."""
        vectors = self._vectors_in_parts(batch, key)
        queries = len(batch.targets)
        cosines = vectors[:queries] @ vectors[queries:].T
        return cross_entropy(cosines.float() / self.protocol.temperature, batch.targets)

    def _vectors_in_parts(self, batch: Batch, key: int) -> Tensor:
        """All vectors, float32 [S, D].

        With mini-batches only vectors are kept, and the states of one mini-batch at a time are made
        again backward, which is what GradCache does (Gao et al. 2021); dropout is keyed, so that
        they are the same.
        """
        size = self.protocol.mini_batch
        if size is None or size >= len(batch.segments.lengths):
            return self.vectors(batch.ids, batch.segments, key)
        lengths = batch.segments.lengths
        parts = [lengths[start : start + size] for start in range(0, len(lengths), size)]
        pieces = torch.split(batch.ids, [sum(part) for part in parts])
        vectors = [
            checkpoint(
                self.vectors,
                piece,
                Segments.from_lengths(part, batch.ids.device),
                key_of(key, number),
                use_reentrant=False,
                preserve_rng_state=False,
            )
            for number, (piece, part) in enumerate(zip(pieces, parts, strict=True))
        ]
        return torch.cat([vector for vector in vectors if isinstance(vector, Tensor)])

    def predict(self, prepared: PreparedPairs | PreparedSearch) -> tuple[Vectors, Vectors]:
        """Vectors of the queries, float32 [Q, D], and of the documents, float32 [N, D].

        Of pairs, the documents are those that answer the queries, in their order.
        """
        if isinstance(prepared, PreparedSearch):
            return self._vectors_of(prepared.queries.ids), self._vectors_of(prepared.documents.ids)
        vectors = self._vectors_of(prepared.encoded.ids)
        return vectors[: len(prepared)], vectors[prepared.positives]

    def embed(self, texts: Sequence[Text]) -> Vectors:
        """Vectors of length 1, float32 [S, D], of an encoder that was fine-tuned or not.

        Args:
            texts: queries or documents, with their prefixes.

        Raises:
            DataError: there is no text, or one is too long with cut refuse.
        """
        if not texts:
            raise DataError("there is no text to encode")
        return self._vectors_of(self._encode(texts).ids)

    def _encode(self, texts: Sequence[Text]) -> Encoded:
        return self.encoding.texts([(each.text,) for each in texts], [each.row for each in texts])

    def _vectors_of(self, sequences: Sequence[Ids]) -> Vectors:
        rows = self.over(sequences, lambda batch, _: self.vectors(batch.ids, batch.segments).cpu().unbind())
        return torch.stack(rows).numpy()
