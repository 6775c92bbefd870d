"""What fine-tuning is, whatever the family of tasks.

T tokens, S sequences, D width.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from euro_lightning.errors import ConfigError
from euro_lightning.evaluation.batches import Batch, groups_by_length, pack_sequences
from euro_lightning.evaluation.encoders import Judged
from euro_lightning.evaluation.encoding import Encoding, Ids
from euro_lightning.evaluation.protocol import Protocol as FineTuning
from euro_lightning.keys import key_of
from euro_lightning.objective.optimizers import build_optimizer

Family = Literal["classification", "regression", "token_classification", "retrieval"]

_TOKENS = 8192
"""Of a batch that is not learned from: enough for a device to be busy, few enough for any."""


@dataclass(frozen=True)
class Goal:
    """What is learned."""

    family: Family
    """The kind of task."""

    labels: int = 0
    """How many labels there are; nothing else than classification has any."""


class Prepared(Protocol):
    """Examples as token ids, and what is learned of them."""

    @property
    def cut(self) -> int:
        """How many sequences were too long and are cut."""

    def __len__(self) -> int:
        """How many examples."""


class Learner(LightningModule):
    """An encoder that learns a task."""

    def __init__(self, encoder: Judged, goal: Goal, protocol: FineTuning, seed: int) -> None:
        """
        Args:
            encoder: is copied and not changed.
            goal: what it learns.
            protocol: how.
            seed: of new weights, of the order of examples and of dropout.

        Raises:
            ConfigError: the encoder cannot read sequences as long as the protocol says.
        """
        super().__init__()
        longest = encoder.max_length if protocol.max_length is None else protocol.max_length
        if encoder.max_length < longest:
            raise ConfigError(
                f"max_length is {longest:,}, and {encoder.origin} reads {encoder.max_length:,}"
                " tokens at most: give all encoders the same shorter one"
            )
        self.goal, self.protocol, self.seed = goal, protocol, seed
        self.peak = 0.0
        """The learning rate that warm-up ends at."""
        self.body = encoder.body()
        self.width = encoder.width
        self.encoding = Encoding(
            encoder.tokenizer,
            longest,
            protocol.special_tokens,
            bos=protocol.pooling == "bos",
            cut=protocol.cut,
        )

    @abstractmethod
    def prepare(self, items: Any) -> Any:
        """Examples as token ids; see `Prepared`."""

    @abstractmethod
    def batch(self, prepared: Any, chosen: Sequence[int]) -> Batch:
        """A batch of prepared examples to learn from, by their numbers."""

    @abstractmethod
    def loss(self, batch: Batch, key: int) -> Tensor:
        """What is made small, float32 []; dropout depends on the key."""

    @abstractmethod
    def predict(self, prepared: Any) -> Any:
        """What it says of prepared examples, in their order.

        Returns:
            classification: scores of the labels, float32 [n, labels]; regression: scores, float32 [n];
            token_classification: the label of each word of each sentence; retrieval: vectors of the
            queries and of the documents, float32 [Q, D] and [N, D].
        """

    def begin(self, prepared: Any) -> None:
        """Told the examples that it will learn from, before the first step."""

    def states(self, batch: Batch, key: int | None = None) -> Tensor:
        """Hidden states, [T, D]; dropout depends on the key."""
        return self.body(batch.ids, batch.segments, key)  # type: ignore[no-any-return]

    def training_step(self, batch: Batch, _: int) -> Tensor:
        """The loss of a step."""
        return self.loss(batch, key_of("dropout", self.seed, batch.number))

    def on_train_batch_start(self, batch: Batch, _: int) -> None:
        """Sets the learning rate of the step."""
        for group in self.optimizers().param_groups:  # type: ignore[union-attr]
            group["lr"] = self.protocol.rate(self.peak, batch.number)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """As the protocol says."""
        return build_optimizer(self.protocol.optimizer, self, fused=True)

    def configure_gradient_clipping(self, *_: Any, **__: Any) -> None:
        """As the protocol says; Lightning itself refuses to with a fused optimizer in mixed precision."""
        if self.protocol.gradient_clip:
            torch.nn.utils.clip_grad_norm_(self.parameters(), self.protocol.gradient_clip)

    @contextmanager
    def judging(self) -> Iterator[None]:
        """No dropout, no gradients, and the products of the protocol's type."""
        half = self.protocol.precision == "bf16-mixed"
        training = self.training
        self.eval()
        with torch.inference_mode(), torch.autocast(self.device.type, torch.bfloat16, enabled=half):
            yield
        self.train(training)

    def over(
        self, sequences: Sequence[Ids], function: Callable[[Batch, Sequence[int]], Sequence[Any]]
    ) -> list[Any]:
        """What a function says of sequences, which are run in groups of similar length.

        Args:
            sequences: int64 [length] each.
            function: a batch and the numbers of its sequences to one value for each of them.

        Returns:
            The values in the order of the sequences.
        """
        values: list[Any] = [None] * len(sequences)
        with self.judging():
            for group in groups_by_length([len(sequence) for sequence in sequences], _TOKENS):
                batch = pack_sequences([sequences[number] for number in group]).to(self.device)
                for number, value in zip(group, function(batch, group), strict=True):
                    values[number] = value
        return values
