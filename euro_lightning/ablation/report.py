"""What a study says: tables, figures, and for its question a yes, a no, or cannot tell."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

from euro_lightning.ablation.cost import PaperScale, cost_of
from euro_lightning.ablation.evidence import GRID, Evidence, Objective
from euro_lightning.ablation.figures import draw_curves, draw_search, draw_settings, draw_sources
from euro_lightning.ablation.rendering import Block, Figure, Heading, Table, Text
from euro_lightning.ablation.statistics import (
    LEVEL,
    POWER,
    Difference,
    compare,
    holm,
    mean_of,
    smallest_effect,
)
from euro_lightning.ablation.verdict import Findings, verdict
from euro_lightning.ablation.wording import number, plural, probability, rounded, signed


@dataclass(frozen=True)
class Rules:
    """What the report decides by."""

    margin: float = 0.01
    """A gain below this share of the control's mean does not matter."""
    scale: PaperScale = field(default_factory=PaperScale)
    """What GPU hours are estimated for."""


def findings_of(evidence: Evidence, objective: Objective, rules: Rules) -> Findings:
    """Means, differences and what the design could have seen, of one objective."""
    values = {name: own for name, own in evidence.values(objective.metric).items() if own}
    means = {name: mean_of(list(own.values())) for name, own in values.items()}
    differences: dict[str, Difference] = {}
    if evidence.control in values:
        differences = compare(values, evidence.control, objective.minimize)
    smallest = smallest_effect([found.gains for found in differences.values()])
    control = means[evidence.control].value if evidence.control in means else math.nan
    return Findings(objective, values, means, differences, smallest, rules.margin * abs(control))


def report(evidence: Evidence, figures: Path, rules: Rules) -> list[Block]:
    """The whole report.

    Args:
        evidence: the study.
        figures: what the figures' names begin with, with their folder.
        rules: what it decides by.
    """
    blocks: list[Block] = [Heading(evidence.question, 1)]
    findings = [findings_of(evidence, objective, rules) for objective in evidence.objectives]
    blocks.append(Text(verdict(evidence, findings[0]), strong=True))
    blocks += _progress(evidence)
    if not evidence.complete:
        return blocks
    if evidence.sampler == GRID:
        for place, found in enumerate(findings):
            blocks += _objective(evidence, found, figures, place)
    else:
        blocks += _search(evidence, figures)
    blocks += _curves(evidence, figures)
    if evidence.sampler == GRID:
        blocks += _sources(evidence, figures)
        blocks += _cost(evidence, rules)
    blocks += _importances(evidence)
    blocks += _stopped(evidence)
    return blocks + _method(rules)


def _progress(evidence: Evidence) -> list[Block]:
    parts = [f"{plural(len(evidence.complete), 'trial')} complete"]
    for state, word in (("pruned", "pruned"), ("fail", "failed"), ("running", "running")):
        if count := sum(point.state == state for point in evidence.points):
            parts.append(f"{count} {word}")
    if evidence.missing:
        parts.append(f"{evidence.missing} of {evidence.expected} missing")
    text = f"Study {evidence.name}: {', '.join(parts)}."
    if evidence.complete:
        seeds = evidence.seeds
        text += f" {plural(len(seeds), 'seed')} ({', '.join(map(str, seeds))})."
        if len(seeds) < 2 and evidence.sampler == GRID:
            text += " One seed has no spread: there are no intervals and no tests."
    return [Text(text)]


