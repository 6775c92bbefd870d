"""optuna-dashboard and MLflow opened in a browser on a finished study: what a person would look for is there."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest

from tests.ablation.studies import make_study

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium"),
    pytest.mark.timeout(600),
]
SCREENSHOTS = os.environ.get("SCREENSHOTS")
"""A folder that keeps what the pages looked like."""

RATIOS = (0.5, 0.3, 0.1)


@contextlib.contextmanager
def serving(command: list[str], port: int, log: Path, **environment: str) -> Iterator[str]:
    """A server on this machine, until the block ends; its address."""
    address = f"http://127.0.0.1:{port}"
    with open(log, "w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **environment},
            start_new_session=True,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline:
                assert process.poll() is None, log.read_text()
                with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5):
                    break
                time.sleep(0.3)
            yield address
        finally:
            os.killpg(process.pid, 15)
            process.wait(30)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def page(address: str, tmp_path: Path, name: str, wanted: list[str], width: int = 1500) -> str:
    """The text of a page once it shows what is wanted, or after the last try."""
    common = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        "--disable-dev-shm-usage", "--hide-scrollbars", f"--window-size={width},1300",
        f"--user-data-dir={tmp_path / 'chromium'}",
    ]  # fmt: skip
    text = ""
    for budget in (15_000, 30_000, 60_000):
        found = subprocess.run(
            [*common, f"--virtual-time-budget={budget}", "--dump-dom", address],
            capture_output=True, text=True, timeout=150, check=False,
        )  # fmt: skip
        text = re.sub(r"<(script|style)\b.*?</\1>", " ", found.stdout, flags=re.DOTALL)
        text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))
        if all(word in text for word in wanted):
            break
    if SCREENSHOTS:
        Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
        file = Path(SCREENSHOTS).resolve() / f"{name}.png"
        subprocess.run(
            [*common, "--virtual-time-budget=30000", f"--screenshot={file}", address],
            capture_output=True, timeout=150, check=False,
        )  # fmt: skip
    missing = [word for word in wanted if word not in text]
    assert not missing, (missing, text[:3000])
    return text


@pytest.fixture
def study(tmp_path: Path) -> optuna.Study:
    return make_study(tmp_path, lambda value, seed: 5 + value + seed / 10)


def test_the_dashboard_shows_the_study_its_history_and_its_parameters(
    study: optuna.Study, tmp_path: Path
) -> None:
    storage = f"sqlite:///{tmp_path / study.study_name / 'study.db'}"
    port = free_port()
    start = f"from optuna_dashboard import run_server; run_server({storage!r}, '127.0.0.1', {port})"
    command = [sys.executable, "-c", start]
    with serving(command, port, tmp_path / "dashboard.log") as address:
        page(f"{address}/dashboard", tmp_path, "dashboard-list", [study.study_name])
        place = f"{address}/dashboard/studies/{study._study_id}"
        page(place, tmp_path, "dashboard-study", ["History", "masking_ratio", "seed"])
        page(f"{place}/trials", tmp_path, "dashboard-trials", ["masking_ratio", "seed", "Complete"])


def tracked(tmp_path: Path, name: str) -> tuple[str, str, str, list[str]]:
    """The study in MLflow as `sweep` writes it: a parent and a child for each trial."""
    from mlflow import MlflowClient

    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = MlflowClient(uri)
    experiment = client.create_experiment(
        "masking_ratio", artifact_location=(tmp_path / "mlartifacts").as_uri()
    )
    parent = client.create_run(experiment, run_name=name).info.run_id
    client.set_terminated(parent, "FINISHED")
    children = []
    for number, ratio in enumerate(RATIOS):
        tags = {"mlflow.parentRunId": parent, "optuna.study": name, "optuna.trial": str(number)}
        child = client.create_run(experiment, run_name=f"trial-{number:03d}", tags=tags).info.run_id
        client.log_param(child, "masking_ratio", ratio)
        client.log_param(child, "seed", 1)
        for step in (1000, 2000):
            client.log_metric(child, "validation/loss/mean", 5 + ratio + 100 / step, step=step)
        client.set_terminated(child, "FINISHED")
        children.append(child)
    return uri, experiment, parent, children


def test_mlflow_shows_the_nested_runs_and_compares_two_of_them(tmp_path: Path) -> None:
    name = "masking_ratio-0123abcd"
    uri, experiment, parent, children = tracked(tmp_path, name)
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--port", str(port),
               "--backend-store-uri", uri, "--workers", "1"]  # fmt: skip
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true"}
    with serving(command, port, tmp_path / "mlflow.log", **quiet) as address:
        runs = f"{address}/#/experiments/{experiment}/runs"
        page(runs, tmp_path, "mlflow-runs", [name[:14], "4 matching runs"])
        page(f"{runs}/{parent}", tmp_path, "mlflow-parent", [name, "Child runs", "trial-000", "trial-002"])
        page(f"{runs}/{children[0]}", tmp_path, "mlflow-child", ["Parent run", name, "masking_ratio", "seed"])
        both = "%22,%22".join(children[:2])
        compared = f"{address}/#/compare-runs?runs=[%22{both}%22]&experiments=[%22{experiment}%22]"
        page(compared, tmp_path, "mlflow-compare", ["masking_ratio", "0.5", "0.3", "validation/loss/mean"])
