"""Results as a person reads them: tables, JSON, and the curve over length."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table as Grid

from euro_lightning.evaluation.comparing import LEVEL, average_ranks, by_length, differences, half_width
from euro_lightning.evaluation.judging import Result
from euro_lightning.evaluation.metrics import LOWER_IS_BETTER
from euro_lightning.evaluation.untuned import mean_over_languages
from euro_lightning.files import atomic_path

Results = Mapping[str, Sequence[Result]]
"""Of each task, those of all encoders."""


def cell(values: Sequence[float]) -> str:
    """Mean, and half of its 95% interval where there are several values."""
    width = half_width(values)
    mean = f"{np.mean(values):.4f}"
    return mean if np.isnan(width) else f"{mean} ± {width:.4f}"


def _grid(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Grid:
    grid = Grid(title=title, title_justify="left")
    for place, heading in enumerate(headings):
        grid.add_column(heading, justify="left" if place == 0 else "right", overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid


def ranks_of(results: Results) -> dict[str, float]:
    """See `average_ranks`."""
    return average_ranks(
        results, {task: own[0].metric not in LOWER_IS_BETTER for task, own in results.items()}
    )


def tables(results: Results) -> list[Grid]:
    """Scores of all encoders on all tasks, then by language, then which differences are real."""
    places = ranks_of(results)
    rows = []
    for judged in zip(*results.values(), strict=True):
        encoder = judged[0].encoder
        rows.append([encoder, *(cell(one.values()) for one in judged), f"{places[encoder]:.2f}"])
    headings = ["encoder", *(f"{task}\n{own[0].metric}" for task, own in results.items()), "average\nrank"]
    found = [_grid("test split; mean over seeds, and its 95% interval", headings, rows)]
    for task, own in results.items():
        if len(own[0].languages) > 1:
            lines = [[lang, *(cell(one.of_language(lang)) for one in own)] for lang in own[0].languages]
            found.append(
                _grid(f"{task}, {own[0].metric}", ["language", *(one.encoder for one in own)], lines)
            )
    pairs = [pair for own in results.values() for pair in differences(own)]
    if pairs:
        lines = [_difference(pair) for pair in pairs]
        title = f"paired t-tests over the items of the test split; real below p = {LEVEL}"
        found.append(_grid(title, ["task", "first", "second", "difference", "p", ""], lines))
    return found


def _difference(pair: Mapping[str, Any]) -> list[str]:
    verdict = "no difference shown" if pair["p"] >= LEVEL else "real"
    chance = "< 0.0001" if pair["p"] < 1e-4 else f"{pair['p']:.4f}"
    return [pair["task"], pair["first"], pair["second"], f"{pair['difference']:+.4f}", chance, verdict]


def length_table(own: Sequence[Result]) -> Grid:
    """Score against tokens of the text, of the relevant document in retrieval."""
    curves = {result.encoder: {start: row for start, *row in by_length(result)} for result in own}
    starts = sorted({start for curve in curves.values() for start in curve})
    rows = []
    for start in starts:
        cells = []
        for curve in curves.values():
            count, mean, width = curve.get(start, (0, np.nan, np.nan))
            cells.append(f"{mean:.4f} ± {width:.4f} ({count:,})" if count else "–")
        rows.append([f"{start:,}", *cells])
    return _grid(f"{own[0].task}: by length, mean ± 95% interval (items)", ["tokens from", *curves], rows)


def draw_lengths(own: Sequence[Result], path: Path) -> None:
    """The same as a curve for each encoder."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.6), dpi=130)
    for result in own:
        curve = by_length(result)
        starts = [max(start, 64) for start, *_ in curve]
        widths = [0 if np.isnan(width) else width for *_, width in curve]
        axes.errorbar(
            starts, [mean for _, _, mean, _ in curve], widths, marker="o", capsize=3, label=result.encoder
        )
    axes.set_xscale("log", base=2)
    axes.set_xlabel("tokens, from")
    axes.set_ylabel(own[0].metric)
    axes.set_title(own[0].task, fontsize=10)
    axes.legend(fontsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png")
    pyplot.close(figure)


def untuned_table(task: str, found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Grid:
    """What is known before anything is learned, as the mean over languages."""
    means = {encoder: mean_over_languages(own) for encoder, own in found.items()}
    names = list(dict.fromkeys(name for own in means.values() for name in own))
    rows = []
    for encoder, own in means.items():
        values = [own.get(name, np.nan) for name in names]
        rows.append([encoder, *("–" if np.isnan(value) else f"{value:.4g}" for value in values)])
    headings = ["encoder", *(name.replace("_", "\n") for name in names)]
    return _grid(f"{task}: without fine-tuning, mean over languages", headings, rows)


def fertility_table(own: Sequence[Result]) -> Grid:
    """Entity F1 by the tokens of a word of the entity."""
    curves = {result.encoder: {row["from"]: row for row in result.fertility} for result in own}
    starts = sorted({start for curve in curves.values() for start in curve})
    rows = [
        [f"{start:g}", *(f"{c[start]['entity_f1']:.4f} ({c[start]['entities']:,})" if start in c else "–"
                         for c in curves.values())]
        for start in starts
    ]  # fmt: skip
    return _grid(f"{own[0].task}: entity F1 by tokens per word (entities)", ["from", *curves], rows)


def as_json(results: Results) -> dict[str, Any]:
    """Everything but what single items contribute, which is kept with each case."""
    rows = []
    for own in results.values():
        for result in own:
            facts = asdict(result)
            del facts["tests"], facts["lengths"]
            facts["test"] = [dict(test.overall) for test in result.tests]
            facts["languages"] = [
                {lang: dict(own) for lang, own in test.languages.items()} for test in result.tests
            ]
            facts["mean"] = float(np.mean(result.values()))
            facts["half_width"] = None if np.isnan(width := half_width(result.values())) else width
            rows.append(facts)
    return {
        "results": rows,
        "average_ranks": ranks_of(results),
        "differences": [pair for own in results.values() for pair in differences(own)],
    }
