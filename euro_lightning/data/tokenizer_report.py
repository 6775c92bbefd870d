"""What a tokenizer makes of text, in numbers: from a tokenizer and documents to counts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import tokenizers

from euro_lightning.data.documents import UNSPACED, Document
from euro_lightning.data.tokenizer import unknown_token
from euro_lightning.data.unigram import SPACE

PROBES = {
    "2 spaces": "  ",
    "4 spaces": "    ",
    "8 spaces": "        ",
    "tab": "\t",
    "line end, 4 spaces": "\n    ",
    "init": "init",
    "__init__": "__init__",
    "def __init__(self):": "def __init__(self):",
}
"""Pieces of code that are frequent, and costly where a tokenizer was not made for code."""

_BATCH = 64
"""Documents encoded at once."""

_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Counts:
    """What was counted over some documents. A word is what stands between white space."""

    documents: int = 0
    characters: int = 0
    bytes: int = 0
    """Of the text as UTF-8."""
    tokens: int = 0
    unknown: int = 0
    """Tokens that stand for something which the vocabulary cannot express."""
    words: int = 0
    """In texts of languages that put spaces between words."""
    word_tokens: int = 0
    """Tokens of these texts, those between words too."""
    whole: int = 0
    """Words that are one token, which is not an unknown one."""
    changed: int = 0
    """Documents that do not come back exactly from decode(encode(text))."""
    lost: int = 0
    """Documents that do not even come back when white space is left out of both texts and the
    tokenizer's own normaliser, where it has one, is applied to both. All white space is left out,
    and not only runs of it made one, because tokenizers that put a space before each piece, as
    BERTomelo's, give none of the white space around signs back."""

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def fertility(self) -> float:
        """Tokens per word (Rust et al. 2021, "How good is your tokenizer?", of words that a treebank separates)."""
        return _ratio(self.word_tokens, self.words)

    @property
    def characters_per_token(self) -> float:
        return _ratio(self.characters, self.tokens)

    @property
    def bytes_per_token(self) -> float:
        return _ratio(self.bytes, self.tokens)

    @property
    def unknown_share(self) -> float:
        """Of the tokens."""
        return _ratio(self.unknown, self.tokens)

    @property
    def whole_share(self) -> float:
        """Of the words."""
        return _ratio(self.whole, self.words)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


@dataclass(frozen=True)
class Report:
    """What is known of one tokenizer."""

    name: str
    """What the user called it."""
    model: str
    """BPE, Unigram, WordPiece or WordLevel."""
    vocabulary: int
    sources: dict[str, Counts]
    probes: dict[str, tuple[str, ...]]
    """Tokens of each of `PROBES`, as the vocabulary writes them."""

    @property
    def total(self) -> Counts:
        return sum(self.sources.values(), Counts())

    def embedding_parameters(self, width: int) -> tuple[int, int]:
        """Parameters of the vocabulary, with the output matrix tied to the embedding and with one of its own."""
        return self.vocabulary * width, 2 * self.vocabulary * width


def examine(name: str, inner: tokenizers.Tokenizer, samples: Mapping[str, Sequence[Document]]) -> Report:
    """Encodes and decodes documents, and counts.

    Args:
        name: what to call the tokenizer.
        inner: any tokenizer. Names of its special tokens in a text are ordinary text from now on.
        samples: documents of each source.
    """
    meter = _Meter(inner)
    return Report(
        name=name,
        model=type(inner.model).__name__,
        vocabulary=inner.get_vocab_size(with_added_tokens=True),
        sources={source: meter.count(documents) for source, documents in samples.items()},
        probes={label: tuple(meter.encode([text])[0].tokens) for label, text in PROBES.items()},
    )


class _Meter:
    """A tokenizer made ready for counting."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        inner.encode_special_tokens = True
        inner.no_padding()
        inner.no_truncation()
        self.inner = inner
        self.unknown = unknown_token(inner)
        self.spaces = [number for token, number in inner.get_vocab().items() if not token.strip(SPACE)]
        """Tokens that are no part of a word, though Metaspace gives them the offsets of its first character."""

    def encode(self, texts: list[str]) -> list[Any]:
        encodings: list[Any] = self.inner.encode_batch(texts, add_special_tokens=False)
        return encodings

    def count(self, documents: Sequence[Document]) -> Counts:
        total = Counts()
        for start in range(0, len(documents), _BATCH):
            sides = [_sides(document) for document in documents[start : start + _BATCH]]
            encodings = iter(self.encode([text for texts in sides for text, _ in texts]))
            for texts in sides:
                sums = sum((self._count_text(text, lang, next(encodings)) for text, lang in texts), Counts())
                total += replace(sums, documents=1, changed=min(sums.changed, 1), lost=min(sums.lost, 1))
        return total

    def _count_text(self, text: str, lang: str, encoding: Any) -> Counts:
        ids = np.asarray(encoding.ids, dtype=np.int64)
        unknown = ids == (-1 if self.unknown is None else self.unknown)
        words = whole = 0
        spaced = lang.split("-")[0].split("_")[0] not in UNSPACED
        if spaced:
            offsets = np.asarray(encoding.offsets, dtype=np.int64).reshape(-1, 2)
            spans = np.asarray([word.span() for word in _WORD.finditer(text)], dtype=np.int64).reshape(-1, 2)
            touching = _touching(offsets[~np.isin(ids, self.spaces)], spans)
            words = len(spans)
            whole = int(((touching == 1) & (_touching(offsets[unknown], spans) == 0)).sum())
        decoded = self.inner.decode(encoding.ids, skip_special_tokens=False)
        changed = decoded != text
        return Counts(
            characters=len(text),
            bytes=len(text.encode()),
            tokens=len(ids),
            unknown=int(unknown.sum()),
            words=words,
            word_tokens=len(ids) if spaced else 0,
            whole=whole,
            changed=int(changed),
            lost=int(changed and self._bare(decoded) != self._bare(text)),
        )

    def _bare(self, text: str) -> str:
        """The text as the tokenizer's normaliser leaves it, without white space."""
        normaliser = self.inner.normalizer
        return "".join((normaliser.normalize_str(text) if normaliser else text).split())


def _sides(document: Document) -> list[tuple[str, str]]:
    """Each text of a document and its language."""
    sides = [(document.text, document.lang)]
    if document.target is not None:
        sides.append((document.target, document.target_lang or ""))
    return sides


def _touching(offsets: np.ndarray[Any, Any], spans: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """How many tokens hold characters of each span.

    Tokens that begin before its end, less those that end before its start: so the space that a
    byte-level token begins with takes nothing from the word behind it.

    Args:
        offsets: first character of each token and the one behind its last, int64 [tokens, 2].
        spans: the same of each span, int64 [spans, 2].

    Returns:
        int64 [spans].
    """
    starts, ends = np.sort(offsets, axis=0).T
    return np.searchsorted(starts, spans[:, 1], "left") - np.searchsorted(ends, spans[:, 0], "right")