def _objective(evidence: Evidence, found: Findings, figures: Path, place: int) -> list[Block]:
    title = found.objective.metric + (" (decides)" if place == 0 and len(evidence.objectives) > 1 else "")
    sign = -1 if found.objective.minimize else 1
    head = ["setting", "seeds", "mean", "95% interval", "difference", "95% interval", "p", "p corrected", ""]
    rows = []
    for name, mean in found.means.items():
        row = [name, str(mean.count), number(mean.value), _interval(mean.value, mean.half_width, number)]
        if name == evidence.control:
            row += ["control", "", "", "", ""]
        elif name in found.differences:
            d = found.differences[name]
            row += [
                signed(sign * d.mean.value), _interval(sign * d.mean.value, d.mean.half_width, signed),
                probability(d.p), probability(d.corrected),
                ("better" if d.mean.value > 0 else "worse") if d.real else "",
            ]  # fmt: skip
        else:
            row += ["–", "", "", "", "no seed in common"]
        rows.append(row)
    blocks: list[Block] = [Heading(title), Table(head, rows)]
    better = "less" if found.objective.minimize else "more"
    text = f"{better.capitalize()} is better; differences are to the control, seed by seed."
    if not math.isnan(found.smallest):
        text += (
            f" The smallest difference that this design would have seen with {POWER:.0%} power is"
            f" {rounded(found.smallest)}."
        )
    blocks.append(Text(text))
    path = figures.with_name(f"{figures.name}-{'settings' if place == 0 else f'settings-{place + 1}'}.png")
    draw_settings(path, found.objective, found.values, found.means, found.differences)
    caption = f"{found.objective.metric}: means with 95% intervals (diamonds) and seeds (dots)"
    return [*blocks, Figure(path, caption)]


def _search(evidence: Evidence, figures: Path) -> list[Block]:
    objective = evidence.objectives[0]
    points = [p for p in evidence.complete if objective.metric in p.metrics]
    points.sort(key=lambda p: p.metrics[objective.metric], reverse=not objective.minimize)
    if not points:
        return []
    names = list(points[0].values)
    rows = [
        [
            str(p.number),
            *(number(p.values.get(name)) for name in names),
            number(p.metrics[objective.metric]),
            number(p.seconds),
        ]
        for p in points[:10]
    ]
    path = figures.with_name(f"{figures.name}-search.png")
    draw_search(path, evidence)
    return [
        Heading(f"{objective.metric}: the best of {plural(len(points), 'trial')}"),
        Table(["trial", *names, objective.metric, "seconds"], rows),
        Figure(path, f"{objective.metric} against what was searched; later trials are brighter"),
    ]


def _curves(evidence: Evidence, figures: Path) -> list[Block]:
    if evidence.sampler != GRID or not any(len(point.curve) > 1 for point in evidence.complete):
        return []
    path = figures.with_name(f"{figures.name}-curves.png")
    draw_curves(path, evidence)
    text = "Validation loss during training: means of settings (thick) and seeds (thin)"
    return [Heading("Curves"), Figure(path, text)]


def effects_by_source(
    evidence: Evidence, objective: Objective
) -> tuple[list[str], dict[str, dict[str, Difference]]]:
    """Differences to the control by setting and source, corrected for all of them together."""
    sources = evidence.parts(objective.metric)
    found: dict[str, dict[str, Difference]] = {}
    if evidence.control is None:
        return sources, found
    for source in sources:
        values = evidence.values(f"{objective.metric}/{source}")
        for name, difference in compare(values, evidence.control, objective.minimize).items():
            found.setdefault(name, {})[source] = difference
    places = [(name, source) for name, own in found.items() for source in own]
    corrected = holm([found[name][source].p for name, source in places])
    for (name, source), p in zip(places, corrected, strict=True):
        own = found[name][source]
        found[name][source] = replace(own, corrected=p)
    return sources, found


def _sources(evidence: Evidence, figures: Path) -> list[Block]:
    objective = evidence.objectives[0]
    sources, effects = effects_by_source(evidence, objective)
    if len(sources) < 2 or not effects:
        return []
    path = figures.with_name(f"{figures.name}-sources.png")
    draw_sources(path, sources, effects, objective.minimize)
    sign = -1 if objective.minimize else 1
    rows = [[source, *(_effect(own.get(source), sign) for own in effects.values())] for source in sources]
    text = (
        f"Differences of {objective.metric} to the control, source by source. A star is beyond chance after"
        f" correction for all {sum(map(len, effects.values()))} comparisons of the table."
    )
    return [Heading("By source"), Text(text), Figure(path, "Difference to the control by source"),
            Table(["source", *effects], rows)]  # fmt: skip


