"""The search for a setting as an Optuna study: a grid whose every point is run once, whatever happens."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from euro_lightning.evaluation.protocol import Protocol

Point = tuple[float, int]
"""A learning rate and a seed."""


class Grid:
    """Which learning rates and seeds were tried, and what came of them; kept in a file.

    A trial is added when it is complete, so a killed search leaves nothing half-done behind.
    """

    def __init__(self, file: Path, protocol: Protocol, higher_is_better: bool) -> None:
        """
        Args:
            file: SQLite database, which optuna-dashboard can show.
            protocol: has the grid.
            higher_is_better: of the score that settings are chosen by.
        """
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.protocol, self.sign = protocol, 1 if higher_is_better else -1
        self._distributions: dict[str, Any] = {
            "learning_rate": optuna.distributions.CategoricalDistribution(protocol.learning_rates),
            "seed": optuna.distributions.CategoricalDistribution(protocol.seeds),
        }
        self.study = optuna.create_study(
            storage=f"sqlite:///{file.resolve()}", study_name=file.parent.name, load_if_exists=True,
            direction="maximize" if higher_is_better else "minimize",
        )  # fmt: skip

    def known(self) -> dict[Point, float]:
        """Scores of the points that were tried; diverged ones are infinitely bad."""
        found = {}
        for trial in self.study.get_trials(deepcopy=False):
            point = trial.params["learning_rate"], trial.params["seed"]
            found[point] = -self.sign * float("inf") if trial.value is None else trial.value
        return found

    def facts(self) -> list[dict[str, Any]]:
        """All that is known of each point."""
        return [{**t.params, "score": t.value, **t.user_attrs} for t in self.study.get_trials(deepcopy=False)]

    def add(self, point: Point, score: float | None, facts: Mapping[str, Any]) -> None:
        """Keeps what came of a point; a score of None means that it diverged."""
        import optuna

        state = optuna.trial.TrialState.FAIL if score is None else optuna.trial.TrialState.COMPLETE
        params = dict(zip(("learning_rate", "seed"), point, strict=True))
        trial = optuna.trial.create_trial(
            params=params,
            distributions=self._distributions,
            value=score,
            state=state,
            user_attrs=dict(facts),
        )
        self.study.add_trial(trial)

    def best(self, rates: Sequence[float]) -> float | None:
        """Of rates whose every seed was tried, the one that is best in the mean; None where all diverged."""
        known = self.known()
        means = {
            rate: self.sign * statistics.fmean(known[rate, seed] for seed in self.protocol.seeds)
            for rate in rates
            if all((rate, seed) in known for seed in self.protocol.seeds)
        }
        best = max(means, key=lambda rate: means[rate], default=None)
        return None if best is None or means[best] == -float("inf") else best
