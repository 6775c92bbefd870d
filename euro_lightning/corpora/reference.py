"""A quality score: how much a document reads like reference documents.

In the manner of DCLM (Li et al. 2024, section 4.4 and appendix E.4), which trains a linear
classifier of hashed words and word pairs to tell reference documents from the rest. Here one is
trained per language, by logistic regression, and cross-fitted: documents are halved by a hash of
their id, and each half is scored by the classifier of the other half, so that no document is scored
by one that has seen it. How well the score tells them apart (AUC) is therefore held out, too.

Only the first characters of a document are looked at, and its vector has unit length.
"""

import heapq
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from euro_lightning.corpora.quality import Reference
from euro_lightning.corpora.words import words
from euro_lightning.data.documents import fraction
from euro_lightning.errors import DataError
from euro_lightning.files import atomic_path

_FEATURES = 1 << 18
_REGULARISATION = 10.0
"""Inverse strength of the L2 penalty; the vectors have unit length, so that weights must be large."""

_LEAST = 5
"""Documents of either kind without which nothing can be learned or judged."""


def is_reference(value: str | None, reference: Reference) -> bool:
    """Whether a document with that value belongs to the reference."""
    return value is not None and any(fnmatch(value, pattern) for pattern in reference.values)


def half(doc_id: str) -> int:
    """Which half a document belongs to: 0 or 1."""
    return int(fraction(f"half {doc_id}") < 0.5)


def _pairs(text: str) -> list[str]:
    found = [word.casefold() for word in words(text)]
    return found + [f"{first} {second}" for first, second in itertools.pairwise(found)]


def _vectors(texts: Sequence[str], characters: int) -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(analyzer=_pairs, n_features=_FEATURES, alternate_sign=False, dtype=np.float32)
    return hashing.transform([text[:characters] for text in texts])


@dataclass(frozen=True)
class ReferenceScorer:
    """Two linear classifiers, each trained on one half of a language's documents."""

    weights: NDArray[np.float32]
    """float32 [2, features + 1]: by the half that it scores; the last is the intercept."""
    characters: int
    auc: float
    """Area under the curve, reference against the rest, on documents not trained on."""
    documents: tuple[int, int]
    """Reference and other documents learned from."""

    def scores(self, texts: Sequence[str], doc_ids: Sequence[str]) -> NDArray[np.float64]:
        """The log odds of each document to be a reference, float64 [N]."""
        return _odds(_vectors(texts, self.characters), self.weights, np.array([half(d) for d in doc_ids]))

    def save(self, path: Path) -> None:
        """Writes safetensors, atomically."""
        from safetensors.numpy import save_file

        facts = {"characters": self.characters, "auc": self.auc, "documents": self.documents}
        with atomic_path(path) as temporary:
            save_file({"weights": self.weights}, temporary, metadata={"facts": json.dumps(facts)})

    @classmethod
    def load(cls, path: Path) -> "ReferenceScorer":
        """Reads what `save` wrote."""
        from safetensors import safe_open

        with safe_open(path, "np") as file:
            facts = json.loads(file.metadata()["facts"])
            return cls(
                file.get_tensor("weights"), facts["characters"], facts["auc"], tuple(facts["documents"])
            )


def _odds(vectors: Any, weights: NDArray[np.float32], halves: NDArray[Any]) -> NDArray[np.float64]:
    odds = vectors @ weights[:, :-1].T.astype(np.float64) + weights[:, -1]
    return np.asarray(odds[np.arange(len(halves)), halves], dtype=np.float64)


def sample(
    documents: Iterable[tuple[str, str, bool]], reference: Reference
) -> tuple[list[str], list[str], list[bool]]:
    """The documents to learn from: of either kind those with the smallest hashes.

    Args:
        documents: doc_id, text, and whether it is a reference, of each document of a language.
        reference: how many are taken.

    Returns:
        doc_ids, texts and kinds, in the order of the hashes.
    """
    heaps: dict[bool, list[tuple[float, str, str]]] = {True: [], False: []}
    for doc_id, text, kind in documents:
        heapq.heappush(heaps[kind], (-fraction(f"sample {doc_id}"), doc_id, text[: reference.characters]))
        if len(heaps[kind]) > reference.documents:
            heapq.heappop(heaps[kind])
    chosen = sorted((-h, doc_id, text, kind) for kind, heap in heaps.items() for h, doc_id, text in heap)
    return [c[1] for c in chosen], [c[2] for c in chosen], [c[3] for c in chosen]


def train(
    doc_ids: Sequence[str], texts: Sequence[str], kinds: Sequence[bool], reference: Reference, language: str
) -> ReferenceScorer:
    """Trains the scorer of one language.

    Raises:
        DataError: there are too few documents of either kind.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    labels = np.array(kinds, dtype=bool)
    halves = np.array([half(doc_id) for doc_id in doc_ids], dtype=np.int64)
    for kind, count in (("reference", labels.sum()), ("other", (~labels).sum())):
        if count < _LEAST or any(np.unique(labels[halves == h]).size < 2 for h in (0, 1)):
            where = f"column {reference.column!r}" if reference.column else "the name of the source"
            raise DataError(
                f"quality of {language!r}: {count} {kind} documents, at least {_LEAST} are needed;"
                f" reference are those where {where} matches {', '.join(reference.values)}"
            )
    vectors = _vectors(texts, reference.characters)
    weights = np.zeros((2, _FEATURES + 1), dtype=np.float32)
    for scored in (0, 1):
        model = LogisticRegression(C=_REGULARISATION, class_weight="balanced", max_iter=300)
        model.fit(vectors[halves != scored], labels[halves != scored])
        weights[scored, :-1], weights[scored, -1] = model.coef_[0], model.intercept_[0]
    auc = float(roc_auc_score(labels, _odds(vectors, weights, halves)))
    return ReferenceScorer(weights, reference.characters, auc, (int(labels.sum()), int((~labels).sum())))
