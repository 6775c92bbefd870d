"""Tokenizers: train, load, check.

Special tokens are never made from text: "<|mask|>" in a document is the characters of that
string and nothing more. Byte-level BPE gives any text back unchanged; see data/unigram.py for what it loses.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tokenizers
from numpy.typing import NDArray

from euro_lightning.data.bpe import BOS, EOS, MASK, PAD, PARALLEL_SEP, learn_bpe
from euro_lightning.data.unigram import learn_unigram
from euro_lightning.errors import DataError, raise_all
from euro_lightning.files import atomic_path, hash_value, read_json

Kind = Literal["bpe", "unigram"]

_NAMES: dict[str, tuple[str, ...]] = {
    "bos": (BOS, "[CLS]", "<s>"),
    "eos": (EOS, "[SEP]", "</s>"),
    "pad": (PAD, "[PAD]", "<pad>"),
    "mask": (MASK, "[MASK]", "<mask>"),
    "parallel_sep": (PARALLEL_SEP,),
}
"""What the special token of each role is called: by this project and EuroBERT, by BERT and
ModernBERT, by RoBERTa. A tokenizer without a role's token uses the one that ends a document, as
EuroBERT's pads with it; only that one and the mask must be there."""

_CONFIGURED = {"bos": ("bos_token", "cls_token"), "eos": ("eos_token", "sep_token"), "pad": ("pad_token",),
               "mask": ("mask_token",)}  # fmt: skip
"""Keys of transformers' tokenizer_config.json that name them."""

_BYTES, _SPECIAL = 256, 5


@dataclass(frozen=True)
class TokenizerConfig:
    """The tokenizer to train, or where to find one."""

    path: str | None = None
    """A tokenizer.json, or a folder with one, to use instead of training."""

    kind: Kind = "bpe"
    """What to train: byte-level BPE, or Unigram over lower-cased words as BERTomelo's."""

    vocabulary: int = 8192
    """Tokens to learn, special ones included."""

    sample_characters: int = 4_000_000
    """Characters to learn from, spread evenly over the sources."""

    def problems(self, prefix: str = "data.tokenizer.") -> list[str]:
        """What is wrong with this configuration, one line each."""
        least = _BYTES + _SPECIAL + 64  # both kinds begin with an alphabet of bytes
        found = []
        if self.vocabulary < least:
            found.append(f"{prefix}vocabulary is {self.vocabulary}: it must be at least {least}")
        if self.sample_characters < 1000:
            found.append(f"{prefix}sample_characters is {self.sample_characters}: it must be at least 1,000")
        return found


