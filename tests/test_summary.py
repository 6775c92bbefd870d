"""What the table of scores says at the end of training."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from euro_lightning.callbacks.summary import frequencies_only, show_scores
from euro_lightning.objective.scores import Score


def scored(loss: float, source_unigram: float = 6.0) -> Score:
    return Score(loss, 0.1, 7.0, source_unigram, 100)


def test_an_encoder_that_knows_only_frequencies_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_scores({"en": scored(5.9), "fr": scored(5.7)}, "validation", 1000, None)
    assert "note: the mean is 0.20 nats below what the frequencies of each source" in capsys.readouterr().out
    show_scores({"en": scored(6.2), "fr": scored(6.1)}, "validation", 1000, None)
    assert "note: the mean is 0.15 nats above what the frequencies of each source" in capsys.readouterr().out


def test_one_that_uses_context_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    show_scores({"en": scored(5.0), "fr": scored(5.8)}, "validation", 1000, None)
    assert "note" not in capsys.readouterr().out


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 20), st.floats(0.1, 20)), min_size=1, max_size=5))
def test_the_note_follows_the_means_alone(pairs: list[tuple[float, float]]) -> None:
    scores = {str(number): scored(*pair) for number, pair in enumerate(pairs)}
    loss, unigram = (math.fsum(column) / len(pairs) for column in zip(*pairs, strict=True))
    if not math.isclose(loss, 0.95 * unigram, rel_tol=1e-9):
        assert (frequencies_only(scores) is not None) == (loss > 0.95 * unigram)
