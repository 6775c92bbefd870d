"""evaluate, as a user runs it, on tasks that are learned in seconds."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from euro_lightning import evaluating
from euro_lightning.__main__ import main
from euro_lightning.evaluating import read_protocol
from euro_lightning.evaluation import judging
from euro_lightning.evaluation.encoders import open_encoder
from euro_lightning.evaluation.encoding import Encoding
from euro_lightning.evaluation.judging import Case
from euro_lightning.evaluation.protocol import Protocol
from euro_lightning.evaluation.task import read_task
from tests.conftest import REPOSITORY, write_jsonl
from tests.evaluation.small import QUICK, SHAPE, colours, minilm, pairs, tagged, tokenizer_of

PROTOCOL = {
    "steps": 20, "batch_size": 8, "learning_rates": [0.01, 1.0e-4], "seeds": [1, 2], "evaluate_every": 10,
    "optimizer": {"epsilon": 1.0e-8, "weight_decay": 0.0}, "max_length": 64,
}  # fmt: skip

EUROBERT = str(REPOSITORY / "experiments" / "evaluation" / "protocols" / "eurobert.yaml")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a tokenizer, a protocol and three tasks, which the command is run in."""
    monkeypatch.chdir(tmp_path)
    tokenizer_of("bpe").save(tmp_path / "tokenizer.json")
    texts, words = [], []
    for number, item in enumerate(colours(90)):
        lang = ("fr", "pt")[number // 2 % 2]
        texts.append({"id": item.row, "lang": lang, "text": item.texts[1], "label": "ab"[int(item.target)]})
    for sentence in tagged(90):
        names = ["O", "B-V", "I-V"]
        words.append(
            {"id": sentence.row, "tokens": sentence.words, "tags": [names[n] for n in sentence.labels]}
        )
    write_jsonl(tmp_path / "texts.jsonl", texts)
    write_jsonl(tmp_path / "words.jsonl", words)
    write_jsonl(tmp_path / "pairs.jsonl", [
        {"id": pair.row, "query": pair.query, "document": pair.positive} for pair in pairs(40)
    ])  # fmt: skip
    cut = {"all": {"train": 0.5, "validation": 0.25, "test": 0.25}}
    described: dict[str, dict[str, Any]] = {
        "colour": {
            "family": "classification", "metric": "accuracy", "labels": ["a", "b"],
            "data": {"path": "texts.jsonl", "columns": {"id": "id", "lang": "lang"}},
        },
        "names": {
            "family": "token_classification", "metric": "entity_f1", "entities": ["V"],
            "data": {"path": "words.jsonl", "lang": "fr", "columns": {"id": "id"}},
        },
        "answers": {
            "family": "retrieval", "metric": "ndcg@10",
            "data": {"path": "pairs.jsonl", "lang": "fr", "columns": {"id": "id"}},
        },
    }  # fmt: skip
    for name, tree in described.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({**tree, "cut": cut}))
    (tmp_path / "protocol.yaml").write_text(yaml.safe_dump(PROTOCOL))
    return tmp_path


def encoder(seed_width: int = 32) -> str:
    return f"random:{SHAPE.replace('width: 32', f'width: {seed_width}')}@tokenizer.json"


def evaluate(
    *tasks: str,
    encoders: tuple[str, ...] = (),
    options: tuple[str, ...] = (),
    protocol: str = "protocol.yaml",
) -> list[str]:
    files = [f"{task}.yaml" for task in tasks]
    names = encoders or (encoder(),)
    return ["evaluate", "-c", *files, "--encoder", *names, "--protocol", protocol, *options]


