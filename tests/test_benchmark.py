"""benchmark, on an encoder so small that the numbers mean nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from euro_lightning import benchmarking
from euro_lightning.__main__ import main
from euro_lightning.benchmark.measuring import data_rates
from euro_lightning.benchmark.workload import SPECIAL, Workload
from euro_lightning.encoder.config import EncoderConfig

TINY = EncoderConfig(1, 32, 2, 1, 48, vocabulary=211)


@pytest.mark.timeout(280)
def test_it_measures_all_contestants_and_writes_numbers_and_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmarking, "REFERENCE", TINY)
    arguments = [
        "--tokens",
        "1024",
        "--turns",
        "2",
        "--steps",
        "2",
        "--vocabulary",
        "211",
        "--dtypes",
        "float32",
    ]
    assert main(["benchmark", *arguments, "--output", str(tmp_path / "b")]) == 0
    output = capsys.readouterr().out
    numbers = json.loads((tmp_path / "b.json").read_text())
    names = [row["name"] for row in numbers["rows"]]
    assert names == [
        "ours", "ours, compiled", "transformers, padded", "transformers, dense",
        "ours in Lightning", "ours in Lightning, compiled", "padded in Trainer", "dense in Trainer",
    ]  # fmt: skip
    for row in numbers["rows"]:
        assert row["least"] <= row["tokens_per_second"] <= row["most"]
        assert row["name"] in output
    parts = numbers["rows"][0]["seconds"]
    assert set(parts) == {"data", "masking", "encoder", "head and loss", "backward", "optimizer"}
    assert len(numbers["ratios"]) == 4
    assert (tmp_path / "b.png").stat().st_size > 1000


def test_the_documents_have_natural_lengths_and_packing_loses_none_of_them() -> None:
    work = Workload(TINY, "natural", 0.5, 2048)
    sizes = work.documents().sizes
    assert 120 < np.median(sizes) < 180 and sizes.min() >= 16 and sizes.max() == 1024
    batches = work.batches()
    for batch in (next(batches) for _ in range(5)):
        assert len(batch.ids) == 2048 and int(batch.ids.min()) >= SPECIAL
    ids, is_token = next(work.padded())
    assert ids.shape == is_token.shape and is_token.sum(1).max() == ids.shape[1]
    assert next(work.dense())[0].shape == (4, 512)


def test_data_rates_are_of_many_tokens() -> None:
    rates = data_rates(Workload(TINY, "natural", 0.5, 8192), tokens=1_000_000)
    assert set(rates) == {"planner", "planner and packing"}
    assert min(rates.values()) > 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--dtypes", "float16"], "--dtypes float16: choose from float32, bf16"),
        (["--encoder", "eurobert-210"], "did you mean 'eurobert-210m'?"),
        (["--lengths", "short"], "--lengths short: give natural, or a number"),
        (["--lengths", "9000"], "--tokens 8192 is below the longest document (9000)"),
        (["--turns", "0"], "--turns is 0"),
        (["--device", "tpu"], "--device tpu: this machine has cpu"),
        (["--masking_ratio", "1.5"], "between 0 and 1"),
    ],
)
def test_bad_arguments_are_told(arguments: list[str], told: str, complaint: Callable[..., str]) -> None:
    assert told in complaint(2, "benchmark", *arguments)
