"""Texts in memory behind the interface of stored documents, for prediction."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from euro_lightning.data.tokenizer import Tokenizer


class TextDocuments:
    """Tokenised texts, each with its end-of-text token and cut at a longest length."""

    separator = None

    def __init__(
        self, texts: Sequence[str], tokenizer: Tokenizer, longest: int, mask_literal: str | None
    ) -> None:
        """Args:
        texts: the texts.
        tokenizer: how they become tokens.
        longest: tokens kept of each.
        mask_literal: what stands for the mask token in a text; None when nothing does.
        """
        self._tokens = [
            np.asarray(
                [*_encode(text, tokenizer, mask_literal)[: longest - 1], tokenizer.eos], dtype=np.int64
            )
            for text in texts
        ]

    def __len__(self) -> int:
        return len(self._tokens)

    def lengths(self, documents: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray([len(self._tokens[document]) for document in documents], dtype=np.int64)

    def tokens(self, document: int, start: int = 0, length: int | None = None) -> np.ndarray[Any, Any]:
        return self._tokens[document][start : None if length is None else start + length]

    def swapped(self, document: int) -> np.ndarray[Any, Any]:
        """Texts are no pairs: the same as `tokens`."""
        return self._tokens[document]


def _encode(text: str, tokenizer: Tokenizer, mask_literal: str | None) -> list[int]:
    pieces = text.split(mask_literal) if mask_literal else [text]
    # a token begins with the space before it, so a mask takes that space with it
    pieces[:-1] = [piece.rstrip() for piece in pieces[:-1]]
    ids: list[int] = []
    for number, piece in enumerate(tokenizer.encode_batch(pieces)):
        ids += [tokenizer.mask, *piece] if number else piece
    return ids
