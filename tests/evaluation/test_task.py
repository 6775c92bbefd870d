"""Tasks in YAML: strict, and all problems at once."""

from typing import Any

import pytest

from euro_lightning.errors import ConfigError
from tests.evaluation.conftest import MakeTask

DATA = {"path": "rows/{split}.jsonl", "lang": "pt", "columns": {"text": ["premise", "hypothesis"]}}
NLI: dict[str, Any] = {
    "family": "classification", "metric": "macro_f1", "data": DATA, "labels": ["no", "yes"],
}  # fmt: skip
SEARCH: dict[str, Any] = {
    "family": "retrieval",
    "metric": "ndcg@10",
    "data": {"path": "pairs.jsonl", "lang": "en"},
    "cut": {"all": {"validation": 0.5, "test": 0.5}},
}


def test_a_task_is_called_as_its_file(make_task: MakeTask) -> None:
    task = make_task("nli", **NLI)
    assert task.name == "nli" and task.label_names == ("no", "yes") and task.higher_is_better
    assert make_task("nli", **NLI, name="mine").name == "mine"


def test_entities_have_labels_of_words(make_task: MakeTask) -> None:
    task = make_task(
        family="token_classification",
        metric="entity_f1",
        data={"path": "{split}.jsonl", "lang": "pt"},
        entities=["PER", "LOC"],
    )
    assert task.label_names == ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def test_errors_are_to_be_small(make_task: MakeTask) -> None:
    tree = {key: value for key, value in NLI.items() if key != "labels"}
    assert not make_task(**{**tree, "family": "regression", "metric": "mse"}).higher_is_better


def test_every_problem_is_told_at_once_with_its_key(make_task: MakeTask) -> None:
    with pytest.raises(ConfigError) as error:
        make_task(**{**NLI, "metrik": "f1", "max_length": "long", "family": "clasification"})
    message = str(error.value)
    assert "small.yaml" in message and "\n" not in message
    for part in ("did you mean 'metric'", "max_length is 'long'", "did you mean 'classification'"):
        assert part in message
    with pytest.raises(ConfigError) as error:
        make_task(**{**NLI, "metric": "macrof1", "max_length": 2, "template": "{0} {2}"})
    for part in ("did you mean 'macro_f1'", "max_length is 2", "template must hold {0}, {1}"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ({"family": None}, "family"),
        ({"labels": ["yes"]}, "at least two"),
        ({"labels": ["yes", "no", "yes"]}, "yes is given twice"),
        ({"entities": ["PER"]}, "exclude each other"),
        ({"data": {**DATA, "hub": "some/name"}}, "give path or hub"),
        ({"data": {"path": "{split}.jsonl"}}, "give lang, columns.lang or {lang}"),
        ({"data": {**DATA, "path": "rows.jsonl"}}, "splits cannot be told apart"),
        ({"data": {**DATA, "lang": None, "path": "{lang}/{split}.jsonl"}}, "needs languages"),
        ({"data": {**DATA, "columns": {"text": ["a", "b", "c"]}}}, "3 texts need a template"),
        ({"data": {**DATA, "columns": {"lable": "a"}}}, "did you mean 'label'"),
        ({"data": {**DATA, "share": 0}}, "data.share is 0"),
        ({"template": "{0} {1"}, "template"),
        ({"cut": {"train": {"train": 0.9, "validation": 0.2}}}, "more than 1"),
        ({"cut": {"train": {"train": 0.9, "dev": 0.1}}}, "cut.train.dev"),
        ({"cut": {"train": {"test": 0.5}, "validation": {"test": 0.5}}}, "cut makes test twice"),
        ({"languages": ["en"], "train_languages": ["fr"]}, "fr not in languages"),
        ({"query_prefix": "Query: "}, "query_prefix is for retrieval"),
        ({"documents": DATA}, "documents is for retrieval"),
    ],
)
def test_what_cannot_be_meant_is_refused(make_task: MakeTask, tree: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as error:
        make_task(**{**NLI, **tree})
    assert told in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ({"documents": {"path": "d.jsonl", "lang": "en"}}, "belong together"),
        ({"documents": {"path": "d.jsonl", "lang": "en"}, "judgements": {"path": "j.jsonl"}}, "columns.id"),
        ({"labels": ["a", "b"]}, "labels are not for retrieval"),
        ({"template": "{0}"}, "template is for"),
        ({"metric": "ndcg"}, "did you mean 'ndcg@10'"),
    ],
)
def test_retrieval_has_rules_of_its_own(make_task: MakeTask, tree: dict[str, Any], told: str) -> None:
    assert make_task(**SEARCH).cut
    with pytest.raises(ConfigError) as error:
        make_task(**{**SEARCH, **tree})
    assert told in str(error.value)
