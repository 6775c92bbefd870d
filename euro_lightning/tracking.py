"""MLflow: one run per training run, written behind the training's back.

Everything goes through a queue to one thread that owns the client, so a slow or broken
tracking server costs no step and fails no run. Names on the x-axis are tokens.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_warn

from euro_lightning.callbacks.reports import trial_of
from euro_lightning.callbacks.throughput import Throughput
from euro_lightning.callbacks.token_clock import callback_of, data_of
from euro_lightning.files import locked
from euro_lightning.objective.scores import Score, mean_score
from euro_lightning.run import Run
from euro_lightning.settings import flatten

RUN_TAG = "euro_lightning.run"
"""The tag that ties an MLflow run to its run folder."""


def without_credentials(uri: str) -> str:
    """A tracking URI that may be shown: user and password are taken out."""
    parts = urlsplit(uri)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if parts.netloc else uri


class MlflowWriter:
    """An MLflow run behind a queue; see the module's docstring."""

    def __init__(
        self, uri: str, experiment: str, run: Run, system_metrics: bool, home: Path | None = None
    ) -> None:
        """
        Args:
            uri: tracking server or database.
            experiment: name of the MLflow experiment.
            run: the folder that the MLflow run belongs to.
            system_metrics: whether the use of the machine is recorded.
            home: folder of the database's lock and of artifacts; None takes the one around the run.
        """
        self.home = home or run.path.parent
        self.uri, self.experiment, self.run, self.system_metrics = uri, experiment, run, system_metrics
        self.run_id: str | None = None
        self.failure: str | None = None
        self._jobs: queue.Queue[Callable[[Any, str], None] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)

    def start(self) -> None:
        """Opens the run: a new one, or the one that this run folder already has."""
        self._thread.start()

    def submit(self, job: Callable[[Any, str], None]) -> None:
        """Queues a call with the client and the run id."""
        if self.failure is None:
            self._jobs.put(job)

    def close(self, seconds: float) -> None:
        """Writes what is queued, waiting at most that long."""
        self._jobs.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.failure = f"still busy after {seconds:.0f} s"

    def _work(self) -> None:
        monitor = None
        try:
            client = self._open()
            assert self.run_id is not None
            if self.system_metrics:
                from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

                monitor = SystemMetricsMonitor(
                    self.run_id, resume_logging=True, tracking_uri=self.uri, sampling_interval=10
                )
                monitor.start()
            while (job := self._jobs.get()) is not None:
                job(client, self.run_id)
        except Exception as error:  # tracking must never end a training
            self.failure = f"{type(error).__name__}: {error}".splitlines()[0].replace(
                self.uri, without_credentials(self.uri)
            )
        finally:
            if monitor is not None:
                monitor.finish()

    def _open(self) -> Any:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "ERROR")
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.ERROR)
        from mlflow import MlflowClient

        local = self.uri.startswith("sqlite:///")
        # several first starts would race to create the schema and the experiment
        with locked(self.home / ".mlflow.lock"):
            client = MlflowClient(tracking_uri=self.uri)
            experiment = client.get_experiment_by_name(self.experiment)
            if experiment is None:
                place = (self.home / "mlartifacts").resolve().as_uri() if local else None
                number = client.create_experiment(self.experiment, artifact_location=place)
            else:
                number = experiment.experiment_id
        identity = self.run.identity
        found = client.search_runs([number], filter_string=f"tags.`{RUN_TAG}` = '{identity}'", max_results=1)
        if found:
            self.run_id = found[0].info.run_id
            client.update_run(self.run_id, status="RUNNING")
        else:
            tags = {RUN_TAG: identity, "euro_lightning.folder": str(self.run.path)}
            self.run_id = client.create_run(number, run_name=self.run.path.name, tags=tags).info.run_id
        return client