class Tokenizer:
    """A `tokenizers.Tokenizer` and its special tokens."""

    def __init__(self, inner: tokenizers.Tokenizer, names: Mapping[str, Sequence[str]] = _NAMES) -> None:
        """
        Args:
            inner: the tokenizer, which must have a token that ends a document and a mask.
            names: names for the special token of each role, the first that it has is used.
        """
        inner.encode_special_tokens = True  # text is untrusted: its literals are not special
        inner.no_padding()
        inner.no_truncation()
        self.inner = inner
        self.vocabulary: int = inner.get_vocab_size(with_added_tokens=True)
        found = {role: _first(inner, names[role]) for role in _NAMES}
        eos, mask = found["eos"], found["mask"]
        assert eos is not None and mask is not None
        self.eos, self.mask = eos, mask
        self.bos, self.pad, self.parallel_sep = (
            eos if found[role] is None else found[role] for role in ("bos", "pad", "parallel_sep")
        )
        self.special_ids: tuple[int, ...] = tuple(sorted(inner.get_added_tokens_decoder()))
        """Every special or added token: never hidden, never drawn."""

    @property
    def roles(self) -> tuple[int, int, int, int, int]:
        """Ids of the tokens that begin and end a document, pad, mask, and separate parallel texts."""
        return self.bos, self.eos, self.pad, self.mask, self.parallel_sep

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, without special tokens."""
        return [encoding.ids for encoding in self.inner.encode_batch_fast(texts, add_special_tokens=False)]

    def decode(self, ids: list[int]) -> str:
        """The text of ids; special tokens become their names."""
        return str(self.inner.decode(ids, skip_special_tokens=False))

    def token_string(self, token: int) -> str:
        """A token as a person reads it; broken characters become a replacement sign."""
        return self.decode([token])

    def name_of(self, token: int) -> str | None:
        """The string that stands for a token in the vocabulary; None beyond it."""
        name: str | None = self.inner.id_to_token(token)
        return name

    def byte_lengths(self) -> NDArray[np.int64]:
        """int64 [V]: bytes of text that each token stands for, in UTF-8; 0 for special tokens."""
        byte_level = "ByteLevel" in json.dumps(json.loads(self.inner.to_str()).get("decoder"))
        lengths = np.zeros(self.vocabulary, dtype=np.int64)
        for name, number in self.inner.get_vocab(with_added_tokens=True).items():
            # a byte-level token has one character for each byte; others may have a space sign, or name a byte
            plain = 1 if re.fullmatch(r"<0x[0-9A-F]{2}>", name) else len(name.replace("▁", " ").encode())
            lengths[number] = len(name) if byte_level else plain
        lengths[list(self.special_ids)] = 0
        return lengths

    @property
    def unknown(self) -> int | None:
        """Id of the token for what the vocabulary cannot express; None where there is none."""
        return unknown_token(self.inner)

    @property
    def content_hash(self) -> str:
        """Equal for tokenizers that are equal."""
        return hash_value(self.inner.to_str())

    def save(self, path: Path) -> None:
        """Writes tokenizer.json, atomically."""
        with atomic_path(path) as temporary:
            temporary.write_text(self.inner.to_str(), encoding="utf-8")


def unknown_token(inner: tokenizers.Tokenizer) -> int | None:
    """Id of the token for what the vocabulary cannot express; None where there is none."""
    model = json.loads(inner.to_str())["model"]
    number: int | None = model.get("unk_id")
    name = model.get("unk_token")
    return number if name is None else inner.token_to_id(name)


def transformers_settings(
    tokenizer: Tokenizer, longest: int | None = None, *, mask_takes_space: bool = False
) -> dict[str, Any]:
    """tokenizer_config.json, so that transformers gives each special token its role.

    Args:
        tokenizer: the tokenizer.
        longest: tokens that a model takes at most, where known.
        mask_takes_space: whether a mask in a text takes the white space before it with it.
    """
    names = [tokenizer.name_of(number) for number in tokenizer.roles]
    bos, eos, pad, mask = names[:4]
    behaviour = {"lstrip": mask_takes_space, "rstrip": False, "single_word": False, "normalized": False}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": bos,
        "eos_token": eos,
        "cls_token": bos,
        "sep_token": eos,
        "pad_token": pad,
        "mask_token": {"__type": "AddedToken", "content": mask, **behaviour, "special": True},
        "model_max_length": longest,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "padding_side": "right",
    }
    if tokenizer.unknown is not None:
        settings["unk_token"] = tokenizer.name_of(tokenizer.unknown)
    return {key: value for key, value in settings.items() if value is not None}


def _first(inner: tokenizers.Tokenizer, names: Sequence[str]) -> Any:
    """Id of the first of some names that the tokenizer has as an added token."""
    added = {token.content: number for number, token in inner.get_added_tokens_decoder().items()}
    return next((added[name] for name in names if name in added), None)


def _names_in(folder: Path) -> dict[str, tuple[str, ...]]:
    """Names of the special tokens, those in transformers' tokenizer_config.json first."""
    file = folder / "tokenizer_config.json"
    given = read_json(file) if file.is_file() else {}
    names = {}
    for role, usual in _NAMES.items():
        told = [given.get(key) for key in _CONFIGURED.get(role, ())]
        # a name is text, or a mapping with the text and how spaces around it are treated
        texts = [str(name.get("content")) if isinstance(name, dict) else str(name) for name in told if name]
        names[role] = (*texts, *usual)
    return names


def train_tokenizer(texts: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """Learns a tokenizer of the kind and, where the text gives that much, of the vocabulary asked for.

    Raises:
        UserError: a configuration that cannot be, or text that cannot give it.
    """
    raise_all(config.problems())
    learn = {"bpe": learn_bpe, "unigram": learn_unigram}[config.kind]
    return Tokenizer(learn(texts, config.vocabulary))


def read_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """Reads a tokenizer.json, or the one in a folder, whatever special tokens it has.

    Raises:
        DataError: not there, or not a tokenizer.
    """
    file = tokenizer_file(path)
    if not file.is_file():
        raise DataError(f"tokenizer {file} does not exist")
    try:
        return tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:
        raise DataError(f"{file} is not a tokenizer ({' '.join(str(error).split())[:120]})") from None


def tokenizer_file(path: Path) -> Path:
    """The file that a path to a tokenizer stands for."""
    return path / "tokenizer.json" if path.is_dir() else path


def load_tokenizer(path: Path) -> Tokenizer:
    """Reads a tokenizer that can serve in training.

    Raises:
        DataError: not there, not a tokenizer, or without a token that ends a document or a mask.
    """
    file, inner = tokenizer_file(path), read_tokenizer(path)
    names = _names_in(file.parent)
    missing = [role for role in ("eos", "mask") if _first(inner, names[role]) is None]
    if missing:
        wanted = "; ".join(f"{role}: one of {', '.join(_NAMES[role])}" for role in missing)
        raise DataError(f"tokenizer {file} lacks special tokens ({wanted}); add them to it")
    return Tokenizer(inner, names)
