"""Named operations: what they change, and what must stay."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euro_lightning.ablation.operations import OPERATIONS, expand, expand_all
from euro_lightning.ablation.shapes import TOLERANCE
from euro_lightning.cli import build, read_settings
from euro_lightning.data.mixture import normalise
from euro_lightning.encoder.config import EncoderConfig, encoder_config
from euro_lightning.encoder.cost import parameter_count
from euro_lightning.errors import ConfigError
from euro_lightning.settings import merge, read_file
from tests.conftest import REPOSITORY

DOMAINS = ("code", "math", "parallel")
EXPERIMENTS = [
    str(REPOSITORY / "experiments" / name) for name in ("anneal.yaml", "eurobert/210m-anneal.yaml")
]
LAPTOP, PAPER = (read_file(path) for path in EXPERIMENTS)
TOKENS = dict.fromkeys(["en", "fr", "de", "nl", "hi", "it", "ja", "pl", "pt", "ru", "es", "ar", "zh", "tr", "vi",
                        *DOMAINS], 1000)  # fmt: skip


def changed(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """An experiment with dotted keys changed, as a second file of `fit -c` changes it."""
    for key, value in changes.items():
        for part in reversed(key.split(".")):
            value = {part: value}
        config = merge(config, value)
    return config


def shares(config: dict[str, Any], changes: dict[str, Any], phase: str = "anneal") -> dict[str, float]:
    """What each source has in a phase, as the data module resolves it."""
    given = changed(config, changes)["data"]["phases"][phase]
    from euro_lightning.data.phase import Phase
    from euro_lightning.schedule import LearningRate

    own = {key: given[key] for key in ("mixture", "change", "scaled") if key in given}
    resolved, problems = Phase(tokens=1, learning_rate=LearningRate(1.0), **own).resolved(TOKENS, "phase")
    assert problems == [] and resolved.problems(TOKENS, "phase") == []
    found = {name: share.share for name, share in normalise(resolved.mixture).items()}
    assert sum(found.values()) == pytest.approx(1, abs=1e-4)
    return found


@pytest.mark.parametrize("config", [LAPTOP, PAPER])
@given(share=st.floats(0.01, 0.7))
def test_english_makes_the_other_languages_smaller_and_leaves_the_rest(
    config: dict[str, Any], share: float
) -> None:
    before, after = shares(config, {}), shares(config, expand("mixture.english", share, config))
    assert after["en"] == pytest.approx(share, abs=1e-4)
    assert all(after[name] == pytest.approx(before[name], abs=1e-4) for name in DOMAINS)
    assert after["fr"] / after["pl"] == pytest.approx(before["fr"] / before["pl"])


@pytest.mark.parametrize(("name", "published"), [(0.46, 46.3), (0.26, 26), (0.17, 17)])
def test_the_published_rows_of_english_also_change_code_and_math(name: float, published: float) -> None:
    after = shares(PAPER, expand("mixture.english_as_published", name, PAPER))
    row = {0.46: (8.7, 8.2, 5.2, 5.8), 0.26: (4, 4, 5, 6), 0.17: (4, 4, 5, 6)}[name]
    for source, percent in zip(("code", "math", "parallel", "fr"), row, strict=True):
        assert after[source] / after["en"] == pytest.approx(percent / published)
    assert "vi" not in after
    with pytest.raises(ConfigError, match=r"the paper has 0\.46, 0\.26, 0\.17"):
        expand("mixture.english_as_published", 0.3, PAPER)


@pytest.mark.parametrize("source", DOMAINS)
@given(share=st.floats(0, 0.5))
def test_other_shares_scale_everything_else(source: str, share: float) -> None:
    before, after = shares(LAPTOP, {}), shares(LAPTOP, expand(f"mixture.{source}", share, LAPTOP))
    assert after.get(source, 0.0) == pytest.approx(share)
    others = [name for name in before if name != source]
    scale = (1 - share) / (1 - before[source])
    assert all(after[name] == pytest.approx(before[name] * scale) for name in others)


@pytest.mark.parametrize("buckets", [[4], [3], [3, 4], "all", None])
def test_quality_holds_for_languages_and_leaves_shares(buckets: Any) -> None:
    changes = expand("quality", buckets, LAPTOP)
    assert {key.split(".")[2] for key in changes} == {"pretrain", "anneal"}
    after = changed(LAPTOP, changes)["data"]["phases"]["anneal"]["mixture"]
    wanted = tuple(buckets) if isinstance(buckets, list) else ()
    assert {share.quality for name, share in normalise(after).items() if name not in DOMAINS} == {wanted}
    assert all(after[name] == LAPTOP["data"]["phases"]["anneal"]["mixture"][name] for name in DOMAINS)
    assert shares(LAPTOP, changes) == shares(LAPTOP, {})
    assert set(expand("quality@anneal", buckets, LAPTOP)) == {key for key in changes if ".anneal." in key}


def test_one_language_has_as_many_tokens_alone_as_among_fifteen() -> None:
    def tokens(changes: dict[str, Any], phase: str) -> float:
        return (
            changed(LAPTOP, changes)["data"]["phases"][phase]["tokens"] * shares(LAPTOP, changes, phase)["fr"]
        )

    alone, among = (expand("languages", kept, LAPTOP) for kept in (["fr"], ["fr", "languages"]))
    for phase in ("pretrain", "anneal"):
        assert tokens(alone, phase) == pytest.approx(tokens({}, phase), abs=1)
        assert tokens(among, phase) == pytest.approx(tokens({}, phase), abs=1)
    assert shares(LAPTOP, alone) == {"fr": 1.0}
    assert set(shares(LAPTOP, among)) == TOKENS.keys() - set(DOMAINS)


@pytest.mark.parametrize(
    ("value", "start", "middle", "end"),
    [
        (50, 0.5, 0.5, 0.5), ("50", 0.5, 0.5, 0.5), ("50->10", 0.5, 0.1, 0.1), ("30->15->5", 0.3, 0.15, 0.05),
        ("linear 30->15", 0.3, 0.225, 0.15), ("cosine 50→10", 0.5, 0.3, 0.1),
    ],
)  # fmt: skip
def test_masking_schedules_run_over_the_phase(
    value: int | str, start: float, middle: float, end: float
) -> None:
    settings, _ = read_settings("fit", ["-c", EXPERIMENTS[0]])
    tree = changed(settings, expand("masking", value, settings))
    timeline = build(tree).datamodule.timeline
    tokens = timeline.phases["anneal"].tokens
    found = [timeline.phases["anneal"].masking_ratio_at(t) for t in (0, tokens // 2, tokens - 1)]
    assert found == pytest.approx([start, middle, end], abs=1e-3)
    assert timeline.phases["pretrain"].masking_ratio == 0.5


@pytest.mark.parametrize(
    ("value", "expected"),
    [("fixed 2048", ("fixed", 2048)), (2048, ("fixed", 2048)), ("random 12-8192", ("random", 12, 8192))],
)
def test_length_policies(value: int | str, expected: tuple[Any, ...]) -> None:
    found = changed(PAPER, expand("lengths", value, PAPER))["data"]["phases"]["anneal"]["lengths"]
    names = ("kind", "maximum") if expected[0] == "fixed" else ("kind", "minimum", "maximum")
    assert tuple(found[name] for name in names) == expected


FINE = {"layers": 4, "width": 192, "heads": 6, "key_value_heads": 6, "feed_forward": 512}


def encoder_after(config: dict[str, Any], changes: dict[str, Any]) -> EncoderConfig:
    return encoder_config(changed(config, changes)["model"]["encoder"])


@pytest.mark.parametrize("preset", [{"preset": "eurobert-210m"}, FINE, {"preset": "modernbert-base"}])
@pytest.mark.parametrize("factor", [0.5, 2])
def test_depth_is_traded_for_width_at_equal_parameters(preset: dict[str, Any], factor: float) -> None:
    config = {"model": {"encoder": preset}, "data": {"tokenizer": {"vocabulary": 4096}}}
    base = encoder_config(preset)
    layers = round(base.layers * factor)
    after = encoder_after(config, expand("shape", layers, config))
    assert after.layers == layers and after.head_size == base.head_size
    assert (after.width > base.width) == (factor < 1)
    assert parameter_count(after).core == pytest.approx(parameter_count(base).core, rel=TOLERANCE)
    assert encoder_after(config, expand("shape", base.layers, config)).differing(base, ["vocabulary"]) == []


@pytest.mark.parametrize("vocabulary", [2048, 4096, 8192])
def test_a_vocabulary_takes_its_parameters_from_the_encoder(vocabulary: int) -> None:
    config = {"model": {"encoder": FINE}, "data": {"tokenizer": {"vocabulary": 4096}}}
    changes = expand("vocabulary", vocabulary, config)
    assert changes["data.tokenizer.vocabulary"] == vocabulary
    after = encoder_after(config, changes)
    before = encoder_config({**FINE, "vocabulary": 4096})
    assert after.vocabulary == vocabulary and after.layers == before.layers
    assert parameter_count(after).total == pytest.approx(parameter_count(before).total, rel=TOLERANCE)


def test_a_size_is_layers_and_width_or_a_preset() -> None:
    after = encoder_after(LAPTOP, expand("size", "3x192", LAPTOP))
    assert (after.layers, after.width, after.heads, after.key_value_heads) == (3, 192, 3, 1)
    assert after.feed_forward == 1920, "ten times the width, as tiny has"
    assert encoder_after(PAPER, expand("size", "eurobert-610m", PAPER)) == encoder_config("eurobert-610m")


def test_tiling_starts_from_the_checkpoint_of_the_sweep_or_at_random() -> None:
    config = {"init_from": "runs/growth-small"}
    assert expand("tiling", True, config) == {"init_from": None, "weight_tiling.source": "runs/growth-small"}
    assert expand("tiling", False, config) == {"init_from": None, "weight_tiling.source": None}
    with pytest.raises(ConfigError, match="init_from must name the smaller encoder"):
        expand("tiling", True, {})


def test_plain_keys_stand_for_themselves() -> None:
    key = "data.phases.anneal.masking_ratio"
    assert expand(key, 0.3, LAPTOP) == {key: 0.3}
    assert expand_all({key: 0.3, "mixture.code": 0.1}, LAPTOP)["data.phases.anneal.change.code"] == 0.1


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("mixture.englsh", 0.2, "neither a key of an experiment nor a named operation"),
        ("mixture.englsh", 0.2, "did you mean 'mixture.english'?"),
        ("data.phases.anneal.maskng_ratio", 0.2, "did you mean 'masking_ratio'?"),
        ("data.phases.anneal.masking_ratio", "much", "it must be a number"),
        ("mixture.english", 1.5, "a share lies between 0 and 1"),
        (
            "mixture.english@aneal",
            0.2,
            "no phase 'aneal'; phases are pretrain, anneal; did you mean 'anneal'?",
        ),
        ("mixture.english", "much", "mixture.english is 'much': it must be a number"),
        ("quality", [5], "buckets are 1, 2, 3 and 4"),
        ("languages", ["fra"], "did you mean 'fr'?"),
        ("masking", "50->", "give percentages above 0 and below 100"),
        ("masking", "linear 50->30->10", "give percentages"),
        ("lengths", "random 512", "give fixed 2048, random 12-8192 or concatenated 2048"),
        ("shape@anneal", 4, "this operation belongs to no phase"),
        ("size", "eurobert-620m", "did you mean 'eurobert-610m'?"),
        ("size", "2x100", "the width a multiple of the head size 64"),
        ("shape", 40, "no encoder of this shape has"),
        ("vocabulary", 100_000, "no encoder of this shape has"),
    ],
)
def test_mistakes_are_one_line_that_says_how_to_mend_them(key: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        expand(key, value, LAPTOP)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_two_keys_that_contradict_each_other_are_refused() -> None:
    setting = {"masking": 30, "data.phases.anneal.masking_ratio": 0.1}
    with pytest.raises(ConfigError, match=r"masking and .* both set"):
        expand_all(setting, LAPTOP)


def test_every_operation_says_what_it_does() -> None:
    assert all(operation.function.__doc__ for operation in OPERATIONS.values())
