"""scores.json: what a finished run scored, at every masking ratio that is asked for."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient

from euro_lightning.__main__ import main
from euro_lightning.errors import UserError
from euro_lightning.objective.scores import Score
from euro_lightning.results import Results, read_results
from euro_lightning.tracking import metric_name
from tests.conftest import last_checkpoint, same_weights

Experiment = Callable[..., Path]
RATIOS = {"data.evaluation.masking_ratio": 0.5, "data.evaluation.further_ratios": [0.1, 0.3]}


def scores_at(folder: Path, path: Path, ratio: float) -> dict[str, dict[str, float]]:
    """What validate finds with another ratio, without the mean."""
    assert main(["validate", "-c", str(path), "--data.evaluation.masking_ratio", str(ratio)]) == 0
    found = json.loads((folder / "validation.json").read_text())["scores"]
    return {source: score for source, score in found.items() if source != "mean"}


def test_a_run_is_scored_at_further_ratios_after_its_last_step(
    experiment: Experiment, tmp_path: Path
) -> None:
    assert main(["fit", "-c", str(experiment(name="plain"))]) == 0
    changes = {**RATIOS, "tracking.enabled": True}
    assert main(["fit", "-c", str(experiment(changes, "scored"))]) == 0
    plain, scored = (tmp_path / "runs" / name for name in ("plain", "scored"))
    assert same_weights(last_checkpoint(plain), last_checkpoint(scored)), (
        "measuring leaves the training alone"
    )
    report = json.loads((scored / "scores.json").read_text())
    assert report["tokens"] == 24_576 and report["split"] == "validation" and 0 < report["seconds"] < 120
    assert list(report["scores"]) == ["0.5", "0.1", "0.3"]
    hidden = {ratio: own["en"]["tokens"] for ratio, own in report["scores"].items()}
    assert hidden["0.1"] < hidden["0.3"] < hidden["0.5"]
    for ratio, own in report["scores"].items():
        assert own == scores_at(scored, experiment(name="scored"), float(ratio))

    client = MlflowClient(f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}")
    [run] = client.search_runs([client.get_experiment_by_name("euro_lightning").experiment_id])
    for name, value in read_results(scored).metrics().items():
        assert run.data.metrics[metric_name(name)] == value
    assert run.data.metrics["validation/loss/en"] == report["scores"]["0.5"]["en"]["loss"]


def test_a_finished_run_that_is_continued_is_scored_too(experiment: Experiment, tmp_path: Path) -> None:
    path = str(experiment(RATIOS))
    assert main(["fit", "-c", path]) == 0
    file = tmp_path / "runs" / "small" / "scores.json"
    before = json.loads(file.read_text())
    file.unlink()
    assert main(["fit", "-c", path, "--resume", "last"]) == 0
    assert json.loads(file.read_text()) == before, "the seconds of the first attempt are remembered"


def test_means_weigh_every_source_and_every_ratio_the_same() -> None:
    def score(loss: float, tokens: int) -> Score:
        return Score(loss, 1 / loss, 0.0, 0.0, tokens)

    scores = {
        "0.5": {"en": score(4, 900), "fr": score(8, 100)},
        "0.1": {"en": score(2, 90), "fr": score(2, 10)},
    }
    metrics = Results(1, 1.0, scores).metrics()
    assert metrics["validation/loss@0.5/fr"] == 8
    assert (metrics["validation/loss@0.5"], metrics["validation/loss@0.1"]) == (6, 2)
    assert metrics["validation/loss@mean"] == 4
    assert metrics["validation/loss@mean/fr"] == 5
    assert metrics["validation/accuracy@0.1"] == 0.5
    assert "validation/loss_per_byte@0.1" not in metrics, "bytes were not counted"
    counted = {"0.1": {"en": score(4, 100)._replace(bytes=200)}}
    assert Results(1, 1.0, counted).metrics()["validation/loss_per_byte@0.1/en"] == 2


def test_ratios_out_of_range_and_damaged_files_are_named(
    experiment: Experiment, complaint: Callable[..., str], tmp_path: Path
) -> None:
    path = str(experiment())
    message = complaint(2, "fit", "-c", path, "--data.evaluation.further_ratios", "[0.1, 1.5]")
    assert "data.evaluation.further_ratios[1] is 1.5: it lies between 0 and 1" in message
    (tmp_path / "scores.json").write_text('{"scores": 3}')
    with pytest.raises(UserError, match="has not the form that fit writes"):
        read_results(tmp_path)
