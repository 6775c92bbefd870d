"""The answer to a study's question in one sentence: yes, no, or cannot tell."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from euro_lightning.ablation.evidence import GRID, Evidence, Objective
from euro_lightning.ablation.statistics import Difference, Mean
from euro_lightning.ablation.wording import number, plural, probability, rounded


@dataclass(frozen=True)
class Findings:
    """One objective's numbers."""

    objective: Objective
    values: Mapping[str, Mapping[int, float]]
    """By setting and seed."""
    means: Mapping[str, Mean]
    """By setting."""
    differences: Mapping[str, Difference]
    """By setting, to the control."""
    smallest: float
    """The smallest difference that the design would have seen."""
    margin: float
    """The smallest gain that matters."""


def verdict(evidence: Evidence, found: Findings) -> str:
    """The answer, by the rule that the report states."""
    before = ""
    if evidence.missing:
        done = (evidence.expected or 0) - evidence.missing
        before = f"So far, with {done} of {evidence.expected} points: "
    return before + _answer(evidence, found)


def _answer(evidence: Evidence, found: Findings) -> str:
    metric = found.objective.metric
    if not found.means:
        return "Cannot tell: no trial has been scored yet."
    if evidence.sampler != GRID:
        best = (min if found.objective.minimize else max)(
            found.means, key=lambda name: found.means[name].value
        )
        return (
            f"Cannot tell yes or no: the settings were searched freely, without a control; the best of"
            f" {plural(len(found.means), 'setting')} has {metric} {number(found.means[best].value)} ({best})."
        )
    if not found.differences:
        return f"Cannot tell: no setting can be compared with the control {evidence.control or '(none given)'} yet."
    control = evidence.called(evidence.control or "")
    gains = {name: d.mean.value for name, d in found.differences.items()}
    best = max(gains, key=lambda name: gains[name])
    if all(math.isnan(d.p) for d in found.differences.values()):
        return (
            f"Cannot tell: one seed has no error bar; the largest gain over {control} is"
            f" {_gain(gains[best])} of {metric} ({evidence.called(best)})."
        )
    real = {name: d for name, d in found.differences.items() if d.real}
    better = {name: d for name, d in real.items() if d.mean.value > 0}
    worse = [name for name, d in real.items() if d.mean.value < 0]
    also = f"; worse is {_list(worse)}" if worse else ""
    if better:
        first = max(better, key=lambda name: better[name].mean.value)
        d = better[first]
        others = [name for name in better if name != first]
        more = f"; so is {_list(others)}" if others else ""
        return (
            f"Yes: {evidence.called(first)} is better than {control} in {metric} by {rounded(d.mean.value)}"
            f" (95% interval {_interval(d)}, corrected p {probability(d.corrected)}, {plural(d.mean.count, 'seed')})"
            f"{more}{also}."
        )
    most = max(d.most for d in found.differences.values() if not math.isnan(d.most))
    single = [name for name, d in found.differences.items() if math.isnan(d.most)]
    if most < found.margin and not single:
        return (
            f"No: no setting is better than {control} in {metric}, and gains of {rounded(found.margin)} or more"
            f" (the smallest that matters here) are ruled out{also}."
        )
    return (
        f"Cannot tell: no gain over {control} in {metric} is beyond chance, and gains of up to"
        f" {rounded(max(most, 0.0))} are not ruled out; the design would have seen {rounded(found.smallest)}{also}."
    )


def _gain(value: float) -> str:
    return rounded(value) if value > 0 else "none" if value == 0 else f"negative ({rounded(value)})"


def _interval(d: Difference) -> str:
    return f"{rounded(d.mean.value - d.mean.half_width)} to {rounded(d.mean.value + d.mean.half_width)}"


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
