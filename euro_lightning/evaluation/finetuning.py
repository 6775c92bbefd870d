"""One fine-tuning: trains on one split, keeps what is best on another, predicts any."""

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from torch import Tensor
from torch.utils.data import DataLoader

from euro_lightning.allocator import keep_freed_memory
from euro_lightning.errors import ConfigError, DataError, nearest
from euro_lightning.evaluation.batches import Steps
from euro_lightning.evaluation.encoders import Judged
from euro_lightning.evaluation.examples import Item, Search
from euro_lightning.evaluation.learner import Family, Goal, Learner, Prepared
from euro_lightning.evaluation.metrics import LOWER_IS_BETTER
from euro_lightning.evaluation.protocol import Protocol
from euro_lightning.evaluation.retrieval import Retriever
from euro_lightning.evaluation.sequences import Classifier, Regressor
from euro_lightning.evaluation.tagging import Tagger

LEARNERS: dict[Family, type[Learner]] = {
    "classification": Classifier,
    "regression": Regressor,
    "token_classification": Tagger,
    "retrieval": Retriever,
}

Items = Sequence[Item] | Search

Scorer = Callable[[Any], Mapping[str, float]]
"""Predictions of the validation split to scores by name."""


@dataclass(frozen=True)
class Point:
    """An evaluation on the way."""

    step: int
    """Steps before it."""
    loss: float
    """Mean training loss since the evaluation before."""
    scores: Mapping[str, float]
    """Of the validation split."""


@dataclass(frozen=True)
class Outcome:
    """What a fine-tuning gave."""

    module: Learner
    """With the weights of the best evaluation."""
    best: Point | None
    """The best evaluation; None when it diverged before the first."""
    curve: list[Point]
    """All evaluations."""
    steps: int
    """Steps that were run."""
    diverged: bool
    """Whether the loss stopped being a number, which ended it."""
    cut: Mapping[str, int]
    """Sequences of each split that were too long and are cut."""
    seconds: float
    """How long it took, evaluations included."""


def learner_of(encoder: Judged, goal: Goal, protocol: Protocol, seed: int = 0) -> Learner:
    """What `finetune` begins with: a copy of the encoder, with new weights where the task needs some.

    A `Retriever` needs none, so that its `embed` gives the vectors of the encoder as it is.

    Raises:
        ConfigError: the encoder cannot read sequences as long as the protocol says.
    """
    return LEARNERS[goal.family](encoder, goal, protocol, seed).to(_device())


def prepare(encoder: Judged, goal: Goal, protocol: Protocol, items: Items) -> Any:
    """A split as token ids: the same for every learning rate and seed, so that once is enough.

    Returns:
        What `finetune` learns from, and what `Learner.predict` takes.

    Raises:
        ConfigError: the encoder cannot read sequences as long as the protocol says.
        DataError: the split is empty, or a sequence is too long with cut refuse.
    """
    if not (items.queries if isinstance(items, Search) else items):
        raise DataError("the split is empty: there is nothing to learn or to predict")
    return LEARNERS[goal.family](encoder, goal, protocol, 0).prepare(items)


def finetune(
    encoder: Judged,
    train: Prepared,
    validation: Prepared,
    goal: Goal,
    protocol: Protocol,
    learning_rate: float,
    seed: int,
    scorer: Scorer,
) -> Outcome:
    """Fine-tunes a copy of an encoder; the same call gives the same weights on the same CPU.

    Args:
        encoder: what is judged; it is not changed.
        train: what is learned from, see `prepare`.
        validation: what the best evaluation is chosen by, likewise.
        goal: what is learned.
        protocol: how.
        learning_rate: the peak.
        seed: of new weights, of the order of examples and of dropout.
        scorer: gets what `Learner.predict` gives for the validation split.

    Raises:
        ConfigError: the encoder is too short for the protocol, or it selects by a score that is not there.
    """
    started = time.perf_counter()
    learner = learner_of(encoder, goal, protocol, seed).train()
    learner.peak = learning_rate
    learner.begin(train)
    watch = _Watch(protocol, len(train), lambda: scorer(learner.predict(validation)))
    train_steps(learner, train, [watch])
    watch.restore(learner)
    return Outcome(
        module=learner.eval(),
        best=watch.best,
        curve=watch.curve,
        steps=watch.steps,
        diverged=watch.diverged,
        cut={"train": train.cut, "validation": validation.cut},
        seconds=time.perf_counter() - started,
    )


def train_steps(learner: Learner, prepared: Prepared, callbacks: list[Callback]) -> None:
    """Trains through the steps of the learner's protocol.

    Args:
        learner: what learns.
        prepared: what from.
        callbacks: what watches, evaluates or ends it.
    """
    if _device().type == "cpu":
        keep_freed_memory()
    protocol = learner.protocol
    steps = Steps(learner, prepared, protocol.steps, protocol.batch_size, learner.seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*does not have many workers.*")
        trainer = Trainer(
            accelerator=_device().type,
            devices=1,
            max_steps=protocol.steps,
            precision=protocol.precision,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=callbacks,
        )
        trainer.fit(learner, DataLoader(steps, batch_size=None))
    learner.to(_device())


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class _Watch(Callback):
    """Evaluates on the way, keeps the best weights, and ends what gets no better."""

    def __init__(
        self, protocol: Protocol, examples: int, evaluate: Callable[[], Mapping[str, float]]
    ) -> None:
        self.protocol, self.evaluate = protocol, evaluate
        self.epoch = examples / protocol.batch_size
        self.steps, self.diverged = 0, False
        self.best: Point | None = None
        self.curve: list[Point] = []
        self._weights: dict[str, Tensor] = {}
        self._losses: list[Tensor] = []

    def on_train_batch_end(self, trainer: Trainer, learner: Any, outputs: Any, *_: Any) -> None:
        self.steps += 1
        self._losses.append(outputs["loss"].detach())
        if self.steps % self.protocol.evaluate_every and self.steps < self.protocol.steps:
            return
        loss = float(torch.stack(self._losses).mean())
        self._losses = []
        if not math.isfinite(loss):
            self.diverged = trainer.should_stop = True
            return
        point = Point(self.steps, loss, dict(self.evaluate()))
        self.curve.append(point)
        if self.best is None or self._value(point) > self._value(self.best):
            self.best = point
            self._keep(learner)
        elif self.protocol.patience is not None:
            waited = self.steps - self.best.step
            trainer.should_stop = waited >= self.protocol.patience * self.epoch

    def _value(self, point: Point) -> float:
        name = self.protocol.select or next(iter(point.scores))
        if name not in point.scores:
            raise ConfigError(
                f"protocol.select is {name!r}, and the task reports {', '.join(point.scores)}"
                f"{nearest(name, point.scores)}"
            )
        value = point.scores[name]
        if math.isnan(value):
            return -math.inf
        return -value if name in LOWER_IS_BETTER else value

    def _keep(self, learner: Learner) -> None:
        for name, tensor in learner.state_dict().items():
            if name in self._weights:
                self._weights[name].copy_(tensor)
            else:
                self._weights[name] = tensor.detach().clone()

    def restore(self, learner: Learner) -> None:
        """Gives back the best weights, where there are any."""
        if self._weights:
            learner.load_state_dict(self._weights)
