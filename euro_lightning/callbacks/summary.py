"""The table of scores at the end, on screen and in the run folder."""

import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from euro_lightning.files import write_json
from euro_lightning.objective.scores import Score, mean_score

_LITTLE = 0.05
"""Share of the loss of frequencies: an encoder that is not further below it has learned next to nothing else."""


def score_table(scores: Mapping[str, Score], title: str) -> Table:
    """One row per source and one for their mean."""
    table = Table(title=title, title_justify="left", show_footer=False)
    table.add_column("source")
    for heading in (
        "loss",
        "accuracy",
        "unigram of mixture",
        "unigram of source",
        "below mixture",
        "hidden tokens",
    ):
        table.add_column(heading, justify="right")
    for name, score in {**scores, "mean": mean_score(scores)}.items():
        if name == "mean":
            table.add_section()
        table.add_row(
            name,
            f"{score.loss:.3f}",
            f"{score.accuracy:.1%}",
            f"{score.mixture_unigram:.3f}",
            f"{score.source_unigram:.3f}",
            f"{score.mixture_unigram - score.loss:+.3f}",
            f"{score.tokens:,}",
        )
    return table


def frequencies_only(scores: Mapping[str, Score]) -> str | None:
    """What to say of an encoder that has learned which tokens are frequent and hardly more.

    Early in training the loss rests where telling the sources apart and knowing their frequencies leads, before
    attention is used at all; judged on tasks such an encoder may lose against a random start.
    """
    mean = mean_score(scores)
    below = mean.source_unigram - mean.loss
    if below >= _LITTLE * mean.source_unigram:
        return None
    place = f"{below:.2f} nats below" if below > 0 else f"{-below:.2f} nats above"
    return (
        f"note: the mean is {place} what the frequencies of each source alone give: context is hardly used yet. "
        "More tokens, smaller steps or a lower masking ratio lead out of this."
    )


def show_scores(scores: Mapping[str, Score], split: str, tokens: int, folder: Path | None) -> None:
    """Prints the table and keeps it as JSON in the run folder."""
    title = f"{split} after {tokens:,} tokens (nats per hidden token; the mean weighs every source the same)"
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(score_table(scores, title))
    if note := frequencies_only(scores):
        console.print(note, highlight=False)
    if folder is not None:
        rows = {name: score._asdict() for name, score in {**scores, "mean": mean_score(scores)}.items()}
        write_json(folder / f"{split}.json", {"tokens": tokens, "scores": rows})
