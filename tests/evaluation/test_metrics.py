"""Metrics equal those of the packages that define them, whatever is predicted."""

import warnings

import numpy as np
import pytest
import seqeval.metrics as seqeval
import sklearn.metrics as sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from euro_lightning.errors import DataError
from euro_lightning.evaluation.entities import bio_labels, entities_of
from euro_lightning.evaluation.metrics import classification_scores, regression_scores, token_scores

NAMES = bio_labels(["PER", "LOC", "ORG"])

label_pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=60)
numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e3, 1e3, allow_subnormal=False))
number_pairs = st.lists(st.tuples(numbers, numbers), min_size=2, max_size=40)
word_pairs = st.tuples(st.integers(0, len(NAMES) - 1), st.integers(0, len(NAMES) - 1))
sentences = st.lists(st.lists(word_pairs, min_size=1, max_size=12), min_size=1, max_size=8)
share_outside = st.sampled_from([0, 1, 2])  # nothing; half of the predicted; all of the predicted


def arrays(pairs: list, kind: type) -> tuple[np.ndarray, np.ndarray]:
    targets, predictions = np.array(pairs, dtype=kind).T
    return targets, predictions


@settings(max_examples=1000, deadline=None)
@given(label_pairs)
def test_classification_equals_scikit_learn(pairs: list) -> None:
    targets, predictions = arrays(pairs, np.int64)
    scores = classification_scores(targets, predictions)
    expected = sklearn.f1_score(targets, predictions, average="macro", zero_division=0)
    assert scores.values["accuracy"] == pytest.approx(sklearn.accuracy_score(targets, predictions), abs=1e-12)
    assert scores.values["macro_f1"] == pytest.approx(expected, abs=1e-12)
    assert scores.each["accuracy"].mean() == pytest.approx(scores.values["accuracy"])


@settings(max_examples=1000, deadline=None)
@given(number_pairs)
def test_regression_equals_scipy_and_scikit_learn(pairs: list) -> None:
    targets, predictions = arrays(pairs, np.float64)
    scores = regression_scores(targets, predictions).values
    assert scores["mse"] == pytest.approx(sklearn.mean_squared_error(targets, predictions), rel=1e-9)
    if len(set(targets)) == 1 or len(set(predictions)) == 1:
        assert scores["spearman"] == scores["pearson"] == 0
        return
    assert scores["spearman"] == pytest.approx(stats.spearmanr(targets, predictions).statistic, abs=1e-9)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        pearson = stats.pearsonr(targets, predictions).statistic
    if not warned:  # scipy warns where what varies is lost in rounding
        assert scores["pearson"] == pytest.approx(pearson, abs=1e-6)


@settings(max_examples=1000, deadline=None)
@given(sentences, share_outside)
def test_entities_equal_seqeval(pairs: list, outside: int) -> None:
    """Ill-formed sequences (an I- that continues nothing) and empty predictions included."""
    targets = [[t for t, _ in sentence] for sentence in pairs]
    predictions = [
        [0 if outside == 2 or (outside == 1 and i % 2) else p for i, (_, p) in enumerate(sentence)]
        for sentence in pairs
    ]
    scores = token_scores(targets, predictions, NAMES).values
    true, found = (
        [[NAMES[label] for label in sentence] for sentence in side] for side in (targets, predictions)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("f1", "precision", "recall"):
            expected = getattr(seqeval, f"{name}_score")(true, found, zero_division=0)
            assert scores[f"entity_{name}"] == pytest.approx(expected, abs=1e-12)


@settings(max_examples=1000, deadline=None)
@given(sentences)
def test_scores_of_words_equal_scikit_learn(pairs: list) -> None:
    targets = [[t for t, _ in sentence] for sentence in pairs]
    predictions = [[p for _, p in sentence] for sentence in pairs]
    scores = token_scores(targets, predictions, NAMES)
    true, found = (np.concatenate([np.array(s) for s in side]) for side in (targets, predictions))
    assert scores.values["accuracy"] == pytest.approx(sklearn.accuracy_score(true, found), abs=1e-12)
    macro = sklearn.f1_score(true, found, average="macro", zero_division=0)
    assert scores.values["macro_f1"] == pytest.approx(macro, abs=1e-12)
    micro = sklearn.f1_score(true, found, average="micro", labels=np.unique(found), zero_division=0)
    assert scores.values["token_f1"] == pytest.approx(micro, abs=1e-12)


def test_what_an_entity_is() -> None:
    assert entities_of(["B-PER", "I-PER", "O", "B-LOC"]) == {("PER", 0, 2), ("LOC", 3, 4)}
    assert entities_of(["B-PER", "B-PER"]) == {("PER", 0, 1), ("PER", 1, 2)}
    assert entities_of(["O", "I-PER", "I-LOC"]) == {("PER", 1, 2), ("LOC", 2, 3)}
    assert entities_of(["O", "O"]) == set()


def test_the_two_f1_of_words_and_of_entities_are_far_apart() -> None:
    """Half an entity is no entity, and outside is easy."""
    targets = [[0] * 8 + [1, 2]]
    scores = token_scores(targets, [[0] * 8 + [1, 0]], NAMES).values
    assert scores["entity_f1"] == 0
    assert scores["token_f1"] > 0.9


def test_labels_that_mark_no_entity_have_no_entity_scores() -> None:
    scores = token_scores([[0, 1]], [[0, 0]], ["NOUN", "VERB"])
    assert "entity_f1" not in scores.values and scores.values["accuracy"] == 0.5


def test_a_sentence_without_entities_is_right_when_none_is_predicted() -> None:
    scores = token_scores([[0, 0], [1, 0], [0, 0]], [[0, 0], [1, 0], [1, 0]], NAMES)
    assert scores.each["entity_f1"].tolist() == [1, 1, 0]


def test_constant_predictions_say_nothing() -> None:
    scores = regression_scores(np.array([1.0, 2.0, 3.0]), np.full(3, 0.1 + 0.2)).values
    assert scores["spearman"] == scores["pearson"] == 0


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_very_small_and_large_numbers_correlate(scale: float) -> None:
    values = np.array([1.0, 2.0, 4.0])
    assert regression_scores(values, values * scale).values["pearson"] == pytest.approx(1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: classification_scores(np.array([], dtype=np.int64), np.array([], dtype=np.int64)),
        lambda: classification_scores(np.array([1, 2]), np.array([1])),
        lambda: regression_scores(np.array([1.0, 2.0]), np.array([1.0, np.nan])),
        lambda: token_scores([[0, 1]], [[0]], NAMES),
        lambda: token_scores([], [], NAMES),
    ],
)
def test_what_cannot_be_scored_is_refused(call) -> None:
    with pytest.raises(DataError):
        call()