class Tracking(Callback):
    """Sends parameters, measurements and scores to MLflow."""

    def __init__(
        self,
        enabled: bool = True,
        uri: str | None = None,
        experiment: str = "euro_lightning",
        system_metrics: bool = True,
        patience_seconds: float = 60.0,
    ) -> None:
        """
        Args:
            enabled: Whether to track at all.
            uri: Tracking server or database; null takes sqlite:///ROOT/mlflow.db.
            experiment: Name of the MLflow experiment.
            system_metrics: Whether CPU, memory and GPU use are recorded.
            patience_seconds: Longest wait at the end for what is not written yet.
        """
        self.enabled, self.experiment, self.system_metrics = enabled, experiment, system_metrics
        self.uri = uri or os.environ.get("MLFLOW_TRACKING_URI")
        self.patience_seconds = patience_seconds
        self.writer: MlflowWriter | None = None
        self._measured_at = -1
        self._warned = False

    def open(self, run: Run, config: Mapping[str, Any], code: Mapping[str, Any]) -> None:
        """Begins or continues the MLflow run of a run folder; first rank only."""
        if not self.enabled:
            return
        uri = self.uri or f"sqlite:///{(run.path.parent / 'mlflow.db').resolve()}"
        self.writer = MlflowWriter(uri, self.experiment, run, self.system_metrics)
        self.writer.start()
        trial = trial_of(run.path)
        named = {**flatten(config), **(trial.parameters if trial else {})}
        values = {key: str(value)[:6000] for key, value in named.items()}
        self.writer.submit(lambda client, run_id: _log_config(client, run_id, values, code))
        self.writer.submit(lambda client, run_id: client.log_artifact(run_id, str(run.path / "config.yaml")))
        if trial is not None:
            self.tag(trial.tags)

    def tag(self, tags: Mapping[str, str]) -> None:
        """Adds tags, for example content hashes."""
        if self.writer is not None:
            self.writer.submit(lambda client, run_id: _set_tags(client, run_id, tags))

    def send(self, metrics: Mapping[str, float], tokens: int) -> None:
        """Queues metrics at a token clock (`log` is a name that Lightning overwrites)."""
        if self.writer is None:
            return
        now = int(time.time() * 1000)

        def job(client: Any, run_id: str) -> None:
            from mlflow.entities import Metric

            entities = [Metric(metric_name(name), value, now, tokens) for name, value in metrics.items()]
            for start in range(0, len(entities), 1000):
                client.log_batch(run_id, metrics=entities[start : start + 1000])

        self.writer.submit(job)
        self._warn_on_failure()

    def _warn_on_failure(self) -> None:
        if self.writer is not None and self.writer.failure and not self._warned:
            self._warned = True
            rank_zero_warn(f"tracking stopped ({self.writer.failure}); training goes on")

    def finish(self, status: str) -> None:
        """Sets the status of the run and writes what is queued."""
        if self.writer is None:
            return
        self.writer.submit(lambda client, run_id: client.set_terminated(run_id, status=status))
        self.writer.close(self.patience_seconds)
        self._warn_on_failure()
        self.writer = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        data = data_of(trainer)
        self.tag(
            {"tokenizer_hash": data.store.tokenizer_hash, "corpus_hash": str(data.store.manifest["corpus"])}
        )

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        throughput = callback_of(trainer, Throughput)
        if throughput.clock > self._measured_at:
            self._measured_at = throughput.clock
            self.send(throughput.measured, throughput.clock)

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        if trainer.state.fn == "fit":
            self.send(score_metrics("validation", pl_module.scores), data_of(trainer).clock)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.finish("KILLED" if isinstance(exception, KeyboardInterrupt) else "FAILED")


def score_metrics(split: str, scores: Mapping[str, Score]) -> dict[str, float]:
    """Scores as flat metrics: per source, and the mean over sources."""
    metrics = {}
    for source, score in {**scores, "mean": mean_score(scores)}.items():
        metrics[f"{split}/loss/{source}"] = score.loss
        metrics[f"{split}/accuracy/{source}"] = score.accuracy
    return metrics


def metric_name(name: str) -> str:
    """A name that MLflow keeps as it is: it drops other characters, so that two names may become one."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-./ ") else f"_{ord(c):x}_" for c in name)


def _set_tags(client: Any, run_id: str, tags: Mapping[str, str]) -> None:
    from mlflow.entities import RunTag

    client.log_batch(run_id, tags=[RunTag(key, value) for key, value in tags.items()])


def _log_config(client: Any, run_id: str, values: dict[str, str], code: Mapping[str, Any]) -> None:
    from mlflow.entities import Param

    known = client.get_run(run_id).data.params
    if not known:
        params = [Param(key, value) for key, value in values.items()]
        for start in range(0, len(params), 100):
            client.log_batch(run_id, params=params[start : start + 100])
    changed = {key: value for key, value in values.items() if known and known.get(key) != value}
    tags = {f"resumed.{key}": value for key, value in changed.items()}
    tags |= {f"code.{key}": str(value)[:500] for key, value in code.items()}
    _set_tags(client, run_id, tags)


def mlflow_command(root: Path, uri: str | None) -> str:
    """The command that shows the runs in a browser."""
    where = without_credentials(uri) if uri else f"sqlite:///{root / 'mlflow.db'}"
    return f"mlflow ui --host 127.0.0.1 --backend-store-uri {where}"
