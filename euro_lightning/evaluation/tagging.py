"""Words of sentences: which label each has.

T tokens, C labels.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from euro_lightning.evaluation.batches import Batch, pack_sequences
from euro_lightning.evaluation.encoders import Judged
from euro_lightning.evaluation.encoding import EncodedSentences, Ids
from euro_lightning.evaluation.examples import Sentence
from euro_lightning.evaluation.heads import Head
from euro_lightning.evaluation.learner import Goal, Learner
from euro_lightning.evaluation.protocol import Protocol

_NONE = -100
"""Stands for the label of a token that learns none."""


@dataclass(frozen=True)
class PreparedSentences:
    """Sentences as token ids."""

    encoded: EncodedSentences
    """One sequence for each sentence."""
    targets: list[Ids]
    """int64 [length] each: the label that a token learns, or −100."""
    words: list[int]
    """How many words each sentence has."""
    commonest: int
    """The label that most words have."""

    @property
    def cut(self) -> int:
        """How many were too long and are cut."""
        return self.encoded.cut

    def __len__(self) -> int:
        return len(self.words)


class Tagger(Learner):
    """Learns labels of words by cross entropy of their first tokens, or of all.

    A word without a token (see `EncodedSentences`) learns nothing, and is predicted to have the label
    that most words of the training split have.
    """

    commonest: Tensor

    def __init__(self, encoder: Judged, goal: Goal, protocol: Protocol, seed: int) -> None:
        super().__init__(encoder, goal, protocol, seed)
        self.head = Head(self.width, goal.labels, False, protocol.head_dropout, seed)
        self.register_buffer("commonest", torch.zeros((), dtype=torch.int64))

    def prepare(self, items: Sequence[Sentence]) -> PreparedSentences:
        """Sentences as token ids."""
        encoded = self.encoding.sentences(items)
        targets = [
            np.where(speaks, np.asarray((*item.labels, _NONE))[owners], _NONE)
            for item, owners in zip(items, encoded.words, strict=True)
            for speaks in [self._speaks(owners)]
        ]
        counts = Counter(label for item in items for label in item.labels)
        commonest = min(counts, key=lambda label: (-counts[label], label)) if counts else 0
        return PreparedSentences(encoded, targets, [len(item.words) for item in items], commonest)

    def _speaks(self, owners: Ids) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which tokens stand for their word."""
        if self.protocol.labels == "all":
            return owners >= 0
        # the words of a sentence come in order, so a word's tokens lie together but for tokens of none
        first = np.zeros(len(owners), dtype=bool)
        first[np.unique(owners, return_index=True)[1]] = True
        return first & (owners >= 0)

    def begin(self, prepared: PreparedSentences) -> None:
        """Takes the commonest label."""
        self.commonest.fill_(prepared.commonest)

    def batch(self, prepared: PreparedSentences, chosen: Sequence[int]) -> Batch:
        """Sentences, with int64 [T] the labels of their tokens."""
        targets = torch.from_numpy(np.concatenate([prepared.targets[each] for each in chosen]))
        return pack_sequences([prepared.encoded.ids[each] for each in chosen], targets)

    def loss(self, batch: Batch, key: int) -> Tensor:
        """Mean over the tokens that learn, in nats; 0 where none does."""
        # the head sees what learns only, and chooses it on the device of the targets
        places = (batch.targets != _NONE).nonzero().squeeze(1)
        scores = self.head(self.states(batch, key)[places], key).float()
        return cross_entropy(scores, batch.targets[places], reduction="sum") / max(len(places), 1)

    def predict(self, prepared: PreparedSentences) -> list[list[int]]:
        """The label of each word of each sentence.

        With labels all, the one that most of its tokens have; of several, the one with most
        probability.
        """
        commonest = int(self.commonest)

        def labels_of(batch: Batch, group: Sequence[int]) -> list[list[int]]:
            shares = self.head(self.states(batch), 0).float().softmax(-1).cpu()
            parts = torch.split(shares, list(batch.segments.lengths))
            return [
                self.vote(part.numpy(), prepared.encoded.words[number], prepared.words[number], commonest)
                for part, number in zip(parts, group, strict=True)
            ]

        return self.over(prepared.encoded.ids, labels_of)

    def vote(
        self, shares: np.ndarray[tuple[int, int], np.dtype[np.float32]], owners: Ids, words: int, other: int
    ) -> list[int]:
        tokens = np.flatnonzero(self._speaks(owners))
        votes = np.zeros((words, shares.shape[1]))
        counts = np.bincount(owners[tokens], minlength=words)
        # a mean of probabilities is below one vote, so that it decides among equals only
        np.add.at(votes, owners[tokens], shares[tokens] / np.maximum(counts[owners[tokens]], 1)[:, None])
        np.add.at(votes, (owners[tokens], shares[tokens].argmax(-1)), 1.0)
        return np.where(counts > 0, votes.argmax(-1), other).tolist()  # type: ignore[no-any-return]
