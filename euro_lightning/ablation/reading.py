"""Sweep files read strictly: all that is wrong with one is found before anything runs."""

import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from euro_lightning.ablation.config import LAUNCHER_FIELDS, METRIC, SEED, Sweep
from euro_lightning.errors import ConfigError, nearest
from euro_lightning.schema import check_tree, construct, fields_of
from euro_lightning.settings import merge, read_file


def read_sweep(path: str, scale: str | None = None, **changes: Any) -> Sweep:
    """The sweep that a YAML file describes.

    Args:
        path: the file.
        scale: which of its scales to merge over it.
        changes: fields given on the command line.

    Raises:
        ConfigError: all that is wrong with the file by itself, in one line; what the experiment says to its
            points is in `space.problems_of_points`.
    """
    tree = read_file(path)
    scales = tree.get("scales") or {}
    if not isinstance(scales, Mapping) or not all(isinstance(part, Mapping) for part in scales.values()):
        raise ConfigError(f"{path}: scales must be a mapping of names to mappings")
    if scale is not None:
        if scale not in scales:
            hint = nearest(scale, scales) or f"; it has {', '.join(scales) or 'none'}"
            raise ConfigError(f"{path}: no scale {scale!r}{hint}")
        tree = merge(tree, dict(scales[scale]))
    declared = fields_of(Sweep)
    schema = {name: kind for name, (kind, _) in declared.items()}
    problems = check_tree(tree, schema, "")
    for name, part in scales.items():
        problems += [p for p in check_tree(dict(part), schema, f"scales.{name}") if p.startswith("unknown")]
    problems += [
        f"{name} is missing" for name, (_, needed) in declared.items() if needed and name not in tree
    ]
    if not problems:
        stem = tree.get("stem") or Path(path).stem + (f"-{scale}" if scale else "")
        sweep: Sweep = construct(Sweep, {**tree, "stem": stem, **changes})
        problems = problems_of(sweep)
        if not problems:
            return sweep
    raise ConfigError(f"{path}: {' | '.join(dict.fromkeys(problems))}")


def problems_of(sweep: Sweep) -> list[str]:
    """What is wrong with a sweep by itself, one line each."""
    found = [
        f"{key} is empty: give at least one"
        for key in ("base", "space", "objectives", "seeds")
        if not getattr(sweep, key)
    ]
    found += [f"seeds: {seed} is given twice" for seed in _twice(sweep.seeds)]
    found += _space(sweep) + _names(sweep) + _objectives(sweep) + _launcher(sweep.launcher)
    if not re.fullmatch(r"[\w][\w.\-]*", sweep.stem):
        found.append(f"stem {sweep.stem!r}: use letters, digits, dots, dashes and underscores only")
    if sweep.retries < 0:
        found.append(f"retries is {sweep.retries}: it must not be below 0")
    limits = asdict(sweep.budget)
    found += [
        f"budget.{key} is {limit}: it must be above 0"
        for key, limit in limits.items()
        if limit is not None and limit <= 0
    ]
    if sweep.sampler != "grid" and all(limit is None for limit in limits.values()):
        found.append(f"sampler {sweep.sampler} has no end: set budget.trials")
    if sweep.storage is not None and not re.match(r"(sqlite|postgresql(\+psycopg)?)://", sweep.storage):
        found.append("storage must begin with sqlite:/// or postgresql://")
    return found


def _space(sweep: Sweep) -> list[str]:
    found = []
    for key, values in sweep.space.items():
        if key == "data.seed":
            found.append("space.data.seed: seeds are a list of their own, seeds")
        elif isinstance(values, list):
            if not values:
                found.append(f"space.{key} has no value")
            found += [f"space.{key}: {value!r} is given twice" for value in _twice(values)]
        elif isinstance(values, Mapping):
            found += _range_problems(f"space.{key}", values)
            if sweep.sampler == "grid":
                found.append(f"space.{key}: a grid needs a list of values; other samplers take a range")
        else:
            found.append(f"space.{key} is {values!r}: it must be a list of values, or low and high")
    return found


