"""Runs a study to its end: takes points from the queue, trains them in workers, and writes down what came of them."""

import os
import time
from pathlib import Path

from optuna.trial import TrialState

from euro_lightning.ablation.operations import describe
from euro_lightning.ablation.outcome import Outcome
from euro_lightning.ablation.slots import BUSY, Slot
from euro_lightning.ablation.space import changes_of, params_of
from euro_lightning.ablation.study import Study
from euro_lightning.ablation.tracking import StudyTracking
from euro_lightning.ablation.trial import LOG, OVERRIDES, Job
from euro_lightning.ablation.trials import Claim, Counts
from euro_lightning.ablation.view import View
from euro_lightning.callbacks.reports import Trial
from euro_lightning.errors import UserError
from euro_lightning.settings import nested, read_file

POLL = 0.1
"""Seconds between looks at the workers."""

ASK = 2.0
"""Seconds between looks at a queue that had nothing."""

ALIKE = 2
"""Points that fail alike, before any has ended well, end the sweep."""

STATES = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "diverged": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
"""A setting that diverges is a result, not a failure of the machine."""


class Driver:
    """The workers of one machine."""

    def __init__(
        self,
        study: Study,
        folder: Path,
        workers: int,
        start: str | None,
        tracking: StudyTracking,
        view: View,
    ) -> None:
        """
        Args:
            study: the queue.
            folder: of the study.
            workers: trials at once.
            start: the weights that trials start with.
            tracking: the study's runs.
            view: told what is going on.
        """
        self.study, self.sweep, self.folder = study, study.sweep, folder
        self.workers, self.start, self.tracking, self.view = workers, start, tracking, view
        self.slots: list[Slot] = []
        self._asked = 0.0
        self._ended_well = 0
        self._alike: dict[str, set[int]] = {}
        hours = self.sweep.budget.hours
        self._deadline = time.monotonic() + 3600 * hours if hours else float("inf")

    def run(self) -> Counts:
        """Works until the queue is empty or the budget spent.

        Raises:
            UserError: the first trials fail alike, an objective was never measured, or the storage is gone.
        """
        try:
            while True:
                self.beat()
                for slot in list(self.slots):
                    self._step(slot)
                self._fill()
                counts = self.view.show(self.study.counts, self.slots)
                if not self.slots and self._is_over(counts):
                    return self.study.counts()
                time.sleep(POLL)
        finally:
            self._stop()

    def _is_over(self, counts: Counts) -> bool:
        """Trials of other drivers are waited for: they come back to the queue when their driver dies."""
        if time.monotonic() > self._deadline:
            return True
        return self._asked > 0 and not counts.elsewhere

    def beat(self) -> None:
        """Says now and then that this driver lives, and lets go of trials that others have taken up."""
        if not self.study.beat_now_and_then():
            return
        for slot in list(self.slots):
            if not self.study.owns(slot.claim):
                self.view.say(f"trial {slot.claim.number}: another driver has taken it up")
                self._drop(slot)

    def _drop(self, slot: Slot) -> None:
        slot.stop()
        slot.wait()
        self.slots.remove(slot)

    def _fill(self) -> None:
        """Gives free workers trials."""
        if self._asked and time.monotonic() - self._asked < ASK:
            return
        while len(self.slots) < self.workers:
            claim = self.study.claim(fresh=time.monotonic() < self._deadline)
            if claim is None:
                self._asked = time.monotonic()
                return
            self._asked = 0.0
            self._take(claim)

    def _take(self, claim: Claim) -> None:
        job = Job(self.folder / claim.run, self.sweep.base, self.tracking.options, self.sweep.launcher)
        worker = min(set(range(self.workers)) - {slot.worker for slot in self.slots})
        records = self.folder.parent / "evaluation"
        self.slots.append(Slot(worker, claim, job, records, environment_of(worker, self.workers)))
        changes = changes_of(self.sweep, claim.point, self.start)
        known = job.folder / OVERRIDES
        if claim.fresh and known.is_file() and read_file(str(known)) != nested(changes):
            raise UserError(
                f"{job.folder} holds another trial than number {claim.number} of {self.study.name};"
                " move it away, or choose another --root"
            )
        job.write(
            changes,
            Trial(self.tracking.tags(claim.number), params_of(claim.point), self.sweep.pruner is not None),
        )
        how = "goes on" if claim.taken_up or not claim.fresh else "starts"
        self.view.say(
            f"trial {claim.number}: {describe(params_of(claim.point))}: {how}; log {job.folder / LOG}"
        )

    def _step(self, slot: Slot) -> None:
        outcome = slot.step(self.sweep, lambda tokens, value: self.study.report(slot.claim, tokens, value))
        if outcome is None:
            return
        slot.wait()
        self.slots.remove(slot)
        if outcome.reason == BUSY:
            self.study.give_back(slot.claim, slot.claim.attempts)
        elif outcome.kind == "failed":
            self._failed(slot, outcome)
        else:
            self._finish(slot, outcome, slot.claim.attempts + 1)

    def _failed(self, slot: Slot, outcome: Outcome) -> None:
        """Another attempt, unless there were enough; one that got further than those before does not count."""
        claim = slot.claim
        attempts = max(1, claim.attempts) if slot.moved else claim.attempts + 1
        self.view.say(f"trial {claim.number}: attempt failed: {outcome.reason}")
        if attempts > self.sweep.retries:
            self._finish(slot, outcome, attempts)
        else:
            self.study.note(claim, {"reason": outcome.reason})
            self.study.give_back(claim, attempts)
        if slot.moved or self._ended_well or outcome.killed:
            return
        alike = self._alike.setdefault(outcome.reason.replace(claim.run, "TRIAL"), set())
        alike.add(claim.number)
        if len(alike) >= ALIKE:
            raise UserError(
                f"the first {len(alike)} trials failed alike: {outcome.reason} (log {slot.folder / LOG}); mend it and"
                " run the same command: the queue is kept"
            )

    def _finish(self, slot: Slot, outcome: Outcome, attempts: int) -> None:
        claim, metrics = slot.claim, outcome.metrics
        wanted = [objective.metric for objective in self.sweep.objectives]
        missing = [name for name in wanted if name not in metrics] if outcome.kind == "complete" else []
        kind, reason = outcome.kind, outcome.reason
        if missing:
            kind, reason = "failed", f"objective {missing[0]} was never measured"
        tokens = int(outcome.facts.get("tokens", 0))
        run_id = self.tracking.end_child(slot.folder, kind, reason, metrics, tokens)
        facts = {
            **{key: value for key, value in outcome.facts.items() if value is not None},
            "metrics": dict(metrics),
            "curve": [list(pair) for pair in slot.curve],
            "attempts": attempts,
            "run": str(slot.folder),
            "reason": reason,
            "mlflow_run_id": run_id,
        }
        self.study.note(claim, facts)
        values = [metrics[name] for name in wanted] if kind == "complete" else None
        if not self.study.finish(claim, STATES[kind], values):
            return
        self._ended_well += kind != "failed"
        result = "  ".join(f"{name} {metrics[name]:.4f}" for name in wanted) if values else reason
        self.view.ended(claim, kind, result, time.monotonic() - slot.since)
        if missing:
            measured = ", ".join(sorted(name for name in metrics if name.count("/") == 1)) or "nothing"
            raise UserError(
                f"trial {claim.number}: {reason}; measured are {measured} and each of them by source"
            )

    def _stop(self) -> None:
        """Ends what runs and puts it back into the queue, from where it goes on later."""
        for slot in self.slots:
            slot.stop()
        for slot in self.slots:
            slot.wait()
        try:
            for slot in self.slots:
                self.study.give_back(slot.claim, slot.claim.attempts)
            self.study.leave()
        except UserError:
            self.view.say("the storage does not answer; its trials are taken up again at the next start")
        self.slots = []


def environment_of(worker: int, workers: int) -> dict[str, str]:
    """Variables that share a machine's cores and GPUs evenly among workers; what is set already stays."""
    if workers == 1:
        return {}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    own = {"OMP_NUM_THREADS": str(max(1, cores // workers))}
    found = {key: value for key, value in own.items() if key not in os.environ}
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = given.split(",") if given else [str(number) for number in range(_gpus())]
    if len(devices) > 1:
        share = max(1, len(devices) // workers)
        first = worker * share % len(devices)
        found["CUDA_VISIBLE_DEVICES"] = ",".join(devices[first : first + share])
    return found


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()
