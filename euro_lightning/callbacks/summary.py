"""The table of scores at the end, on screen and in the run folder."""

import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from euro_lightning.files import write_json
from euro_lightning.objective.scores import Score, mean_score


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


def show_scores(scores: Mapping[str, Score], split: str, tokens: int, folder: Path | None) -> None:
    """Prints the table and keeps it as JSON in the run folder."""
    title = f"{split} after {tokens:,} tokens (nats per hidden token; the mean weighs every source the same)"
    Console(width=None if sys.stdout.isatty() else 120).print(score_table(scores, title))
    if folder is not None:
        rows = {name: score._asdict() for name, score in {**scores, "mean": mean_score(scores)}.items()}
        write_json(folder / f"{split}.json", {"tokens": tokens, "scores": rows})
