"""Quality buckets 1 (lowest) to 4: from a column, or from a score and where it is cut."""

import importlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from euro_lightning.errors import ConfigError, DataError, nearest

BUCKETS = 4

REFERENCE = "reference"
"""Name of the scorer that is trained here; see `euro_lightning.corpora.reference`."""

Scorer = Callable[[Sequence[str]], Sequence[float]]
"""Texts to scores, one each; higher is better."""


@dataclass(frozen=True)
class Reference:
    """The documents that good ones resemble, for the scorer that is trained on them."""

    values: list[str]
    """Values of the column, or patterns with *, whose documents are the reference, for example
    wikipedia*."""

    column: str | None = None
    """The column that is compared; by default the name of the source in this file."""

    documents: int = 20_000
    """Documents of either kind, and of a language, that are learned from at most."""

    characters: int = 4000
    """Characters from the start of a document that are looked at."""

    def problems(self, where: str) -> list[str]:
        """What is wrong with this reference, one line each."""
        found = [] if self.values else [f"{where}.values is empty: name what good documents come from"]
        for name, least in (("documents", 10), ("characters", 100)):
            if getattr(self, name) < least:
                found.append(f"{where}.{name} is {getattr(self, name)}: it must be at least {least}")
        return found


@dataclass(frozen=True)
class Quality:
    """Where the quality bucket of a document comes from."""

    column: str | None = None
    """A column of numbers (with thresholds or quantiles) or of classes (with classes)."""

    classes: dict[str, int] = field(default_factory=dict)
    """The bucket of each class in the column."""

    scorer: str | None = None
    """In place of a column: reference (a classifier of word pairs trained on the documents that
    `reference` names, as DCLM's, Li et al. 2024, section 4.4), or module:function, which takes a list of
    texts and returns a score for each."""

    reference: Reference | None = None
    """The documents that the scorer `reference` learns from."""

    thresholds: list[float] = field(default_factory=list)
    """Three ascending scores; a document's bucket is 1 and one more for each that it reaches."""

    quantiles: list[float] = field(default_factory=list)
    """Three ascending shares of the documents of a language, such as [0.25, 0.5, 0.75], in place of
    thresholds."""

    def problems(self, where: str) -> list[str]:
        """What is wrong with these settings, one line each."""
        found = []
        if (self.column is None) == (self.scorer is None):
            found.append(f"{where}: give a column or a scorer, one of them")
        if self.classes:
            wrong = {
                name: bucket for name, bucket in self.classes.items() if bucket not in range(BUCKETS + 1)
            }
            found += [
                f"{where}.classes.{name} is {bucket}: buckets are 1 to 4, or 0 for none"
                for name, bucket in wrong.items()
            ]
            if self.column is None or self.thresholds or self.quantiles:
                found.append(f"{where}.classes goes with a column, without thresholds and quantiles")
        else:
            found += self._cut_problems(where)
        if (self.scorer == REFERENCE) != (self.reference is not None):
            found.append(f"{where}: the scorer {REFERENCE!r} and `reference` go together")
        if self.scorer not in (None, REFERENCE) and ":" not in str(self.scorer):
            found.append(
                f"{where}.scorer is {self.scorer!r}: it is {REFERENCE!r} or module:function"
                f"{nearest(str(self.scorer), [REFERENCE])}"
            )
        return found + (self.reference.problems(f"{where}.reference") if self.reference else [])

    def _cut_problems(self, where: str) -> list[str]:
        if bool(self.thresholds) == bool(self.quantiles):
            return [f"{where}: give thresholds or quantiles, one of them"]
        name, cuts = ("thresholds", self.thresholds) if self.thresholds else ("quantiles", self.quantiles)
        found = []
        if len(cuts) != BUCKETS - 1:
            found.append(f"{where}.{name} has {len(cuts)} values: three make four buckets")
        if any(low >= high for low, high in itertools.pairwise(cuts)):
            found.append(f"{where}.{name} {cuts} is out of order: each must be above the one before")
        if name == "quantiles" and not all(0 < cut < 1 for cut in cuts):
            found.append(f"{where}.quantiles {cuts}: each lies between 0 and 1")
        return found

    @property
    def noted(self) -> str | None:
        """The column whose value is kept beside each document until it has its bucket."""
        return self.reference.column if self.reference else self.column

    def bucket_of_class(self, value: Any, where: str) -> int:
        """The bucket of a class.

        Raises:
            DataError: the class is not in the list.
        """
        if str(value) not in self.classes:
            raise DataError(f"{where}: class {value!r} is not among the quality classes {list(self.classes)}")
        return self.classes[str(value)]

    def cuts(self, scores: NDArray[np.float64]) -> list[float]:
        """Three scores that part the buckets, given all scores of a language."""
        return self.thresholds or [float(cut) for cut in np.quantile(scores, self.quantiles)]


def buckets(scores: NDArray[np.float64], cuts: Sequence[float]) -> NDArray[np.int8]:
    """Buckets 1 to 4, int8 [N]: one more for each cut that a score reaches; 0 where there is no score."""
    found = 1 + np.searchsorted(np.asarray(cuts), scores, side="right")
    return np.where(np.isnan(scores), 0, found).astype(np.int8)


def load_scorer(name: str) -> Scorer:
    """The function behind module:function.

    Raises:
        ConfigError: there is no such module or function.
    """
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except ImportError as error:
        raise ConfigError(f"quality.scorer {name}: module {module!r} cannot be imported ({error})") from None
    except AttributeError:
        hint = nearest(function, dir(importlib.import_module(module)))
        raise ConfigError(f"quality.scorer {name}: {module} has no {function!r}{hint}") from None
    scorer: Scorer = found
    return scorer
