"""What is known of a study: its trials, from Optuna's storage and MLflow alone."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from euro_lightning.ablation.operations import describe
from euro_lightning.errors import UserError, nearest
from euro_lightning.tracking import metric_name, without_credentials

CURVE = "validation/loss/mean"
"""The curve in MLflow: macro mean over sources, at the experiment's own masking ratio."""

GRID = "grid"
"""The sampler that runs every point of a grid."""


@dataclass(frozen=True)
class Objective:
    """What is made small or large."""

    metric: str
    """Its name."""
    minimize: bool
    """Whether less is better."""


@dataclass(frozen=True)
class Point:
    """A trial: a setting with a seed, and what came of it."""

    number: int
    """Of the trial in Optuna."""
    state: str
    """complete, pruned, fail, running or waiting."""
    setting: str
    """What a table calls the setting; empty when it is not known yet."""
    values: Mapping[str, Any]
    """The setting's values by name."""
    seed: int | None
    """Of data order, masks and weights."""
    metrics: Mapping[str, float]
    """All scores by name."""
    tokens: float
    """Tokens trained on; not a number when unknown, as in all that follows."""
    seconds: float
    """Of training."""
    flops: float
    """Of training."""
    parameters: float
    """Of the encoder with its head."""
    reason: str
    """Why it was pruned or failed."""
    run: str
    """Folder of the run."""
    mlflow_run_id: str | None
    """Its run in MLflow."""
    curve: tuple[tuple[float, float], ...]
    """Tokens and the validation loss there."""


@dataclass(frozen=True)
class Evidence:
    """A study as its report sees it."""

    name: str
    """Of the study in Optuna."""
    question: str
    """What it asks."""
    control: str | None
    """The setting that others are compared with."""
    objectives: tuple[Objective, ...]
    """What was measured for it; the first decides."""
    points: tuple[Point, ...]
    """All trials."""
    expected: int | None
    """Points that there will be; None where nothing says so."""
    sampler: str
    """Who chose the settings."""
    log_scaled: frozenset[str]
    """Parameters that were searched on a logarithmic scale."""
    importances: Mapping[str, float]
    """Share of each parameter in what varies, where the sampler explored freely and enough."""
    unimportant: str
    """Why there are no importances; empty when there are."""

    @property
    def complete(self) -> list[Point]:
        """The points that ended with scores."""
        return [point for point in self.points if point.state == "complete"]

    @property
    def seeds(self) -> list[int]:
        """Seeds of complete points."""
        return sorted({point.seed for point in self.complete if point.seed is not None})

    @property
    def settings(self) -> list[str]:
        """The settings that have a complete point, the control first, then as they were tried."""
        names = list(dict.fromkeys(point.setting for point in self.complete))
        return sorted(names, key=lambda name: name != self.control)

    def called(self, setting: str) -> str:
        """A setting as a sentence calls it: with the parameter's name."""
        names = {name for point in self.complete for name in point.values}
        return f"{next(iter(names)).replace('_', ' ')} {setting}" if len(names) == 1 else setting

    @property
    def missing(self) -> int:
        """Points that have not ended yet."""
        ended = {(p.setting, p.seed) for p in self.points if p.state in ("complete", "pruned")}
        done = (
            len(ended)
            if self.sampler == GRID
            else sum(p.state in ("complete", "pruned") for p in self.points)
        )
        return max((self.expected or 0) - done, 0)

    def of(self, setting: str) -> list[Point]:
        """The complete points of a setting, by seed."""
        own = [point for point in self.complete if point.setting == setting]
        return sorted(own, key=lambda point: (point.seed is None, point.seed))

    def values(self, metric: str) -> dict[str, dict[int, float]]:
        """By setting and seed, what was measured; points without the metric are left out."""
        return {
            setting: {
                point.seed or 0: point.metrics[metric]
                for point in self.of(setting)
                if metric in point.metrics
            }
            for setting in self.settings
        }

    def parts(self, metric: str) -> list[str]:
        """Sources that a metric was measured for by themselves (`METRIC/SOURCE`)."""
        prefix = f"{metric}/"
        names = (name for point in self.complete for name in point.metrics if name.startswith(prefix))
        return list(dict.fromkeys(name.removeprefix(prefix) for name in names))


def label(setting: Mapping[str, Any]) -> str:
    """What tables call a setting: its value, or names and values where several vary."""
    if len(setting) == 1:
        return describe(next(iter(setting.values())))
    return ", ".join(f"{name} {describe(value)}" for name, value in setting.items())


