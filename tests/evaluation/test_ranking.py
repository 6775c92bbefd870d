"""Retrieval scores equal trec_eval's, ties included, and are fast."""

import time

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from euro_lightning.errors import DataError
from euro_lightning.evaluation.examples import Search, Text
from euro_lightning.evaluation.ranking import DEPTH, ranked, ranking_scores, search_scores

ROWS = ["a", "B", "b10", "b2", "é", "ar-p1", "zz", "日本", "-", "b", "a/1", "a/2", "9", "10", "𝒳"]


def texts(rows: list[str], lang: str = "en") -> list[Text]:
    return [Text(row, lang, row) for row in rows]


@st.composite
def rankings(draw: st.DrawFn) -> tuple[list[str], np.ndarray, list[dict[str, int]]]:
    """Few different similarities, so that ties are the rule; grades of 0 to 3."""
    rows = draw(st.permutations(ROWS))[: draw(st.integers(1, len(ROWS)))]
    values = draw(st.sampled_from([[0.0, -0.0, 0.5], [-1.0, 0.25, 0.25 + 1e-9, 1.0], [0.1, 0.2, 0.3, 0.7]]))
    queries = draw(st.integers(1, 4))
    similarities = [draw(st.lists(st.sampled_from(values), min_size=len(rows), max_size=len(rows)))
                    for _ in range(queries)]  # fmt: skip
    judged = st.dictionaries(st.sampled_from([*ROWS, "not searched"]), st.integers(0, 3), min_size=1)
    relevant = [draw(judged.filter(lambda grades: any(grades.values()))) for _ in range(queries)]
    return rows, np.array(similarities, dtype=np.float32), relevant


@settings(max_examples=1000, deadline=None)
@given(rankings())
def test_scores_equal_trec_eval(case: tuple) -> None:
    rows, similarities, relevant = case
    scores = ranking_scores(similarities, texts(rows), relevant)
    runs = {
        str(q): {row: float(s) for row, s in zip(rows, line, strict=True)}
        for q, line in enumerate(similarities)
    }
    judged = {str(q): grades for q, grades in enumerate(relevant)}
    expected = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "recall.10,100"}).evaluate(runs)
    best = ranked(similarities, rows, 10)
    first_ten = {str(q): {rows[i]: runs[str(q)][rows[i]] for i in line} for q, line in enumerate(best)}
    reciprocal = pytrec_eval.RelevanceEvaluator(judged, {"recip_rank"}).evaluate(first_ten)
    for q in range(len(relevant)):
        found = {name: float(values[q]) for name, values in scores.each.items()}
        assert found["ndcg@10"] == pytest.approx(expected[str(q)]["ndcg_cut_10"], abs=1e-9)
        assert found["recall@10"] == pytest.approx(expected[str(q)]["recall_10"], abs=1e-9)
        assert found["recall@100"] == pytest.approx(expected[str(q)]["recall_100"], abs=1e-9)
        assert found["mrr@10"] == pytest.approx(reciprocal[str(q)]["recip_rank"], abs=1e-9)
    assert scores.values["ndcg@10"] == pytest.approx(scores.each["ndcg@10"].mean())


def test_a_reciprocal_rank_ends_at_ten_and_recall_at_a_hundred() -> None:
    rows = [f"d{i:03}" for i in range(150)]
    similarities = -np.arange(150, dtype=np.float32)[None].repeat(3, axis=0)
    relevant = [{"d009": 1}, {"d010": 1}, {"d100": 1}]
    each = ranking_scores(similarities, texts(rows), relevant).each
    assert each["mrr@10"].tolist() == [0.1, 0, 0]
    assert each["recall@10"].tolist() == [1, 0, 0]
    assert each["recall@100"].tolist() == [1, 1, 0]


def test_a_query_is_compared_with_its_own_language_only_where_the_task_says_so() -> None:
    queries = [Text("q1", "en", ""), Text("q2", "fr", ""), Text("q3", "en", "")]
    documents = [Text("d1", "fr", ""), Text("d2", "en", ""), Text("d3", "en", "")]
    relevant = {"q1": {"d2": 1}, "q2": {"d1": 1}, "q3": {"d2": 1}}
    vectors = np.array([[1, 0], [0.9, 0.1], [0, 1]], dtype=np.float32)
    asked = np.array([[1, 0], [0, 1], [0, 1]], dtype=np.float32)
    within = search_scores(Search(queries, documents, relevant, True), asked, vectors)
    assert within.each["mrr@10"].tolist() == [1, 1, 0.5]
    across = search_scores(Search(queries, documents, relevant, False), asked * 7, vectors)
    assert across.each["mrr@10"].tolist() == [0.5, pytest.approx(1 / 3), 0.5]


def test_vectors_that_are_no_numbers_are_refused() -> None:
    search = Search([Text("q", "en", "")], [Text("d", "en", "")], {"q": {"d": 1}}, True)
    bad, good = np.array([[np.nan, 1]], dtype=np.float32), np.ones((1, 2), dtype=np.float32)
    with pytest.raises(DataError, match="vector of query 1"):
        search_scores(search, bad, good)
    with pytest.raises(DataError, match="vector of document 1"):
        search_scores(search, good, bad)
    with pytest.raises(DataError, match="no query"):
        search_scores(Search([], [], {}, False), good[:0], good[:0])


def test_a_thousand_queries_and_five_thousand_documents_take_seconds_at_most() -> None:
    generator = np.random.default_rng(0)
    rows = [f"d{i:05}" for i in range(5000)]
    search = Search(
        texts([f"q{i}" for i in range(1190)]), texts(rows), {f"q{i}": {rows[i]: 1} for i in range(1190)}, True
    )
    queries, documents = (generator.normal(size=(n, 64)).astype(np.float32) for n in (1190, 5000))
    begun = time.perf_counter()
    search_scores(search, queries, documents)
    assert time.perf_counter() - begun < 10
    assert ranked(queries @ documents.T, rows, DEPTH).shape == (1190, DEPTH)
