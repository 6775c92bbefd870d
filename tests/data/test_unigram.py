"""Unigram tokenizers in the manner of BERTomelo: what they keep, what they lose, equal on every machine."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from euro_lightning.data.tokenizer import Tokenizer, TokenizerConfig, load_tokenizer, train_tokenizer
from euro_lightning.data.unigram import SPECIAL, learn_unigram
from euro_lightning.errors import DataError

TEXTS = [
    f"{start} casa {number} também está, e o mundo é grande; a ação {middle}mente ``continua'' em {number * 37}."
    for number in range(300)
    for start, middle in (("A", "lenta"), ("Outra", "rápida"), ("Esta", "final"))
]
CONFIG = TokenizerConfig(kind="unigram", vocabulary=500)
KNOWN = sorted(set("".join(TEXTS)))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(TEXTS, CONFIG)


def pieces(tokenizer: Tokenizer, text: str) -> list[str | None]:
    return [tokenizer.name_of(token) for token in tokenizer.encode_batch([text])[0]]


def bare(tokenizer: Tokenizer, text: str) -> str:
    return "".join(tokenizer.inner.normalizer.normalize_str(text).split())


def test_text_is_lower_cased_and_cut_at_spaces_signs_and_numbers(tokenizer: Tokenizer) -> None:
    inner = tokenizer.inner
    normal = inner.normalizer.normalize_str("Diz ``OLA\u0301'' em  2024!")
    assert normal == 'diz "olá" em  2024!'
    cut = [piece for piece, _ in inner.pre_tokenizer.pre_tokenize_str(normal)]
    assert cut == ["▁diz", '▁"', "▁olá", '▁"', "▁em", "▁2024", "▁!"]


def test_the_special_tokens_are_the_first_five(tokenizer: Tokenizer) -> None:
    assert [tokenizer.name_of(number) for number in range(5)] == list(SPECIAL)
    assert SPECIAL == ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    assert tokenizer.special_ids == (0, 1, 2, 3, 4)
    assert tokenizer.roles == (2, 3, 0, 4, 3), "[CLS], [SEP], [PAD], [MASK], and [SEP] between parallel texts"
    assert tokenizer.unknown == 1
    assert not tokenizer.inner.get_added_tokens_decoder()[4].lstrip


def test_texts_are_framed_when_asked_and_never_in_training(tokenizer: Tokenizer) -> None:
    assert tokenizer.inner.encode("casa").tokens == ["[CLS]", "▁casa", "[SEP]"]
    assert tokenizer.inner.encode("casa", "mundo").tokens == ["[CLS]", "▁casa", "[SEP]", "▁mundo", "[SEP]"]
    assert pieces(tokenizer, "casa") == ["▁casa"]


@settings(deadline=None)
@given(st.lists(st.sampled_from([*SPECIAL, "[mask]", " ", "a", "\u0000", "▁", "\uffff"]), max_size=8))
def test_special_tokens_are_never_made_from_text(tokenizer: Tokenizer, parts: list[str]) -> None:
    ids = tokenizer.encode_batch(["".join(parts)])[0]
    assert not set(ids) & (set(tokenizer.special_ids) - {tokenizer.unknown})


@settings(deadline=None)
@given(st.text(st.sampled_from(KNOWN), max_size=60))
def test_known_characters_come_back_but_for_case_and_space(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode_batch([text])[0]
    assert tokenizer.unknown not in ids
    assert bare(tokenizer, tokenizer.decode(ids)) == bare(tokenizer, text)


def test_a_character_outside_text_and_bytes_is_unknown(tokenizer: Tokenizer) -> None:
    assert pieces(tokenizer, "casa ☃") == ["▁casa", "▁", "[UNK]"]
    assert "[UNK]" not in pieces(tokenizer, "Ġ ÿ ß"), "the byte alphabet is known without training text"


def test_a_frequent_word_that_no_other_continues_is_one_token(tokenizer: Tokenizer) -> None:
    assert pieces(tokenizer, "Também está") == ["▁também", "▁está"]


def test_the_vocabulary_has_its_size_and_nothing_that_only_training_saw(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocabulary == 500
    assert not any("\uffff" in token for token in tokenizer.inner.get_vocab())


def test_a_text_can_give_fewer_tokens_than_asked_for() -> None:
    assert 261 < train_tokenizer(TEXTS, TokenizerConfig(kind="unigram", vocabulary=5000)).vocabulary < 1000


def test_more_characters_than_the_vocabulary_has_room_for_is_told_with_the_number_that_serves() -> None:
    texts = ["".join(map(chr, range(0x4E00, 0x4E00 + 200))), "casa casa"]
    # "▁", 256 letters for bytes ("a", "c" and "s" are among them), 200 of Chinese; five special tokens and one piece
    with pytest.raises(
        DataError, match=r"has 457 different characters.* 400 cannot hold: ask for at least 463"
    ):
        learn_unigram(texts, 400)
    with pytest.raises(DataError, match="at least 463"):
        learn_unigram(texts, 462)
    assert learn_unigram(texts, 463).get_vocab_size() <= 463
    with pytest.raises(DataError, match="no words"):
        learn_unigram([], 400)


def test_training_is_the_same_in_every_process(tokenizer: Tokenizer) -> None:
    """The trainer of `tokenizers` alone gives rare characters scores in an order that changes."""
    code = "from tests.data.test_unigram import *; print(train_tokenizer(TEXTS, CONFIG).content_hash, end='')"
    for threads in "12":
        result = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
            env={"RAYON_NUM_THREADS": threads},
        )  # fmt: skip
        assert result.stdout == tokenizer.content_hash


def test_it_survives_a_file(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = load_tokenizer(tmp_path)
    assert loaded.content_hash == tokenizer.content_hash
    assert loaded.encode_batch(TEXTS[:5]) == tokenizer.encode_batch(TEXTS[:5])
