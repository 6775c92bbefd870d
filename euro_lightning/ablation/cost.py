"""What an ablation cost, and what it would cost at the paper's scale."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from euro_lightning.ablation.evidence import Point
from euro_lightning.encoder.config import PRESETS
from euro_lightning.encoder.cost import flops_per_token


@dataclass(frozen=True)
class PaperScale:
    """A trial of EuroBERT's own ablations: 40 billion tokens of annealing (arXiv 2503.05500, section 4)."""

    preset: str = "eurobert-210m"
    """The encoder; the paper does not say which size its ablations had."""
    tokens: float = 40e9
    """Tokens of a trial."""
    length: int = 2048
    """Tokens that a token attends to."""
    masked_share: float = 0.5
    """Share of the tokens that is predicted, of the control."""
    peak: float = 989e12
    """FLOPs a second of the GPU: an H100 or H200 in bfloat16, dense, by its data sheet."""
    utilisation: float = 0.4
    """Share of it that training reaches; well-tuned encoders of this size reach 30 to 50%."""

    @property
    def hours(self) -> float:
        """GPU hours of a trial of the control."""
        config = PRESETS[self.preset]
        flops = self.tokens * flops_per_token(config, self.length, self.masked_share)
        return flops / (self.peak * self.utilisation) / 3600

    def describe(self) -> str:
        """The estimate and what it assumes, in words."""
        return (
            f"GPU hours at paper scale are those of one trial: {self.tokens / 1e9:g} billion tokens of"
            f" {self.preset} with segments of {self.length:,} and {self.masked_share:.0%} predicted, which is"
            f" tokens × FLOPs per token / ({self.peak / 1e12:g} TFLOP/s × {self.utilisation:.0%}) ="
            f" {self.hours:.0f} hours of an H100 for the control, times the setting's training FLOPs over the"
            " control's here. FLOPs per token are 6 × (block parameters + predicted share × output matrix) +"
            " 12 × width × attended tokens (PaLM, appendix B). It is an estimate within a factor of two."
        )


@dataclass(frozen=True)
class Cost:
    """Means over the trials of a setting; not a number where unknown."""

    tokens: float
    seconds: float
    flops: float
    parameters: float
    hours: float
    """GPU hours of a trial at paper scale."""


def cost_of(own: Sequence[Point], control: Sequence[Point], scale: PaperScale) -> Cost:
    """What a trial of a setting costs, by its complete points and the control's."""

    def mean(points: Sequence[Point], name: str) -> float:
        values = [getattr(p, name) for p in points if not math.isnan(getattr(p, name))]
        return sum(values) / len(values) if values else math.nan

    flops, base = mean(own, "flops"), mean(control, "flops")
    return Cost(
        mean(own, "tokens"),
        mean(own, "seconds"),
        flops,
        mean(own, "parameters"),
        scale.hours * flops / base if base else math.nan,
    )
