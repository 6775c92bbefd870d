"""Optuna's samplers and pruners by name, and what may be wrong with them."""

import contextlib
import inspect
from collections.abc import Mapping
from typing import Any

import optuna

from euro_lightning.ablation.config import Sweep
from euro_lightning.errors import nearest

_SHORT = {"grid": "RandomSampler", "random": "RandomSampler", "tpe": "TPESampler"}
"""A grid is a queue: its sampler is never asked."""


def _classes(module: Any, base: type) -> dict[str, type]:
    """The classes of a module; some are only there when an optional package is."""
    found = {}
    for name in module.__all__:
        with contextlib.suppress(ImportError, AttributeError):
            kind = getattr(module, name)
            if inspect.isclass(kind) and issubclass(kind, base):
                found[name] = kind
    return found


def sampler_of(sweep: Sweep, trials: int) -> optuna.samplers.BaseSampler:
    """The sampler of a study that has so many trials.

    A sampler with the same seed would repeat its first suggestions in every process, so that the seed moves on with
    the trials that there are.
    """
    kind = _classes(optuna.samplers, optuna.samplers.BaseSampler)[_SHORT.get(sweep.sampler, sweep.sampler)]
    options = dict(sweep.sampler_options)
    if "seed" in inspect.signature(kind).parameters:
        options["seed"] = int(options.get("seed") or 0) + trials
    return kind(**options)


def pruner_of(sweep: Sweep) -> optuna.pruners.BasePruner:
    """The pruner, or one that never prunes."""
    if sweep.pruner is None:
        return optuna.pruners.NopPruner()
    return _classes(optuna.pruners, optuna.pruners.BasePruner)[sweep.pruner.name](**sweep.pruner.options)


def problems_of_search(sweep: Sweep) -> list[str]:
    """What is wrong with sampler and pruner, one line each."""
    samplers = _classes(optuna.samplers, optuna.samplers.BaseSampler)
    found = []
    if sweep.sampler not in _SHORT and sweep.sampler not in samplers:
        found.append(
            f"sampler: unknown {sweep.sampler!r}{nearest(sweep.sampler, [*_SHORT, *samplers])};"
            " use grid, random, tpe or a class of optuna.samplers"
        )
    elif sweep.sampler == "GridSampler":
        found.append("sampler: GridSampler may leave points out when it is resumed; use grid")
    else:
        kind = samplers[_SHORT.get(sweep.sampler, sweep.sampler)]
        found += _options(f"sampler_options ({kind.__name__})", kind, sweep.sampler_options)
    if sweep.pruner is not None:
        pruners = _classes(optuna.pruners, optuna.pruners.BasePruner)
        name = sweep.pruner.name
        if name in pruners:
            found += _options(f"pruner.options ({name})", pruners[name], sweep.pruner.options)
        else:
            found.append(f"pruner: unknown {name!r}{nearest(name, pruners)}")
    return found


def _options(where: str, kind: type, options: Mapping[str, Any]) -> list[str]:
    valid = list(inspect.signature(kind).parameters)
    unknown = [f"{where}: unknown key {key!r}{nearest(key, valid)}" for key in options if key not in valid]
    if unknown:
        return unknown
    try:
        kind(**options)
    except Exception as error:
        return [f"{where}: {str(error).splitlines()[0]}"]
    return []
