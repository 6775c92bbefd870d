"""Functions of the token clock.

A schedule is pure: give it the number of tokens trained on so far and it gives the value, so
resuming, extending and replaying need no schedule state.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Shape = Literal["linear", "cosine", "1-sqrt"]

Span = int | str
"""A stretch of a phase: a number of tokens, or a share of the phase such as "5%"."""


def span_tokens(span: Span, phase_tokens: int) -> int:
    """A span in tokens.

    Raises:
        ValueError: neither a whole number of tokens nor a percentage between 0% and 100%.
    """
    if isinstance(span, str):
        try:
            share = float(span.removesuffix("%").replace("_", "")) / 100
        except ValueError:
            share = -1.0
        if not span.endswith("%") or not 0 <= share <= 1:
            raise ValueError(f"{span!r} is neither a number of tokens nor a percentage such as 5%")
        return round(share * phase_tokens)
    if span < 0:
        raise ValueError(f"{span} tokens: a stretch cannot be negative")
    return span


def blend(start: float, end: float, progress: float, shape: Shape) -> float:
    """From `start` to `end` as `progress` goes from 0 to 1.

    linear; cosine is half a period (Loshchilov, Hutter: SGDR, ICLR 2017); 1-sqrt falls as
    1 − √progress (Hägele et al.: Scaling laws and compute-optimal training beyond fixed
    training durations, 2024, section 3.2).
    """
    progress = min(max(progress, 0.0), 1.0)
    if shape == "linear":
        weight = progress
    elif shape == "cosine":
        weight = 0.5 - 0.5 * math.cos(math.pi * progress)
    else:
        weight = math.sqrt(progress)
    return start + (end - start) * weight


@dataclass(frozen=True)
class Ramp:
    """A value that changes over a whole phase."""

    start: float
    """Value at the phase's first token."""

    end: float
    """Value at the phase's last token."""

    shape: Shape = "linear"
    """linear, cosine or 1-sqrt."""

    def at(self, tokens: int, phase_tokens: int) -> float:
        """The value after `tokens` tokens of the phase."""
        return blend(self.start, self.end, tokens / phase_tokens, self.shape)


def step_at(values: Sequence[float], tokens: int, phase_tokens: int) -> float:
    """Of values that each hold for an equal part of a phase, the one after `tokens` tokens of it."""
    return values[min(tokens * len(values) // phase_tokens, len(values) - 1)]


@dataclass(frozen=True)
class LearningRate:
    """Warm-up, stable, decay: the learning rate within one phase."""

    peak: float
    """The stable learning rate."""

    warmup: Span = 0
    """Tokens, or a share of the phase such as "5%", over which the rate rises linearly from 0."""

    decay: Span = 0
    """Tokens, or a share of the phase such as "100%", at the end of the phase over which it falls."""

    shape: Shape = "cosine"
    """How it falls: linear, cosine or 1-sqrt."""

    floor: float = 0.0
    """The rate at the end of the decay, as a share of the peak."""

    def problems(self, where: str, phase_tokens: int) -> list[str]:
        """What is wrong with this schedule, one line each."""
        found = []
        if self.peak <= 0:
            found.append(f"{where}.peak is {self.peak}: it must be above 0")
        if not 0 <= self.floor <= 1:
            found.append(f"{where}.floor is {self.floor}: it is a share of the peak, 0 to 1")
        spans = 0
        for name in ("warmup", "decay"):
            try:
                spans += span_tokens(getattr(self, name), phase_tokens)
            except ValueError as error:
                found.append(f"{where}.{name}: {error}")
        if not found and spans > phase_tokens:
            found.append(f"{where}: warmup and decay take {spans:,} tokens, the phase has {phase_tokens:,}")
        return found

    def at(self, tokens: int, phase_tokens: int) -> float:
        """The rate after `tokens` tokens of the phase."""
        warmup = span_tokens(self.warmup, phase_tokens)
        decay = span_tokens(self.decay, phase_tokens)
        if tokens < warmup:
            return self.peak * tokens / warmup
        into = tokens - (phase_tokens - decay)
        if decay and into > 0:
            return blend(self.peak, self.peak * self.floor, into / decay, self.shape)
        return self.peak
