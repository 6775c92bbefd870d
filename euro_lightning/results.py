"""What a finished run scored: the file `scores.json` of its folder, and the names of its metrics."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from euro_lightning.errors import UserError
from euro_lightning.files import read_json, write_json
from euro_lightning.objective.scores import Score

SCORES = "scores.json"
"""The file's name in a run folder."""


@dataclass(frozen=True)
class Results:
    """Scores of the last weights on a split, at one or more masking ratios."""

    tokens: int
    """Tokens trained on."""
    seconds: float
    """Seconds of training, over all attempts; validations are not counted."""
    scores: Mapping[str, Mapping[str, Score]]
    """By the masking ratio as text, the main one first, then by source."""
    split: str = "validation"
    """Which documents."""
    flops: float | None = None
    """Of training, by `objective.compiling.run_flops`; None for a baseline."""
    parameters: int | None = None
    """Of the encoder with its head, each counted once."""

    def metrics(self) -> dict[str, float]:
        """All scores by name: `validation/loss@0.1` is the mean over sources, each weighing the same;
        `validation/loss@0.1/en` is one source; `validation/loss@mean` and `validation/loss@mean/en` are
        means over the ratios."""
        found = {}
        for kind in ("loss", "accuracy", "loss_per_byte"):
            means: list[float] = []
            sources: dict[str, list[float]] = {}
            for ratio, scores in self.scores.items():
                name = f"{self.split}/{kind}@{ratio}"
                own = {source: float(getattr(score, kind)) for source, score in scores.items()}
                means.append(float(np.mean(list(own.values()))))
                found[name] = means[-1]
                found |= {f"{name}/{source}": value for source, value in own.items()}
                for source, value in own.items():
                    sources.setdefault(source, []).append(value)
            name = f"{self.split}/{kind}@mean"
            found[name] = float(np.mean(means))
            found |= {f"{name}/{source}": float(np.mean(values)) for source, values in sources.items()}
        return {name: value for name, value in found.items() if not math.isnan(value)}

    def write(self, folder: Path) -> None:
        """Keeps them in a run folder."""
        scores = {r: {s: score._asdict() for s, score in own.items()} for r, own in self.scores.items()}
        write_json(
            folder / SCORES,
            {
                "tokens": self.tokens,
                "seconds": self.seconds,
                "flops": self.flops,
                "parameters": self.parameters,
                "split": self.split,
                "scores": scores,
            },
        )


def ratio_name(ratio: float) -> str:
    """A masking ratio as part of a metric's name."""
    return f"{ratio:g}"


def read_results(folder: Path) -> Results:
    """The scores of a run folder.

    Raises:
        UserError: there are none, or the file is damaged.
    """
    tree: Any = read_json(folder / SCORES)
    try:
        scores = {
            ratio: {source: Score(**score) for source, score in own.items()}
            for ratio, own in tree["scores"].items()
        }
        return Results(
            int(tree["tokens"]),
            float(tree["seconds"]),
            scores,
            str(tree["split"]),
            tree.get("flops"),
            tree.get("parameters"),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(
            f"{folder / SCORES} has not the form that fit writes; it is damaged or not ours"
        ) from None
