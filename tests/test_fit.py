"""fit, validate, test, predict and prepare from the command line."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
import yaml

from euro_lightning.__main__ import main
from euro_lightning.checkpoint import list_checkpoints, read_facts
from tests.conftest import command_line, last_checkpoint, run, same_weights


@pytest.fixture
def trained(experiment: Callable[..., Path], tmp_path: Path) -> Path:
    """A finished run."""
    assert main(["fit", "-c", str(experiment())]) == 0
    return tmp_path / "runs" / "small"


def test_fit_trains_and_reports_every_source_beside_its_unigrams(
    experiment: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "-c", str(experiment())]) == 0
    trained = tmp_path / "runs" / "small"
    report = json.loads((trained / "validation.json").read_text())
    assert report["tokens"] == 24_576
    assert set(report["scores"]) == {"en", "fr", "code", "parallel", "mean"}
    mean = report["scores"]["mean"]
    assert mean["loss"] < math.log(400) - 0.8, "24 steps are enough to leave the uniform distribution"
    for score in report["scores"].values():
        assert 0 <= score["accuracy"] <= 1 and score["tokens"] > 0
        assert score["source_unigram"] < score["mixture_unigram"] + 0.5
    output = capsys.readouterr().out
    for expected in ("unigram", "parallel", str(trained), "mlflow ui --host 127.0.0.1", "--resume"):
        assert expected in output


def test_checkpoints_are_kept_at_intervals_and_at_the_end_of_each_phase(trained: Path) -> None:
    tokens = [int(path.stem.removeprefix("tokens-")) for path in list_checkpoints(trained / "checkpoints")]
    assert tokens == [8192, 12_288, 16_384, 20_480, 24_576]
    facts = read_facts(last_checkpoint(trained))
    assert facts["rotary_base"] == 250_000.0
    assert facts["recipe"]["data.phases.anneal.masking_ratio"] == 0.1


def test_a_run_folder_holds_the_whole_configuration_and_it_can_be_run_again(trained: Path) -> None:
    config = yaml.safe_load((trained / "config.yaml").read_text())
    assert config["data"]["seed"] == 17, "defaults are written out"
    assert json.loads((trained / "code.json").read_text())["torch"] == str(torch.__version__)
    assert main(["fit", "-c", str(trained / "config.yaml")]) == 0
    again = trained.with_name("small-2")
    assert same_weights(last_checkpoint(trained), last_checkpoint(again)), (
        "the same recipe gives the same weights"
    )


def test_validate_repeats_the_final_table_and_test_reads_other_documents(
    trained: Path, experiment: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before = json.loads((trained / "validation.json").read_text())
    assert main(["validate", "-c", str(experiment())]) == 0
    assert json.loads((trained / "validation.json").read_text()) == before
    assert main(["test", "-c", str(experiment()), "--checkpoint", str(last_checkpoint(trained))]) == 0
    other = json.loads((trained / "test.json").read_text())
    assert other["scores"]["en"]["loss"] != before["scores"]["en"]["loss"]


def test_predict_writes_a_vector_for_each_line(
    trained: Path, experiment: Callable[..., Path], tmp_path: Path
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("First line.\n\nEt une autre.\nFirst line.\n" + "long " * 500 + "\n")
    output = tmp_path / "vectors.parquet"
    assert main(["predict", "-c", str(experiment()), "--input", str(texts), "--output", str(output)]) == 0
    table = pq.read_table(output)
    assert table["text"].to_pylist()[:3] == ["First line.", "Et une autre.", "First line."]
    vectors = torch.tensor(table["vector"].to_pylist())
    assert vectors.shape == (4, 32)
    assert torch.allclose(vectors[0], vectors[2], atol=1e-6)
    assert not torch.allclose(vectors[0], vectors[1], atol=1e-2)


def test_predict_fills_masks(
    trained: Path, experiment: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("no mask here\nThe <mask> of <mask>.\n")
    assert main(["predict", "-c", str(experiment()), "--input", str(texts), "--fill"]) == 0
    output = capsys.readouterr().out
    assert output.count("%") == 10, "five words for each of two masks"


def test_prepare_lists_the_store_and_verifies_it(
    experiment: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prepare", "-c", str(experiment()), "--verify"]) == 0
    output = capsys.readouterr().out
    assert "files verified" in output and "validation" in output


def test_init_from_takes_weights_and_starts_its_own_schedules(
    trained: Path, experiment: Callable[..., Path], tmp_path: Path
) -> None:
    changes = {"data.phases.pretrain.tokens": 1024, "data.phases.anneal.tokens": 1024}
    changes |= {
        "data.phases.pretrain.learning_rate.peak": 1e-12,
        "data.phases.anneal.learning_rate.peak": 1e-12,
    }
    path = experiment({**changes, "data.phases.pretrain.learning_rate.warmup": 0}, "child")
    assert main(["fit", "-c", str(path), "--init_from", str(trained)]) == 0
    child = last_checkpoint(tmp_path / "runs" / "child")
    assert child.stem.endswith("2048"), "its own clock"
    ours, theirs = (torch.load(p, weights_only=True)["state_dict"] for p in (child, last_checkpoint(trained)))
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-9) for name in theirs)


def test_help_answers_at_once_and_lists_the_commands() -> None:
    import subprocess
    import time

    started = time.monotonic()  # of a fresh interpreter: a forked one has imported everything before
    result = subprocess.run(command_line("--help"), capture_output=True, text=True, check=False)
    assert result.returncode == 0 and "validate" in result.stdout
    assert (
        time.monotonic() - started < 5
    )  # under a second by itself; the machine may be busy with other tests


def test_the_command_table_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys, euro_lightning.__main__ as m; m.main(['fti']);"
        " sys.exit('torch' in sys.modules or 'lightning' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_help_of_a_command_explains_every_key() -> None:
    result = run("fit", "--help")
    assert result.returncode == 0
    for expected in (
        "--data.batch_tokens",
        "Tokens in a global batch",
        "--resume",
        "continue exactly",
        "warmup",
    ):
        assert expected in result.stdout


def test_mixed_precision_trains_on_a_cpu(experiment: Callable[..., Path], tmp_path: Path) -> None:
    assert main(["fit", "-c", str(experiment()), "--trainer.precision", "bf16-mixed"]) == 0
    report = json.loads((tmp_path / "runs" / "small" / "validation.json").read_text())
    assert report["scores"]["mean"]["loss"] < math.log(400) - 0.7


def test_the_last_of_several_files_wins_key_by_key(experiment: Callable[..., Path], tmp_path: Path) -> None:
    from euro_lightning.cli import read_settings

    change = tmp_path / "change.yaml"
    change.write_text("data: {seed: 5}\nmodel: {encoder: {width: 16}}\n")
    tree, options = read_settings("fit", ["-c", str(experiment()), "-c", str(change), "--data.workers=1"])
    assert (tree["data"]["seed"], tree["data"]["workers"], tree["data"]["batch_tokens"]) == (5, 1, 1024)
    assert tree["model"]["encoder"]["width"] == 16 and tree["model"]["encoder"]["layers"] == 1
    assert options.name == "small"
    preset, _ = read_settings(
        "fit", ["-c", str(experiment({"model.encoder": "tiny"})), "--model.encoder.layers", "3"]
    )
    assert preset["model"]["encoder"] == {"preset": "tiny", "layers": 3}
