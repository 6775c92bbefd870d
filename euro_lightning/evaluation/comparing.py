"""What results of several encoders say of them: intervals, paired tests, ranks."""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from euro_lightning.evaluation.judging import Result

LEVEL = 0.05
"""A difference is real when one at least as large had less probability than this by chance."""


def half_width(values: Sequence[float]) -> float:
    """Half of the 95% interval of the mean by Student's t; not a number for fewer than two values."""
    from scipy import stats

    if len(values) < 2:
        return math.nan
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return float(stats.t.ppf(0.975, len(values) - 1)) * error


def paired_p(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Probability of such a difference by chance: paired t-test, two-sided, over items.

    Args:
        first: float64 [N], what each item contributes.
        second: float64 [N], the same items by another encoder.
    """
    from scipy import stats

    difference = first - second
    if len(difference) < 2 or np.ptp(difference) == 0:
        return 1.0 if not difference.any() or len(difference) < 2 else 0.0
    return float(stats.ttest_rel(first, second).pvalue)


def items_of(result: Result, lang: str | None = None) -> NDArray[np.float64]:
    """float64 [N]: what items contribute, as the mean over seeds; of one language or of all."""
    items: NDArray[np.float64] = np.mean([test.items(result.metric) for test in result.tests], axis=0)
    return items if lang is None else items[np.array(result.tests[0].langs) == lang]


def ranks(results: Sequence[Result], lang: str, higher_is_better: bool) -> dict[str, float]:
    """Rank of each encoder in a language of a task, 1 the best.

    From the best down, an encoder that no paired test tells from the best of the group above joins
    it, and encoders of a group share the mean of their places (EuroBERT, section 3.1: clusters at
    p < 0.05).
    """
    means = {result.encoder: float(np.mean(result.of_language(lang))) for result in results}
    order = sorted(results, key=lambda result: means[result.encoder], reverse=higher_is_better)
    groups: list[list[Result]] = []
    for result in order:
        if groups and paired_p(items_of(groups[-1][0], lang), items_of(result, lang)) >= LEVEL:
            groups[-1].append(result)
        else:
            groups.append([result])
    found, place = {}, 1
    for group in groups:
        for result in group:
            found[result.encoder] = place + (len(group) - 1) / 2
        place += len(group)
    return found


def average_ranks(
    results: Mapping[str, Sequence[Result]], higher_is_better: Mapping[str, bool]
) -> dict[str, float]:
    """Mean rank over tasks, in each the mean over its languages (Borda's count, told as a place).

    Args:
        results: of each task, those of all encoders.
        higher_is_better: by task, of its main metric.
    """
    by_task = []
    for task, own in results.items():
        places = [ranks(own, lang, higher_is_better[task]) for lang in own[0].languages]
        by_task.append({name: float(np.mean([place[name] for place in places])) for name in places[0]})
    return {name: float(np.mean([places[name] for places in by_task])) for name in by_task[0]}


def differences(results: Sequence[Result]) -> list[dict[str, object]]:
    """Every pair of encoders on a task: how far the first is above the second, and by what chance."""
    return [
        {
            "task": first.task, "first": first.encoder, "second": second.encoder,
            "difference": float(np.mean(first.values()) - np.mean(second.values())),
            "p": paired_p(items_of(first), items_of(second)),
        }
        for first, second in itertools.combinations(results, 2)
    ]  # fmt: skip


EDGES = (0, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Tokens at which a new group of lengths begins."""


def by_length(result: Result) -> list[tuple[int, int, float, float]]:
    """Score against length: first length of the group, items, mean, half of its 95% interval over items."""
    lengths, items = np.array(result.lengths), items_of(result)
    found = []
    for start, end in zip(EDGES, (*EDGES[1:], 1 << 30), strict=True):
        own = items[(lengths >= start) & (lengths < end)]
        if len(own):
            found.append((start, len(own), float(own.mean()), half_width(own.tolist())))
    return found
