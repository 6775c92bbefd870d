"""compare RUN RUN: what differs and what came of it, side by side."""

from collections.abc import Callable
from pathlib import Path

import pytest

from euro_lightning.__main__ import main
from euro_lightning.results import read_results


def cells(output: str, first: str) -> list[str]:
    rows = [line.replace("┃", "│").strip("│ ") for line in output.splitlines()]
    [row] = [row for row in rows if row.split("│")[0].strip() == first]
    return [cell.strip() for cell in row.split("│")]


def test_runs_are_shown_side_by_side(
    experiment: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    further = {"data.evaluation.further_ratios": [0.5]}
    assert main(["fit", "-c", str(experiment(further, "high"))]) == 0
    assert (
        main(["fit", "-c", str(experiment({**further, "data.phases.anneal.masking_ratio": 0.3}, "low"))]) == 0
    )
    high, low = (tmp_path / "runs" / name for name in ("high", "low"))
    capsys.readouterr()
    assert main(["compare", str(high), str(low)]) == 0
    output = capsys.readouterr().out
    assert cells(output, "key") == ["key", "high", "low"]
    assert cells(output, "data.phases.anneal.masking_ratio")[1:] == ["0.1", "0.3"]
    assert "batch_tokens" not in output and "validation/loss@0.5/en" not in output
    expected = [f"{read_results(run).metrics()['validation/loss@0.5']:.4f}" for run in (high, low)]
    assert cells(output, "validation/loss@0.5")[1:] == expected
    assert (
        f"mlflow ui --host 127.0.0.1 --backend-store-uri sqlite:///{tmp_path / 'runs' / 'mlflow.db'}"
        in output
    )
    assert main(["compare", str(high), str(low), "--all"]) == 0
    output = capsys.readouterr().out
    assert cells(output, "data.batch_tokens")[1:] == ["1024", "1024"] and "validation/loss@0.5/en" in output
    (low / "scores.json").unlink()
    assert main(["compare", str(high), str(low)]) == 0
    assert f"{low} has no final scores: it has not ended" in capsys.readouterr().out


def test_a_folder_that_is_no_run_and_too_few_runs_are_named(
    tmp_path: Path, complaint: Callable[..., str]
) -> None:
    assert "give at least two run folders" in complaint(2, "compare", str(tmp_path))
    message = complaint(1, "compare", str(tmp_path), str(tmp_path / "x"))
    assert message == f"{tmp_path} is no run folder: it has no config.yaml"
