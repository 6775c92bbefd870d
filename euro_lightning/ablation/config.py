"""A sweep file: the question, what varies, what is measured, and how trials are run."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from euro_lightning.files import hash_value
from euro_lightning.settings import Tree, merge, nested, read_file

SEED = "seed"
"""The name of the parameter that every study has."""

LAUNCHER = "{python} -m euro_lightning {arguments}"
LAUNCHER_FIELDS = {
    "python": "this Python",
    "arguments": "those of fit",
    "worker": "number of the worker, from 0; for example to choose a GPU",
    "folder": "the trial's folder",
}
"""What a launcher may name."""

METRIC = re.compile(
    r"(validation)/(loss|accuracy|loss_per_byte)@([\d.]+|mean)(/[\w.-]+)?|evaluation/([\w.-]+)"
)


@dataclass(frozen=True)
class Objective:
    """One measured quantity that decides."""

    metric: str
    """validation/loss@RATIO, validation/accuracy@RATIO or validation/loss_per_byte@RATIO: macro means over the
    sources of the validation set with that share hidden, or mean over all measured shares; with /SOURCE one
    source. evaluation/TASK or evaluation/mean: downstream."""

    direction: Literal["minimize", "maximize"]
    """Whether less or more is better."""


@dataclass(frozen=True)
class InitFrom:
    """A fit that the sweep makes first, once; all trials start with its weights."""

    base: list[str]
    """Configuration files, merged from left to right."""

    overrides: dict[str, Any] = field(default_factory=dict)
    """Dotted keys that change them."""


@dataclass(frozen=True)
class Evaluation:
    """Downstream tasks on which every trial's encoder is judged after training."""

    tasks: list[str]
    """YAML files of tasks, see the command evaluate."""

    protocol: str = "experiments/evaluation/protocols/quick.yaml"
    """How encoders are fine-tuned, a YAML file."""

    protocol_overrides: dict[str, Any] = field(default_factory=dict)
    """Keys of the protocol that change."""

    limit: int | None = None
    """Examples of each split at most; null takes all."""


@dataclass(frozen=True)
class Pruner:
    """Stops trials that fall behind at a validation during training (data.evaluation.every_tokens)."""

    name: str
    """A class of optuna.pruners."""

    options: dict[str, Any] = field(default_factory=dict)
    """Its arguments. Steps count millions of tokens; thousands, or single ones, where validations lie
    closer than two of them."""


@dataclass(frozen=True)
class Budget:
    """Where a sweep ends before its space does; null is no limit. Trials that run are finished."""

    trials: int | None = None
    """Trials of the study; a setting costs one for each seed."""

    tokens: int | None = None
    """Training tokens of all trials of the study."""

    hours: float | None = None
    """Hours of one sweep command."""


@dataclass(frozen=True)
class Sweep:
    """A question, the settings that answer it, and how they are tried."""

    question: str
    """What the sweep asks; the report repeats it."""

    base: list[str]
    """Configuration files of the experiment, merged from left to right."""

    space: dict[str, Any]
    """What varies: a dotted key of the experiment or a named operation, with a list of values, or, for
    samplers other than grid, {low, high} with log: true or step."""

    objectives: list[Objective]
    """What is measured; the first decides."""

    overrides: dict[str, Any] = field(default_factory=dict)
    """Dotted keys of the experiment that change for all trials."""

    init_from: str | InitFrom | None = None
    """Weights that all trials start with: as fit --init_from, or the files of a fit that the sweep makes first."""

    names: dict[str, str] = field(default_factory=dict)
    """What tables call a key of the space; by default its last part."""

    control: dict[str, Any] = field(default_factory=dict)
    """The setting that others are compared with: a value for each name; by default the first of each list."""

    seeds: list[int] = field(default_factory=lambda: [1])
    """Values of data.seed; every setting is run with each, so that differences are paired."""

    evaluation: Evaluation | None = None
    """Downstream tasks to judge encoders on."""

    sampler: str = "grid"
    """grid (every setting), random, tpe, or a class of optuna.samplers."""

    sampler_options: dict[str, Any] = field(default_factory=dict)
    """Arguments of the sampler's class."""

    pruner: Pruner | None = None
    """Stops trials early; null lets all end."""

    budget: Budget = Budget()
    """Where the sweep ends before its space does."""

    retries: int = 2
    """Further attempts of a trial that fails without getting further than before."""

    launcher: str = LAUNCHER
    """The command that runs a trial, with {python}, {arguments}, {worker} and {folder}."""

    storage: str | None = None
    """Optuna's storage: null takes SQLite in the study's folder; sqlite:///FILE or postgresql://…"""

    scales: dict[str, Any] = field(default_factory=dict)
    """Changes of this file by name, for --scale."""

    stem: str = ""
    """Name of the sweep; by default that of its file."""

    @cached_property
    def name_of(self) -> dict[str, str]:
        """What each key of the space is called: as `names` says, or its last part where only it has that."""
        keys = [key for key in self.space if key not in self.names]
        named = {}
        for key in keys:
            parts = key.partition("@")[0].split(".")
            for count in range(1, len(parts) + 1):
                name = ".".join(parts[-count:])
                if sum(_ends(other, name) for other in keys) == 1 and name not in self.names.values():
                    break
            else:
                name = key
            named[key] = name
        return {key: self.names.get(key) or named[key] for key in self.space}

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides what the trials of the study are, with the contents of files in place of names."""
        judged = None
        if self.evaluation is not None:
            judged = {
                **asdict(self.evaluation),
                "tasks": [read_file(path) for path in self.evaluation.tasks],
                "protocol": read_file(self.evaluation.protocol),
            }
        start: Any = self.init_from
        if isinstance(start, InitFrom):
            start = merged(start.base, start.overrides)
        return {
            "base": merged(self.base, self.overrides),
            "init_from": start,
            "space": self.space,
            "names": self.name_of,
            "seeds": self.seeds,
            "objectives": [asdict(objective) for objective in self.objectives],
            "sampler": [self.sampler, self.sampler_options],
            "pruner": asdict(self.pruner) if self.pruner else None,
            "evaluation": judged,
        }

    @property
    def study_name(self) -> str:
        """The name of the study: an edited sweep has another, so that its trials never mix with old ones."""
        return f"{self.stem}-{hash_value(self.identity)[:8]}"

    def measured_ratios(self) -> list[str]:
        """The masking ratios that the objectives name."""
        matches = [METRIC.fullmatch(objective.metric) for objective in self.objectives]
        return [match[3] for match in matches if match and match[3] and match[3] != "mean"]


def _ends(key: str, name: str) -> bool:
    key = key.partition("@")[0]
    return key == name or key.endswith(f".{name}")


def merged(base: Iterable[str], overrides: Mapping[str, Any]) -> Tree:
    """Configuration files merged from left to right, changed at dotted keys.

    Raises:
        ConfigError: a file is missing or not YAML.
    """
    tree: Tree = {}
    for path in base:
        tree = merge(tree, read_file(path))
    return merge(tree, nested(overrides))