def test_it_compares_encoders_on_tasks_and_keeps_what_was_judged(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = evaluate(
        "colour", "names", "answers", encoders=(encoder(), encoder(48)), options=("--lengths", "--untuned")
    )
    assert main(arguments) == 0
    shown = capsys.readouterr()
    assert "average" in shown.out and "±" in shown.out and "paired t-tests" in shown.out
    assert "tokens per word" in shown.out and "by length" in shown.out
    numbers = json.loads((place / "evaluation.json").read_text())
    assert len(numbers["results"]) == 6 and len(numbers["differences"]) == 3
    assert set(numbers["average_ranks"].values()) <= {1.0, 1.25, 1.5, 1.75, 2.0, 4 / 3, 5 / 3, 7 / 6, 11 / 6}
    result = numbers["results"][0]
    assert result["learning_rate"] in PROTOCOL["learning_rates"] and len(result["search"]) == 4  # type: ignore[operator]
    assert set(result["languages"][0]) == {"fr", "pt"}
    assert {"masked_accuracy", "pseudo_log_likelihood", "cosine"} <= set(
        next(iter(numbers["untuned"]["colour"].values()))["fr"]
    )
    assert (place / "evaluation-names.png").stat().st_size > 1000

    written = (place / "evaluation.json").read_text()
    assert main(arguments) == 0
    again = capsys.readouterr()
    assert "6 of 6 results are known from before" in again.err and "learning rate" not in again.err
    assert (place / "evaluation.json").read_text() == written
    assert not list(place.rglob("*.safetensors")), "weights of settings are not kept"

    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{place / 'runs' / 'mlflow.db'}")
    found = client.search_runs([client.get_experiment_by_name("evaluation").experiment_id])  # type: ignore[union-attr]
    assert len(found) == 6 and all(run.info.status == "FINISHED" for run in found)
    assert any("test/accuracy/pt" in run.data.metrics for run in found)


@pytest.mark.parametrize(
    ("protocol", "changes", "points"),
    [("protocol.yaml", (), 4), (EUROBERT, ("--protocol.steps", "2", "--protocol.seeds", "[1, 2]"), 20)],
)
def test_each_split_is_read_and_tokenised_once_and_the_test_split_last(
    place: Path, monkeypatch: pytest.MonkeyPatch, protocol: str, changes: tuple[str, ...], points: int
) -> None:
    events: list[str] = []
    read, tune, encode = judging.read_split, judging.finetune, Encoding.texts

    def reading(task: Any, split: str, limit: Any = None) -> Any:
        events.append(split)
        return read(task, split, limit)  # type: ignore[arg-type]

    def tuning(*arguments: Any) -> Any:
        events.append(f"tune {arguments[5]:g} {arguments[6]}")
        return tune(*arguments)

    def encoding(*arguments: Any) -> Any:
        events.append("tokenise")
        return encode(*arguments)

    monkeypatch.setattr(judging, "read_split", reading)
    monkeypatch.setattr(judging, "finetune", tuning)
    monkeypatch.setattr(Encoding, "texts", encoding)
    options = (*changes, "--tracking", "false")
    assert main(evaluate("colour", options=options, protocol=protocol)) == 0
    rates = read_protocol(protocol).learning_rates
    tuned = [f"tune {rate:g} {seed}" for rate in rates for seed in (1, 2)]
    assert len(tuned) == points
    assert events == ["train", "tokenise", "validation", "tokenise", *tuned, "test", "tokenise"]

    (result,) = json.loads((place / "evaluation.json").read_text())["results"]
    found = {(tried["learning_rate"], tried["seed"]): tried["score"] for tried in result["search"]}
    assert result["learning_rate"] == max(rates, key=lambda rate: found[rate, 1] + found[rate, 2])
    assert len(result["test"]) == 2, "one for each seed, at the chosen rate"


def test_an_interrupted_evaluation_goes_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = evaluate("colour", options=("--tracking", "false"))
    assert main([*arguments, "--root", "whole"]) == 0
    whole = json.loads((place / "evaluation.json").read_text())
    tune, done = judging.finetune, []

    def dying(*arguments: Any) -> Any:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(arguments[5:7])
        return tune(*arguments)

    monkeypatch.setattr(judging, "finetune", dying)
    assert main(arguments) == 130
    done.clear()
    assert main(arguments) == 0
    assert done == [(1e-4, 2)], "what was tried is not tried again"
    again = json.loads((place / "evaluation.json").read_text())
    for found in (whole, again):
        for result in found["results"]:
            del result["folder"]
            for setting in result["search"]:
                del setting["seconds"]
    assert again == whole


def test_lost_weights_are_trained_again_to_the_same_scores(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = open_encoder(encoder())
    protocol = Protocol(**{**PROTOCOL, "optimizer": QUICK.optimizer})  # type: ignore[arg-type]
    task = read_task(place / "colour.yaml")
    values = Case(judged, task, protocol, place / "kept").judge(print).values()
    monkeypatch.setattr(Case, "_save", lambda *_: None)
    assert Case(judged, task, protocol, place / "lost").judge(print).values() == values


def test_retrieval_needs_no_fine_tuning(place: Path) -> None:
    assert main(evaluate("answers", options=("--protocol.steps", "0", "--tracking", "false"))) == 0
    (result,) = json.loads((place / "evaluation.json").read_text())["results"]
    assert result["learning_rate"] is None and result["search"] == [] and 0 < result["mean"] <= 1


def test_a_sweep_gets_one_number_for_each_task(place: Path) -> None:
    protocol = replace(Protocol(), steps=0, max_length=64)
    scores = evaluating.objective(encoder(), ["answers.yaml"], protocol, place / "kept")
    assert list(scores) == ["answers"] and 0 < scores["answers"] <= 1


def test_a_setting_that_diverges_is_not_chosen(place: Path) -> None:
    assert main(evaluate("colour", options=(
        "--protocol.learning_rates", "[1.0e+30, 0.01]", "--protocol.gradient_clip", "0", "--tracking", "false",
    ))) == 0  # fmt: skip
    (result,) = json.loads((place / "evaluation.json").read_text())["results"]
    assert result["learning_rate"] == 0.01
    assert [bool(setting.get("diverged")) for setting in result["search"]] == [True, True, False, False]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-c", "colour.yaml"], "evaluate: --encoder is missing"),
        (["-c", "colours.yaml", "--encoder", "x"], "did you mean 'colour.yaml'?"),
        (["-c", "colour.yaml", "--encoder"], "evaluate: --encoder needs at least one value"),
        (["-c", "colour.yaml", "--encoder", "runs/none"], "--encoder runs/none"),
        (["-c", "colour.yaml", "--encoder", "x", "--protocol.step", "5"], "did you mean 'steps'?"),
        (["-c", "colour.yaml", "--encoder", "x", "--protocol.steps", "x"], "it must be a whole number"),
        (["-c", "colour.yaml", "--encoder", "x", "x"], "--encoder x is given twice"),
        (["-c", "colour.yaml", "colour.yaml", "--encoder", "x"], "two tasks are called colour"),
        (["-c", "colour.yaml", "--encoder", "ENCODER", "--protocol.steps", "0"], "classification must be learned"),
        (["-c", "colour.yaml", "--encoder", "ENCODER", "--protocol.select", "mse"], "classification has accuracy"),
        (["-c", "colour.yaml", "--encoder", "ENCODER", "--limit", "0"], "--limit is 0"),
        (["-c", "colour.yaml", "--encoder", "ENCODER", "--protocol.cut", "refuse", "--protocol.max_length", "8"],
         "tokens, and at most 8 are taken"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(
    place: Path, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [encoder() if word == "ENCODER" else word for word in arguments]
    assert main(["evaluate", *given, "--protocol", "protocol.yaml", "--tracking", "false"]) in (1, 2)
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and told in errors[0], errors


def test_an_encoder_that_reads_less_than_the_task_says_so(place: Path, complaint: Callable[..., str]) -> None:
    tree = yaml.safe_load((place / "answers.yaml").read_text())
    (place / "long.yaml").write_text(yaml.safe_dump({**tree, "max_length": 2048}))
    line = complaint(
        2, "evaluate", "-c", "long.yaml", "--encoder", minilm(), "--protocol", "protocol.yaml",
        "--protocol.max_length", "null",
    )  # fmt: skip
    assert "reads 512 tokens at most, and long has 2,048" in line and "--protocol.max_length 512" in line


def test_differences_are_paired_and_ranks_shared_by_what_no_test_tells_apart() -> None:
    from scipy import stats

    from euro_lightning.evaluation.comparing import half_width, paired_p

    draw = np.random.default_rng(0)
    first = draw.normal(0, 1, 50)
    assert paired_p(first, first) == 1.0 and paired_p(first + 1, first) == 0.0
    second = first + draw.normal(0.1, 1, 50)
    assert paired_p(first, second) == pytest.approx(stats.ttest_rel(first, second).pvalue)
    low, high = stats.t.interval(0.95, 2, loc=2, scale=stats.sem([1.0, 2.0, 3.0]))
    assert half_width([1.0, 2.0, 3.0]) == pytest.approx((high - low) / 2)
    assert np.isnan(half_width([1.0]))


def test_each_row_of_the_table_has_the_scores_and_the_rank_of_its_encoder() -> None:
    from euro_lightning.evaluation.judging import Result
    from euro_lightning.evaluation.report import tables
    from euro_lightning.evaluation.scoring import Judgement

    def result(name: str, score: float) -> Result:
        each = np.random.default_rng(0).normal(score, 0.1, 40)
        langs = ["en", "de"] * 20
        own = {"en": {"spearman": score}, "de": {"spearman": score - 0.1}}
        judgement = Judgement(own, langs, {"spearman": list(each)})
        return Result("task", name, "regression", "spearman", 1e-3, [1], [judgement], [], {}, [8] * 40, [])

    table, by_language, _ = tables({"task": [result("worse", 0.3), result("better", 0.8)]})
    rows = zip(*(list(column.cells) for column in table.columns), strict=True)
    assert list(rows) == [("worse", "0.2500", "2.00"), ("better", "0.7500", "1.00")]
    assert [column.header for column in by_language.columns] == ["language", "worse", "better"]
    assert [list(column.cells) for column in by_language.columns][1:] == [
        ["0.3000", "0.2000"],
        ["0.8000", "0.7000"],
    ]
