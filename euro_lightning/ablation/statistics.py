"""What an ablation's numbers support: intervals, paired tests, and what the design could have seen.

Seeds are paired: the same seed has the same data order and masks in every setting, so a difference is taken
seed by seed and what the seeds have in common drops out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

LEVEL = 0.05
"""A difference counts as real when chance alone makes one at least as large less often than this."""

POWER = 0.8
"""How often the smallest effect that a design can see would be seen."""


@dataclass(frozen=True)
class Mean:
    """A mean over seeds with its interval."""

    value: float
    """The mean."""
    half_width: float
    """Half of the interval; not a number for fewer than two seeds."""
    count: int
    """Seeds."""


@dataclass(frozen=True)
class Difference:
    """A setting against the control, seed by seed; positive is better."""

    mean: Mean
    """Mean gain with its 95% interval."""
    gains: tuple[float, ...]
    """The gain of each seed."""
    p: float
    """Two-sided paired t-test; not a number for fewer than two seeds."""
    corrected: float
    """`p` corrected for the number of comparisons (Holm)."""
    most: float
    """Upper end of the interval that holds for all comparisons at once (Bonferroni)."""

    @property
    def real(self) -> bool:
        """Whether chance is ruled out."""
        return self.corrected < LEVEL


def mean_of(values: Sequence[float], level: float = LEVEL) -> Mean:
    """The mean with its interval by Student's t.

    Args:
        values: one for each seed.
        level: how often the interval may miss.
    """
    count = len(values)
    if count < 2:
        return Mean(float(np.mean(values)) if count else math.nan, math.nan, count)
    error = float(np.std(values, ddof=1)) / math.sqrt(count)
    return Mean(float(np.mean(values)), float(stats.t.ppf(1 - level / 2, count - 1)) * error, count)


def paired_p(gains: Sequence[float]) -> float:
    """Two-sided p of a paired t-test (Student 1908): of the mean of differences being zero.

    Equal differences, which have no spread, give 1 when they are zero and 0 when they are not.
    """
    if len(gains) < 2:
        return math.nan
    if np.ptp(gains) == 0:
        return 0.0 if gains[0] else 1.0
    return float(stats.ttest_1samp(gains, 0.0).pvalue)


def holm(ps: Sequence[float]) -> list[float]:
    """p-values corrected so that the chance of any false finding among them stays at the level.

    Holm: A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 1979.
    Those that are not a number stay so and do not count.
    """
    order = sorted((i for i, p in enumerate(ps) if not math.isnan(p)), key=lambda i: ps[i])
    corrected, largest = [math.nan] * len(ps), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * ps[index]))
        corrected[index] = largest
    return corrected


def compare(
    settings: Mapping[str, Mapping[int, float]], control: str, minimize: bool
) -> dict[str, Difference]:
    """Every other setting against the control, over the seeds that both have.

    Args:
        settings: by setting and seed, what was measured.
        control: the setting that others are compared with.
        minimize: whether less is better.

    Returns:
        By setting; those that share no seed with the control are left out.
    """
    base = settings.get(control, {})
    sign = -1.0 if minimize else 1.0
    gains = {
        name: tuple(sign * (own[seed] - base[seed]) for seed in sorted(own.keys() & base.keys()))
        for name, own in settings.items()
        if name != control and own.keys() & base.keys()
    }
    ps = {name: paired_p(own) for name, own in gains.items()}
    corrected = dict(zip(ps, holm(list(ps.values())), strict=True))
    found = {}
    for name, own in gains.items():
        mean = mean_of(own)
        together = mean_of(own, LEVEL / len(gains))
        found[name] = Difference(mean, own, ps[name], corrected[name], mean.value + together.half_width)
    return found


def smallest_effect(gains: Sequence[Sequence[float]], level: float = LEVEL, power: float = POWER) -> float:
    """The difference that a paired t-test over so many seeds would have seen with a given power.

    The spread of the differences is pooled over the comparisons, and each is tested at level / comparisons,
    which is Holm's first step. Power is that of the noncentral t distribution (Cohen: Statistical power
    analysis for the behavioral sciences, 1988, chapter 2).

    Args:
        gains: the differences of each comparison, one for each seed.
        level: of all comparisons together.
        power: how often the effect would be seen.

    Returns:
        Not a number where no comparison has two seeds.
    """
    usable = [own for own in gains if len(own) > 1]
    if not usable:
        return math.nan
    seeds = min(map(len, usable))
    freedom = sum(len(own) - 1 for own in usable)
    spread = math.sqrt(sum(float(np.var(own, ddof=1)) * (len(own) - 1) for own in usable) / freedom)
    critical = float(stats.t.ppf(1 - level / len(usable) / 2, seeds - 1))

    def missing(shift: float) -> float:
        upper = stats.nct.sf(critical, seeds - 1, shift)
        lower = stats.nct.cdf(-critical, seeds - 1, shift)
        return float(upper + np.nan_to_num(lower)) - power

    shift = optimize.brentq(missing, 0.0, 10 * critical + 10)
    return float(shift) * spread / math.sqrt(seeds)