def _effect(found: Difference | None, sign: int) -> str:
    if found is None:
        return "–"
    width = "" if math.isnan(found.mean.half_width) else f" ± {rounded(found.mean.half_width)}"
    return f"{signed(sign * found.mean.value)}{width}{' *' if found.real else ''}"


def _cost(evidence: Evidence, rules: Rules) -> list[Block]:
    control = evidence.of(evidence.control) if evidence.control else []
    rows = []
    for name in evidence.settings:
        cost = cost_of(evidence.of(name), control, rules.scale)
        parts = (cost.parameters, cost.tokens, cost.seconds, cost.flops, cost.hours)
        rows.append([name, *map(number, parts)])
    seconds = sum(p.seconds for p in evidence.points if not math.isnan(p.seconds))
    tokens = sum(p.tokens for p in evidence.points if not math.isnan(p.tokens))
    return [
        Heading("Cost of a trial"),
        Table(["setting", "parameters", "tokens", "seconds", "FLOPs", "GPU hours at paper scale"], rows),
        Text(f"All trials together: {number(tokens)} tokens, {number(seconds / 3600)} hours of training."),
        Text(rules.scale.describe()),
    ]


def _importances(evidence: Evidence) -> list[Block]:
    if evidence.importances:
        rows = [[name, f"{share:.0%}"] for name, share in evidence.importances.items()]
        text = (
            "Share of each parameter in how good the best trials are (PED-ANOVA, Watanabe et al. 2023). It is of"
            " the space that was searched, and says nothing of the direction."
        )
        return [Heading("Importance of parameters"), Table(["parameter", "importance"], rows), Text(text)]
    return [] if evidence.sampler == GRID else [Text(f"No importance of parameters: {evidence.unimportant}.")]


def _stopped(evidence: Evidence) -> list[Block]:
    rows = [
        [str(p.number), p.setting or "–", "–" if p.seed is None else str(p.seed),
         "failed" if p.state == "fail" else p.state, number(p.tokens), p.reason or "–"]
        for p in evidence.points if p.state in ("pruned", "fail")
    ]  # fmt: skip
    if not rows:
        return []
    text = "They are in no mean. A setting whose worse trials were pruned looks better than it is."
    head = ["trial", "setting", "seed", "state", "tokens", "reason"]
    pruned = any(p.state == "pruned" for p in evidence.points)
    return [Heading("Pruned and failed trials"), Table(head, rows), *([Text(text)] if pruned else [])]


def _method(rules: Rules) -> list[Block]:
    return [
        Heading("How to read this"),
        Text(
            "Intervals are 95% intervals of Student's t over seeds. Differences are paired: the same seed has the"
            " same documents, order and masks in the setting and in the control. p is that of a two-sided paired"
            " t-test; p corrected is Holm's (1979) over all comparisons of a table, so that the chance of any"
            f" false finding in it is {LEVEL:.0%}. Each objective is a table of its own. Few seeds make wide"
            " intervals: three leave two degrees of freedom. Seeds vary initial weights (unless all start from"
            " one checkpoint), data order and masks; they do not vary the corpus."
        ),
        Text(
            "The answer is yes when a setting is better than the control with a corrected p below"
            f" {LEVEL:g}; no when no setting is, and the upper ends of all intervals, widened to hold together"
            f" (Bonferroni), leave room for gains below {rules.margin:.1%} of the control's mean only; and cannot tell"
            " otherwise. Only the first objective decides. The smallest difference that the design would have seen"
            " is that of a paired t-test with the pooled spread of the differences, at the first step of Holm's"
            " correction (noncentral t, Cohen 1988)."
        ),
    ]


def _interval(middle: float, half: float, show: object) -> str:
    if math.isnan(half):
        return "–"
    write = signed if show is signed else number
    return f"{write(middle - half)} to {write(middle + half)}"
