"""What predictions of a split are worth, over all of it and in each language."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from euro_lightning.evaluation.examples import Item, Search
from euro_lightning.evaluation.metrics import (
    LOWER_IS_BETTER,
    Scores,
    classification_scores,
    regression_scores,
    token_scores,
)
from euro_lightning.evaluation.ranking import search_scores
from euro_lightning.evaluation.task import Task

_BY_ITEM = {
    "macro_f1": "accuracy", "token_f1": "accuracy", "spearman": "mse", "pearson": "mse",
    "entity_precision": "entity_f1", "entity_recall": "entity_f1",
}  # fmt: skip
"""What stands for a metric that no item has by itself where items are compared."""

Items = Sequence[Item] | Search


@dataclass(frozen=True)
class Judgement:
    """Scores of a split."""

    languages: Mapping[str, Mapping[str, float]]
    """The metrics of each language."""
    langs: Sequence[str]
    """Language of each item."""
    each: Mapping[str, Sequence[float]]
    """What each item contributes to the metrics that it has by itself."""

    @property
    def overall(self) -> dict[str, float]:
        """The mean over languages, each counting alike."""
        first = next(iter(self.languages.values()))
        return {name: float(np.mean([own[name] for own in self.languages.values()])) for name in first}

    def items(self, metric: str) -> NDArray[np.float64]:
        """float64 [N]: what items contribute to a metric, or to the nearest that they have; more is better."""
        name = metric if metric in self.each else _BY_ITEM[metric]
        values = np.asarray(self.each[name], dtype=np.float64)
        return -values if name in LOWER_IS_BETTER else values


def score_split(task: Task, items: Items, predictions: Any) -> Judgement:
    """Scores of predictions.

    Args:
        task: what was to be predicted.
        items: a split, N examples, sentences or queries.
        predictions: what `Learner.predict` gives for it.
    """
    if isinstance(items, Search):
        found = search_scores(items, *predictions)
        langs = [query.lang for query in items.queries]
        places = _places(langs)
        languages = {
            lang: {name: float(values[own].mean()) for name, values in found.each.items()}
            for lang, own in places.items()
        }
        return Judgement(languages, langs, _plain(found.each))
    langs = [item.lang for item in items]
    parts = {lang: _scores(task, items, predictions, own) for lang, own in _places(langs).items()}
    each: dict[str, NDArray[np.float64]] = {}
    for lang, own in _places(langs).items():
        for name, values in parts[lang].each.items():
            each.setdefault(name, np.empty(len(langs)))[own] = values
    return Judgement({lang: dict(scores.values) for lang, scores in parts.items()}, langs, _plain(each))


def _places(langs: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    array = np.array(langs)
    return {lang: np.flatnonzero(array == lang) for lang in dict.fromkeys(langs)}


def _plain(each: Mapping[str, NDArray[np.float64]]) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in each.items()}


def _scores(task: Task, items: Sequence[Any], predictions: Any, own: NDArray[np.int64]) -> Scores:
    if task.family == "token_classification":
        labels = [items[index].labels for index in own]
        return token_scores(labels, [predictions[index] for index in own], task.label_names)
    targets = np.array([items[index].target for index in own])
    if task.family == "regression":
        return regression_scores(targets, np.asarray(predictions)[own])
    return classification_scores(targets.astype(np.int64), np.asarray(predictions)[own].argmax(1))
