"""Retrieval: who searches what, and what may be learnt from."""

from pathlib import Path
from typing import Any

import pytest

from euro_lightning.errors import DataError
from euro_lightning.evaluation.reading import read_split
from euro_lightning.evaluation.searching import read_search
from tests.conftest import write_jsonl
from tests.evaluation.conftest import MakeTask

LANGUAGES = ("en", "fr", "hi")
SPLITS = ("train", "validation", "test")


@pytest.fixture
def tree(tmp_path: Path) -> dict[str, Any]:
    """The same 40 questions and 20 paragraphs in three languages."""
    write_jsonl(tmp_path / "queries.jsonl", [
        {"qid": f"wiki-{lang}-q{i}", "lang": lang, "text": f"{lang} question {i}"}
        for lang in LANGUAGES for i in range(40)
    ])  # fmt: skip
    write_jsonl(tmp_path / "corpus.jsonl", [
        {"did": f"wiki-{lang}-p{i}", "lang": lang, "body": f"{lang} paragraph {i}"}
        for lang in LANGUAGES for i in range(20)
    ])  # fmt: skip
    write_jsonl(tmp_path / "qrels.jsonl", [
        {"qid": f"wiki-{lang}-q{i}", "did": f"wiki-{lang}-p{p}", "grade": grade}
        for lang in LANGUAGES for i in range(40) for p, grade in ((i % 20, 2), ((i + 1) % 20, 0))
    ])  # fmt: skip
    return {
        "family": "retrieval",
        "metric": "ndcg@10",
        "data": {"path": str(tmp_path / "queries.jsonl"), "columns": {"id": "qid", "lang": "lang"}},
        "documents": {
            "path": str(tmp_path / "corpus.jsonl"),
            "columns": {"id": "did", "lang": "lang", "text": "body"},
        },
        "judgements": {
            "path": str(tmp_path / "qrels.jsonl"),
            "columns": {"query": "qid", "document": "did", "grade": "grade"},
        },
        "cut": {"all": {"train": 0.5, "validation": 0.25, "test": 0.25}},
    }


def test_a_question_that_is_learnt_in_one_language_is_asked_in_none(
    make_task: MakeTask, tree: dict[str, Any]
) -> None:
    task = make_task(**tree)
    learnt = {pair.query.split()[-1] for pair in read_split(task, "train")}
    asked = [{query.text.split()[-1] for query in read_search(task, split).queries} for split in SPLITS[1:]]
    assert not learnt & asked[0] and not learnt & asked[1] and not asked[0] & asked[1]
    assert learnt | asked[0] | asked[1] == {str(i) for i in range(40)}


def test_a_language_searches_its_own_documents(make_task: MakeTask, tree: dict[str, Any]) -> None:
    search = read_search(make_task(**tree, query_prefix="Query: ", document_prefix="Document: "), "test")
    assert search.within_language and len(search.documents) == 60
    assert all(len(search.relevant[query.row]) == 1 for query in search.queries), "grade 0 is not relevant"
    assert set(search.relevant[search.queries[0].row].values()) == {2}
    assert search.queries[0].text.startswith("Query: en question")
    assert search.documents[0].text == "Document: en paragraph 0"


def test_across_languages_every_translation_is_relevant(make_task: MakeTask, tree: dict[str, Any]) -> None:
    task = make_task(**tree, across_languages=True)
    search = read_search(task, "test")
    assert not search.within_language
    for query in search.queries:
        number = int(query.row.split("q")[-1]) % 20
        assert search.relevant[query.row] == {f"wiki-{lang}-p{number}": 2 for lang in LANGUAGES}
    pairs = read_split(task, "train")
    assert {pair.positive.split()[0] for pair in pairs if pair.lang == "en"} == set(LANGUAGES)
    assert all(int(p.query.split()[-1]) % 20 == int(p.positive.split()[-1]) for p in pairs)
    assert pairs == read_split(task, "train")


def test_only_what_answers_a_query_of_the_split_may_be_searched(
    make_task: MakeTask, tree: dict[str, Any]
) -> None:
    search = read_search(make_task(**tree, positives_only=True), "test")
    answers = {row for grades in search.relevant.values() for row in grades}
    assert {document.row for document in search.documents} == answers and len(answers) < 60


