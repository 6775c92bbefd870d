"""Every point of a study ends once, whoever is killed on the way; its trials are stand-ins."""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from euro_lightning.__main__ import main
from euro_lightning.ablation.trial import is_free
from tests.ablation.sweeps import POSTGRESQL, postgresql, start_sweep, states_of, trials_of, write_sweep

SPACE = {"data.phases.anneal.masking_ratio": [0.5, 0.4, 0.3, 0.2]}
TWELVE = {"space": SPACE, "seeds": [1, 2, 3]}

needs_postgresql = pytest.mark.skipif(not POSTGRESQL, reason="PostgreSQL is not installed")


@pytest.fixture
def server() -> Iterator[str]:
    with postgresql() as uri:
        yield uri


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgresql)])
def storage(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "sqlite" else str(request.getfixturevalue("server"))


def options_of(root: Path, storage: str | None) -> list[str]:
    return ["--root", str(root), *(["--storage", storage] if storage else [])]


def stand_ins(driver: int) -> list[psutil.Process]:
    """The trials of a driver that run now."""
    with contextlib.suppress(psutil.NoSuchProcess):
        below = psutil.Process(driver).children(recursive=True)
        return [process for process in below if "-I" not in (line := process.cmdline()) and "fit" in line]
    return []


def wait_until(condition: Callable[[], object], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def end(process: subprocess.Popen[str]) -> None:
    """SIGKILL, unless it has ended."""
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()


def end_with_trials(driver: subprocess.Popen[str]) -> None:
    """SIGKILL to the driver alone; returns when its trials are gone too."""
    trials = stand_ins(driver.pid)
    end(driver)
    assert wait_until(lambda: not any(trial.is_running() for trial in trials), 15), "trials go with it"


def all_complete_once(root: Path, storage: str | None, count: int) -> None:
    trials = trials_of(root, storage)
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * count
    points = Counter((trial.params["masking_ratio"], trial.params["seed"]) for trial in trials)
    assert set(points.values()) == {1}
    for file in root.glob("*/trial-*/ends.txt"):
        assert len(file.read_text().splitlines()) == 1, "no work is done twice"


def test_drivers_and_trials_that_are_killed_leave_nothing_undone_and_nothing_twice(
    config: dict[str, Any], tmp_path: Path, storage: str | None
) -> None:
    changes = {**TWELVE, "retries": 9}
    path = write_sweep(tmp_path, config, changes, steps=6, step_seconds=0.25)
    root, chance = tmp_path / "runs", random.Random(0)
    options = [*options_of(root, storage), "--workers", "2"]
    driver = start_sweep(path, *options)
    try:
        for kill in range(10):
            assert wait_until(lambda d=driver: stand_ins(d.pid) or d.poll() is not None), "trials run"
            assert driver.poll() is None, driver.stdout.read() if driver.stdout else ""
            time.sleep(chance.uniform(0.0, 1.0))
            trials = stand_ins(driver.pid)
            if kill in (2, 5, 8):
                end_with_trials(driver)
                driver = start_sweep(path, *options)
            elif trials:
                with contextlib.suppress(psutil.NoSuchProcess):
                    chance.choice(trials).kill()
        shown, _ = driver.communicate(timeout=120)
        assert driver.returncode == 0, shown
    finally:
        end(driver)
    all_complete_once(root, storage, 12)


@needs_postgresql
def test_two_drivers_share_a_study_and_run_no_point_twice(
    config: dict[str, Any], tmp_path: Path, server: str
) -> None:
    path, root = write_sweep(tmp_path, config, TWELVE), tmp_path / "runs"
    drivers = [start_sweep(path, *options_of(root, server)) for _ in range(2)]
    try:
        shown = [driver.communicate(timeout=120)[0] for driver in drivers]
        assert [driver.returncode for driver in drivers] == [0, 0], shown
    finally:
        for driver in drivers:
            end(driver)
    all_complete_once(root, server, 12)
    assert all(len(file.read_text().splitlines()) == 1 for file in root.glob("*/trial-*/starts.txt"))
    assert all(": starts" in text for text in shown), "both have worked"
    assert len({trial.user_attrs["owner"] for trial in trials_of(root, server)}) == 2


@needs_postgresql
def test_a_driver_takes_up_the_trials_of_one_that_died_and_leaves_those_of_one_that_lives(
    config: dict[str, Any], tmp_path: Path, server: str
) -> None:
    go_on, root = tmp_path / "go_on", tmp_path / "runs"
    path = write_sweep(tmp_path, config, {"seeds": [1]}, waits_for=str(go_on))
    first = start_sweep(path, *options_of(root, server))
    second = None
    try:
        assert wait_until(lambda: list(root.glob("*/trial-000/checkpoints/*.ckpt")))
        second = start_sweep(path, *options_of(root, server))
        assert wait_until(lambda: list(root.glob("*/trial-001/checkpoints/*.ckpt")))
        assert first.poll() is None and len(trials_of(root, server)) == 2
        end_with_trials(first)
        go_on.touch()
        shown, _ = second.communicate(timeout=120)
        assert second.returncode == 0 and "trial 0: masking_ratio 0.5, seed 1: goes on" in shown
    finally:
        end(first)
        if second is not None:
            end(second)
    all_complete_once(root, server, 2)
    assert len((next(root.glob("*/trial-000")) / "starts.txt").read_text().splitlines()) == 2


def test_a_trial_that_ended_while_its_driver_was_dying_is_not_run_again(
    config: dict[str, Any], tmp_path: Path
) -> None:
    go_on, root = tmp_path / "go_on", tmp_path / "runs"
    path = write_sweep(tmp_path, config, {"seeds": [1]}, waits_for=str(go_on))
    driver = start_sweep(path, "--root", root)
    assert wait_until(lambda: list(root.glob("*/trial-000/reports.jsonl")))
    os.kill(driver.pid, signal.SIGSTOP)
    go_on.touch()
    folder = next(root.glob("*/trial-000"))
    assert wait_until(lambda: (folder / "ends.txt").is_file() and is_free(folder))
    end(driver)
    assert states_of(root) == ["RUNNING", "WAITING"]
    assert main(["sweep", "-c", str(path), "--root", str(root)]) == 0
    all_complete_once(root, None, 2)
    assert len((folder / "starts.txt").read_text().splitlines()) == 1