def read_study(storage: str, name: str) -> Any:
    """An Optuna study.

    Args:
        storage: database.
        name: the study's name, or the beginning of it where no other begins so.

    Raises:
        UserError: the database does not answer, or has no such study.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    shown = without_credentials(storage)
    try:
        names = optuna.get_all_study_names(storage)
    except Exception as error:
        reason = str(error).splitlines()[0].replace(storage, shown)[:200]
        raise UserError(f"storage {shown} cannot be read ({reason})") from None
    found = [name] if name in names else [other for other in names if other.startswith(f"{name}-")]
    if len(found) != 1:
        some = ", ".join(sorted(found or names)[:8]) or "none"
        which = "several studies begin so" if found else "no such study"
        raise UserError(
            f"{name}: {which} in {shown}; it has {some}{nearest(name, names) if not found else ''}"
        )
    return optuna.load_study(study_name=found[0], storage=storage)


def gather(study: Any) -> Evidence:
    """All that Optuna knows of a study.

    Raises:
        UserError: the study was not made by `sweep`.
    """
    facts = study.user_attrs
    if "objectives" not in facts or "sweep" not in facts:
        raise UserError(f"study {study.study_name} was not made by sweep: it has no question and objectives")
    objectives = tuple(
        Objective(str(entry["metric"]), str(entry.get("direction", "minimize")) == "minimize")
        for entry in facts["objectives"]
    )
    sweep = facts["sweep"]
    sampler = str(sweep.get("sampler") or GRID)
    points = tuple(_point(trial) for trial in study.get_trials(deepcopy=False))
    control = facts.get("control") or None
    importances, why = _importances(study, sampler, objectives[0].minimize)
    return Evidence(
        name=study.study_name,
        question=str(facts.get("question") or study.study_name),
        control=label(control) if control else None,
        objectives=objectives,
        points=points,
        expected=_expected(sweep, sampler),
        sampler=sampler,
        log_scaled=frozenset(_log_scaled(sweep, facts.get("names") or {})),
        importances=importances,
        unimportant=why,
    )


def with_curves(evidence: Evidence, uri: str | None) -> Evidence:
    """The evidence with curves out of MLflow where Optuna has none; a server that does not answer adds none."""
    wanted = [p for p in evidence.complete if not p.curve and p.mlflow_run_id]
    if not wanted or uri is None:
        return evidence
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    client = MlflowClient(tracking_uri=uri)
    found = {}
    for point in wanted:
        try:
            history = client.get_metric_history(point.mlflow_run_id, metric_name(CURVE))
        except (MlflowException, OSError):
            return evidence
        # a run that was resumed from an older checkpoint has a step twice; the later one counts
        latest = {m.step: m.value for m in sorted(history, key=lambda m: m.timestamp)}
        found[point.number] = tuple(sorted((float(step), value) for step, value in latest.items()))
    points = tuple(replace(p, curve=found.get(p.number, p.curve)) for p in evidence.points)
    return replace(evidence, points=points)


def _point(trial: Any) -> Point:
    facts = trial.user_attrs
    setting = facts.get("setting") or {n: v for n, v in trial.params.items() if n != "seed"}
    seed = facts.get("seed", trial.params.get("seed"))

    def number(name: str) -> float:
        value = facts.get(name)
        return math.nan if value is None else float(value)

    return Point(
        number=trial.number,
        state=trial.state.name.lower(),
        setting=label(setting) if setting else "",
        values=setting,
        seed=None if seed is None else int(seed),
        metrics=facts.get("metrics") or {},
        tokens=number("tokens"),
        seconds=number("seconds"),
        flops=number("flops"),
        parameters=number("parameters"),
        reason=str(facts.get("reason") or ""),
        run=str(facts.get("run") or ""),
        mlflow_run_id=facts.get("mlflow_run_id"),
        curve=tuple((float(tokens), float(value)) for tokens, value in facts.get("curve") or ()),
    )


def _expected(sweep: Mapping[str, Any], sampler: str) -> int | None:
    """Points of a grid, or the trials that a search may make."""
    space = sweep.get("space") or {}
    most = (sweep.get("budget") or {}).get("trials")
    if sampler == GRID and all(isinstance(values, Sequence) for values in space.values()):
        points = len(list(product(*space.values()))) * len(sweep.get("seeds") or [None])
        return min(points, most) if most else points
    return most


def _log_scaled(sweep: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    space = sweep.get("space") or {}
    return [
        names.get(key, key.rpartition(".")[2])
        for key, values in space.items()
        if isinstance(values, Mapping) and values.get("log")
    ]


MANY = 10
"""Complete trials from which importances say anything."""


def _importances(study: Any, sampler: str, minimize: bool) -> tuple[dict[str, float], str]:
    """Importances by the main objective, or why there are none."""
    import optuna

    done = [t for t in study.get_trials(deepcopy=False) if t.state == optuna.trial.TrialState.COMPLETE]
    names = sorted({name for trial in done for name in trial.params if name != "seed"})
    if sampler == GRID:
        return {}, "the settings are a grid, not a sample of the space"
    if len(names) < 2:
        return {}, "there are not two parameters to compare"
    if len(done) < MANY:
        return {}, f"{len(done)} complete trials are fewer than {MANY}"
    sign = 1 if minimize else -1  # what is good is what is small
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = optuna.importance.get_param_importances(
            study, params=names, target=lambda trial: sign * trial.values[0]
        )
    return {name: float(share) for name, share in found.items()}, ""
