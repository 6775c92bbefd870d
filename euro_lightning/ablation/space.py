"""The points of a sweep: settings and seeds, what Optuna calls them, and what they change in the experiment."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from euro_lightning.ablation.config import SEED, Sweep, merged
from euro_lightning.ablation.operations import describe, expand_all
from euro_lightning.cli import RESERVED, schema_of
from euro_lightning.data.phase import Phase
from euro_lightning.errors import ConfigError, nearest
from euro_lightning.results import ratio_name
from euro_lightning.schema import check_tree, construct
from euro_lightning.settings import Tree, merge, nested


@dataclass(frozen=True)
class Point:
    """A setting with a seed."""

    setting: Mapping[str, Any]
    """Value of each parameter, by name."""
    seed: int


def label(value: Any) -> Any:
    """What Optuna stores for a value of a list: itself, or a short text where it is a list or a mapping."""
    return value if value is None or isinstance(value, bool | int | float | str) else describe(value)


def lists(sweep: Sweep) -> dict[str, list[Any]]:
    """The parameters that have a list of values, by name."""
    return {n: sweep.space[k] for k, n in sweep.name_of.items() if isinstance(sweep.space[k], list)}


def distributions(sweep: Sweep) -> dict[str, BaseDistribution]:
    """Optuna's distribution of each parameter and of the seed, by name."""
    found: dict[str, BaseDistribution] = {}
    for key, name in sweep.name_of.items():
        values = sweep.space[key]
        if isinstance(values, list):
            found[name] = CategoricalDistribution([label(value) for value in values])
            continue
        low, high, log, step = (values.get(part) for part in ("low", "high", "log", "step"))
        whole = all(isinstance(part, int) for part in (low, high, step or 1))
        found[name] = (
            IntDistribution(low, high, bool(log), step or 1)
            if whole
            else FloatDistribution(low, high, bool(log), step)
        )
    return {**found, SEED: CategoricalDistribution(sweep.seeds)}


def grid(sweep: Sweep) -> list[Point]:
    """Every setting with every seed; all settings of a seed before the next, so that an unfinished study has
    whole comparisons."""
    values = lists(sweep)
    settings = [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]
    return [Point(setting, seed) for seed in sweep.seeds for setting in settings]


def params_of(point: Point) -> dict[str, Any]:
    """A point as Optuna stores it."""
    return {**{name: label(value) for name, value in point.setting.items()}, SEED: point.seed}


def point_of(sweep: Sweep, params: Mapping[str, Any]) -> Point:
    """The point that Optuna's parameters mean."""
    values = lists(sweep)
    setting = {
        name: next(v for v in values[name] if label(v) == params[name]) if name in values else params[name]
        for name in sweep.name_of.values()
    }
    return Point(setting, int(params[SEED]))


def control_of(sweep: Sweep) -> dict[str, Any] | None:
    """The setting that others are compared with; None where a search names none."""
    if sweep.control:
        return {name: sweep.control[name] for name in sweep.name_of.values()}
    values = lists(sweep)
    return {name: own[0] for name, own in values.items()} if len(values) == len(sweep.space) else None


def changes_of(sweep: Sweep, point: Point, start: str | None) -> dict[str, Any]:
    """All that a trial changes in the base, with dotted keys.

    Args:
        sweep: the sweep.
        point: the trial's setting and seed.
        start: the weights that it starts with.

    Raises:
        ConfigError: an operation does not fit the experiment.
    """
    common = {**sweep.overrides, **({"init_from": start} if start else {})}
    chosen = {key: point.setting[name] for key, name in sweep.name_of.items()}
    return {
        **common,
        **expand_all(chosen, merge(merged(sweep.base, {}), nested(common))),
        "data.seed": point.seed,
    }


def tree_of(sweep: Sweep, point: Point, start: str | None = None) -> Tree:
    """The experiment of a trial."""
    return merge(merged(sweep.base, {}), nested(changes_of(sweep, point, start)))


def _corners(sweep: Sweep) -> Iterator[Point]:
    """Every setting of a grid; of ranges both ends."""
    values = [
        own if isinstance(own, list) else [own["low"], own["high"]]
        for own in (sweep.space[k] for k in sweep.space)
    ]
    for chosen in itertools.product(*values):
        yield Point(dict(zip(sweep.name_of.values(), chosen, strict=True)), sweep.seeds[0])


def problems_of_points(sweep: Sweep) -> list[str]:
    """What is wrong with the experiments that the points are, one line each, each once.

    Raises:
        ConfigError: a base file cannot be read.
    """
    base = merged(sweep.base, {})
    phases = (base.get("data") or {}).get("phases") or {}
    if not phases:
        return ["base: data.phases is missing: give an experiment, for example experiments/anneal.yaml"]
    found = []
    for key in (*sweep.overrides, *sweep.space):
        parts = key.split(".")
        if parts[:2] == ["data", "phases"] and len(parts) > 2 and parts[2] not in phases:
            found.append(
                f"{key}: no phase {parts[2]!r}{nearest(parts[2], phases)}; phases are {', '.join(phases)}"
            )
    start = "weights" if sweep.init_from is not None else None
    schema = schema_of("fit")
    if start and not isinstance(sweep.init_from, str):
        assert sweep.init_from is not None
        tree = merged(sweep.init_from.base, sweep.init_from.overrides)
        found += [f"init_from: {problem}" for problem in check_tree(tree, schema, "")]
    for point in () if found else _corners(sweep):
        try:
            tree = tree_of(sweep, point, start)
        except ConfigError as error:
            found.append(str(error))
            continue
        wrong = check_tree(tree, schema, "")
        found += wrong or _phase_problems(tree["data"]["phases"])
        found += [
            f"trainer.{key} cannot be set: {RESERVED[key]}"
            for key in tree.get("trainer") or {}
            if key in RESERVED
        ]
        found += _unmeasured(sweep, (tree.get("data") or {}).get("evaluation") or {})
    return list(dict.fromkeys(found))


def _phase_problems(phases: Mapping[str, Any]) -> list[str]:
    """What can be said of phases before the corpus is known."""
    found = []
    for name, part in phases.items():
        phase: Phase = construct(Phase, part)
        where = f"data.phases.{name}"
        problems = phase.problems(phase.mixture, where)
        found += [problem for problem in problems if not problem.startswith(f"{where}.mixture")]
    return found


def _unmeasured(sweep: Sweep, evaluation: Mapping[str, Any]) -> list[str]:
    measured = [evaluation.get("masking_ratio", 0.15), *(evaluation.get("further_ratios") or ())]
    names = [ratio_name(ratio) for ratio in measured if isinstance(ratio, int | float)]
    return [
        f"objectives: nothing is measured at masking ratio {ratio} (measured are {', '.join(names)}): add it to"
        " data.evaluation.further_ratios"
        for ratio in sweep.measured_ratios()
        if ratio not in names
    ]
