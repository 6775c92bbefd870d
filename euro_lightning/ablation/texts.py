"""Settings that a sweep writes as short text: masking schedules and length policies."""

import re
from typing import Any

from euro_lightning.errors import ConfigError

SHAPES = ("linear", "cosine", "1-sqrt")
KINDS = ("fixed", "random", "concatenated")


def read_masking(value: int | float | str, key: str) -> Any:
    """A phase's `masking_ratio` from percentages: `50`, `50->10`, `30->15->5`, `linear 30->15`.

    Raises:
        ConfigError: it is none of these.
    """
    shape, _, rest = str(value).rpartition(" ")
    try:
        ratios = [float(part) / 100 for part in re.split(r"->|→", rest)]
    except ValueError:
        ratios = []
    good = ratios and all(0 < ratio < 1 for ratio in ratios)
    if not good or (shape and (shape not in SHAPES or len(ratios) != 2)):
        raise ConfigError(
            f"{key} is {value!r}: give percentages above 0 and below 100, such as 50, 50->10, 30->15->5 or"
            f" linear 30->15 (shapes are {', '.join(SHAPES)})"
        )
    if shape:
        return {"start": ratios[0], "end": ratios[1], "shape": shape}
    return ratios[0] if len(ratios) == 1 else ratios


def read_lengths(value: int | str, key: str) -> dict[str, Any]:
    """A phase's `lengths`: `fixed 2048`, `random 12-8192`, `concatenated 2048`, or a number for a fixed length.

    Raises:
        ConfigError: it is none of these.
    """
    match = re.fullmatch(r"(?:(fixed|concatenated) )?(\d+)|random (\d+)-(\d+)", str(value).strip())
    if match is None:
        raise ConfigError(f"{key} is {value!r}: give fixed 2048, random 12-8192 or concatenated 2048")
    kind, length, shortest, longest = match.groups()
    if length:
        return {"kind": kind or "fixed", "maximum": int(length)}
    return {"kind": "random", "minimum": int(shortest), "maximum": int(longest)}
