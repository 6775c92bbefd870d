"""The report's statistics against scipy, statsmodels and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats import multitest

from euro_lightning.ablation.statistics import compare, holm, mean_of, paired_p, smallest_effect

VALUES = st.lists(st.floats(-100, 100).filter(lambda x: abs(x) > 1e-3 or x == 0), min_size=2, max_size=12)


@given(VALUES)
def test_the_interval_is_scipy_s(values: list[float]) -> None:
    mean = mean_of(values)
    error = stats.sem(values)
    if error > 1e-9:
        low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=error)
        assert (mean.value - mean.half_width, mean.value + mean.half_width) == pytest.approx((low, high))


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=2, max_size=12))
def test_the_paired_test_is_scipy_s(pairs: list[tuple[float, float]]) -> None:
    first, second = (np.array(column) for column in zip(*pairs, strict=True))
    if np.std(first - second) > 1e-6:
        assert paired_p(list(first - second)) == pytest.approx(
            stats.ttest_rel(first, second).pvalue, rel=1e-6
        )


def test_differences_without_spread() -> None:
    assert paired_p([0.0, 0.0]) == 1.0 and paired_p([0.5, 0.5]) == 0.0
    assert math.isnan(paired_p([0.5])) and math.isnan(mean_of([0.5]).half_width)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_statsmodels(ps: list[float]) -> None:
    assert holm(ps) == pytest.approx(multitest.multipletests(ps, method="holm")[1].tolist())


def test_what_was_not_tested_does_not_count() -> None:
    assert holm([0.01, math.nan, 0.04])[::2] == [0.02, 0.04]
    assert math.isnan(holm([0.01, math.nan])[1])


@settings(deadline=None, max_examples=20)
@given(st.integers(3, 20), st.floats(0.1, 10))
def test_the_smallest_effect_is_statsmodels(seeds: int, spread: float) -> None:
    power = pytest.importorskip("statsmodels.stats.power")
    gains = np.random.default_rng(0).normal(size=seeds)
    gains = (gains - gains.mean()) / gains.std(ddof=1) * spread
    expected = power.TTestPower().solve_power(nobs=seeds, alpha=0.05, power=0.8) * spread
    assert smallest_effect([list(gains)]) == pytest.approx(expected, rel=1e-3)


def simulated(
    rng: np.random.Generator, effects: dict[str, float], seeds: int = 4
) -> dict[str, dict[int, float]]:
    """Settings that share the luck of a seed, as paired runs do, and have some of their own."""
    luck = rng.normal(0, 1, seeds)
    return {
        name: {seed: float(effect + luck[seed] + rng.normal(0, 0.1)) for seed in range(seeds)}
        for name, effect in effects.items()
    }


def test_false_findings_are_as_rare_as_promised_and_intervals_cover() -> None:
    rng = np.random.default_rng(1)
    found = covered = 0
    for _ in range(400):
        made = compare(simulated(rng, {"control": 0, "a": 0, "b": 0, "c": 0}), "control", minimize=True)
        found += any(difference.real for difference in made.values())
        mean = made["a"].mean
        covered += abs(mean.value) <= mean.half_width
    # 400 draws: one standard error is 1.1%; comparisons share their control, so Holm is below its 5%
    assert found / 400 < 0.05 + 3 * 0.011
    assert covered / 400 == pytest.approx(0.95, abs=3 * 0.011)


def test_pairing_finds_what_the_luck_of_seeds_would_hide() -> None:
    rng = np.random.default_rng(2)
    made = simulated(rng, {"control": 0, "better": -1.0, "same": 0.0}, seeds=5)
    differences = compare(made, "control", minimize=True)
    assert differences["better"].mean.value == pytest.approx(1, abs=0.2) and differences["better"].real
    assert not differences["same"].real
    unpaired = stats.ttest_ind(list(made["better"].values()), list(made["control"].values())).pvalue
    assert unpaired > 0.05
    assert compare(made, "control", minimize=False)["better"].mean.value < 0


def test_the_smallest_effect_is_seen_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    effect = smallest_effect([list(rng.normal(0, 1, 2000)) for _ in range(2)])
    # the spread of 1 is known well from 2,000; with 6 seeds the effect is larger
    draws = rng.normal(effect, 1, (400, 2000)).mean(1) / (1 / math.sqrt(2000))
    seen = (np.abs(draws) > stats.t.ppf(1 - 0.05 / 4, 1999)).mean()
    assert seen == pytest.approx(0.8, abs=0.06)


def test_only_seeds_that_both_have_are_compared() -> None:
    made = compare({"control": {1: 2.0, 2: 3.0}, "a": {2: 2.5, 3: 9.0}, "b": {4: 1.0}}, "control", True)
    assert made["a"].gains == (0.5,) and "b" not in made
    assert math.isnan(made["a"].corrected) and not made["a"].real
