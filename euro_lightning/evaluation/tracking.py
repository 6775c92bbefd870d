"""Results in MLflow: each encoder on each task is a run of the experiment `evaluation`."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from euro_lightning.evaluation.judging import Result
from euro_lightning.evaluation.protocol import Protocol
from euro_lightning.files import read_json, write_json
from euro_lightning.run import Run
from euro_lightning.settings import flatten
from euro_lightning.tracking import MlflowWriter, metric_name, without_credentials

EXPERIMENT = "evaluation"


def track(
    results: Mapping[str, Sequence[Result]],
    protocol: Protocol,
    root: Path,
    uri: str | None,
    patience: float = 60.0,
) -> None:
    """Writes what is not there yet; a server that does not answer costs a warning and nothing else.

    Args:
        results: by task.
        protocol: how encoders were fine-tuned.
        root: folder of runs.
        uri: server or database; None takes sqlite:///ROOT/mlflow.db.
        patience: seconds to wait for one run to be written.
    """
    where = uri or f"sqlite:///{(root / 'mlflow.db').resolve()}"
    shown = without_credentials(where)
    for own in results.values():
        for result in own:
            folder = Path(result.folder)
            mark = folder / "tracked.json"
            if mark.is_file() and read_json(mark).get("uri") == shown:
                continue
            write_json(folder / "run.json", {"id": folder.name})
            writer = MlflowWriter(where, EXPERIMENT, Run(folder), False, root)
            writer.start()
            writer.submit(_job(result, protocol))
            writer.close(patience)
            if writer.failure:
                print(f"warning: tracking stopped ({writer.failure})", file=sys.stderr)
                return
            write_json(mark, {"uri": shown})


def metrics_of(result: Result) -> dict[str, list[float]]:
    """Every score by its name in MLflow, one value for each seed."""
    found: dict[str, list[float]] = {}
    for scores in result.validation:
        for name, value in scores.items():
            found.setdefault(f"validation/{name}", []).append(value)
    for test in result.tests:
        for name, value in test.overall.items():
            found.setdefault(f"test/{name}", []).append(value)
        for lang, own in test.languages.items():
            found.setdefault(f"test/{result.metric}/{lang}", []).append(own[result.metric])
    return found


def _job(result: Result, protocol: Protocol) -> Any:
    def job(client: Any, run_id: str) -> None:
        from mlflow.entities import Metric, Param

        values = {"task": result.task, "encoder": result.encoder, "learning_rate": result.learning_rate}
        values |= {f"protocol.{key}": value for key, value in flatten(asdict(protocol)).items()}
        now = int(time.time() * 1000)
        # one value and not one for each seed: a later one would stand for all
        metrics = [
            Metric(metric_name(name), sum(found) / len(found), now, 0)
            for name, found in metrics_of(result).items()
        ]
        client.log_batch(run_id, params=[Param(key, str(value)[:6000]) for key, value in values.items()])
        for start in range(0, len(metrics), 1000):
            client.log_batch(run_id, metrics=metrics[start : start + 1000])
        client.set_terminated(run_id, status="FINISHED")

    return job
