"""What a tokenizer makes of text, against numbers counted by hand."""

import math

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from euro_lightning.data.documents import Document
from euro_lightning.data.tokenizer import TokenizerConfig, train_tokenizer
from euro_lightning.data.tokenizer_report import Counts, Report, examine


def byte_level() -> tokenizers.Tokenizer:
    """Joins "ab", " ab" and " c"; no special token at all."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("a", "b"), ("Ġ", "ab"), ("Ġ", "c")]
    vocabulary = {token: i for i, token in enumerate([*alphabet, *("".join(merge) for merge in merges)])}
    inner = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


def metaspace() -> tokenizers.Tokenizer:
    """Lower case; knows " ab", " c", "c", "d" and ","."""
    pieces = [("[UNK]", 0.0), ("▁", -3.0), ("▁ab", -1.0), ("▁c", -1.0), ("c", -2.0), ("d", -2.0), (",", -2.0)]
    inner = tokenizers.Tokenizer(models.Unigram(pieces, 0, byte_fallback=False))
    inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), pre_tokenizers.Metaspace()]
    )
    inner.decoder = decoders.Metaspace()
    return inner


def counts(inner: tokenizers.Tokenizer, *documents: Document) -> Counts:
    return examine("x", inner, {"x": documents}).total


def english(text: str) -> Document:
    return Document(text, "en", text)


def test_bytes() -> None:
    """ab | Ġab c | Ġc: a word is whole though its token begins with the space before it."""
    found = counts(byte_level(), english("ab abc c"))
    assert found == Counts(documents=1, characters=8, bytes=8, tokens=4, words=3, word_tokens=4, whole=2)
    assert found.fertility == pytest.approx(4 / 3)
    assert found.characters_per_token == found.bytes_per_token == 2
    assert found.whole_share == pytest.approx(2 / 3)
    assert found.unknown_share == 0


def test_a_word_cut_inside_a_character_is_not_whole() -> None:
    """ã is two bytes, and here two tokens, both with the offsets of one character."""
    found = counts(byte_level(), english("ã ab"))
    assert (found.tokens, found.words, found.whole) == (3, 2, 1)
    assert (found.characters, found.bytes) == (4, 5)


def test_tokens_of_white_space_cost_but_break_no_word() -> None:
    """ab | Ġ | Ġab | Ċ | ab."""
    found = counts(byte_level(), english("ab  ab\nab"))
    assert (found.tokens, found.words, found.whole, found.changed) == (5, 3, 3, 0)


def test_metaspace() -> None:
    """▁ab | ▁ab c | ▁ , | ▁c [UNK]: three words, "abc," among them."""
    found = counts(metaspace(), english("Ab abc, c☃"))
    assert (found.tokens, found.words, found.whole, found.unknown) == (7, 3, 1, 1)
    assert found.fertility == pytest.approx(7 / 3)
    assert found.unknown_share == pytest.approx(1 / 7)
    assert (found.changed, found.lost) == (1, 1)


def test_the_bare_space_of_metaspace_is_no_part_of_the_word_behind_it() -> None:
    """▁ d | ▁ ,: four tokens, two words that are in one piece each."""
    found = counts(metaspace(), english("d ,"))
    assert (found.tokens, found.words, found.whole) == (4, 2, 2)


def test_case_and_spaces_are_changed_and_not_lost() -> None:
    found = counts(metaspace(), english("ab c"), english("AB  c"), english("ab, c"), english("ab é"))
    assert found.documents == 4
    assert found.changed == 3, "all but the first"
    assert found.lost == 1, "only the one with an unknown character"


def test_an_unknown_word_is_not_whole() -> None:
    inner = tokenizers.Tokenizer(models.WordLevel({"?": 0, "ab": 1}, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    found = counts(inner, english("ab cd"))
    assert (found.tokens, found.unknown, found.whole) == (2, 1, 1)


@pytest.mark.parametrize("lang", ["zh", "ja", "th", "zh-Hant"])
def test_without_spaces_there_are_no_words_to_count(lang: str) -> None:
    found = counts(byte_level(), Document("世界 ab", lang, "1"))
    assert (found.words, found.word_tokens, found.whole) == (0, 0, 0)
    assert math.isnan(found.fertility) and math.isnan(found.whole_share)
    assert found.characters_per_token == pytest.approx(5 / 7), "two characters of three bytes each, and Ġab"


def test_both_sides_of_a_pair_count_and_the_words_of_one() -> None:
    pair = Document("ab ab", "en", "1", "parallel", target="世", target_lang="zh")
    found = counts(byte_level(), pair)
    assert (found.documents, found.tokens, found.word_tokens, found.words) == (1, 5, 2, 2)
    assert found.fertility == 1


def test_names_of_special_tokens_in_a_text_are_text() -> None:
    inner = byte_level()
    inner.add_special_tokens(["[MASK]"])
    found = counts(inner, english("[MASK]"))
    assert (found.tokens, found.changed) == (6, 0)


def test_sources_stand_apart_and_sum() -> None:
    report = examine("x", byte_level(), {"en": [english("ab c")] * 2, "zh": [Document("世", "zh", "1")]})
    assert {name: part.tokens for name, part in report.sources.items()} == {"en": 4, "zh": 3}
    assert (report.total.tokens, report.total.words, report.total.fertility) == (7, 4, 1)
    assert report.embedding_parameters(768) == (259 * 768, 2 * 259 * 768)


def test_code_is_shown_as_it_is_cut() -> None:
    texts = ["def __init__(self):\n    self.x = x\n\n\tdef f(self):\n        return self.x\n"] * 50
    report = examine("x", train_tokenizer(texts, TokenizerConfig(vocabulary=400)).inner, {})
    assert report.probes["4 spaces"] == ("ĠĠĠĠ",)
    assert report.probes["8 spaces"] == ("ĠĠĠĠĠĠĠĠ",)
    assert report.probes["line end, 4 spaces"] == ("Ċ", "ĠĠĠĠ")
    assert report.probes["tab"] == ("ĉ",)
    assert report.probes["__init__"] == ("__", "init", "__")
    assert "".join(report.probes["def __init__(self):"]) == "defĠ__init__(self):"


def test_what_is_not_there_has_no_share() -> None:
    empty = Report("x", "BPE", 1, {}, {}).total
    assert empty == Counts()
    assert math.isnan(empty.characters_per_token)
