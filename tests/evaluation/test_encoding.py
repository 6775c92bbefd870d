"""Text becomes tokens as in pretraining, and every word knows its own."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from euro_lightning.data.tokenizer import Tokenizer, load_tokenizer
from euro_lightning.errors import ConfigError, DataError
from euro_lightning.evaluation.encoding import Encoding, _shares
from euro_lightning.evaluation.examples import Sentence
from tests.evaluation.small import minilm, tokenizer_of


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return tokenizer_of("bpe")


@pytest.fixture(scope="module")
def unigram() -> Tokenizer:
    return tokenizer_of("unigram")


def names(tokenizer: Tokenizer, ids: object) -> list[str | None]:
    return [tokenizer.name_of(int(token)) for token in ids]  # type: ignore[attr-defined]


def sentence(*words: str, lang: str = "fr") -> Sentence:
    return Sentence("7", lang, words, (0,) * len(words))


def test_a_text_ends_and_a_pair_is_separated_as_in_training(bpe: Tokenizer) -> None:
    one, two = Encoding(bpe, 64).texts([("a",), ("a", "b")], ["0", "1"]).ids
    assert names(bpe, one) == ["a", "<|end_of_text|>"]
    assert names(bpe, two) == ["a", "<|parallel_sep|>", "b", "<|end_of_text|>"]


def test_the_post_processor_of_a_tokenizer_decides_unless_eos_does(unigram: Tokenizer) -> None:
    for special, expected in (
        ("tokenizer", ["[CLS]", "▁a", "[SEP]", "▁de", "[SEP]"]),
        ("eos", ["▁a", "[SEP]", "▁de", "[SEP]"]),
    ):
        found = Encoding(unigram, 64, special).texts([("a", "de")], ["0"]).ids[0]  # type: ignore[arg-type]
        assert names(unigram, found) == expected


def test_pooling_of_the_first_token_puts_one_there(bpe: Tokenizer, unigram: Tokenizer) -> None:
    assert names(bpe, Encoding(bpe, 64, bos=True).texts([("a",)], ["0"]).ids[0])[0] == "<|begin_of_text|>"
    assert names(unigram, Encoding(unigram, 64, bos=True).texts([("a",)], ["0"]).ids[0])[:2] == [
        "[CLS]",
        "▁a",
    ]


def test_special_tokens_are_not_made_from_text(bpe: Tokenizer) -> None:
    found = Encoding(bpe, 64).texts([("<|end_of_text|>",)], ["0"]).ids[0]
    assert (found == bpe.eos).sum() == 1


def test_what_is_too_long_is_cut_and_counted_or_refused(bpe: Tokenizer) -> None:
    long = "un deux trois quatre " * 30
    encoded = Encoding(bpe, 20).texts([(long,), ("un",), ("un", long), (long, long)], list("abcd"))
    assert encoded.cut == 3
    assert [len(ids) for ids in encoded.ids][0:4:2] == [20, 20]
    assert all(ids[-1] == bpe.eos for ids in encoded.ids)
    short = bpe.encode_batch(["un"])[0]
    assert encoded.ids[2][: len(short)].tolist() == short, "of a pair the longer is cut first"
    with pytest.raises(DataError, match=r"^row c: \d+ tokens, and at most 20 are taken; raise max_length"):
        Encoding(bpe, 20, cut="refuse").texts([("un",), ("un", long)], ["a", "c"])
    with pytest.raises(ConfigError, match="max_length is 3: special tokens alone take 2"):
        Encoding(bpe, 3)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 50))
def test_shares_of_a_pair_fill_the_room_and_cut_the_longer(first: int, second: int, room: int) -> None:
    kept = _shares([first, second], room)
    assert sum(kept) == min(room, first + second)
    assert kept[0] <= first and kept[1] <= second
    if kept[0] < first:
        assert kept[0] >= kept[1] - 1
    if kept[1] < second:
        assert kept[1] >= kept[0] - 1


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_words_have_the_tokens_that_they_have_in_running_text(
    kind: str, request: pytest.FixtureRequest
) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(kind)
    words = ("La", "(taille)", "compte", "12", "çà", "😀", "masque,", "mots")
    encoded = Encoding(tokenizer, 64).sentences([sentence(*words)])
    whole = Encoding(tokenizer, 64).texts([(" ".join(words),)], ["0"])
    assert encoded.ids[0].tolist() == whole.ids[0].tolist()
    owners = encoded.words[0]
    assert sorted(set(owners.tolist()) - {-1}) == list(range(len(words)))
    for number, word in enumerate(words):
        text = tokenizer.decode(encoded.ids[0][owners == number].tolist()).replace(" ", "")
        assert text == (word.lower() if kind == "unigram" else word) or "�" in text or "UNK" in text


def test_every_token_of_a_broken_character_is_of_its_word(bpe: Tokenizer) -> None:
    encoded = Encoding(bpe, 64).sentences([sentence("漢", "x")])
    assert (encoded.words[0] == 0).sum() >= 2


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
@settings(deadline=None, max_examples=60)
@given(words=st.lists(st.text(st.characters(codec="utf-8"), max_size=6), min_size=1, max_size=8))
def test_alignment_survives_any_words(kind: str, words: list[str]) -> None:
    """Words come in order, and a word that yields no token does not move those after it."""
    tokenizer = _tokenizers(kind)
    encoded = Encoding(tokenizer, 512).sentences([sentence(*words, "fim")])
    owners = [owner for owner in encoded.words[0].tolist() if owner >= 0]
    assert owners == sorted(owners)
    assert owners[-1] == len(words)
    assert len(encoded.words[0]) == len(encoded.ids[0])


_KEPT: dict[str, Tokenizer] = {}


def _tokenizers(kind: str) -> Tokenizer:
    if kind not in _KEPT:
        _KEPT[kind] = load_tokenizer(Path(minilm())) if kind == "wordpiece" else tokenizer_of(kind)
    return _KEPT[kind]


def test_languages_without_spaces_get_none(bpe: Tokenizer) -> None:
    encoded = Encoding(bpe, 64).sentences([sentence("漢字", "です", lang="ja")])
    assert " " not in bpe.decode(encoded.ids[0].tolist())
    assert set(encoded.words[0].tolist()) == {0, 1, -1}


def test_words_beyond_the_cut_have_no_token(bpe: Tokenizer) -> None:
    encoded = Encoding(bpe, 10).sentences([sentence(*["masque"] * 30)])
    assert encoded.cut == 1 and len(encoded.ids[0]) == 10
    assert encoded.words[0].max() < 29
