"""A study in MLflow: one parent run, a child for each trial, linked both ways with Optuna."""

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from euro_lightning.ablation.config import Sweep, merged
from euro_lightning.errors import UserError
from euro_lightning.files import locked, read_json
from euro_lightning.tracking import RUN_TAG, metric_name, mlflow_command, without_credentials

_STUDY = "optuna.study"


class StudyTracking:
    """The runs of a study; a server that fails costs a warning and no trial."""

    def __init__(self, sweep: Sweep, root: Path, warn: Callable[[str], None]) -> None:
        """
        Args:
            sweep: the sweep; its base may name a server, or turn tracking off.
            root: folder of studies, where the database is when nothing names a server.
            warn: what to do with a warning.
        """
        settings = merged(sweep.base, sweep.overrides).get("tracking") or {}
        self.enabled = bool(settings.get("enabled", True))
        self._given = settings.get("uri") or os.environ.get("MLFLOW_TRACKING_URI")
        self.uri = self._given or f"sqlite:///{(root / 'mlflow.db').resolve()}"
        self.experiment, self.root, self.study = sweep.stem, root, sweep.study_name
        self._warn = warn
        self._client: Any = None
        self._experiment_id = ""
        self.parent: str | None = None

    @property
    def options(self) -> list[str]:
        """What fit is told about it."""
        if not self.enabled:
            return []
        where = [] if self._given else ["--tracking.uri", self.uri]
        return ["--tracking.experiment", self.experiment, *where]

    @property
    def command(self) -> str | None:
        """The command that shows the runs in a browser."""
        return mlflow_command(self.root, self._given) if self.enabled else None

    def open(self, question: str) -> str | None:
        """Creates or continues the parent run; returns its id, or None without tracking."""
        if self.enabled:
            self._safely(lambda: self._open(question))
        return self.parent

    def _open(self, question: str) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "ERROR")
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.ERROR)
        from mlflow import MlflowClient

        with locked(self.root / ".mlflow.lock"):
            client = MlflowClient(tracking_uri=self.uri)
            known = client.get_experiment_by_name(self.experiment)
            local = self.uri.startswith("sqlite:///")
            place = (self.root / "mlartifacts").resolve().as_uri() if local else None
            self._experiment_id = (
                known.experiment_id
                if known
                else client.create_experiment(self.experiment, artifact_location=place)
            )
            found = client.search_runs(
                [self._experiment_id],
                filter_string=f"tags.`{_STUDY}` = '{self.study}' and tags.`euro_lightning.kind` = 'study'",
                max_results=1,
            )
            tags = {_STUDY: self.study, "euro_lightning.kind": "study", "mlflow.note.content": question}
            run = (
                found[0] if found else client.create_run(self._experiment_id, run_name=self.study, tags=tags)
            )
            self._client, self.parent = client, run.info.run_id
            client.update_run(self.parent, status="RUNNING")

    def tags(self, number: int) -> dict[str, str]:
        """The tags that make a run the child of the study."""
        own = {_STUDY: self.study, "optuna.trial": str(number), "euro_lightning.kind": "trial"}
        return {**own, "mlflow.parentRunId": self.parent} if self.parent else own

    def end_child(
        self, folder: Path, outcome: str, reason: str, metrics: Mapping[str, float], tokens: int
    ) -> str | None:
        """Says in a trial's run how it ended; returns the run's id, or None when there is none."""
        found: str | None = self._safely(lambda: self._end_child(folder, outcome, reason, metrics, tokens))
        return found

    def _end_child(
        self, folder: Path, outcome: str, reason: str, metrics: Mapping[str, float], tokens: int
    ) -> str | None:
        run_id = self._child(folder)
        if run_id is None:
            return None
        from mlflow.entities import Metric, RunTag

        now = int(time.time() * 1000)
        judged = [
            Metric(metric_name(n), v, now, tokens) for n, v in metrics.items() if n.startswith("evaluation/")
        ]
        tags = [RunTag("outcome", outcome), *([RunTag("reason", reason[:5000])] if reason else [])]
        self._client.log_batch(run_id, metrics=judged, tags=tags)
        status = {"complete": "FINISHED", "failed": "FAILED"}.get(outcome, "KILLED")
        self._client.set_terminated(run_id, status=status)
        return run_id

    def _child(self, folder: Path) -> str | None:
        try:
            identity = read_json(folder / "run.json")["id"]
        except UserError:
            return None
        found = self._client.search_runs(
            [self._experiment_id], filter_string=f"tags.`{RUN_TAG}` = '{identity}'", max_results=1
        )
        return str(found[0].info.run_id) if found else None

    def close(self, status: str, values: Mapping[str, float]) -> None:
        """Ends the parent run with what the study came to."""

        def end() -> None:
            for name, value in values.items():
                self._client.log_metric(self.parent, metric_name(name), value)
            self._client.set_terminated(self.parent, status=status)

        self._safely(end)

    def _safely(self, action: Callable[[], Any]) -> Any:
        if not self.enabled or (self._client is None and self.parent is not None):
            return None
        try:
            return action()
        except Exception as error:  # tracking must never end a sweep
            reason = str(error).splitlines()[0].replace(self.uri, without_credentials(self.uri))
            self._warn(f"tracking of the study: {type(error).__name__}: {reason[:200]}")
            return None


def objectives_of(names: Sequence[str], values: Sequence[float] | None) -> dict[str, float]:
    """Values of objectives by name."""
    return dict(zip(names, values, strict=True)) if values else {}