def _names(sweep: Sweep) -> list[str]:
    found = [
        f"names: {key!r} is not in space{nearest(key, sweep.space)}"
        for key in sweep.names
        if key not in sweep.space
    ]
    called = list(sweep.name_of.values())
    values_of = {name: sweep.space[key] for key, name in sweep.name_of.items()}
    found += [f"names: two keys of space are called {name!r}" for name in _twice(called)]
    if SEED in called:
        found.append(f"names: {SEED!r} is the name of the seed; give another")
    for name, value in sweep.control.items():
        if name not in called:
            found.append(
                f"control: {name!r} is no parameter{nearest(name, called) or '; they are ' + ', '.join(called)}"
            )
            continue
        values = values_of[name]
        if isinstance(values, list) and value not in values:
            found.append(f"control.{name} is {value!r}: it is not among the values of space")
    missing = [name for name in called if name not in sweep.control]
    if sweep.control and missing:
        found.append(f"control: {', '.join(missing)} is missing: it has one value for each parameter")
    return found


def _objectives(sweep: Sweep) -> list[str]:
    found = []
    for objective in sweep.objectives:
        match = METRIC.fullmatch(objective.metric)
        if match is None:
            found.append(
                f"objectives: {objective.metric!r} is no metric: use validation/loss@RATIO,"
                " validation/accuracy@RATIO, validation/loss@mean, one of them with /SOURCE, evaluation/TASK"
                " or evaluation/mean"
            )
        elif match[5] and sweep.evaluation is None:
            found.append(f"objectives: {objective.metric} needs tasks: set evaluation.tasks")
        elif match[5] and sweep.evaluation and match[5] not in ("mean", *map(_stem, sweep.evaluation.tasks)):
            tasks = [f"evaluation/{_stem(task)}" for task in sweep.evaluation.tasks]
            found.append(f"objectives: {objective.metric}: no such task{nearest(objective.metric, tasks)}")
    names = [objective.metric for objective in sweep.objectives]
    found += [f"objectives: {name} is given twice" for name in _twice(names)]
    if sweep.pruner and len(sweep.objectives) > 1:
        found.append("pruner: Optuna prunes by one objective only; keep the first, or set pruner to null")
    return found


def _launcher(launcher: str) -> list[str]:
    try:
        fields = [name for _, name, _, _ in string.Formatter().parse(launcher) if name is not None]
    except ValueError as error:
        return [f"launcher: {error}; double a brace that is meant"]
    found = [
        f"launcher: unknown {{{name}}}{nearest(name, LAUNCHER_FIELDS)}; it may name"
        f" {', '.join(LAUNCHER_FIELDS)}"
        for name in fields
        if name not in LAUNCHER_FIELDS
    ]
    return found if "arguments" in fields else [*found, "launcher: {arguments} is missing"]


def _stem(path: str) -> str:
    return Path(path).stem


def _twice(values: Iterable[Any]) -> list[Any]:
    listed = list(values)
    return [value for i, value in enumerate(listed) if value in listed[:i]]


def _range_problems(where: str, values: Mapping[str, Any]) -> list[str]:
    valid = ("low", "high", "log", "step")
    found = [f"{where}: unknown key {key!r}{nearest(key, valid)}" for key in values if key not in valid]
    low, high = values.get("low"), values.get("high")
    if any(isinstance(bound, bool) or not isinstance(bound, int | float) for bound in (low, high)):
        return [*found, f"{where}: low and high must be numbers"]
    assert low is not None and high is not None
    if low >= high:
        found.append(f"{where}: low {low} must be below high {high}")
    if values.get("log") and low <= 0:
        found.append(f"{where}: low {low} must be above 0 for a logarithm")
    if values.get("log") and values.get("step") is not None:
        found.append(f"{where}: log and step exclude each other")
    return found
