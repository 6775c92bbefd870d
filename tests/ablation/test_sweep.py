"""A sweep runs every point once and says what is wrong in one line; its trials are stand-ins."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml

from euro_lightning.__main__ import main
from tests.ablation.sweeps import OBJECTIVE, start_sweep, states_of, trials_of, write_sweep


def sweep(path: Path, root: Path, *options: str) -> int:
    return main(["sweep", "-c", str(path), "--root", str(root), *options])


def test_a_grid_ends_with_every_point_once_and_a_second_command_does_nothing(
    config: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, root = write_sweep(tmp_path, config), tmp_path / "runs"
    assert sweep(path, root, "--workers", "2") == 0
    trials = trials_of(root)
    points = [(trial.params["masking_ratio"], trial.params["seed"]) for trial in trials]
    assert points == [(0.5, 1), (0.1, 1), (0.5, 2), (0.1, 2)]
    assert [trial.value for trial in trials] == pytest.approx([5.51, 5.11, 5.52, 5.12])
    assert trials[0].user_attrs["setting"] == {"masking_ratio": 0.5}
    assert [tokens for tokens, _ in trials[0].user_attrs["curve"]] == [1000, 2000, 3000]
    shown = capfd.readouterr()
    assert "4 of 4 done" in shown.err and "optuna-dashboard --host 127.0.0.1 sqlite:///" in shown.err
    assert "report ratio-" in shown.out
    assert sweep(path, root) == 0
    assert len(trials_of(root)) == 4
    assert all(len(file.read_text().splitlines()) == 1 for file in root.glob("*/trial-*/starts.txt"))


def test_a_trial_can_be_run_again_by_hand_from_what_its_folder_says(
    config: dict[str, Any], tmp_path: Path
) -> None:
    path, root = write_sweep(tmp_path, config, {"seeds": [7]}), tmp_path / "runs"
    assert sweep(path, root) == 0
    [folder] = root.glob("*/trial-001")
    text = (folder / "overrides.yaml").read_text()
    assert (
        f"python -m euro_lightning fit -c {tmp_path / 'ratio-base.yaml'} -c {folder / 'overrides.yaml'}"
        in text
    )
    assert yaml.safe_load(text) == {"data": {"phases": {"anneal": {"masking_ratio": 0.1}}, "seed": 7}}
    assert " fit -c " in (folder / "log.txt").read_text().splitlines()[0]


def test_an_edited_sweep_is_another_study(config: dict[str, Any], tmp_path: Path) -> None:
    root = tmp_path / "runs"
    assert sweep(write_sweep(tmp_path, config, {"seeds": [1]}), root) == 0
    assert sweep(write_sweep(tmp_path, config, {"seeds": [1, 2]}), root) == 0
    assert sorted(len(list(folder.glob("trial-*"))) for folder in root.glob("ratio-*")) == [2, 4]


def test_trials_that_fall_behind_are_pruned_and_count_as_done(config: dict[str, Any], tmp_path: Path) -> None:
    options = {"upper": 5.9, "n_warmup_steps": 1500}
    path = write_sweep(tmp_path, config, {"pruner": {"name": "ThresholdPruner", "options": options}})
    root = tmp_path / "runs"
    assert sweep(path, root) == 0
    pruned, kept = trials_of(root)[:2]
    assert (pruned.state.name, kept.state.name) == ("PRUNED", "COMPLETE")
    assert (
        pruned.intermediate_values == pytest.approx({1000: 6.51, 2000: 6.01})
        and pruned.user_attrs["tokens"] == 2000
    )
    assert "pruned by ThresholdPruner" in pruned.user_attrs["reason"]


def test_the_first_trials_that_fail_alike_end_the_sweep_and_keep_the_queue(
    config: dict[str, Any], tmp_path: Path, complaint: Callable[..., str]
) -> None:
    path, root = write_sweep(tmp_path, config, fails="the corpus is gone"), tmp_path / "runs"
    line = complaint(1, "sweep", "-c", path, "--root", root)
    assert "the first 2 trials failed alike: the corpus is gone" in line and "log.txt" in line
    assert states_of(root) == ["WAITING"] * 4
    write_sweep(tmp_path, config)
    assert sweep(path, root) == 0
    assert states_of(root) == ["COMPLETE"] * 4


def test_trials_that_are_killed_are_tried_again(config: dict[str, Any], tmp_path: Path) -> None:
    path, root = write_sweep(tmp_path, config, kills_itself=True), tmp_path / "runs"
    assert sweep(path, root) == 0
    assert states_of(root) == ["COMPLETE"] * 4
    assert [trial.user_attrs["attempts"] for trial in trials_of(root)] == [2] * 4


def test_a_point_that_fails_for_good_is_named_and_tried_again_by_the_next_command(
    config: dict[str, Any], tmp_path: Path, complaint: Callable[..., str]
) -> None:
    path = write_sweep(tmp_path, config, {"retries": 1}, fails="out of memory", failing_seeds=[2])
    root = tmp_path / "runs"
    line = complaint(1, "sweep", "-c", path, "--root", root)
    assert "2 of 4 points failed: out of memory" in line
    assert states_of(root) == ["COMPLETE", "COMPLETE", "FAIL", "FAIL"]
    assert trials_of(root)[2].user_attrs["attempts"] == 2
    write_sweep(tmp_path, config)
    assert sweep(path, root) == 0
    done = [trial for trial in trials_of(root) if trial.state.name == "COMPLETE"]
    assert len({str(sorted(trial.params.items())) for trial in done}) == len(done) == 4


def test_a_sampler_runs_each_of_its_settings_with_every_seed(config: dict[str, Any], tmp_path: Path) -> None:
    changes = {
        "space": {
            "data.phases.anneal.masking_ratio": {"low": 0.1, "high": 0.5},
            "data.phases.anneal.learning_rate.peak": {"low": 1e-4, "high": 1e-2, "log": True},
        },
        "sampler": "tpe",
        "budget": {"trials": 6},
    }
    del (recipe := dict(config))["root"]
    path, root = write_sweep(tmp_path, recipe), tmp_path / "runs"
    tree = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**tree, **changes}))
    assert sweep(path, root) == 0
    trials = trials_of(root)
    settings = [(trial.params["masking_ratio"], trial.params["peak"]) for trial in trials]
    assert len(trials) == 6 and len(set(settings)) == 3
    assert all(1e-4 <= peak <= 1e-2 for _, peak in settings)
    assert [trial.params["seed"] for trial in trials] == [1, 2] * 3


def test_a_sweep_that_is_ended_puts_its_trials_back_and_goes_on_from_their_checkpoints(
    config: dict[str, Any], tmp_path: Path
) -> None:
    path, root = write_sweep(tmp_path, config, {"seeds": [1]}, steps=60, step_seconds=0.1), tmp_path / "runs"
    process = start_sweep(path, "--root", root)
    deadline = time.monotonic() + 60
    while not list(root.glob("*/trial-000/checkpoints/*.ckpt")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.terminate()
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and shown.strip().endswith(
        "error: interrupted; the same command goes on"
    )
    assert states_of(root) == ["WAITING", "WAITING"]
    [folder] = root.glob("*/trial-000")
    assert not (folder / "ends.txt").exists()
    write_sweep(tmp_path, config, {"seeds": [1]}, steps=60, step_seconds=0.0)
    assert sweep(path, root) == 0
    assert states_of(root) == ["COMPLETE", "COMPLETE"]
    tokens = [json.loads(line)["tokens"] for line in (folder / "reports.jsonl").read_text().splitlines()]
    assert sorted(set(tokens)) == [1000 * step for step in range(1, 61)] and len(tokens) <= 61


def test_sqlite_takes_one_driver(
    config: dict[str, Any], tmp_path: Path, complaint: Callable[..., str]
) -> None:
    path, root = write_sweep(tmp_path, config, steps=300, step_seconds=0.1), tmp_path / "runs"
    process = start_sweep(path, "--root", root)
    try:
        deadline = time.monotonic() + 60
        while not list(root.glob("*/trial-000/reports.jsonl")) and time.monotonic() < deadline:
            time.sleep(0.05)
        line = complaint(1, "sweep", "-c", path, "--root", root)
        assert "another sweep command works on ratio-" in line and "postgresql://" in line
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_what_is_wrong_with_a_sweep_is_one_line(
    config: dict[str, Any], tmp_path: Path, complaint: Callable[..., str]
) -> None:
    key = "data.phases.anneal.masking_ratio"
    objective = [{"metric": "validation/loss@0.4", "direction": "minimize"}]
    for changes, message in (
        ({"space": {"data.phases.anneal.maskng_ratio": [1]}}, "did you mean 'masking_ratio'"),
        ({"space": {"data.phases.aneal.masking_ratio": [0.5]}}, "no phase 'aneal'; did you mean 'anneal'"),
        ({"space": {"mixture.englsh": [0.5]}}, "did you mean"),
        ({"space": {key: [0.5, 7]}}, "masking_ratio is 7"),
        ({"spaces": {}}, "unknown key 'spaces'; did you mean 'space'"),
        ({"objectives": objective}, "nothing is measured at masking ratio 0.4"),
        ({"objectives": [{"metric": "loss", "direction": "minimize"}]}, "'loss' is no metric"),
        ({"control": {"masking_ratio": 0.2}}, "it is not among the values of space"),
        ({"sampler": "TPESampl", "budget": {"trials": 4}}, "did you mean 'TPESampler'"),
        ({"pruner": {"name": "MedianPrunr"}}, "did you mean 'MedianPruner'"),
        ({"pruner": {"name": "MedianPruner", "options": {"warmup": 1}}}, "unknown key 'warmup'"),
        ({"launcher": "srun {arguments} {argument}"}, "unknown {argument}"),
        ({"base": ["nowhere.yaml"]}, "nowhere.yaml"),
        ({"storage": "mysql://x"}, "storage must begin with sqlite:/// or postgresql://"),
    ):
        path = write_sweep(tmp_path, config)
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))
        assert message in complaint(2, "sweep", "-c", path, "--root", tmp_path / "runs"), changes
    assert not (tmp_path / "runs").exists()
    assert "no scale 'papr'" in complaint(2, "sweep", "-c", write_sweep(tmp_path, config), "--scale", "papr")
    assert "--workers is 0" in complaint(2, "sweep", "-c", path, "--workers", "0")


def test_an_objective_that_no_trial_measures_ends_the_sweep_with_what_there_is(
    config: dict[str, Any], tmp_path: Path, complaint: Callable[..., str]
) -> None:
    wanted = [{"metric": f"{OBJECTIVE}/klingon", "direction": "minimize"}]
    path = write_sweep(tmp_path, config, {"objectives": wanted})
    line = complaint(1, "sweep", "-c", path, "--root", tmp_path / "runs")
    assert f"objective {OBJECTIVE}/klingon was never measured" in line and OBJECTIVE in line


def test_a_storage_that_does_not_answer_is_one_line_without_its_password(
    config: dict[str, Any], tmp_path: Path, complaint: Callable[..., str]
) -> None:
    path = write_sweep(tmp_path, config)
    uri = "postgresql://me:secret@127.0.0.1:9/none"
    line = complaint(1, "sweep", "-c", path, "--root", tmp_path / "runs", "--storage", uri)
    assert "cannot be used" in line and "secret" not in line


def test_a_dry_run_shows_the_points_and_runs_nothing(
    config: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert sweep(write_sweep(tmp_path, config), tmp_path / "runs", "--dry_run") == 0
    shown = capfd.readouterr().out
    assert "Does a lower masking ratio help?" in shown and "masking_ratio" in shown and "stand_in.py" in shown
    assert not (tmp_path / "runs").exists()


@pytest.fixture(autouse=True)
def quiet_optuna() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
