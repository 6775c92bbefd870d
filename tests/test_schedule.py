"""Functions of the token clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euro_lightning.data.cropping import Lengths
from euro_lightning.data.phase import Phase, Timeline
from euro_lightning.schedule import LearningRate, Ramp, blend, span_tokens


def test_spans_are_tokens_or_percentages_and_nothing_else() -> None:
    assert span_tokens(1500, 10_000) == 1500
    assert span_tokens("5%", 10_000) == 500
    assert span_tokens("100%", 10_000) == 10_000
    for wrong in ("5", "five%", "120%", -1):
        with pytest.raises(ValueError):
            span_tokens(wrong, 10_000)


@pytest.mark.parametrize("shape", ["linear", "cosine", "1-sqrt"])
def test_shapes_go_from_start_to_end_without_turning_back(shape) -> None:
    values = [blend(2.0, 1.0, i / 100, shape) for i in range(101)]
    assert values[0] == 2.0 and values[-1] == 1.0
    assert values == sorted(values, reverse=True)


def test_shapes_have_their_published_midpoints() -> None:
    assert blend(1, 0, 0.5, "linear") == 0.5
    assert blend(1, 0, 0.5, "cosine") == pytest.approx(0.5)
    assert blend(1, 0, 0.25, "cosine") == pytest.approx(0.8535534)
    assert blend(1, 0, 0.25, "1-sqrt") == 0.5


def test_a_learning_rate_warms_up_stays_and_decays() -> None:
    rate = LearningRate(peak=1.0, warmup="10%", decay=200, shape="linear", floor=0.1)
    assert [rate.at(t, 1000) for t in (0, 50, 100, 799, 800)] == [0, 0.5, 1, 1, 1]
    assert rate.at(900, 1000) == pytest.approx(0.55)
    assert rate.at(1000, 1000) == pytest.approx(0.1)


@given(st.integers(0, 10_000))
def test_the_paper_s_annealing_is_one_cosine(tokens: int) -> None:
    whole = LearningRate(1e-4, decay="100%")
    assert whole.at(tokens, 10_000) == pytest.approx(blend(1e-4, 0, tokens / 10_000, "cosine"), abs=1e-12)


def test_phases_follow_each_other_in_whole_global_batches() -> None:
    rate = LearningRate(1e-3)
    phases = {
        "pretrain": Phase(1000, {"en": 1.0}, rate, masking_ratio=0.5, rotary_base=1e4),
        "anneal": Phase(300, {"en": 1.0}, rate, masking_ratio=Ramp(0.3, 0.1), rotary_base=25e4),
    }
    timeline = Timeline(phases, 256)
    assert timeline.ends() == [1024, 1536]
    assert timeline.tokens == 1536
    assert [timeline.at(t)[0] for t in (0, 1023, 1024, 1535, 1536)] == ["pretrain"] * 2 + ["anneal"] * 3
    assert [timeline.rotary_bases(t) for t in (1023, 1024)] == [(1e4, 1e4), (25e4, 1e4)]
    assert timeline.masking_ratio(0) == 0.5
    assert timeline.masking_ratio(1024) == 0.3


def test_a_list_of_masking_ratios_holds_each_for_an_equal_part() -> None:
    phase = Phase(900, {"en": 1.0}, LearningRate(1e-3), masking_ratio=(0.3, 0.15, 0.05))
    assert [phase.masking_ratio_at(t) for t in (0, 299, 300, 599, 600, 899, 900)] == [
        0.3, 0.3, 0.15, 0.15, 0.05, 0.05, 0.05,
    ]  # fmt: skip
    assert phase.problems(["en"], "data.phases.a") == []
    wrong = Phase(900, {"en": 1.0}, LearningRate(1e-3), masking_ratio=(0.3, 1.0))
    assert "masking_ratio is 1:" in wrong.problems(["en"], "data.phases.a")[0]


def test_all_mistakes_of_a_phase_are_found_at_once() -> None:
    phase = Phase(
        1000,
        {"en": 0.5, "frr": 0.2},
        LearningRate(-1, warmup="3"),
        masking_ratio=1.5,
        lengths=Lengths("random", 5, 12),
        rotary_base=0,
    )
    text = "\n".join(phase.problems(["en", "fr"], "data.phases.a"))
    for expected in (
        "did you mean 'fr'",
        "sum to 0.7",
        "peak is -1",
        "warmup",
        "masking_ratio is 1.5",
        "below the minimum",
    ):
        assert expected in text
