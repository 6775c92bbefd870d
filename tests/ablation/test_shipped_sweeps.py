"""The shipped sweeps: every setting of every scale is an experiment that can be built."""

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
import yaml

from euro_lightning.__main__ import main
from euro_lightning.ablation.operations import expand_all
from euro_lightning.cli import build, read_settings
from euro_lightning.data.composition import GROUPS
from euro_lightning.data.phase import batch_problems
from euro_lightning.settings import merge, read_file
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.filterwarnings("ignore:LightningCLI")

SWEEPS = sorted((REPOSITORY / "sweeps").glob("*.yaml"))
SCALES = ("default", "paper")
CASES = [(path, scale) for path in SWEEPS for scale in SCALES]
CASES += [(path, "laptop") for path in SWEEPS if "laptop" in read_file(str(path))["scales"]]
IDS = [f"{path.stem}-{scale}" for path, scale in CASES]
FROM_ONE_CHECKPOINT = {
    "masking_ratio", "english_share", "english_share_as_published", "quality_buckets", "length_policy",
    "code_share", "math_share", "parallel_share",
}  # fmt: skip


def at_scale(path: Path, scale: str) -> dict[str, Any]:
    sweep = read_file(str(path))
    scales = sweep.pop("scales")
    return merge(sweep, scales[scale]) if scale != "default" else sweep


def tree_of(base: list[str], changes: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for file in base:
        tree = merge(tree, read_file(str(REPOSITORY / file)))
    for key, value in changes.items():
        for part in reversed(key.split(".")):
            value = {part: value}
        tree = merge(tree, value)
    return tree


def settings_of(sweep: dict[str, Any]) -> list[dict[str, Any]]:
    """The points of a grid; of a range its two ends."""
    values = [v if isinstance(v, list) else [v["low"], v["high"]] for v in sweep["space"].values()]
    return [dict(zip(sweep["space"], point, strict=True)) for point in itertools.product(*values)]


@pytest.mark.parametrize(("path", "scale"), CASES, ids=IDS)
def test_every_setting_is_an_experiment(
    path: Path, scale: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    sweep = at_scale(path, scale)
    base = tree_of(sweep["base"], sweep.get("overrides", {}))
    if sweep.get("init_from"):
        base["init_from"] = "runs/checkpoint"
    settings = settings_of(sweep)
    trees = [merge(base, tree_of([], expand_all(setting, base))) for setting in settings]
    start = sweep.get("init_from")
    if isinstance(start, dict):
        trees.append(tree_of(start["base"], start["overrides"]))
    built = []
    for tree in trees:
        file = tmp_path / "trial.yaml"
        file.write_text(yaml.safe_dump(tree))
        cli = build(read_settings("fit", ["-c", str(file)])[0])
        data, plan = cli.datamodule, cli.model.network_plan
        phases = {
            name: phase.resolved(dict.fromkeys(phase.mixture, 1000), name)
            for name, phase in data.timeline.phases.items()
        }
        for name, (phase, problems) in phases.items():
            assert problems + phase.problems(phase.mixture, name) == []
        assert batch_problems(data.timeline, data.micro_batch_tokens, cli.trainer.world_size) == []
        assert data.evaluation.problems("data.evaluation") == []
        longest = {name: phase.lengths.maximum for name, (phase, _) in phases.items()}
        tokenizer = SimpleNamespace(vocabulary=plan.config.vocabulary or data.config.tokenizer.vocabulary)
        assert plan.problems(tokenizer, longest) == []
        built.append(
            (replace(data.timeline, phases={n: p for n, (p, _) in phases.items()}), plan.config, tree)
        )
    assert len({str(trial) for trial in built[: len(settings)]}) == len(settings), "settings differ"


@pytest.mark.parametrize(("path", "scale"), CASES, ids=IDS)
def test_a_sweep_says_what_it_asks_compares_and_measures(path: Path, scale: str) -> None:
    sweep = at_scale(path, scale)
    assert sweep["question"].endswith("?")
    names = sweep.get("names", {})
    called = {key: names.get(key, key.split(".")[-1]) for key in sweep["space"]}
    for name, value in sweep.get("control", {}).items():
        [key] = [key for key, own in called.items() if own == name]
        assert value in sweep["space"][key]
    assert sweep.get("control") or sweep["sampler"] != "grid"
    measured = sweep["objectives"][0]["metric"]
    assert measured.split("@")[0] in ("validation/loss", "validation/loss_per_byte")
    if path.stem in FROM_ONE_CHECKPOINT:
        assert sweep["init_from"], "annealing starts from one pretrained checkpoint"
    assert not set(tree_of(sweep["base"], {})) & set(GROUPS)


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_every_line_of_a_sweep_is_commented_and_the_header_says_how_to_run_it(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert f"sweep -c sweeps/{path.name}" in lines[1] and "--scale paper" in lines[2]
    for number, line in enumerate(lines, 1):
        structure = line.rstrip().endswith(":") or line.startswith("question:")
        assert not line.strip() or "#" in line or structure, f"{path.name}, line {number}"


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_two_points_run_in_the_default_size(
    path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pytest -m long`: half a minute a trial, and once the encoder that annealing starts with."""
    monkeypatch.chdir(REPOSITORY)
    root = tmp_path_factory.getbasetemp() / "runs"
    tree = {**read_file(str(path)), "budget": {"trials": 2}, "stem": path.stem}
    file = tmp_path_factory.mktemp("sweep") / path.name
    file.write_text(yaml.safe_dump(tree))
    assert main(["sweep", "-c", str(file), "--root", str(root), "--workers", "2"]) == 0
    [database] = root.glob(f"{path.stem}-*[0-9a-f]/study.db")
    [name] = optuna.get_all_study_names(f"sqlite:///{database}")
    trials = optuna.load_study(study_name=name, storage=f"sqlite:///{database}").get_trials(deepcopy=False)
    done = [trial for trial in trials if trial.state.name == "COMPLETE"]
    assert len(done) == 2 and done[0].params != done[1].params
    assert all(0 < trial.values[0] < 9 for trial in done)
