"""Quality buckets: cuts, classes, scorers, and the classifier of reference documents."""

import math
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from euro_lightning.corpora.quality import Quality, Reference, buckets, load_scorer
from euro_lightning.corpora.reference import ReferenceScorer, half, is_reference, sample, train
from euro_lightning.errors import ConfigError, DataError


def test_a_bucket_is_one_and_one_more_for_each_threshold_reached() -> None:
    scores = np.array([-1.0, 0.99, 1.0, 2.5, 3.0, 9.0, math.nan])
    assert buckets(scores, [1.0, 2.0, 3.0]).tolist() == [1, 1, 2, 3, 4, 4, 0]


@given(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=200, unique=True))
def test_quartiles_part_documents_into_equal_buckets(scores: list[float]) -> None:
    rule = Quality(column="x", quantiles=[0.25, 0.5, 0.75])
    found = buckets(np.array(scores), rule.cuts(np.array(scores)))
    counts = np.bincount(found, minlength=5)
    assert counts[0] == 0 and counts[1:].max() - counts[1:].min() <= 2
    assert np.all(np.diff(found[np.argsort(scores)]) >= 0)


def test_classes_name_their_bucket() -> None:
    rule = Quality(column="label", classes={"good": 4, "bad": 1})
    assert rule.problems("quality") == []
    assert rule.bucket_of_class("good", "row 1") == 4
    with pytest.raises(DataError, match="row 1: class 'ugly' is not among"):
        rule.bucket_of_class("ugly", "row 1")


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (Quality(column="x", thresholds=[1, 3, 2]), "out of order"),
        (Quality(column="x", thresholds=[1, 1, 2]), "out of order"),
        (Quality(column="x", thresholds=[1, 2]), "three make four"),
        (Quality(column="x", quantiles=[0.5, 0.7, 1.5]), "between 0 and 1"),
        (Quality(column="x"), "thresholds or quantiles"),
        (Quality(thresholds=[1, 2, 3]), "a column or a scorer"),
        (Quality(column="x", scorer="reference", thresholds=[1, 2, 3]), "a column or a scorer"),
        (Quality(scorer="reference", thresholds=[1, 2, 3]), "go together"),
        (Quality(scorer="referense", thresholds=[1, 2, 3]), "did you mean 'reference'"),
        (Quality(column="x", classes={"a": 5}), "buckets are 1 to 4"),
        (Quality(scorer="reference", reference=Reference([]), thresholds=[1, 2, 3]), "values is empty"),
    ],
)
def test_settings_that_make_no_sense_are_told(rule: Quality, told: str) -> None:
    assert any(told in line for line in rule.problems("quality")), rule.problems("quality")


def test_a_scorer_is_any_function_of_texts() -> None:
    assert list(load_scorer("tests.corpora.scorer:length")(["a", "bcd"])) == [1.0, 3.0]
    with pytest.raises(ConfigError, match="no 'lenght'; did you mean 'length'"):
        load_scorer("tests.corpora.scorer:lenght")
    with pytest.raises(ConfigError, match="module 'nowhere' cannot be imported"):
        load_scorer("nowhere:score")


def made_up(number: int, good: bool, draw: random.Random) -> tuple[str, str, bool]:
    common = [f"w{i}" for i in range(40)]
    own = [f"{'g' if good else 'b'}{i}" for i in range(40)]
    text = " ".join(draw.choice(own if draw.random() < 0.2 else common) for _ in range(draw.randint(30, 300)))
    return f"d{number}", text, good


REFERENCE = Reference(["good*"], documents=200)


def test_the_classifier_tells_documents_like_the_reference_from_others(tmp_path: Path) -> None:
    draw = random.Random(0)
    documents = [made_up(i, i % 3 == 0, draw) for i in range(600)]
    scorer = train(*sample(documents, REFERENCE), REFERENCE, "en")
    assert scorer.auc > 0.98
    assert scorer.documents == (200, 200)
    scorer.save(tmp_path / "x.safetensors")
    again = ReferenceScorer.load(tmp_path / "x.safetensors")
    fresh = [made_up(i, i % 2 == 0, draw) for i in range(1000, 1100)]
    scores = again.scores([text for _, text, _ in fresh], [doc_id for doc_id, _, _ in fresh])
    good = np.array([kind for _, _, kind in fresh])
    assert np.median(scores[good]) > np.quantile(scores[~good], 0.95)


def test_where_there_is_nothing_to_learn_the_score_says_so() -> None:
    """The AUC is of documents that were not trained on: for labels drawn at random it is one half."""
    draw = random.Random(0)
    documents = [(i, made_up(i, False, draw)[1], draw.random() < 0.5) for i in range(300)]
    scorer = train(*sample([(f"d{i}", t, k) for i, t, k in documents], REFERENCE), REFERENCE, "en")
    assert 0.35 < scorer.auc < 0.65


def test_no_document_is_scored_by_a_classifier_that_has_seen_it() -> None:
    draw = random.Random(0)
    documents = [made_up(i, i % 2 == 0, draw) for i in range(100)]
    secret = next(i for i in range(1000, 2000) if half(f"d{i}") == 0)
    with_it = [*documents, (f"d{secret}", "secretword " * 20, True)]
    scorer = train(*sample(with_it, REFERENCE), REFERENCE, "en")
    ids = [f"d{secret}", next(f"d{i}" for i in range(3000, 4000) if half(f"d{i}") == 1)]
    own, other = scorer.scores(["secretword " * 20] * 2, ids)
    assert other - own > 1.0  # the classifier of the other half has learned the word


def test_the_sample_is_the_same_in_any_order() -> None:
    draw = random.Random(0)
    documents = [made_up(i, i % 2 == 0, draw) for i in range(1000)]
    assert sample(documents, REFERENCE) == sample(documents[::-1], REFERENCE)


def test_too_few_documents_of_a_kind_are_told_in_one_line() -> None:
    draw = random.Random(0)
    documents = [made_up(i, False, draw) for i in range(50)]
    with pytest.raises(DataError, match="quality of 'en': 0 reference documents, at least"):
        train(*sample(documents, REFERENCE), REFERENCE, "en")


def test_reference_documents_are_named_by_patterns() -> None:
    rule = Reference(["wiki*", "news"])
    assert [is_reference(v, rule) for v in ("wikipedia-ar", "news", "newspaper", None)] == [
        True,
        True,
        False,
        False,
    ]
