"""What the trials of a study say: who holds which point, and how far it all is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from euro_lightning.ablation.space import Point


@dataclass(frozen=True)
class Claim:
    """A trial that this driver runs."""

    id: int
    """Of the trial in the storage."""
    number: int
    """Of the trial in the study."""
    point: Point
    run: str
    """Name of its folder."""
    attempts: int
    """Attempts that failed before."""
    taken_up: bool
    """Whether its driver died."""
    fresh: bool
    """Whether nothing has been done for it yet."""


@dataclass(frozen=True)
class Counts:
    """How far a study is."""

    waiting: int
    running: int
    complete: int
    pruned: int
    failed: int
    elsewhere: int
    """Of those running, trials of other drivers."""
    best: tuple[float, Mapping[str, Any]] | None
    """The best value of the first objective, and its parameters."""

    @property
    def total(self) -> int:
        """All points."""
        return self.waiting + self.running + self.complete + self.pruned + self.failed


def has_point(trial: FrozenTrial) -> bool:
    """Whether it is known what a trial tries."""
    return "setting" in trial.user_attrs


def run_of(trial: FrozenTrial) -> str:
    return str(trial.user_attrs.get("run") or f"trial-{trial.number:03d}")


def counts_of(trials: Sequence[FrozenTrial], owner: str, minimize: bool) -> Counts:
    """How far a study is.

    Args:
        trials: all of it.
        owner: the driver that asks.
        minimize: whether less of the first objective is better.
    """
    replaced = {trial.user_attrs.get("replaces") for trial in trials}
    states = [t.state for t in trials if t.number not in replaced and has_point(t)]
    done = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    sign = 1 if minimize else -1
    best = min(done, key=lambda trial: sign * trial.values[0], default=None)
    return Counts(
        waiting=states.count(TrialState.WAITING),
        running=states.count(TrialState.RUNNING),
        complete=states.count(TrialState.COMPLETE),
        pruned=states.count(TrialState.PRUNED),
        failed=states.count(TrialState.FAIL),
        elsewhere=sum(t.state == TrialState.RUNNING and t.user_attrs.get("owner") != owner for t in trials),
        best=(best.values[0], best.params) if best else None,
    )


def lacking(trials: Sequence[FrozenTrial], seeds: Sequence[int]) -> Point | None:
    """A setting that was tried, with a seed that it was not tried with; None when each has all."""
    tried: dict[str, list[int]] = {}
    settings: dict[str, Mapping[str, Any]] = {}
    for trial in filter(has_point, trials):
        key = repr(sorted(trial.user_attrs["setting"].items()))
        settings[key] = trial.user_attrs["setting"]
        tried.setdefault(key, []).append(trial.user_attrs["seed"])
    for key, setting in settings.items():
        for seed in seeds:
            if seed not in tried[key]:
                return Point(setting, seed)
    return None
