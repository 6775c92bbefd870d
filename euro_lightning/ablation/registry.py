"""What a named operation of a sweep is, and where it works."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Tree = Mapping[str, Any]
Changes = dict[str, Any]
"""Dotted keys of an experiment with their values."""

Phases = Literal["last", "all", "none"]


@dataclass(frozen=True)
class Place:
    """Where an operation works."""

    config: Tree
    """The experiment before the change."""
    phases: tuple[str, ...]
    """Names of the phases that change."""
    key: str
    """The operation as the sweep wrote it, for messages."""

    def phase(self, name: str) -> Tree:
        """The configuration of a phase."""
        found: Tree = self.config["data"]["phases"][name]
        return found

    def mixture(self, name: str) -> Tree:
        """The mixture of a phase as it is written."""
        found: Tree = self.phase(name)["mixture"]
        return found


@dataclass(frozen=True)
class Operation:
    """A named change of an experiment."""

    function: Callable[[Any, Place], Changes]
    """From a value of the sweep to keys of the experiment."""
    kind: Any
    """Type of the value."""
    phases: Phases
    """Which phases it changes when none is named; none: it has nothing to do with phases."""


OPERATIONS: dict[str, Operation] = {}
"""All named operations."""


def operation(
    name: str, kind: Any, phases: Phases
) -> Callable[[Callable[[Any, Place], Changes]], Callable[[Any, Place], Changes]]:
    """Enters a function among the operations."""

    def register(function: Callable[[Any, Place], Changes]) -> Callable[[Any, Place], Changes]:
        OPERATIONS[name] = Operation(function, kind, phases)
        return function

    return register
