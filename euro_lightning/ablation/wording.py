"""Numbers as a report writes them."""

import math
from typing import Any


def number(value: Any) -> str:
    """A number with four digits that count; – when it is not a number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "–" if value is None else str(value)
    if math.isnan(value):
        return "–"
    if abs(value) >= 1e12:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def rounded(value: float) -> str:
    """A gain with two digits that count."""
    return "–" if math.isnan(value) else f"{float(f'{value:.2g}'):g}"


def signed(value: float) -> str:
    """A difference with its sign."""
    return "–" if math.isnan(value) else f"{value:+.4f}" if abs(value) < 100 else f"{value:+,.0f}"


def plural(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def probability(value: float) -> str:
    """A p value."""
    return "–" if math.isnan(value) else "<0.0001" if value < 1e-4 else f"{value:.4f}"
