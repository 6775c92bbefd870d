"""BERTomelo's paragraph filter, by its definition."""

import pytest

from euro_lightning.corpora.config import SourceRecipe
from euro_lightning.corpora.filters import FilterChain, Filters
from euro_lightning.corpora.paragraphs import Paragraphs, split_paragraphs
from euro_lightning.data.documents import Document, split_of
from euro_lightning.errors import DataError


def reasons(text: str, **changes: object) -> list[str | None]:
    rule = Paragraphs(**{"stop_words": ["de", "que", "não"], **changes})  # type: ignore[arg-type]
    return [reason for _, reason in split_paragraphs(text, rule, "pt")]


def paragraph(words: int, word: str = "casas") -> str:
    """That many words, two of them stop words."""
    return " ".join(["de", "que", *[word] * (words - 2)])


@pytest.mark.parametrize(
    ("words", "reason"),
    [(19, "paragraph_short"), (20, None), (1024, None), (1025, "paragraph_long")],
)
def test_20_to_1024_words_are_kept(words: int, reason: str | None) -> None:
    assert reasons(paragraph(words)) == [reason]


def test_a_mean_word_length_of_exactly_2_and_15_is_kept() -> None:
    two = " ".join(["de"] * 20)
    assert reasons(two) == [None]
    assert reasons(" ".join(["de"] * 19 + ["a"])) == ["paragraph_word_length"]  # 39 / 20
    fifteen = " ".join(["de", "de", *["x" * 16] * 10, *["y" * 17] * 8])  # 4 + 160 + 136 = 300 = 20 × 15
    assert reasons(fifteen) == [None]
    assert reasons(fifteen + "y") == ["paragraph_word_length"]  # 301 / 20


def test_stop_words_count_as_often_as_they_stand_there_in_any_case() -> None:
    filler = ["casas"] * 18
    assert reasons(" ".join(["de", "de", *filler])) == [None]
    assert reasons(" ".join(["DE", "Não", *filler])) == [None]
    assert reasons(" ".join(["de", "casas", *filler])) == ["paragraph_stop_words"]
    assert reasons(" ".join(["de,", "(que)", *filler])) == [
        "paragraph_stop_words"
    ]  # words are what spaces part


def test_paragraphs_end_at_line_feeds_and_empty_ones_do_not_count() -> None:
    text = paragraph(20) + "\n\n \t\n" + paragraph(5) + "\n" + paragraph(21)
    assert reasons(text) == [None, "paragraph_short", None]


def test_carriage_returns_part_words_but_not_paragraphs_and_do_not_stay_at_the_end() -> None:
    rule = Paragraphs(stop_words=["de", "que"])
    windows = f"{paragraph(20)}\r\n{paragraph(20)}\r\n"
    assert [text for text, _ in split_paragraphs(windows, rule, "pt")] == [paragraph(20)] * 2
    old_mac = f"{paragraph(10)}\r{paragraph(10)}"
    assert reasons(old_mac) == [None]  # twenty words in one paragraph


def test_non_breaking_spaces_part_words() -> None:
    assert reasons(paragraph(20).replace(" ", "\u00a0")) == [None]
    assert reasons(paragraph(19).replace(" ", "\u00a0")) == ["paragraph_short"]


@pytest.mark.parametrize("lang", ["zh", "ja", "th", "zh-Hant"])
def test_languages_without_spaces_are_refused_with_advice(lang: str) -> None:
    source = SourceRecipe(path="x.parquet", lang=lang, filters=Filters(paragraphs=Paragraphs()))
    (line,) = source.problems("sources.x")
    assert "counts words" in line and "without spaces" in line and "minimum_characters" in line
    chain = FilterChain(Filters(paragraphs=Paragraphs()), "sources.x.filters", (0.05, 0.05))
    with pytest.raises(DataError, match="without spaces"):
        list(chain(Document("这是一个很长的段落。", lang, "1")))  # where the language is a column


def test_a_language_without_a_list_of_stop_words_is_told() -> None:
    (line,) = Paragraphs().problems("filters.paragraphs", "xx")
    assert "no list of stop words for 'xx'" in line and "give stop_words" in line


def test_each_paragraph_becomes_a_document_of_its_own_in_the_split_of_its_document() -> None:
    shares = (0.3, 0.3)
    chain = FilterChain(Filters(paragraphs=Paragraphs(stop_words=["de", "que"])), "x", shares)
    for number in range(30):
        whole = Document("\n".join([paragraph(20), paragraph(3), paragraph(30)]), "pt", f"doc/{number}")
        made = list(chain(whole))
        assert [reason for _, reason in made] == [None, "paragraph_short", None]
        assert [document.doc_id for document, _ in made] == [f"doc/{number}#{i}" for i in range(3)]
        assert {split_of(document, *shares) for document, _ in made} == {split_of(whole, *shares)}
