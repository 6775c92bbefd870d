"""Whole texts, or pairs of them: which label they have, or what score.

S sequences, C labels.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from euro_lightning.evaluation.batches import Batch, pack_sequences
from euro_lightning.evaluation.encoders import Judged
from euro_lightning.evaluation.encoding import Encoded
from euro_lightning.evaluation.examples import Example
from euro_lightning.evaluation.heads import Head, mean_of_segments, pool
from euro_lightning.evaluation.learner import Goal, Learner
from euro_lightning.evaluation.protocol import Protocol


@dataclass(frozen=True)
class PreparedExamples:
    """Texts as token ids."""

    encoded: Encoded
    """One sequence for each."""
    targets: Tensor
    """float64 [S]: index of the label, or the score."""

    @property
    def cut(self) -> int:
        """How many were too long and are cut."""
        return self.encoded.cut

    def __len__(self) -> int:
        return len(self.targets)


class SequenceLearner(Learner):
    """What both share: pooling, a dense layer with GELU, and a last layer."""

    def __init__(self, encoder: Judged, goal: Goal, protocol: Protocol, seed: int, outputs: int) -> None:
        super().__init__(encoder, goal, protocol, seed)
        self.head = Head(self.width, outputs, True, protocol.head_dropout, seed)

    def prepare(self, items: Sequence[Example]) -> PreparedExamples:
        """Texts as token ids."""
        encoded = self.encoding.texts([item.texts for item in items], [item.row for item in items])
        return PreparedExamples(encoded, torch.tensor([item.target for item in items], dtype=torch.float64))

    def batch(self, prepared: PreparedExamples, chosen: Sequence[int]) -> Batch:
        """Texts, with float64 [S] their targets."""
        return pack_sequences([prepared.encoded.ids[each] for each in chosen], prepared.targets[list(chosen)])

    def outputs(self, batch: Batch, key: int) -> Tensor:
        """float32 [S, outputs]; late pooling averages those of the tokens."""
        states = self.states(batch, key)
        if self.protocol.pooling == "late":
            return mean_of_segments(self.head(states, key), batch.segments)
        return self.head(pool(states, batch.segments, self.protocol.pooling), key).float()  # type: ignore[no-any-return]

    @abstractmethod
    def predict(self, prepared: PreparedExamples) -> NDArray[np.float32]:
        """See the families."""

    def _predict(self, prepared: PreparedExamples) -> NDArray[np.float32]:
        rows: list[Any] = self.over(
            prepared.encoded.ids, lambda batch, _: self.outputs(batch, 0).float().cpu().unbind()
        )
        return np.stack([row.numpy() for row in rows]) if rows else np.empty((0, 1), dtype=np.float32)


class Classifier(SequenceLearner):
    """Learns labels by cross entropy."""

    def __init__(self, encoder: Judged, goal: Goal, protocol: Protocol, seed: int) -> None:
        super().__init__(encoder, goal, protocol, seed, goal.labels)

    def loss(self, batch: Batch, key: int) -> Tensor:
        """Mean over the texts, in nats."""
        return cross_entropy(self.outputs(batch, key), batch.targets.long())

    def predict(self, prepared: PreparedExamples) -> NDArray[np.float32]:
        """Scores of the labels, float32 [S, C]; the highest is the prediction."""
        return self._predict(prepared)


class Regressor(SequenceLearner):
    """Learns scores by their mean squared error.

    Scores are learned with mean 0 and deviation 1 (those of the training split), so that a learning
    rate means the same whatever scale they have; predictions are on their own scale again.
    """

    centre: Tensor
    scale: Tensor

    def __init__(self, encoder: Judged, goal: Goal, protocol: Protocol, seed: int) -> None:
        super().__init__(encoder, goal, protocol, seed, 1)
        self.register_buffer("centre", torch.zeros((), dtype=torch.float64))
        self.register_buffer("scale", torch.ones((), dtype=torch.float64))

    def begin(self, prepared: PreparedExamples) -> None:
        """Takes the scale of the scores."""
        self.centre.copy_(prepared.targets.mean())
        deviation = prepared.targets.std(correction=0)
        self.scale.copy_(deviation if deviation > 0 else torch.ones_like(deviation))

    def loss(self, batch: Batch, key: int) -> Tensor:
        """Mean over the texts."""
        wanted = (batch.targets - self.centre) / self.scale
        return mse_loss(self.outputs(batch, key).squeeze(1), wanted.float())

    def predict(self, prepared: PreparedExamples) -> NDArray[np.float32]:
        """Scores, float32 [S]."""
        values = self._predict(prepared)[:, 0] * self.scale.item() + self.centre.item()
        return values.astype(np.float32)