def test_a_limit_takes_some_queries_and_all_documents(make_task: MakeTask, tree: dict[str, Any]) -> None:
    search = read_search(make_task(**tree), "test", limit=6)
    assert len(search.queries) == 6 and len(search.documents) == 60
    assert len({query.text.split()[-1] for query in search.queries}) == 2
    assert set(search.relevant) == {query.row for query in search.queries}


@pytest.fixture
def pairs(tmp_path: Path) -> dict[str, Any]:
    rows = [{"q": f"q{i // 2}", "d": [f"d{i}", f"d{i} too"], "bad": [f"n{i}"]} for i in range(40)]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    return {
        "family": "retrieval",
        "metric": "ndcg@10",
        "data": {
            "path": str(tmp_path / "pairs.jsonl"),
            "lang": "code",
            "columns": {"query": "q", "document": "d", "negative": "bad"},
        },
        "cut": {"all": {"train": 0.5, "test": 0.5}},
    }


def test_pairs_with_the_same_query_are_one_query(make_task: MakeTask, pairs: dict[str, Any]) -> None:
    task = make_task(**pairs)
    search = read_search(task, "test")
    texts = [query.text for query in search.queries]
    assert len(texts) == len(set(texts))
    assert all(len(grades) == 4 for grades in search.relevant.values())
    assert len(search.documents) == len({d.row for d in search.documents}) == 4 * len(texts)
    learnt = read_split(task, "train")
    assert not {pair.query for pair in learnt} & set(texts)
    assert {(p.query, p.negative is not None) for p in learnt} == {(p.query, True) for p in learnt}
    assert len({pair.row for pair in learnt}) == len(learnt) == 80 - len(search.documents)


def test_pairs_to_learn_from_may_be_elsewhere(
    make_task: MakeTask, tree: dict[str, Any], tmp_path: Path
) -> None:
    rows = [{"query": f"q{i}", "positive": f"p{i}", "negative": f"n{i}"} for i in range(9)]
    write_jsonl(tmp_path / "marco.jsonl", rows)
    columns = {"document": "positive", "negative": "negative"}
    training = {"path": str(tmp_path / "marco.jsonl"), "lang": "en", "first": 5, "columns": columns}
    task = make_task(
        **{**tree, "cut": {"all": {"validation": 0.5, "test": 0.5}}},
        training=training,
        languages=["fr", "hi"],
        query_prefix="Query: ",
        document_prefix="Document: ",
    )
    first, *others = read_split(task, "train")
    assert (first.query, first.positive, first.negative) == ("Query: q0", "Document: p0", "Document: n0")
    assert len(others) == 4 and first.lang == "en"
    assert {query.lang for query in read_search(task, "test").queries} == {"fr", "hi"}


@pytest.mark.parametrize(
    ("file", "change", "told"),
    [
        ("corpus", lambda row: {**row, "did": f"x{row['did']}"}, "none of the documents relevant to"),
        ("corpus", lambda row: {**row, "lang": "en"}, "is among the documents of its language"),
        ("corpus", lambda row: {**row, "did": "same"}, "the id 'same' is that of"),
        ("corpus", lambda row: {**row, "body": None}, "'body' is empty"),
        ("qrels", lambda row: {**row, "grade": 0}, "has no query with a relevant document; look at cut"),
        ("qrels", lambda row: {**row, "grade": 0.5}, "a grade is a whole number"),
        ("qrels", lambda row: {"qid": row["qid"], "doc": row["did"], "grade": 1}, "no column 'did'"),
    ],
)
def test_what_cannot_be_searched_is_told_in_one_line(
    make_task: MakeTask, tree: dict[str, Any], tmp_path: Path, file: str, change: Any, told: str
) -> None:
    import json

    path = tmp_path / f"{file}.jsonl"
    write_jsonl(path, [change(json.loads(line)) for line in path.read_text().splitlines()])
    with pytest.raises(DataError) as error:
        read_search(make_task(**tree), "test")
    assert told in str(error.value) and "\n" not in str(error.value)
