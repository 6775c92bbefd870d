"""Byte-level BPE tokenizers: train, load, check.

Any text comes back unchanged from decode(encode(text)). Special tokens are never made from
text: "<|mask|>" in a document is the characters of that string and nothing more.
"""

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, trainers

from euro_lightning.data.documents import Document, fraction
from euro_lightning.errors import DataError, raise_all
from euro_lightning.files import atomic_path, hash_value, read_json

BOS, EOS, PAD, MASK, PARALLEL_SEP = SPECIAL = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|pad|>",
    "<|mask|>",
    "<|parallel_sep|>",
)

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

_BYTES = 256

# Indentation in steps of 8 and 4, so that code costs few tokens; words with at most one space
# before them and with their combining marks, without which Hindi words fall apart; digits in
# groups of three, as Llama 3 and EuroBERT; then signs, line ends and what space is left.
_PIECES = r" {8}| {4}| ?[\p{L}\p{M}]+|\p{N}{1,3}| ?[^\s\p{L}\p{M}\p{N}]+|[\r\n]+|\s+(?!\S)|\s"

_INDENTS_PER_CHARACTER = 1 / 20
"""Runs of eight spaces added to the training text. The k-th merge replaces at most bytes / k
pairs, so at this rate the runs are merged among the first sixty, whatever the text is."""


@dataclass(frozen=True)
class TokenizerConfig:
    """The tokenizer to train, or where to find one."""

    path: str | None = None
    """A tokenizer.json, or a folder with one, to use instead of training."""

    vocabulary: int = 8192
    """Tokens to learn, special ones included."""

    sample_characters: int = 4_000_000
    """Characters to learn from, spread evenly over the sources."""

    def problems(self) -> list[str]:
        """What is wrong with this configuration, one line each."""
        least = _BYTES + len(SPECIAL) + 64
        found = []
        if self.vocabulary < least:
            found.append(f"data.tokenizer.vocabulary is {self.vocabulary}: it must be at least {least}")
        if self.sample_characters < 1000:
            found.append(
                f"data.tokenizer.sample_characters is {self.sample_characters}: it must be at least 1,000"
            )
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

    @property
    def unknown(self) -> int | None:
        """Id of the token for what the vocabulary cannot express; None where there is none."""
        model = json.loads(self.inner.to_str())["model"]
        if model.get("unk_id") is not None:
            return int(model["unk_id"])
        name = model.get("unk_token")
        return None if name is None else _first(self.inner, [name])

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

    @property
    def content_hash(self) -> str:
        """Equal for tokenizers that are equal."""
        return hash_value(self.inner.to_str())

    def save(self, path: Path) -> None:
        """Writes tokenizer.json, atomically."""
        with atomic_path(path) as temporary:
            temporary.write_text(self.inner.to_str(), encoding="utf-8")


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
    """Learns a byte-level BPE (Sennrich et al. 2016; bytes as GPT-2, Radford et al. 2019).

    The vocabulary has exactly the size asked for, unless the text has too few distinct pieces.
    """
    raise_all(config.problems())
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary,
        special_tokens=[AddedToken(name, special=True, normalized=False) for name in SPECIAL],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    inner.train_from_iterator(_with_indents(texts), trainer)
    return Tokenizer(inner)


def _with_indents(texts: Iterable[str]) -> Iterator[str]:
    characters = 0
    for text in texts:
        characters += len(text)
        yield text
    left = int(characters * _INDENTS_PER_CHARACTER) + 100
    while left > 0:
        yield " " * 8 * min(left, 10_000)
        left -= 10_000


def load_tokenizer(path: Path) -> Tokenizer:
    """Reads a tokenizer.json, or the one in a folder.

    Raises:
        DataError: not there, not a tokenizer, or without a token that ends a document or a mask.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"tokenizer {file} does not exist")
    try:
        inner = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:
        raise DataError(f"{file} is not a tokenizer ({' '.join(str(error).split())[:120]})") from None
    names = _names_in(file.parent)
    missing = [role for role in ("eos", "mask") if _first(inner, names[role]) is None]
    if missing:
        wanted = "; ".join(f"{role}: one of {', '.join(_NAMES[role])}" for role in missing)
        raise DataError(f"tokenizer {file} lacks special tokens ({wanted}); add them to it")
    return Tokenizer(inner, names)


def sample_texts(documents: Iterable[Document], characters: int) -> list[str]:
    """A sample spread evenly over the sources, so that small ones get their words too.

    Of each source the documents with the smallest hashes are taken, which is a random sample
    that is the same for everybody. A source with less than its part gives all it has, and the
    others share the rest. Holds at most `characters` per source.
    """
    heaps: dict[str, list[tuple[float, str, str]]] = {}
    sizes: dict[str, int] = {}
    for document in documents:
        source = document.source
        heap = heaps.setdefault(source, [])
        text = document.text if document.target is None else f"{document.text}\n{document.target}"
        heapq.heappush(heap, (-fraction(document.doc_id), document.doc_id, text))
        sizes[source] = sizes.get(source, 0) + len(text)
        while sizes[source] - len(heap[0][2]) >= characters:
            sizes[source] -= len(heapq.heappop(heap)[2])
    texts: list[str] = []
    left, waiting = characters, len(heaps)
    for source in sorted(heaps, key=lambda name: (sizes[name], name)):
        room = left // waiting
        for _, _, text in sorted(heaps[source], reverse=True):
            if room <= 0:
                break
            texts.append(text[:room])
            room -= len(text)
            left -= min(len(text), room + len(text))
        waiting -= 1
    return texts
