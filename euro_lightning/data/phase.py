"""A phase of the recipe: one named stretch of the token clock, one row of a paper's table."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from euro_lightning.data.composition import Scaled, change, resolve
from euro_lightning.data.cropping import Lengths
from euro_lightning.data.mixture import Share, mixture_problems
from euro_lightning.schedule import LearningRate, Ramp, step_at


@dataclass(frozen=True)
class Phase:
    """What is trained on, how it is cut, hidden and learned, for how many tokens."""

    tokens: int
    """Length of the phase in tokens; rounded up to whole global batches."""

    mixture: dict[str, float | Share]
    """Share of the tokens of each source or group (english, other_languages, languages, rest);
    shares sum to one. A share may be a mapping with `share`, `quality` (the buckets to draw from)
    and, for a group, `tau` or `within`."""

    learning_rate: LearningRate
    """Learning rate over the phase."""

    masking_ratio: float | Ramp | tuple[float, ...] = 0.3
    """Share of the tokens that is hidden: a number; a ramp with start, end and shape; or a list of
    numbers, each for an equal part of the phase."""

    lengths: Lengths = field(default_factory=Lengths)
    """Length policy: how documents are cut into segments."""

    change: dict[str, float] = field(default_factory=dict)
    """Another share for a source or group of the mixture, such as english: 0.17; others are scaled."""

    scaled: Scaled = "rest"
    """What a change scales: rest is everything else, other_languages leaves code, math and parallel
    text as they are."""

    rotary_base: float = 10_000.0
    """Base of the rotary position embedding in global layers (EuroBERT: 10,000, then 250,000 in
    annealing; ModernBERT: 10,000, then 160,000)."""

    local_rotary_base: float = 10_000.0
    """The same in local layers, where an encoder has them (ModernBERT: always 10,000)."""

    def masking_ratio_at(self, tokens: int) -> float:
        """The masking ratio after `tokens` tokens of the phase."""
        ratio = self.masking_ratio
        if isinstance(ratio, Ramp):
            return ratio.at(tokens, self.tokens)
        if isinstance(ratio, int | float):
            return float(ratio)
        return step_at(ratio, tokens, self.tokens)

    def resolved(self, tokens: Mapping[str, int], where: str) -> tuple["Phase", list[str]]:
        """The phase with explicit shares of sources, and what is wrong with its mixture, one line each.

        Args:
            tokens: tokens of each source.
            where: the phase's key, for messages.
        """
        shares, found = resolve(self.mixture, tokens, f"{where}.mixture")
        if not found:
            shares, found = change(shares, self.change, self.scaled, where)
        return replace(self, mixture=dict(shares), change={}), found

    def problems(self, sources: Iterable[str], where: str) -> list[str]:
        """What is wrong with this phase, one line each."""
        found = mixture_problems(self.mixture, sources, f"{where}.mixture")
        found += self.lengths.problems(f"{where}.lengths")
        if self.tokens <= 0:
            return [*found, f"{where}.tokens is {self.tokens}: it must be above 0"]
        found += self.learning_rate.problems(f"{where}.learning_rate", self.tokens)
        given = self.masking_ratio
        ratios = [given.start, given.end] if isinstance(given, Ramp) else given
        if isinstance(ratios, int | float):
            ratios = [ratios]
        if not ratios:
            found.append(f"{where}.masking_ratio is empty: give at least one number")
        for ratio in ratios:
            if not 0 < ratio < 1:
                found.append(f"{where}.masking_ratio is {ratio:g}: it lies between 0 and 1")
        for name in ("rotary_base", "local_rotary_base"):
            if not 1 < getattr(self, name) < math.inf:
                found.append(f"{where}.{name} is {getattr(self, name)}: it must be above 1")
        return found


@dataclass(frozen=True)
class Timeline:
    """Phases laid end to end on the token clock, each a whole number of global batches."""

    phases: Mapping[str, Phase]
    batch_tokens: int

    def __iter__(self) -> Iterator[tuple[str, Phase, int, int]]:
        """Name, phase, first token and length of each phase, in order."""
        start = 0
        for name, phase in self.phases.items():
            tokens = -(-phase.tokens // self.batch_tokens) * self.batch_tokens
            yield name, phase, start, tokens
            start += tokens

    @property
    def tokens(self) -> int:
        """Tokens of the whole run."""
        return sum(tokens for *_, tokens in self)

    def at(self, clock: int) -> tuple[str, Phase, int, int]:
        """Name and phase at a clock, tokens into the phase, and the phase's length in tokens.

        At and after the end of the run it is the end of the last phase.
        """
        for name, phase, start, tokens in self:
            if clock < start + tokens:
                return name, phase, clock - start, tokens
        return name, phase, tokens, tokens

    def learning_rate(self, clock: int) -> float:
        """The learning rate at a clock."""
        _, phase, into, tokens = self.at(clock)
        return phase.learning_rate.at(into, tokens)

    def masking_ratio(self, clock: int) -> float:
        """The masking ratio at a clock."""
        _, phase, into, _ = self.at(clock)
        return phase.masking_ratio_at(into)

    def rotary_bases(self, clock: int) -> tuple[float, float]:
        """The rotary bases of global and of local layers at a clock."""
        phase = self.at(clock)[1]
        return phase.rotary_base, phase.local_rotary_base

    def ends(self) -> list[int]:
        """The clock at the end of each phase."""
        return [start + tokens for _, _, start, tokens in self]


def batch_problems(timeline: Timeline, micro_batch_tokens: int, ranks: int) -> list[str]:
    """What is wrong with the batch sizes, one line each."""
    batch = timeline.batch_tokens
    if batch < 1 or micro_batch_tokens < 1:
        return ["data.batch_tokens and data.micro_batch_tokens must be above 0"]
    found = []
    if batch % micro_batch_tokens:
        found.append(
            f"data.batch_tokens {batch:,} is not a multiple of data.micro_batch_tokens {micro_batch_tokens:,}"
        )
    elif (batch // micro_batch_tokens) % ranks:
        found.append(
            f"{ranks} processes do not divide the global batch of {batch // micro_batch_tokens} micro-batches"
            f" (data.batch_tokens {batch:,} / data.micro_batch_tokens {micro_batch_tokens:,})"
        )
    for name, phase in timeline.phases.items():
        if micro_batch_tokens < phase.lengths.maximum:
            found.append(
                f"data.micro_batch_tokens {micro_batch_tokens:,} is below the longest segment of phase {name}"
                f" (data.phases.{name}.lengths.maximum {phase.lengths.maximum:,})"
            )
    if not timeline.phases:
        found.append("data.phases is empty: name at least one phase")
    return found
