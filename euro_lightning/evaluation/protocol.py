"""How encoders are fine-tuned to be judged: the same for all that are compared."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from euro_lightning.errors import raise_all
from euro_lightning.evaluation.encoding import Cut, SpecialTokens
from euro_lightning.objective.optimizers import Optimizer
from euro_lightning.schedule import LearningRate, Shape, Span
from euro_lightning.schema import check_tree, construct, fields_of
from euro_lightning.settings import Tree

Pooling = Literal["mean", "bos", "late"]


@dataclass(frozen=True)
class Protocol:
    """Fine-tuning, and how its best setting is found."""

    steps: int = 1000
    """Optimizer steps at most. Retrieval takes 0, too: it then judges the encoder as it is."""

    batch_size: int = 32
    """Examples in a step; for retrieval, queries with their documents."""

    learning_rates: list[float] = field(default_factory=lambda: [1e-5, 3e-5, 1e-4])
    """Peak learning rates to choose from by the validation split."""

    seeds: list[int] = field(default_factory=lambda: [42])
    """Each setting is run with each; a seed draws the order of examples, new weights and dropout."""

    warmup: Span = "10%"
    """Steps, or their share such as "10%", over which the learning rate rises linearly from 0."""

    decay: Span = "90%"
    """Steps, or their share, at the end over which it falls to 0; what lies between is constant."""

    shape: Shape = "linear"
    """How it falls: linear, cosine or 1-sqrt."""

    optimizer: Optimizer = field(
        default_factory=lambda: Optimizer(beta2=0.999, epsilon=1e-8, weight_decay=0.01)
    )
    """AdamW as most fine-tune unless a protocol says otherwise."""

    gradient_clip: float = 1.0
    """Longest gradient of a step; 0 leaves it."""

    evaluate_every: int = 100
    """Steps from one evaluation of the validation split to the next; the best weights are kept."""

    patience: float | None = None
    """Epochs without a better evaluation after which training ends; null goes through all steps."""

    select: str | None = None
    """The score by which the best is chosen, such as mse (where less is better); null takes the first
    that the task reports."""

    pooling: Pooling = "mean"
    """How a text's vector is made of its tokens': their mean, that of the first token, or late: the
    mean of the scores that each token gets. Retrieval, which has no scores, takes late as mean."""

    labels: Literal["first", "all"] = "first"
    """Which tokens of a word learn its label and predict it: its first, or all of them, by majority."""

    special_tokens: SpecialTokens = "tokenizer"
    """What stands around a text: what the tokenizer says, or eos: the token that ends a text after
    each, and with pooling bos one before it."""

    max_length: int | None = None
    """Tokens of a sequence at most, special ones included; null leaves it to the task. The same for all
    encoders."""

    cut: Cut = "cut"
    """What happens to longer ones: cut them and report how many, or refuse."""

    head_dropout: float = 0.0
    """Dropout before the last layer, which is new."""

    temperature: float = 0.05
    """Retrieval: what cosines are divided by."""

    mini_batch: int | None = None
    """Retrieval: texts encoded at once, so that a large batch needs no more memory; the gradient is the
    same, for a third more work. Null encodes all at once."""

    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    """Type of the products: float32, or bfloat16 where a device has it."""

    def rate(self, peak: float, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        return LearningRate(peak, self.warmup, self.decay, self.shape).at(step, self.steps)

    def problems(self, where: str = "protocol") -> list[str]:
        """What is wrong with this protocol, one line each."""
        found = [
            f"{where}.{name} is {getattr(self, name)}: it must be at least {least}"
            for name, least in (
                ("steps", 0), ("batch_size", 1), ("evaluate_every", 1), ("max_length", 8),
                ("gradient_clip", 0), ("mini_batch", 1), ("patience", 0),
            )
            if getattr(self, name) is not None and getattr(self, name) < least
        ]  # fmt: skip
        for name in ("learning_rates", "seeds"):
            values: list[Any] = getattr(self, name)
            if not values:
                found.append(f"{where}.{name} is empty: give at least one")
            elif len(set(values)) < len(values):
                found.append(f"{where}.{name} has a value twice")
        for rate in self.learning_rates:
            found += LearningRate(rate, self.warmup, self.decay, self.shape).problems(
                f"{where}.learning_rates", max(self.steps, 1)
            )
        if not 0 <= self.head_dropout < 1:
            found.append(f"{where}.head_dropout is {self.head_dropout}: it is at least 0, below 1")
        if self.temperature <= 0:
            found.append(f"{where}.temperature is {self.temperature}: it must be above 0")
        return list(_readable(found, where))


def _readable(problems: Iterable[str], where: str) -> Iterable[str]:
    """The words of `LearningRate` in those of a protocol."""
    for problem in problems:
        yield (
            problem.replace(f"{where}.learning_rates.peak", f"{where}.learning_rates: one")
            .replace(f"{where}.learning_rates.", f"{where}.")
            .replace("tokens", "steps")
            .replace("the phase has", "there are")
        )


def protocol_of(tree: Tree, where: str = "protocol") -> Protocol:
    """A protocol from a mapping; what it leaves out has the defaults.

    Raises:
        ConfigError: unknown keys, values of another type, or a protocol that cannot be.
    """
    raise_all(check_tree(tree, {name: kind for name, (kind, _) in fields_of(Protocol).items()}, where))
    protocol: Protocol = construct(Protocol, tree)
    raise_all(protocol.problems(where))
    return protocol
