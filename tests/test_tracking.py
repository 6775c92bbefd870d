"""MLflow: one run per training run, the right status, and never a training that fails for it."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient

from euro_lightning.__main__ import main
from euro_lightning.tracking import flatten, metric_name, without_credentials
from tests.conftest import REPOSITORY, command_line, run

Experiment = Callable[..., Path]


def only_run(root: Path):
    client = MlflowClient(f"sqlite:///{root / 'mlflow.db'}")
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    assert len(runs) == 1
    return client, runs[0]


def test_a_run_has_its_parameters_scores_and_configuration(experiment: Experiment, tmp_path: Path) -> None:
    assert main(["fit", "-c", str(experiment({"tracking.enabled": True}))]) == 0
    client, run_ = only_run(tmp_path / "runs")
    assert run_.info.status == "FINISHED" and run_.info.run_name == "small"
    assert run_.data.params["data.phases.anneal.masking_ratio"] == "0.1"
    assert run_.data.params["model.encoder.width"] == "32"
    assert {"tokenizer_hash", "corpus_hash", "code.commit"} <= set(run_.data.tags)
    loss = client.get_metric_history(run_.info.run_id, "train/loss")
    assert [m.step for m in loss] == list(range(1024, 24_577, 1024))
    ratios = {m.step: m.value for m in client.get_metric_history(run_.info.run_id, "train/masked_share")}
    assert ratios[16_384] == 0.5 and ratios[17_408] == 0.1
    assert run_.data.metrics["speed/padding_share"] == 0
    assert 0 <= run_.data.metrics["speed/data_wait_share"] <= 1
    assert {"validation/loss/en", "validation/loss/mean", "validation/accuracy/parallel"} <= set(
        run_.data.metrics
    )
    assert [f.path for f in client.list_artifacts(run_.info.run_id)] == ["config.yaml"]


def test_resuming_continues_the_same_run(experiment: Experiment, tmp_path: Path) -> None:
    path = str(experiment({"tracking.enabled": True}))
    assert main(["fit", "-c", path]) == 0
    more = ["--resume", "last", "--allow_changes", "--data.phases.anneal.tokens", "10240"]
    assert main(["fit", "-c", path, *more]) == 0
    _, run_ = only_run(tmp_path / "runs")
    assert run_.info.status == "FINISHED"
    assert run_.data.params["data.phases.anneal.tokens"] == "8192"
    assert run_.data.tags["resumed.data.phases.anneal.tokens"] == "10240"


def test_a_failed_run_is_marked(experiment: Experiment, tmp_path: Path) -> None:
    fault = {"class_path": "tests.faults.Poison", "init_args": {"step": 6}}
    result = run("fit", "-c", experiment({"tracking.enabled": True, "trainer.callbacks": [fault]}))
    assert result.returncode == 1
    assert only_run(tmp_path / "runs")[1].info.status == "FAILED"
    assert run("fit", "-c", experiment({"tracking.enabled": True}), "--resume", "last").returncode == 0
    assert only_run(tmp_path / "runs")[1].info.status == "FINISHED"


def test_ctrl_c_ends_in_one_line_and_a_killed_run(experiment: Experiment, tmp_path: Path) -> None:
    changes = {
        "tracking.enabled": True,
        "data.phases.pretrain.tokens": 100_000_000,
        "checkpoints.every_tokens": 2048,
    }
    path = experiment(changes)
    process = subprocess.Popen(
        command_line("fit", "-c", path),
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        # tests that run in the background inherit an ignored interrupt
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    checkpoints = tmp_path / "runs" / "small" / "checkpoints"
    deadline = time.monotonic() + 120
    while not list(checkpoints.glob("*.ckpt")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    last = errors.strip().splitlines()[-1]
    assert last.startswith("error: interrupted after") and "--resume" in last
    assert "Traceback" not in errors
    assert only_run(tmp_path / "runs")[1].info.status == "KILLED"


def test_a_server_that_does_not_answer_costs_a_warning(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {
        "tracking.enabled": True,
        "tracking.uri": "http://user:secret@127.0.0.1:9",
        "tracking.patience_seconds": 0.5,
    }
    assert main(["fit", "-c", str(experiment(changes))]) == 0
    output = capsys.readouterr()
    assert "tracking stopped" in output.err and "training goes on" in output.err
    assert "secret" not in output.err + output.out


def test_credentials_are_taken_out_of_uris() -> None:
    assert without_credentials("https://me:pw@host:5000/x") == "https://host:5000/x"
    assert without_credentials("sqlite:///runs/mlflow.db") == "sqlite:///runs/mlflow.db"


def test_names_stay_apart_and_configurations_are_flat() -> None:
    assert metric_name("loss/en") == "loss/en"
    assert len({metric_name(name) for name in ("ação", "ao", "a:o", "ação2")}) == 4
    assert flatten({"a": {"b": {"c": 1}, "d": [1]}}) == {"a.b.c": 1, "a.d": [1]}
