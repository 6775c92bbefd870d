"""Tokenizers: lossless, code-aware, safe against special tokens in text."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from euro_lightning.data.bpe import SPECIAL
from euro_lightning.data.documents import Document
from euro_lightning.data.sampling import sample_texts
from euro_lightning.data.tokenizer import Kind, Tokenizer, TokenizerConfig, load_tokenizer, train_tokenizer
from euro_lightning.errors import ConfigError, DataError

TEXTS = [
    f"{word}{number} bonjour le monde, Привет мир; नमस्ते दुनिया 世界 {number * 37}"
    for number in range(400)
    for word in ("sol", "luna", "terra")
]
CONFIG = TokenizerConfig(vocabulary=600)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(TEXTS, CONFIG)


def whole(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.decode([token]) for token in tokenizer.encode_batch([text])[0]]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_bytes_of_tokens_sum_to_those_of_the_text(kind: Kind) -> None:
    texts = ["a plain sentence and another one", "deuxième phrase à côté", "слова и слоги", "one two"]
    tokenizer = train_tokenizer(texts * 30, TokenizerConfig(kind=kind, vocabulary=420))
    lengths = tokenizer.byte_lengths()
    assert lengths[list(tokenizer.special_ids)].tolist() == [0] * len(tokenizer.special_ids)
    first_space = kind == "unigram"  # it puts one before the first word, too
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        assert int(lengths[ids].sum()) == len(text.encode()) + first_space


@settings(deadline=None)
@given(
    st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(" \t\r\n<|>")), max_size=60)
)
def test_any_text_comes_back_unchanged(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode_batch([text])[0]) == text


@pytest.mark.parametrize(
    "text",
    [
        "a\tb\t\tc",
        "x\r\ny\r\n\r\n",
        " " * 37,
        "\x00\x07\u200b",
        "🙂👩‍👩‍👧",
        "e\u0301\u0327",
        "\n    def f():\n\treturn  1\n",
    ],
)
def test_awkward_texts_come_back_unchanged(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode_batch([text])[0]) == text


def test_indentation_of_four_and_eight_is_one_token_even_without_code_in_training(
    tokenizer: Tokenizer,
) -> None:
    assert whole(tokenizer, "    ") == ["    "]
    assert whole(tokenizer, "        ") == ["        "]
    assert whole(tokenizer, "            x")[:2] == ["        ", "    "]


def test_digits_fall_into_groups_of_three(tokenizer: Tokenizer) -> None:
    assert all(len(piece) <= 3 for piece in whole(tokenizer, "3333333"))


def test_words_keep_their_combining_marks(tokenizer: Tokenizer) -> None:
    assert whole(tokenizer, " नमस्ते") == [" नमस्ते"]


def test_special_tokens_are_never_made_from_text(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_batch([" ".join(SPECIAL)])[0]
    assert not set(ids) & set(tokenizer.special_ids)
    assert tokenizer.decode(ids) == " ".join(SPECIAL)


def test_the_vocabulary_has_its_size_and_its_special_tokens(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocabulary == 600
    specials = [tokenizer.bos, tokenizer.eos, tokenizer.pad, tokenizer.mask, tokenizer.parallel_sep]
    assert sorted(specials) == list(tokenizer.special_ids)
    assert tokenizer.pad != tokenizer.eos


def test_training_is_the_same_every_time_and_survives_a_file(tokenizer: Tokenizer, tmp_path: Path) -> None:
    assert train_tokenizer(TEXTS, CONFIG).content_hash == tokenizer.content_hash
    assert train_tokenizer(TEXTS, TokenizerConfig(vocabulary=500)).content_hash != tokenizer.content_hash
    tokenizer.save(tmp_path / "tokenizer.json")
    for place in (tmp_path, tmp_path / "tokenizer.json"):
        loaded = load_tokenizer(place)
        assert loaded.content_hash == tokenizer.content_hash
        assert loaded.encode_batch(TEXTS[:5]) == tokenizer.encode_batch(TEXTS[:5])


def test_a_file_that_cannot_serve_is_refused_in_one_line(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        load_tokenizer(tmp_path)
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(DataError, match="is not a tokenizer"):
        load_tokenizer(broken)
    without = tmp_path / "without.json"
    without.write_text(tokenizer.inner.to_str().replace("<|mask|>", "<|musk|>"))
    with pytest.raises(
        DataError, match=r"lacks special tokens \(mask: one of <\|mask\|>, \[MASK\], <mask>\)"
    ):
        load_tokenizer(without)
    with pytest.raises(ConfigError, match="vocabulary is 100"):
        train_tokenizer(TEXTS, TokenizerConfig(vocabulary=100))


def test_small_sources_get_their_part_of_the_sample() -> None:
    large = [Document("x" * 100, "en", f"en{i}") for i in range(1000)]
    small = [Document("y" * 100, "hi", f"hi{i}") for i in range(20)]
    pairs = [
        Document("a" * 50, "en", f"p{i}", "parallel", target="b" * 49, target_lang="fr") for i in range(1000)
    ]
    texts = sample_texts([*large, *pairs, *small], 30_000)
    characters = {c: sum(text.count(c) for text in texts) for c in "xyab"}
    assert characters["y"] == 2000
    assert characters["x"] == pytest.approx(14_000, abs=200)
    assert characters["a"] == pytest.approx(7_000, abs=200)
    assert texts == sample_texts([*small, *reversed(large), *pairs], 30_000)


def test_tokenizers_of_other_projects_serve_by_the_roles_of_their_tokens(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Inner
    from tokenizers import models

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    inner = Inner(models.WordLevel({**{n: i for i, n in enumerate(names)}, "a": 5}, unk_token="[UNK]"))
    inner.add_special_tokens(names)
    inner.save(str(tmp_path / "tokenizer.json"))
    bert = load_tokenizer(tmp_path)
    assert bert.roles == (2, 3, 0, 4, 3), "without a separator of its own the end of a text separates"
    assert bert.special_ids == (0, 1, 2, 3, 4)
    # names in transformers' file go first, as text or as a mapping
    settings = '{"eos_token": "[CLS]", "mask_token": {"content": "[UNK]", "lstrip": true}}'
    (tmp_path / "tokenizer_config.json").write_text(settings)
    assert load_tokenizer(tmp_path).roles == (2, 2, 0, 1, 2)
