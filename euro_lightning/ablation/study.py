"""The queue of a study: every point ends complete or pruned exactly once, whoever dies on the way.

A point is one trial of Optuna and keeps its number for ever. It waits, is claimed by a driver under the study's
lock, goes back to the queue when it fails, is claimed by another driver when its own died, and ends once. Optuna's
own ask, heartbeat and retry are not used: ask invents trials on an empty queue, ask and tell send no heartbeat, and
a retry makes a second trial of the same point.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from euro_lightning.ablation.config import SEED, Sweep, merged
from euro_lightning.ablation.owner import BEAT, Owner, Watch
from euro_lightning.ablation.samplers import pruner_of, sampler_of
from euro_lightning.ablation.space import Point, control_of, distributions, grid, params_of, point_of
from euro_lightning.ablation.storage import Storage
from euro_lightning.ablation.trials import Claim, Counts, counts_of, has_point, lacking, run_of
from euro_lightning.errors import UserError

Result = TypeVar("Result")

PATIENCE = 120.0
"""Seconds that a storage may be away before a driver gives up."""


class Study:
    """A study of Optuna as a queue of points."""

    def __init__(
        self, sweep: Sweep, storage: Storage, unit: int = 1_000_000, watch: Watch | None = None
    ) -> None:
        """Opens the study, or creates it with all its points.

        Args:
            sweep: what to try.
            storage: where.
            unit: tokens that a step of a report counts.
            watch: who tells whether other drivers live.

        Raises:
            UserError: the storage does not answer.
        """
        self.sweep, self.place = sweep, storage
        self.name = sweep.study_name
        self.owner, self.watch = Owner.me(), watch or Watch()
        self.storage = storage.open()
        self._distributions = distributions(sweep)
        self._beats, self._beaten = 0, 0.0
        with self._lock():
            self.study = self._create(unit)
            self.unit = int(self.study.user_attrs["step_unit"])
            self._again()
        self.beat()

    def _lock(self) -> contextlib.AbstractContextManager[bool]:
        return self.place.lock(f"study {self.name}".replace(" ", "-"))

    def _create(self, unit: int) -> optuna.Study:
        """The study with its points; what a driver left unfinished here, the next one finishes."""
        sweep = self.sweep
        study = optuna.create_study(
            study_name=self.name,
            storage=self.storage,
            directions=[objective.direction for objective in sweep.objectives],
            load_if_exists=True,
            sampler=sampler_of(sweep, 0),
            pruner=pruner_of(sweep),
        )
        facts = {
            "question": sweep.question,
            "control": control_of(sweep),
            "names": sweep.name_of,
            "objectives": [asdict(objective) for objective in sweep.objectives],
            "seeds": sweep.seeds,
            "sweep": {**asdict(sweep), "storage": None},
            "step_unit": unit,
        }
        known = study.user_attrs
        for key, value in facts.items():
            if key not in known:
                study.set_user_attr(key, value)
        if sweep.sampler == "grid":
            for point in grid(sweep)[len(self._trials()) :]:
                study.add_trial(self._waiting(point))
        elif not self._trials() and (control := control_of(sweep)) is not None:
            for seed in sweep.seeds:
                study.add_trial(self._waiting(Point(control, seed)))
        return study

    def _trials(self, *states: TrialState) -> list[FrozenTrial]:
        number = self.storage.get_study_id_from_name(self.name)
        found: list[FrozenTrial] = self.storage.get_all_trials(number, deepcopy=False, states=states or None)
        return found

    def _waiting(self, point: Point, **facts: Any) -> FrozenTrial:
        return create_trial(
            state=TrialState.WAITING,
            params=params_of(point),
            distributions=self._distributions,
            user_attrs={"setting": dict(point.setting), "seed": point.seed, **facts},
        )

    def _again(self) -> None:
        """Points that failed for good are tried again when a driver starts: the cause may have been mended."""
        trials = self._trials()
        replaced = {trial.user_attrs.get("replaces") for trial in trials}
        for trial in trials:
            if (
                trial.state == TrialState.FAIL
                and trial.number not in replaced
                and "setting" in trial.user_attrs
            ):
                point = Point(trial.user_attrs["setting"], trial.user_attrs["seed"])
                run = run_of(trial)
                self.study.add_trial(self._waiting(point, replaces=trial.number, run=run))

    def beat(self) -> None:
        """Says that this driver lives."""
        self._beats, self._beaten = self._beats + 1, time.monotonic()
        sign = self.owner.sign(self._beats)
        self._patiently(lambda: self.study.set_user_attr(f"driver:{self.owner.id}", sign))

    def beat_now_and_then(self) -> bool:
        """Says that this driver lives, if it has not for a while; returns whether it did."""
        due = time.monotonic() - self._beaten >= BEAT
        if due:
            self.beat()
        return due

    def _patiently(self, action: Callable[[], Result]) -> Result:
        """Tries again while the storage is away: a database that restarts stops no training."""
        from optuna.exceptions import StorageInternalError
        from sqlalchemy.exc import OperationalError

        deadline, wait = time.monotonic() + PATIENCE, 0.5
        while True:
            try:
                return action()
            except (StorageInternalError, OperationalError, UserError) as error:
                if time.monotonic() + wait > deadline:
                    raise UserError(
                        f"storage {self.place.shown} does not answer any more"
                        f" ({type(error).__name__}); start again when it does: trials go on from their checkpoints"
                    ) from None
                time.sleep(wait)
                wait = min(2 * wait, 10.0)

    def claim(self, *, fresh: bool = True) -> Claim | None:
        """A trial for this driver: one whose driver died, else the next of the queue; None when there is none.

        Args:
            fresh: whether it may be one for which nothing has been done yet.
        """
        return self._patiently(lambda: self._claim(fresh))

    def _claim(self, fresh: bool) -> Claim | None:
        with self._lock():
            trials = self._trials()
            signs = self.study.user_attrs
            for trial in trials:
                owner = trial.user_attrs.get("owner")
                if trial.state != TrialState.RUNNING or owner == self.owner.id:
                    continue
                if not self.watch.alive(signs.get(f"driver:{owner}")):
                    if has_point(trial):
                        return self._own(trial, taken_up=True)
                    self.storage.set_trial_user_attr(
                        trial._trial_id, "reason", "died before it had a setting"
                    )
                    self.storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
            waiting = [trial for trial in trials if trial.state == TrialState.WAITING]
            begun = [trial for trial in waiting if trial.user_attrs.get("attempts")]
            unbegun = [t for t in waiting if not t.user_attrs.get("attempts") and has_point(t)]
            if fresh and not self._spent(trials):
                if unbegun:
                    return self._own(unbegun[0])
                if not begun and self.sweep.sampler != "grid":
                    return self._own(self._sample(trials))
            return self._own(begun[0]) if begun else None

    def _spent(self, trials: Sequence[FrozenTrial]) -> bool:
        """Whether the budget allows no further point."""
        budget = self.sweep.budget
        started = sum(
            trial.state != TrialState.WAITING or bool(trial.user_attrs.get("attempts"))
            for trial in filter(has_point, trials)
            if "replaces" not in trial.user_attrs
        )
        tokens = sum(int(trial.user_attrs.get("tokens", 0)) for trial in trials)
        return (budget.trials is not None and started >= budget.trials) or (
            budget.tokens is not None and tokens >= budget.tokens
        )

    def _sample(self, trials: Sequence[FrozenTrial]) -> FrozenTrial:
        """A setting that still lacks a seed, or a new one from the sampler for the first seed."""
        if (point := lacking(trials, self.sweep.seeds)) is not None:
            return self._added(point)
        self.study.sampler = sampler_of(self.sweep, len(trials))
        if all(trial.state != TrialState.WAITING for trial in trials):
            self.study.enqueue_trial({SEED: self.sweep.seeds[0]})
        asked = self.study.ask(self._distributions)
        point = point_of(self.sweep, asked.params)
        asked.set_user_attr("seed", point.seed)
        asked.set_user_attr("setting", dict(point.setting))
        found: FrozenTrial = self.storage.get_trial(asked._trial_id)
        return found

    def _added(self, point: Point) -> FrozenTrial:
        study = self.storage.get_study_id_from_name(self.name)
        found: FrozenTrial = self.storage.get_trial(
            self.storage.create_new_trial(study, self._waiting(point))
        )
        return found

    def _own(self, trial: FrozenTrial, taken_up: bool = False) -> Claim:
        number, facts = trial._trial_id, trial.user_attrs
        run = run_of(trial)
        self.storage.set_trial_user_attr(number, "owner", self.owner.id)
        self.storage.set_trial_user_attr(number, "run", run)
        if trial.state == TrialState.WAITING:
            self.storage.set_trial_state_values(number, TrialState.RUNNING)
        point = Point(facts["setting"], int(facts["seed"]))
        attempts = int(facts.get("attempts", 0))
        return Claim(number, trial.number, point, run, attempts, taken_up, not taken_up and not attempts)

    def owns(self, claim: Claim) -> bool:
        """Whether a trial is still this driver's: another may have taken it up when this one was silent."""

        def ask() -> bool:
            trial = self.storage.get_trial(claim.id)
            return bool(trial.state == TrialState.RUNNING and trial.user_attrs.get("owner") == self.owner.id)

        return self._patiently(ask)

    def note(self, claim: Claim, facts: Mapping[str, Any]) -> None:
        """Keeps facts of a trial."""

        def write() -> None:
            for key, value in facts.items():
                self.storage.set_trial_user_attr(claim.id, key, value)

        self._patiently(write)

    def report(self, claim: Claim, tokens: int, value: float) -> bool:
        """Keeps a value measured during training; returns whether the trial should be pruned."""

        def write() -> bool:
            if len(self.sweep.objectives) > 1:
                return False
            step = round(tokens / self.unit)
            if step not in self.storage.get_trial(claim.id).intermediate_values:
                self.storage.set_trial_intermediate_value(claim.id, step, value)
            trial = self.storage.get_trial(claim.id)
            return bool(self.study.pruner.prune(self.study, trial))

        return self._patiently(write)

    @contextlib.contextmanager
    def _ours(self, claim: Claim) -> Iterator[bool]:
        with self._lock():
            yield self.owns(claim)

    def finish(self, claim: Claim, state: TrialState, values: Sequence[float] | None = None) -> bool:
        """Ends a trial; returns whether it was still this driver's to end."""

        def write() -> bool:
            with self._ours(claim) as ours:
                if ours:
                    self.study.tell(claim.number, values, state)
                return ours

        return self._patiently(write)

    def give_back(self, claim: Claim, attempts: int) -> None:
        """Puts a trial back into the queue."""

        def write() -> None:
            with self._ours(claim) as ours:
                if ours:
                    self.storage.set_trial_user_attr(claim.id, "attempts", attempts)
                    self.storage.set_trial_user_attr(claim.id, "owner", "")
                    self.storage.set_trial_state_values(claim.id, TrialState.WAITING)

        self._patiently(write)

    def counts(self) -> Counts:
        """How far the study is."""
        minimize = self.sweep.objectives[0].direction == "minimize"
        return counts_of(self._patiently(self._trials), self.owner.id, minimize)

    def best(self) -> dict[str, float]:
        """The best value of each objective so far, by metric."""
        done = self._patiently(lambda: self._trials(TrialState.COMPLETE))
        return {
            objective.metric: (min if objective.direction == "minimize" else max)(t.values[i] for t in done)
            for i, objective in enumerate(self.sweep.objectives)
            if done
        }

    def failure(self) -> str:
        """Why the last trial failed that failed for good."""
        failed = self._patiently(lambda: self._trials(TrialState.FAIL))
        return next((str(t.user_attrs.get("reason", "")) for t in reversed(failed)), "")

    def leave(self) -> None:
        """Takes this driver's sign of life away."""
        with contextlib.suppress(UserError):
            self.study.set_user_attr(f"driver:{self.owner.id}", None)


def unit_of(sweep: Sweep) -> int:
    """Tokens that a step of a report counts: millions, since PostgreSQL keeps steps in 32 bits; less where
    validations lie closer together."""
    evaluation = (merged(sweep.base, sweep.overrides).get("data") or {}).get("evaluation") or {}
    every = evaluation.get("every_tokens") or 0
    return next((unit for unit in (1_000_000, 1_000) if every >= 2 * unit), 1)
