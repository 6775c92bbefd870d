"""Scores of retrieval, as trec_eval defines them."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from euro_lightning.errors import DataError
from euro_lightning.evaluation.examples import Search, Text
from euro_lightning.evaluation.metrics import METRICS, Scores

DEPTH = 100
"""How far down a ranking the metrics look."""

_QUERIES = 256
"""Queries compared with all documents at once."""


def search_scores(search: Search, queries: NDArray[np.float32], documents: NDArray[np.float32]) -> Scores:
    """Scores of vectors by their cosine.

    Args:
        search: what is searched, and what is relevant.
        queries: float32 [Q, H], a vector of each query of `search`, in order; any length but 0.
        documents: float32 [D, H], likewise of each document.

    Returns:
        ndcg@10, mrr@10, recall@10 and recall@100, of all queries and of each.

    Raises:
        DataError: a vector holds what is no number, or there is no query.
    """
    left, right = _unit(queries, "query"), _unit(documents, "document")
    parts: list[tuple[NDArray[np.int64], Scores]] = []
    for asked, searched in candidates(search):
        texts = [search.documents[index] for index in searched]
        among = right[searched]
        for start in range(0, len(asked), _QUERIES):
            block = asked[start : start + _QUERIES]
            rows = [search.queries[index].row for index in block]
            relevant = [search.relevant[row] for row in rows]
            parts.append((block, ranking_scores(left[block] @ among.T, texts, relevant)))
    if not parts:
        raise DataError("nothing to score: there is no query")
    order = np.argsort(np.concatenate([block for block, _ in parts]))
    each = {
        name: np.concatenate([scores.each[name] for _, scores in parts])[order]
        for name in METRICS["retrieval"]
    }
    return Scores(_means(each), each)


def candidates(search: Search) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Indices of queries (int64 [q]), and those of the documents that they are compared with (int64 [d])."""
    if not search.within_language:
        yield np.arange(len(search.queries)), np.arange(len(search.documents))
        return
    asked = np.array([query.lang for query in search.queries])
    searched = np.array([document.lang for document in search.documents])
    for lang in dict.fromkeys(asked.tolist()):
        yield np.flatnonzero(asked == lang), np.flatnonzero(searched == lang)


def ranking_scores(
    similarities: NDArray[np.float32],
    documents: Sequence[Text],
    relevant: Sequence[Mapping[str, int]],
) -> Scores:
    """Scores of similarities.

    nDCG takes the grade itself as gain and divides by log2(rank + 1) (Järvelin, Kekäläinen:
    Cumulated gain-based evaluation of IR techniques, 2002), as trec_eval's ndcg_cut does.
    Reciprocal rank is 0 beyond rank 10.

    Args:
        similarities: float32 [Q, D], the higher the more similar.
        documents: the D documents.
        relevant: for each query its relevant documents and their grades, at least one above 0.
    """
    top = ranked(similarities, [document.row for document in documents], DEPTH)
    place = {document.row: index for index, document in enumerate(documents)}
    gains = np.zeros((len(relevant), DEPTH))
    ideal = np.zeros((len(relevant), 10))
    number = np.zeros(len(relevant))
    for query, judged in enumerate(relevant):
        grades = {place.get(row, -1): grade for row, grade in judged.items() if grade > 0}
        for index, grade in grades.items():
            gains[query, np.flatnonzero(top[query] == index)] = grade
        best = sorted((grade for grade in judged.values() if grade > 0), reverse=True)
        ideal[query, : len(best[:10])] = best[:10]
        number[query] = len(best)
    discount = 1 / np.log2(np.arange(10) + 2)
    hits = gains > 0
    first = np.where(hits[:, :10].any(axis=1), hits[:, :10].argmax(axis=1) + 1, np.inf)
    each = {
        "ndcg@10": (gains[:, :10] * discount).sum(axis=1) / (ideal * discount).sum(axis=1),
        "mrr@10": 1 / first,
        "recall@10": hits[:, :10].sum(axis=1) / number,
        "recall@100": hits.sum(axis=1) / number,
    }
    return Scores(_means(each), each)


def ranked(similarities: NDArray[np.float32], rows: Sequence[str], depth: int) -> NDArray[np.int64]:
    """The most similar documents; of equally similar ones, the one whose row is later in the alphabet.

    That is trec_eval's order: similarities as 32-bit numbers, ties by the bytes of the row.

    Args:
        similarities: float32 [Q, D].
        rows: the D documents' rows, all different.
        depth: how many are wanted.

    Returns:
        int64 [Q, min(depth, D)], indices of documents, the most similar first.

    Raises:
        DataError: a similarity is no number.
    """
    scores = np.asarray(similarities, dtype=np.float32) + np.float32(0)  # so that -0 equals 0
    if np.isnan(scores).any():
        raise DataError("a similarity is not a number: the encoder's vectors are damaged")
    later = np.empty(len(rows), dtype=np.int64)
    later[sorted(range(len(rows)), key=lambda index: rows[index].encode())] = np.arange(len(rows))
    # bits of a 32-bit float, in the order of the numbers; the low half tells ties apart
    bits = scores.view(np.int32)
    keys = (np.where(bits < 0, bits ^ 0x7FFFFFFF, bits).astype(np.int64) << 32) | later
    depth = min(depth, len(rows))
    best = np.argpartition(keys, len(rows) - depth, axis=1)[:, len(rows) - depth :]
    order = np.argsort(-np.take_along_axis(keys, best, axis=1), axis=1)
    return np.take_along_axis(best, order, axis=1)


def _unit(vectors: NDArray[np.float32], what: str) -> NDArray[np.float32]:
    vectors = np.asarray(vectors, dtype=np.float32)
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise DataError(f"the vector of {what} {int(bad[0]) + 1} holds what is not a finite number")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = vectors / np.maximum(norms, np.float32(1e-12))
    return unit


def _means(each: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    return {name: float(values.mean()) for name, values in each.items()}
