"""Splits of examples and sentences: what is read, and what is refused."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from euro_lightning.errors import DataError
from euro_lightning.evaluation.reading import content_hash, read_split
from euro_lightning.evaluation.task import Task
from tests.conftest import write_jsonl
from tests.evaluation.conftest import MakeTask

LANGUAGES = ("en", "fr", "pt")


def rows(number: int = 40) -> list[dict[str, Any]]:
    """Rows that are translations of one another."""
    return [
        {"id": f"row-{i}", "lang": lang, "text": f"{lang} {i}", "other": f"o{i}", "label": "ab"[i % 2],
         "bad": i % 10 == 0, "score": i / 2, "second": 0}
        for i in range(number) for lang in LANGUAGES
    ]  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> dict[str, Any]:
    """A task on one file that holds everything."""
    write_jsonl(tmp_path / "rows.jsonl", rows())
    return {
        "family": "classification",
        "metric": "accuracy",
        "data": {"path": str(tmp_path / "rows.jsonl"), "columns": {"id": "id", "lang": "lang"}},
        "labels": ["a", "b"],
        "cut": {"all": {"train": 0.5, "validation": 0.25, "test": 0.25}},
    }


def read(task: Task, split: Any = "train", **options: Any) -> Any:
    return read_split(task, split, **options)


def test_cut_splits_share_no_row_and_lose_none_and_translations_stay_together(
    make_task: MakeTask, tree: dict[str, Any]
) -> None:
    task = make_task(**tree)
    parts = {split: {e.row for e in read(task, split)} for split in ("train", "validation", "test")}
    assert sum(map(len, parts.values())) == len(set().union(*parts.values())) == 120
    groups = [{row.split("/")[1] for row in part} for part in parts.values()]
    assert not groups[0] & groups[1] and not groups[0] & groups[2] and not groups[1] & groups[2]
    assert all(len(part) > 5 for part in groups)


def test_a_validation_split_is_taken_from_train_where_there_is_none(
    make_task: MakeTask, tree: dict[str, Any], tmp_path: Path
) -> None:
    for split, number in (("train", 40), ("test", 7)):
        write_jsonl(tmp_path / f"{split}.jsonl", rows(number))
    tree["data"]["path"] = str(tmp_path / "{split}.jsonl")
    task = make_task(**{**tree, "cut": {"train": {"train": 0.8, "validation": 0.2}}})
    train, validation, test = (read(task, split) for split in ("train", "validation", "test"))
    assert len(train) + len(validation) == 120 and len(validation) > 5 and len(test) == 21


def test_learn_in_one_language_and_be_judged_in_others(make_task: MakeTask, tree: dict[str, Any]) -> None:
    task = make_task(**tree, languages=["en", "fr"], train_languages=["en"])
    assert {e.lang for e in read(task, "train")} == {e.lang for e in read(task, "validation")} == {"en"}
    assert {e.lang for e in read(task, "test")} == {"en", "fr"}


def test_a_limit_takes_the_same_rows_in_every_language(make_task: MakeTask, tree: dict[str, Any]) -> None:
    task = make_task(**tree)
    some = read(task, limit=9)
    assert some == read(task, limit=9) and len(some) == 9
    assert len({e.row.split("/")[1] for e in some}) == 3
    order = [e.row for e in read(task)]
    assert sorted((e.row for e in some), key=order.index) == [e.row for e in some]


def test_rows_are_filtered_by_what_columns_hold(make_task: MakeTask, tree: dict[str, Any]) -> None:
    tree["data"] |= {"where": {"label": ["a"], "lang": "pt"}, "where_not": {"bad": True}}
    found = [e for split in ("train", "validation", "test") for e in read(make_task(**tree), split)]
    assert len(found) == 16 and {e.target for e in found} == {0.0} and {e.lang for e in found} == {"pt"}


def test_a_share_of_the_rows_is_the_same_in_every_language(make_task: MakeTask, tree: dict[str, Any]) -> None:
    tree["data"]["share"] = 0.5
    found = [
        e.row.split("/")[1]
        for split in ("train", "validation", "test")
        for e in read(make_task(**tree), split)
    ]
    assert 30 < len(found) < 90 and all(found.count(row) == 3 for row in found)


def test_columns_may_lead_into_structures_and_lists(
    make_task: MakeTask, tree: dict[str, Any], tmp_path: Path
) -> None:
    row = {"id": "1", "lang": "en", "steps": [{"text": "one"}, {"text": "two"}], "meta": {"label": "b"}}
    table = pa.Table.from_pylist([row, {**row, "id": "2", "steps": row["steps"][:1]}])
    parquet.write_table(table, tmp_path / "rows.parquet")
    columns = {**tree["data"]["columns"], "text": "steps.text", "label": "meta.label"}
    data = {"path": str(tmp_path / "rows.parquet"), "columns": columns, "lengths": {"steps": 2}}
    (example,) = read(make_task(**{**tree, "data": data, "cut": {"all": {"train": 1.0}}}))
    assert example.texts == ("one two",) and example.target == 1


def test_a_pair_stays_a_pair_or_becomes_one_text(make_task: MakeTask, tree: dict[str, Any]) -> None:
    tree["data"]["columns"]["text"] = ["text", "other"]
    assert len(read(make_task(**tree))[0].texts) == 2
    template = "Premise: {0}\nHypothesis: {1}"
    first = read(make_task(**tree, template=template))[0]
    assert first.texts[0].startswith("Premise: en ") and len(first.texts) == 1


def test_a_score_is_the_mean_of_its_columns(make_task: MakeTask, tree: dict[str, Any]) -> None:
    tree |= {"family": "regression", "metric": "spearman", "labels": []}
    plain = read(make_task(**tree))
    tree["data"]["columns"]["score"] = ["score", "second"]
    assert [e.target for e in read(make_task(**tree))] == [e.target / 2 for e in plain]


def test_frequent_labels_give_way_in_training_only(
    make_task: MakeTask, tree: dict[str, Any], tmp_path: Path
) -> None:
    write_jsonl(tmp_path / "rows.jsonl", [{**row, "label": "a" if row["bad"] else "b"} for row in rows()])
    task = make_task(**tree, balanced=True)
    targets = [e.target for e in read(task)]
    assert targets.count(0) == targets.count(1) > 0
    validation = [e.target for e in read(task, "test")]
    assert validation.count(1) > validation.count(0)


@pytest.mark.parametrize(
    ("value", "labels", "expected"),
    [
        ("b", ["a", "b"], 1),
        (1, ["a", "b"], 1),
        (5, ["4", "5"], 1),
        (True, ["false", "true"], 1),
        (False, ["sound", "defective"], 0),
        ([1, 1, 1], ["wrong", "right"], 1),
        ([True, False, True], ["wrong", "right"], 0),
    ],
)
def test_a_label_is_a_name_a_number_or_a_truth(
    make_task: MakeTask, tree: dict[str, Any], tmp_path: Path, value: Any, labels: list[str], expected: int
) -> None:
    write_jsonl(tmp_path / "rows.jsonl", [{"id": "1", "lang": "en", "text": "x", "label": value}])
    task = make_task(**{**tree, "labels": labels, "cut": {"all": {"train": 1.0}}})
    assert [e.target for e in read(task)] == [expected]


def test_numbers_have_the_names_that_the_data_set_says(
    make_task: MakeTask, tree: dict[str, Any], tmp_path: Path
) -> None:
    """Files of `datasets` name their numbers; the task may list labels in another order."""
    features = {"label": {"names": ["b", "a"], "_type": "ClassLabel"}}
    table = pa.table({"id": ["1"], "lang": ["en"], "text": ["x"], "label": [0]})
    noted = json.dumps({"info": {"features": features}})
    parquet.write_table(table.replace_schema_metadata({"huggingface": noted}), tmp_path / "rows.parquet")
    tree["data"]["path"] = str(tmp_path / "rows.parquet")
    assert read(make_task(**{**tree, "cut": {"all": {"train": 1.0}}}))[0].target == 1


WORDS = {"id": "1", "lang": "en", "tokens": ["A", "b"], "ner_tags": ["B-PER", "O"]}


@pytest.fixture
def words(tree: dict[str, Any]) -> dict[str, Any]:
    columns = {**tree["data"]["columns"], "tags": "ner_tags"}
    return {
        **tree, "family": "token_classification", "metric": "entity_f1", "labels": [], "entities": ["PER"],
        "data": {**tree["data"], "columns": columns}, "cut": {"all": {"train": 1.0}},
    }  # fmt: skip


def test_words_have_labels(make_task: MakeTask, words: dict[str, Any], tmp_path: Path) -> None:
    write_jsonl(tmp_path / "rows.jsonl", [WORDS, {**WORDS, "id": "2", "ner_tags": [0, 2]}])
    first, second = read(make_task(**words))
    assert first.words == ("A", "b") and first.labels == (1, 0) and second.labels == (0, 2)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"ner_tags": ["O"]}, "2 words in 'tokens', 1 labels in 'ner_tags'"),
        ({"ner_tags": ["O", "B-PRE"]}, "'ner_tags' is 'B-PRE'"),
        ({"ner_tags": [0, 3]}, "is 3; the labels are O, B-PER, I-PER"),
        ({"ner_tags": "O O"}, "is no list"),
        ({"tokens": [], "ner_tags": []}, "at least one"),
        ({"tokens": ["A", ""]}, "none empty"),
    ],
)
def test_words_that_cannot_be_used_are_told_with_their_row(
    make_task: MakeTask, words: dict[str, Any], tmp_path: Path, row: dict[str, Any], told: str
) -> None:
    write_jsonl(tmp_path / "rows.jsonl", [WORDS, {**WORDS, "id": "2", **row}])
    with pytest.raises(DataError) as error:
        read(make_task(**words))
    assert told in str(error.value) and "rows.jsonl, line 2" in str(error.value)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"label": "c"}, "'label' is 'c'; the labels are a, b"),
        ({"label": 2}, "'label' is 2"),
        ({"label": -1}, "'label' is -1"),
        ({"text": None}, "'text' is empty; it must be text"),
        ({"text": 5}, "'text' is of type int"),
        ({"lang": None}, "'lang' is empty"),
        ({"id": None}, "'id' is empty"),
        ({"id": "row-0"}, "the id 'en/row-0' is that of"),
    ],
)
def test_a_row_that_cannot_be_used_is_told(
    make_task: MakeTask, tree: dict[str, Any], tmp_path: Path, row: dict[str, Any], told: str
) -> None:
    write_jsonl(tmp_path / "rows.jsonl", [rows()[0], {**rows()[3], **row}])
    with pytest.raises(DataError) as error:
        read(make_task(**{**tree, "cut": {"all": {"train": 1.0}}}))
    assert told in str(error.value) and "line 2" in str(error.value) and "\n" not in str(error.value)


def test_a_wrong_column_names_the_nearest_and_its_key(make_task: MakeTask, tree: dict[str, Any]) -> None:
    tree["data"]["columns"]["label"] = "labels"
    with pytest.raises(DataError, match=r"no column 'labels'.*did you mean 'label'\? \(data\.columns\.label"):
        read(make_task(**tree))


def test_a_missing_file_and_an_empty_split_are_one_line(make_task: MakeTask, tree: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"small: the split 'train' has no row; look at languages, cut"):
        read(make_task(**tree, languages=["xx"]))
    tree["data"]["path"] = "nowhere/{split}.parquet"
    tree.pop("cut")
    with pytest.raises(DataError, match=r"small: data.path 'nowhere/test.parquet' does not exist"):
        read(make_task(**tree), "test")


def test_the_content_hash_follows_the_content(
    make_task: MakeTask, tree: dict[str, Any], tmp_path: Path
) -> None:
    first = content_hash(make_task(**tree), "test")
    moved = tmp_path / "moved.jsonl"
    moved.write_bytes((tmp_path / "rows.jsonl").read_bytes())
    there = {**tree, "data": {**tree["data"], "path": str(moved)}}
    assert content_hash(make_task("other", **there), "test") == first, "neither name nor place counts"
    assert content_hash(make_task(**tree), "train") != first
    assert content_hash(make_task(**tree, seed=43), "test") != first
    moved.write_text(moved.read_text().replace("en 1", "en one"))
    assert content_hash(make_task(**there), "test") != first


class Stream(list):
    """A data set of the Hub as `datasets` streams it."""

    def __init__(self, rows: list[dict[str, Any]], features: dict[str, Any]) -> None:
        super().__init__(rows)
        self.features = SimpleNamespace(to_dict=lambda: features)


def test_a_hub_data_set_is_read_language_by_language(
    make_task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the Hub: which configuration and split are opened, at which commit."""
    import datasets
    import huggingface_hub

    opened = set()
    features = {
        "premise": {"dtype": "string", "_type": "Value"},
        "hypothesis": {"dtype": "string", "_type": "Value"},
        "label": {"names": ["entailment", "neutral", "contradiction"], "_type": "ClassLabel"},
    }

    def load(name: str, config: str, *, split: str, revision: str, streaming: bool) -> Stream:
        opened.add((name, config, split, revision))
        return Stream(
            [{"premise": f"{config} {i}", "hypothesis": "h", "label": i % 3} for i in range(6)], features
        )

    api = SimpleNamespace(dataset_info=lambda *_, **__: SimpleNamespace(sha="c0ffee"))
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api)
    monkeypatch.setattr(datasets, "load_dataset", load)
    task = make_task(
        family="classification",
        metric="accuracy",
        data={"hub": "some/xnli", "config": "{lang}", "codes": {"zh": "zh-CN"},
              "splits": {"validation": "dev"}, "columns": {"text": ["premise", "hypothesis"]}},
        labels=["entailment", "neutral", "contradiction"],
        languages=["en", "zh"],
    )  # fmt: skip
    found = read(task, "validation")
    assert opened == {("some/xnli", config, "dev", "c0ffee") for config in ("en", "zh-CN")}
    assert [e.target for e in found] == [0, 1, 2, 0, 1, 2] * 2
    assert {e.lang for e in found} == {"en", "zh"} and found[0].row == "en/1"
    assert content_hash(task, "validation") != content_hash(task, "test")
    monkeypatch.setattr(api, "dataset_info", lambda *_, **__: 1 / 0)
    with pytest.raises(DataError, match="some/xnli cannot be read from the Hub"):
        read(task, "validation")
