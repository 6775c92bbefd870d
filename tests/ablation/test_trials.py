"""A sweep of real fits: what they start with, what they are judged on, what MLflow knows of them."""

import json
import shlex
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml

from euro_lightning.__main__ import main
from euro_lightning.ablation.reading import read_sweep
from euro_lightning.ablation.space import Point, tree_of
from euro_lightning.cli import build
from euro_lightning.settings import merge
from tests.ablation.sweeps import trials_of, write_sweep
from tests.conftest import run, write_jsonl
from tests.evaluation.small import colours

LAUNCHER = "{python} -m euro_lightning {arguments}"
PHASE = "data.phases.anneal"


@pytest.fixture
def recipe(config: dict[str, Any]) -> dict[str, Any]:
    """An experiment of 8 steps, tracked."""
    del config["root"], config["data"]["phases"]["pretrain"]
    return merge(config, {"tracking": {"enabled": True, "system_metrics": False}})


def write_task(folder: Path) -> Path:
    texts = [
        {"id": item.row, "lang": "fr", "text": item.texts[1], "label": "ab"[int(item.target)]}
        for item in colours(60)
    ]
    task = {
        "family": "classification", "metric": "accuracy", "labels": ["a", "b"],
        "data": {"path": str(write_jsonl(folder / "texts.jsonl", texts)), "columns": {"id": "id", "lang": "lang"}},
        "cut": {"all": {"train": 0.5, "validation": 0.25, "test": 0.25}},
    }  # fmt: skip
    path = folder / "colour.yaml"
    path.write_text(yaml.safe_dump(task))
    return path


def test_trials_start_from_one_pretrained_encoder_and_are_judged_on_tasks(
    recipe: dict[str, Any], tmp_path: Path
) -> None:
    first = tmp_path / "pretrain.yaml"
    first.write_text(yaml.safe_dump(recipe))
    recipe["data"]["evaluation"]["further_ratios"] = [0.3]
    protocol = {
        "steps": 4, "batch_size": 8, "learning_rates": [0.01], "seeds": [1], "evaluate_every": 4, "max_length": 64,
    }  # fmt: skip
    changes = {
        "init_from": {"base": [str(first)], "overrides": {f"{PHASE}.masking_ratio": 0.5}},
        "seeds": [3],
        "launcher": LAUNCHER,
        "objectives": [
            {"metric": "evaluation/colour", "direction": "maximize"},
            {"metric": "validation/loss@0.3", "direction": "minimize"},
        ],
        "evaluation": {"tasks": [str(write_task(tmp_path))], "protocol_overrides": protocol},
    }
    path, root = write_sweep(tmp_path, recipe, changes), tmp_path / "runs"
    assert main(["sweep", "-c", str(path), "--root", str(root), "--workers", "2"]) == 0
    trials = trials_of(root)
    [start] = root.glob("start-*")
    for trial in trials:
        assert trial.state.name == "COMPLETE" and 0 <= trial.values[0] <= 1
        folder = Path(trial.user_attrs["run"])
        scores = json.loads((folder / "scores.json").read_text())
        assert trial.user_attrs["metrics"]["validation/loss@0.3"] == trial.values[1]
        assert set(scores["scores"]) == {"0.15", "0.3"} and trial.user_attrs["tokens"] == 8192
        assert yaml.safe_load((folder / "overrides.yaml").read_text())["init_from"] == str(start)
        assert f"starts with the weights of {start}" in (folder / "log.txt").read_text()
    check_tracking(root, trials)
    again = shlex.split(next(root.glob("*/trial-001/overrides.yaml")).read_text().splitlines()[1])
    words = again[again.index("fit") :]
    done = run(*words, "--root", tmp_path / "by-hand", OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    [folder] = (tmp_path / "by-hand").glob("again-*")
    by_hand = json.loads((folder / "scores.json").read_text())["scores"]
    assert by_hand == json.loads(next(root.glob("*/trial-001/scores.json")).read_text())["scores"]


def check_tracking(root: Path, trials: list[optuna.trial.FrozenTrial]) -> None:
    """One run for the study, one below it for each trial, linked both ways."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{(root / 'mlflow.db').resolve()}")
    [experiment] = [e for e in client.search_experiments() if e.name == "ratio"]
    runs = client.search_runs([experiment.experiment_id])
    [parent] = [r for r in runs if r.data.tags.get("euro_lightning.kind") == "study"]
    children = [r for r in runs if r.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert parent.info.status == "FINISHED" and len(children) == len(trials)
    by_number = {int(child.data.tags["optuna.trial"]): child for child in children}
    for trial in trials:
        child = by_number[trial.number]
        assert child.info.status == "FINISHED" and child.data.tags["outcome"] == "complete"
        assert trial.user_attrs["mlflow_run_id"] == child.info.run_id
        assert child.data.params["masking_ratio"] == str(trial.params["masking_ratio"])
        assert child.data.params["seed"] == "3"
        assert child.data.metrics["evaluation/colour"] == trial.values[0]


def test_a_trial_of_two_processes_is_one_trial_and_both_leave_when_it_is_pruned(
    recipe: dict[str, Any], tmp_path: Path
) -> None:
    recipe["trainer"] = {**recipe["trainer"], "devices": 2, "strategy": "ddp"}
    recipe["data"]["evaluation"]["every_tokens"] = 2048
    changes = {
        "seeds": [1],
        "space": {f"{PHASE}.masking_ratio": [0.5]},
        "launcher": "{python} -m torch.distributed.run --standalone --nproc_per_node 2 -m euro_lightning {arguments}",
        "pruner": {"name": "ThresholdPruner", "options": {"upper": 0.0, "n_warmup_steps": 3}},
    }
    path, root = write_sweep(tmp_path, recipe), tmp_path / "runs"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))
    result = run("sweep", "-c", path, "--root", root)
    assert result.returncode == 0, result.stderr
    [trial] = trials_of(root)
    assert trial.state.name == "PRUNED" and list(trial.intermediate_values) == [2, 4]
    log = (Path(trial.user_attrs["run"]) / "log.txt").read_text()
    assert log.count("pruned after 4,096 tokens") == 1 and "Traceback" not in log and "exitcode" not in log
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{(root / 'mlflow.db').resolve()}")
    [experiment] = [e for e in client.search_experiments() if e.name == "ratio"]
    runs = client.search_runs([experiment.experiment_id])
    [child] = [r for r in runs if r.data.tags["euro_lightning.kind"] == "trial"]
    assert child.info.status == "KILLED" and child.data.tags["outcome"] == "pruned" and len(runs) == 2


def test_the_same_seed_has_the_same_batches_in_settings_that_do_not_touch_the_data(
    recipe: dict[str, Any], tmp_path: Path
) -> None:
    sweep = read_sweep(str(write_sweep(tmp_path, recipe)))

    def plans(ratio: float, seed: int) -> list[Any]:
        data = build(tree_of(sweep, Point({"masking_ratio": ratio}, seed))).datamodule
        data.prepare_data()
        data.setup("fit")
        return [batch.plan for batch in data.train_dataloader()]

    assert plans(0.5, 1) == plans(0.1, 1) != plans(0.1, 2)
