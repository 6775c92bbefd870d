"""Texts, pairs and sentences as token ids, as the encoder saw text in pretraining.

Words are read in their sentence, so that each has the space before it that it has in running text;
which tokens are whose follows from the characters that they stand for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from euro_lightning.data.documents import UNSPACED
from euro_lightning.data.tokenizer import Tokenizer
from euro_lightning.errors import ConfigError, DataError
from euro_lightning.evaluation.examples import Sentence

Ids = NDArray[np.int64]

SpecialTokens = Literal["tokenizer", "eos"]
Cut = Literal["cut", "refuse"]


@dataclass(frozen=True)
class Encoded:
    """Sequences of tokens."""

    ids: list[Ids]
    """int64 [length] each: token ids, special ones included."""
    cut: int
    """How many were longer and are cut."""


@dataclass(frozen=True)
class EncodedSentences(Encoded):
    """Sequences of tokens that know their words."""

    words: list[Ids]
    """int64 [length] each: number of the word that a token belongs to, −1 for none. A word without a
    token (nothing but signs that the tokenizer drops, or beyond the cut) does not occur."""


class Frame(NamedTuple):
    """Special tokens around one text or two."""

    before: list[int]
    between: list[int]
    after: list[int]

    @property
    def size(self) -> int:
        """How many tokens that is."""
        return len(self.before) + len(self.between) + len(self.after)

    def around(self, parts: Sequence[Sequence[int]]) -> Ids:
        """One text, or two, with its special tokens, int64 [length]."""
        first, *second = parts
        tail = [*self.between, *second[0]] if second else []
        return np.asarray([*self.before, *first, *tail, *self.after], dtype=np.int64)


class Encoding:
    """How text becomes token ids."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_length: int,
        special_tokens: SpecialTokens = "tokenizer",
        bos: bool = False,
        cut: Cut = "cut",
    ) -> None:
        """
        Args:
            tokenizer: of the encoder.
            max_length: tokens of a sequence at most, special ones included.
            special_tokens: tokenizer adds what its post-processor adds and, where there is none, what
                an export adds: the token that ends a text after it, and the separator between two.
                eos adds the token that ends a text after each text and nothing else (EncodEval, the
                evaluation of EuroBERT).
            bos: whether each sequence must begin with a special token, which pooling reads.
            cut: what happens to what is longer: cut it and count it, or refuse.

        Raises:
            ConfigError: there is no room for text.
        """
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.cut: Cut = cut
        self.single, self.pair = (_frame(tokenizer, special_tokens, bos, count) for count in (1, 2))
        if max_length <= self.pair.size + 1:
            raise ConfigError(f"max_length is {max_length}: special tokens alone take {self.pair.size}")

    def texts(self, texts: Sequence[tuple[str, ...]], rows: Sequence[str]) -> Encoded:
        """Each one text, or the two of a pair; of a pair that is too long, the longer is cut.

        Args:
            texts: what to encode.
            rows: what identifies each, for messages.

        Raises:
            DataError: one is longer than `max_length`, with cut refuse.
        """
        flat = iter(self.tokenizer.encode_batch([text for item in texts for text in item]))
        ids, cut = [], 0
        for item, row in zip(texts, rows, strict=True):
            parts = [next(flat) for _ in item]
            frame = self.single if len(parts) == 1 else self.pair
            kept = _shares([len(part) for part in parts], self.max_length - frame.size)
            cut += self._is_cut(sum(map(len, parts)) + frame.size, row)
            ids.append(frame.around([part[:length] for part, length in zip(parts, kept, strict=True)]))
        return Encoded(ids, cut)

    def sentences(self, sentences: Sequence[Sentence]) -> EncodedSentences:
        """Sentences of words; a space stands between words, but in languages that write none.

        Raises:
            DataError: one is longer than `max_length`, with cut refuse.
        """
        ids, words, cut = [], [], 0
        frame, room = self.single, self.max_length - self.single.size
        for sentence, (tokens, owners) in zip(sentences, self._tokens(sentences), strict=True):
            cut += self._is_cut(len(tokens) + frame.size, sentence.row)
            ids.append(frame.around([tokens[:room]]))
            none = [[-1] * len(part) for part in frame]
            words.append(np.asarray([*none[0], *owners[:room], *none[2]], dtype=np.int64))
        return EncodedSentences(ids, cut, words)

    def _is_cut(self, length: int, row: str) -> bool:
        if length > self.max_length and self.cut == "refuse":
            raise DataError(
                f"row {row}: {length:,} tokens, and at most {self.max_length:,} are taken;"
                " raise max_length, or let cut be cut"
            )
        return length > self.max_length

    def _tokens(self, sentences: Sequence[Sentence]) -> Iterable[tuple[list[int], list[int]]]:
        """Token ids of each sentence, and the word of each."""
        inner = self.tokenizer.inner
        spaced = [sentence.lang.split("-")[0] not in UNSPACED for sentence in sentences]
        joined = [" ".join(s.words) for s, has in zip(sentences, spaced, strict=True) if has]
        running = iter(inner.encode_batch(joined, add_special_tokens=False))
        alone = iter(
            self.tokenizer.encode_batch(
                [word for s, has in zip(sentences, spaced, strict=True) if not has for word in s.words]
            )
        )
        for sentence, has_spaces in zip(sentences, spaced, strict=True):
            if has_spaces:
                found = next(running)
                yield found.ids, _owners(sentence.words, found.offsets)
            else:
                each = [next(alone) for _ in sentence.words]
                owners = [number for number, part in enumerate(each) for _ in part]
                yield [token for part in each for token in part], owners


def _owners(words: Sequence[str], offsets: Sequence[tuple[int, int]]) -> list[int]:
    """The word of each token: that of its first character that is no space; −1 where there is none."""
    owner: list[int] = []
    for number, word in enumerate(words):
        owner += [number if not character.isspace() else -1 for character in word]
        owner.append(-1)
    return [next((o for o in owner[start:end] if o >= 0), -1) for start, end in offsets]


def _shares(lengths: Sequence[int], room: int) -> list[int]:
    """How much of each part is kept: all that fits, and of two the longer is cut first."""
    if sum(lengths) <= room:
        return list(lengths)
    if len(lengths) == 1:
        return [room]
    shorter = min(min(lengths), room // 2)
    first = shorter if lengths[0] <= lengths[1] else room - shorter
    return [first, room - first]


def _frame(tokenizer: Tokenizer, special_tokens: SpecialTokens, bos: bool, texts: int) -> Frame:
    eos = [tokenizer.eos]
    frame = Frame([], eos if texts == 2 else [], eos)
    if special_tokens == "tokenizer":
        frame = _learned_frame(tokenizer, texts)
        if not frame.size:
            frame = Frame([], [tokenizer.parallel_sep] if texts == 2 else [], eos)
    return frame._replace(before=[tokenizer.bos]) if bos and not frame.before else frame


def _learned_frame(tokenizer: Tokenizer, texts: int) -> Frame:
    """What the post-processor adds, seen by an example."""
    inner: Any = tokenizer.inner
    whole = inner.encode(*("a",) * texts, add_special_tokens=True)
    places = [i for i, sequence in enumerate(whole.sequence_ids) if sequence is not None]
    second = [i for i in places if whole.sequence_ids[i] == 1]
    between = range(max(i for i in places if i not in second) + 1, second[0]) if second else []
    return Frame(whole.ids[: places[0]], [whole.ids[i] for i in between], whole.ids[places[-1] + 1 :])
