"""Documents of given lengths whose tokens tell where they come from."""

from typing import Any

import numpy as np


class FakeDocuments:
    """Token i of document d is d × 10,000 + i."""

    separator = None

    def __init__(self, sizes: list[int], quality: list[int] | None = None) -> None:
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self.quality = np.asarray(quality if quality is not None else [0] * len(sizes), dtype=np.int8)

    def __len__(self) -> int:
        return len(self.sizes)

    def lengths(self, documents: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return self.sizes[documents]

    def tokens(self, document: int, start: int = 0, length: int | None = None) -> np.ndarray[Any, Any]:
        end = int(self.sizes[document]) if length is None else start + length
        return document * 10_000 + np.arange(start, end)

    def swapped(self, document: int) -> np.ndarray[Any, Any]:
        return self.tokens(document)
