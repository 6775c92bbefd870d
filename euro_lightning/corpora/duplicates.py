"""Exact and near duplicates: which documents say what another has said already.

Signatures and the search for pairs are datatrove's MinHash (Broder 1997; the bands of FineWeb,
Penedo et al. 2024, section 3.4). Which document of a group of duplicates is kept is decided here:
the first in the order of the corpus, whatever the number of processes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from euro_lightning.corpora.words import word_tokenizer


@dataclass(frozen=True)
class Duplicates:
    """Which documents count as the same; the first of them, in the order of the sources, is kept."""

    kind: Literal["none", "exact", "near"] = "none"
    """none keeps all; exact compares whole texts; near compares sets of word sequences (MinHash)."""

    across: bool = True
    """Whether documents of different sources are compared, or those of the same source only."""

    words: int = 5
    """Words in a sequence (shingle) of the near comparison; shorter documents are compared whole."""

    bands: int = 14
    """Groups of hashes; two documents that agree in all hashes of one group count as the same."""

    hashes: int = 8
    """Hashes in a band. Two documents of Jaccard similarity s are found with the probability
    1 - (1 - s^hashes)^bands: 0.05 at 0.5, 0.56 at 0.7, 0.92 at 0.8, 0.99 at 0.85."""

    def problems(self, where: str) -> list[str]:
        """What is wrong with these settings, one line each."""
        return [
            f"{where}.{name} is {getattr(self, name)}: it must be at least 1"
            for name in ("words", "bands", "hashes")
            if getattr(self, name) < 1
        ]

    def minhash(self) -> Any:
        """The same as datatrove's configuration; whole texts are one band of one hash."""
        from datatrove.pipeline.dedup.minhash import MinhashConfig

        if self.kind == "exact":
            return MinhashConfig(n_grams=self.words, num_buckets=1, hashes_per_bucket=1)
        return MinhashConfig(n_grams=self.words, num_buckets=self.bands, hashes_per_bucket=self.hashes)


@cache
def _signature_class() -> Any:
    from datatrove.pipeline.dedup.minhash import MinhashDedupSignature
    from datatrove.utils.text import ngrams, simplify_text

    class Signatures(MinhashDedupSignature):  # type: ignore[misc]
        def __init__(self, folder: str, rule: Duplicates) -> None:
            super().__init__(folder, rule.minhash(), word_tokenizer())
            self.rule = rule

        def get_shingles(self, text: str) -> NDArray[np.uint64]:
            # what stands before the first line feed keeps sources apart
            salt, _, text = text.partition("\n")
            parts = [text]
            if self.rule.kind == "near":
                words = self.word_tokenizer.word_tokenize(simplify_text(text, self.config.norm_config))
                parts = [" ".join(part) for part in ngrams(words, self.rule.words)] or [" ".join(words)]
            hashes = {self._hash_func(f"{salt}\n{part}".encode()) for part in parts}
            return np.fromiter(hashes, dtype=np.uint64, count=len(hashes)).reshape(-1, 1)

    return Signatures


def write_signatures(texts: Iterable[tuple[str, str]], rule: Duplicates, folder: Path, rank: int) -> None:
    """Writes the signatures of a shard's documents.

    Args:
        texts: name of the source and text of each document, in order.
        rule: what counts as the same.
        folder: where all shards write.
        rank: number of the shard.
    """
    from datatrove.data import Document

    documents = (
        Document(text=f"{'' if rule.across else source}\n{text}", id=str(number))
        for number, (source, text) in enumerate(texts)
    )
    _signature_class()(str(folder), rule).run(documents, rank, 1)


def write_pairs(rule: Duplicates, signatures: Path, pairs: Path, band: int) -> None:
    """Writes the pairs of documents that agree in one band."""
    from datatrove.pipeline.dedup.minhash import MinhashDedupBuckets

    config = rule.minhash()
    step = MinhashDedupBuckets(str(signatures), str(pairs), config=config, lines_to_buffer=1000)
    step.run(None, band, config.num_buckets)


def duplicates_of(pairs: Path) -> dict[int, NDArray[np.uint32]]:
    """The documents to drop, by number of their shard: all of a group but its first.

    A group is what pairs connect, directly or through others.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    files = sorted(pairs.glob("*.dups"))
    found = [np.fromfile(file, dtype="<u4").reshape(-1, 4).astype(np.int64) for file in files]
    edges = np.concatenate([*found, np.zeros((0, 4), dtype=np.int64)])
    places = (edges[:, [0, 2]] << 32) | edges[:, [1, 3]]
    nodes, ends = np.unique(places, return_inverse=True)
    if not len(nodes):
        return {}
    left, right = ends.reshape(-1, 2).T
    graph = coo_array((np.ones(len(left), dtype=bool), (left, right)), shape=(len(nodes), len(nodes)))
    _, group = connected_components(graph, directed=False)
    _, firsts = np.unique(group, return_index=True)  # nodes are sorted, so the first is the earliest
    dropped = np.delete(nodes, firsts)
    shards = dropped >> 32
    return {int(s): (dropped[shards == s] & 0xFFFFFFFF).astype(np.uint32) for s in np.unique(shards)}
