"""A scorer as a user would write one."""

from collections.abc import Sequence


def length(texts: Sequence[str]) -> list[float]:
    """More text is better text."""
    return [float(len(text)) for text in texts]


def wrong(texts: Sequence[str]) -> float:
    """Forgets that there are several."""
    return 1.0
