"""Scores of predictions: classification, regression, and labels of words.

Every function returns `Scores`: the metrics, and what each item contributes, for paired tests.
Higher is better, except in `LOWER_IS_BETTER`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from euro_lightning.errors import DataError
from euro_lightning.evaluation.entities import Entity, entities_of

LOWER_IS_BETTER = frozenset({"mse"})
"""Metrics that are to be small."""

METRICS: dict[str, tuple[str, ...]] = {
    "classification": ("accuracy", "macro_f1"),
    "regression": ("spearman", "pearson", "mse"),
    "token_classification": (
        "entity_f1", "entity_precision", "entity_recall", "token_f1", "accuracy", "macro_f1",
    ),
    "retrieval": ("ndcg@10", "mrr@10", "recall@10", "recall@100"),
}  # fmt: skip
"""The metrics of each family of tasks."""


@dataclass(frozen=True)
class Scores:
    """What predictions are worth."""

    values: Mapping[str, float]
    """Each metric over all items."""
    each: Mapping[str, NDArray[np.float64]]
    """float64 [N] for metrics that an item has by itself, in the order of the items."""


def classification_scores(targets: NDArray[np.int64], predictions: NDArray[np.int64]) -> Scores:
    """Accuracy, and F1 averaged over the labels that occur in targets or predictions.

    Args:
        targets: int64 [N], indices of the right labels.
        predictions: int64 [N], indices of the predicted ones.

    Returns:
        accuracy and macro_f1; for each item whether it is right (1 or 0), as accuracy.

    Raises:
        DataError: there is no item.
    """
    _check(targets, predictions)
    right = targets == predictions
    return Scores(
        {"accuracy": float(right.mean()), "macro_f1": _macro_f1(targets, predictions)},
        {"accuracy": right.astype(np.float64)},
    )


def regression_scores(targets: NDArray[np.float64], predictions: NDArray[np.float64]) -> Scores:
    """Rank correlation, linear correlation and mean squared error.

    A correlation with something constant is not defined; it counts as 0, for such predictions say
    nothing. Equal values share the mean of their ranks.

    Args:
        targets: float [N].
        predictions: float [N].

    Returns:
        spearman, pearson and mse; for each item its squared error, as mse.

    Raises:
        DataError: there is no item, or a prediction is not a finite number.
    """
    _check(targets, predictions)
    if not np.isfinite(predictions).all():
        raise DataError(f"item {int(np.flatnonzero(~np.isfinite(predictions))[0]) + 1}: no finite prediction")
    targets, predictions = targets.astype(np.float64), predictions.astype(np.float64)
    errors = (targets - predictions) ** 2
    return Scores(
        {
            "spearman": _correlation(_ranks(targets), _ranks(predictions)),
            "pearson": _correlation(targets, predictions),
            "mse": float(errors.mean()),
        },
        {"mse": errors},
    )


def token_scores(
    targets: Sequence[Sequence[int]], predictions: Sequence[Sequence[int]], names: Sequence[str]
) -> Scores:
    """Scores of labelled words; those of entities where labels begin with B- and I-.

    `entity_f1`, `entity_precision` and `entity_recall` count whole entities, all types together,
    as seqeval does by default and CoNLL-2003 did: an entity is right when its type and both ends
    are. They are 0 where there is nothing to find or nothing is found.

    `token_f1` is what the EuroBERT paper reports: F1 of single words, micro-averaged over the
    labels that are predicted anywhere. The outside label is one of them, and nearly always right,
    so it lies far above entity_f1 and must not be compared with it.

    Args:
        targets: for each sentence, the indices of the words' right labels.
        predictions: those of the predicted labels, as many.
        names: the label of each index.

    Returns:
        The metrics; for each sentence the share of its words that are right, as accuracy, and its
        own entity_f1, 1 where it has no entity and none is predicted.

    Raises:
        DataError: there is no word, or a sentence has other numbers of targets and predictions.
    """
    for number, (right, found) in enumerate(zip(targets, predictions, strict=True), 1):
        if len(right) != len(found):
            raise DataError(f"sentence {number} has {len(right)} words and {len(found)} predictions")
    true = np.array([label for sentence in targets for label in sentence], dtype=np.int64)
    predicted = np.array([label for sentence in predictions for label in sentence], dtype=np.int64)
    _check(true, predicted)
    hits = int((true == predicted).sum())
    among_predicted = int(np.isin(true, predicted).sum())
    values = {
        "accuracy": hits / len(true),
        "macro_f1": _macro_f1(true, predicted),
        "token_f1": 2 * hits / (len(true) + among_predicted),
    }
    each = {
        "accuracy": np.array(
            [np.mean(np.equal(right, found)) for right, found in zip(targets, predictions, strict=True)]
        )
    }
    if any(name.startswith(("B-", "I-")) for name in names):
        wanted = [entities_of([names[label] for label in sentence]) for sentence in targets]
        given = [entities_of([names[label] for label in sentence]) for sentence in predictions]
        counts = np.array([_counts(w, g) for w, g in zip(wanted, given, strict=True)], dtype=np.int64)
        found, meant, common = counts.sum(axis=0).tolist()
        values |= {
            "entity_f1": _ratio(2 * common, found + meant),
            "entity_precision": _ratio(common, found),
            "entity_recall": _ratio(common, meant),
        }
        total = counts[:, 0] + counts[:, 1]
        each["entity_f1"] = np.where(total == 0, 1.0, 2 * counts[:, 2] / np.maximum(total, 1))
    return Scores(values, each)


def _counts(wanted: set[Entity], given: set[Entity]) -> tuple[int, int, int]:
    return len(given), len(wanted), len(wanted & given)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _check(targets: NDArray[np.generic], predictions: NDArray[np.generic]) -> None:
    if targets.shape != predictions.shape:
        raise DataError(f"{len(targets)} targets and {len(predictions)} predictions")
    if not len(targets):
        raise DataError("nothing to score: there is no item")


def _macro_f1(targets: NDArray[np.int64], predictions: NDArray[np.int64]) -> float:
    size = int(max(targets.max(), predictions.max())) + 1
    hits = np.bincount(targets[targets == predictions], minlength=size)
    total = np.bincount(targets, minlength=size) + np.bincount(predictions, minlength=size)
    occurs = total > 0
    return float((2 * hits[occurs] / total[occurs]).mean())


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank of each value; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: NDArray[np.float64] = (last - (counts - 1) / 2)[inverse]
    return mean


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Pearson's correlation, 0 where one of both is constant."""
    if (first == first[0]).all() or (second == second[0]).all():
        return 0.0
    # scaled first: squares of very small or large values would vanish or overflow
    left, right = (_centred(values) for values in (first, second))
    norms = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(np.clip(left @ right / norms, -1, 1)) if norms else 0.0


def _centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
    centred: NDArray[np.float64] = values - values.mean()
    largest = float(np.abs(centred).max())
    return centred / largest if largest else centred
