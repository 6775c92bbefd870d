"""Filters: what is dropped, and the name of the reason."""

import pytest

from euro_lightning.corpora.filters import FilterChain, Filters, identify
from euro_lightning.corpora.words import words
from euro_lightning.data.documents import Document
from tests.conftest import FRENCH

ENGLISH = (
    "The recipe matters more than the size of the model, and that is what the experiments have shown."
    " We hide half of the words at first. Then we hide one in ten, and the model learns to read the rest.\n"
    "Short sentences and long ones follow each other in the same batch, but they never see each other."
    " This is how a small team can find out what works before it pays for the whole training run.\n"
    "After that the same words are counted again, and the numbers are compared with those of the others.\n"
)


def reason(filters: Filters, text: str, lang: str = "en", **more: str) -> str | None:
    ((_, found),) = FilterChain(filters, "filters", (0.05, 0.05))(Document(text, lang, "1", **more))  # type: ignore[arg-type]
    return found


def test_lengths_are_inclusive_and_hold_for_both_sides_of_a_pair() -> None:
    rule = Filters(minimum_characters=3, maximum_characters=5)
    assert [reason(rule, "x" * n) for n in (2, 3, 5, 6)] == [
        "minimum_characters", None, None, "maximum_characters",
    ]  # fmt: skip
    pair = {"domain": "parallel", "target_lang": "fr"}
    assert reason(rule, "four", target="quatre", **pair) == "maximum_characters"
    assert reason(rule, "four", target="cinq", **pair) is None


def test_a_document_in_another_language_than_declared_is_dropped() -> None:
    rule = Filters(language=0.65)
    assert reason(rule, ENGLISH) is None
    assert reason(rule, FRENCH, "fr") is None
    assert reason(rule, FRENCH, "en") == "language"
    assert reason(rule, ENGLISH, "en-GB") is None
    assert reason(rule, "def f(x):\n    return x", "code", domain="code") is None  # code has no language
    pair = {"domain": "parallel", "target_lang": "fr"}
    assert reason(rule, ENGLISH, target=FRENCH, **pair) is None
    assert reason(rule, ENGLISH, target=ENGLISH, **pair) == "language"


def test_languages_are_told_apart_without_a_download() -> None:
    assert identify(FRENCH)[0] == "fr"
    assert identify("这是一个用中文写的句子，讲的是语言模型。")[0] == "zh"
    language, probability = identify("A recipe is known by its results.\nDie Zahlen stehen im Bericht.")
    assert language in ("en", "de") and 0 < probability <= 1


def test_repetition_symbols_and_lists_are_dropped_in_the_manner_of_gopher_and_fineweb() -> None:
    everything = Filters(gopher_repetition=True, gopher_quality=True, fineweb_quality=True)
    assert reason(everything, ENGLISH) is None
    assert str(reason(everything, ENGLISH * 5)).startswith("gopher_repetition/")
    hashes = ENGLISH.replace(" the ", " the # # ")
    assert reason(Filters(gopher_quality=True), hashes) == "gopher_quality/too_many_hashes"
    assert reason(Filters(gopher_quality=True), "Too short.") == "gopher_quality/short_doc"
    items = "\n".join(f"item {name}" for name in ENGLISH.split())
    assert str(reason(Filters(fineweb_quality=True), items)).startswith("fineweb_quality/")


def test_stop_words_are_those_of_the_language() -> None:
    long_french = " ".join([FRENCH] * 2)
    assert reason(Filters(gopher_quality=True), long_french, "fr") is None
    nonsense = " ".join(f"mot{chr(97 + i % 26)}x{chr(97 + i // 26)}" for i in range(80))
    assert reason(Filters(gopher_quality=True), nonsense, "fr") == "gopher_quality/enough_stop_words"


def test_options_of_the_heuristics_are_checked_by_name() -> None:
    assert Filters(gopher_quality={"min_doc_words": 5}).problems("filters", "en") == []
    (line,) = Filters(gopher_quality={"min_doc_word": 5}).problems("filters", "en")
    assert line == "filters.gopher_quality: unknown option 'min_doc_word'; did you mean 'min_doc_words'?"
    (line,) = Filters(gopher_quality=True).problems("filters", "ja")
    assert "without spaces" in line and "min_avg_word_length" in line
    (line,) = Filters(minimum_characters=9, maximum_characters=3).problems("filters", "en")
    assert "admit nothing" in line
    (line,) = Filters(language=65).problems("filters", "en")
    assert "between 0 and 1" in line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's a well-known fact, isn't it?", ["It's", "a", "well-known", "fact", ",", "isn't", "it", "?"]),
        ("这是中文。", ["这", "是", "中", "文", "。"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("  ", []),
    ],
)
def test_words_of_any_script(text: str, expected: list[str]) -> None:
    assert words(text) == expected
