"""Scores per source, as sums and counts, beside what a unigram model would score.

Two unigram models are compared with: one of the training mixture, which is what a model that
learned only frequencies would do, and one of the source itself, which is what a model that
also learned to tell its sources apart would do.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchmetrics import Metric

from euro_lightning.data.mixture import normalise
from euro_lightning.data.phase import Timeline


class Score(NamedTuple):
    """Means over the hidden tokens of one source; losses in nats per token."""

    loss: float
    accuracy: float
    mixture_unigram: float
    source_unigram: float
    tokens: int
    bytes: int = 0
    """Of the text that was hidden, in UTF-8; 0 where it was not counted."""

    @property
    def loss_per_byte(self) -> float:
        """The loss in nats per hidden byte: for encoders whose tokens differ in length."""
        return self.loss * self.tokens / self.bytes if self.bytes else math.nan


def mean_score(scores: Mapping[str, Score]) -> Score:
    """The mean over sources, each weighing the same; tokens and bytes are summed."""
    loss, accuracy, mixture, own, tokens, lengths = zip(*scores.values(), strict=True)
    means = [float(np.mean(column)) for column in (loss, accuracy, mixture, own)]
    return Score(means[0], means[1], means[2], means[3], sum(tokens), sum(lengths))


def log_probabilities(counts: NDArray[Any], special_ids: tuple[int, ...]) -> Tensor:
    """A unigram model over ordinary tokens with add-one smoothing.

    Args:
        counts: [V] occurrences, or shares on a scale of occurrences.
        special_ids: ids that never occur; they get −inf.

    Returns:
        float64 [V] log probabilities in nats.
    """
    smoothed = np.asarray(counts, dtype=np.float64) + 1.0
    smoothed[list(special_ids)] = 0.0
    with np.errstate(divide="ignore"):
        return torch.from_numpy(np.log(smoothed / smoothed.sum()))


def unigram_tables(
    counts: Mapping[str, NDArray[np.int64]],
    timeline: Timeline,
    special_ids: tuple[int, ...],
    sources: list[str],
) -> Tensor:
    """Unigram models of the training mixture (row 0) and of each source (rows 1 …), float64 [1 + S, V].

    The mixture's weighs each source by its share of the run's tokens over all phases.
    """
    shares: dict[str, float] = {}
    for _, phase, _, tokens in timeline:
        for source, share in normalise(phase.mixture).items():
            shares[source] = shares.get(source, 0.0) + share.share * tokens / timeline.tokens
    total = sum(int(c.sum()) for c in counts.values())
    mixture = sum(
        share * total * counts[s] / max(counts[s].sum(), 1) for s, share in shares.items() if s in counts
    )
    rows = [log_probabilities(np.asarray(mixture), special_ids)]
    rows += [log_probabilities(counts[source], special_ids) for source in sources]
    return torch.stack(rows)


class SourceScores(Metric):
    """Accumulates `Score`s per source over batches and ranks."""

    full_state_update = False
    sums: Tensor

    def __init__(self, sources: list[str], unigrams: Tensor, byte_lengths: Tensor) -> None:
        """Args:
        sources: names, in the order of `unigrams`' rows after the first.
        unigrams: float64 [1 + S, V], see `unigram_tables`.
        byte_lengths: int64 [V], bytes of text that a token stands for.
        """
        super().__init__()
        self.sources = sources
        self.unigrams = unigrams
        self.byte_lengths = byte_lengths
        self.add_state("sums", torch.zeros(len(sources), 6, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, source: str, losses: Tensor, correct: Tensor, targets: Tensor) -> None:
        """Adds the N hidden tokens of a batch of one source.

        Args:
            source: whose tokens.
            losses: float32 [N], nats.
            correct: bool [N], whether the likeliest token was the hidden one.
            targets: int64 [N], the hidden tokens.
        """
        row = self.sources.index(source)
        hidden = targets.cpu()
        sums = [
            losses.double().sum().cpu(),
            correct.sum().double().cpu(),
            -self.unigrams[0, hidden].sum(),
            -self.unigrams[1 + row, hidden].sum(),
            torch.tensor(float(len(hidden)), dtype=torch.float64),
            self.byte_lengths[hidden].sum().double(),
        ]
        self.sums[row] += torch.stack(sums).to(self.sums.device)

    def compute(self) -> dict[str, Score]:
        """Scores of the sources that had any hidden token."""
        scores = {}
        for source, (loss, correct, mixture, own, count, size) in zip(
            self.sources, self.sums.tolist(), strict=True
        ):
            if count:
                scores[source] = Score(
                    loss / count, correct / count, mixture / count, own / count, int(count), int(size)
                )
        return scores
