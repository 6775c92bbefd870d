"""How tokenizers compare: tables for a reader, a CSV file for a program, a figure."""

import csv
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from euro_lightning.data.tokenizer_report import PROBES, Counts, Report
from euro_lightning.files import atomic_path

TOTAL = "total"

_MANY_UNKNOWN = 0.01
"""Share of the tokens."""


def labels(reports: Sequence[Report]) -> list[str]:
    """A short name for each tokenizer: that of its folder, or all of it where this is another's too."""
    paths = [Path(report.name) for report in reports]
    short = [path.parent.name if path.name == "tokenizer.json" else path.name for path in paths]
    return [
        name if name and short.count(name) == 1 else str(path)
        for name, path in zip(short, paths, strict=True)
    ]


def rows_of(report: Report) -> dict[str, Counts]:
    """Counts of each source, and of all together where there are several."""
    return report.sources if len(report.sources) == 1 else {**report.sources, TOTAL: report.total}


def print_report(reports: Sequence[Report], width: int, console: Console) -> None:
    """Prints what each tokenizer is, what it makes of each source, and how it cuts code."""
    names = labels(reports)
    console.print(_sizes(reports, names, width))
    console.print(_sources(reports, names))
    console.print(
        "Words stand between white space; whole ones are one token. Of the documents, changed ones do not come back"
        " exactly from\ntheir tokens, lost ones not even but for white space and what the tokenizer's normaliser does.",
        style="dim",
    )
    console.print(_probes(reports, names))


def _table(*headings: str, left: int) -> Table:
    """A table whose first `left` columns are text and the others numbers."""
    table = Table()
    for number, heading in enumerate(headings):
        text = number < left
        table.add_column(heading, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    return table


def _sizes(reports: Sequence[Report], names: Sequence[str], width: int) -> Table:
    table = _table(
        "tokenizer", "model", "vocabulary", f"embedding of\nwidth {width:,}, tied", "untied", left=2
    )
    for report, name in zip(reports, names, strict=True):
        tied, untied = report.embedding_parameters(width)
        table.add_row(name, report.model, f"{report.vocabulary:,}", f"{tied:,}", f"{untied:,}")
    return table


def _sources(reports: Sequence[Report], names: Sequence[str]) -> Table:
    table = _table(
        "source", "tokenizer", "documents", "tokens\n/ word", "characters\n/ token", "bytes\n/ token",
        "unknown\ntokens", "whole\nwords", "changed", "lost", left=2,
    )  # fmt: skip
    for source in rows_of(reports[0]):
        if len(reports) > 1 or source == TOTAL:
            table.add_section()
        for report, name in zip(reports, names, strict=True):
            counts = rows_of(report)[source]
            table.add_row(
                source if report is reports[0] else "", name, f"{counts.documents:,}",
                _number(counts.fertility, ".3f"), _number(counts.characters_per_token, ".2f"),
                _number(counts.bytes_per_token, ".2f"), _number(counts.unknown_share, ".4%"),
                _number(counts.whole_share, ".1%"), f"{counts.changed:,}", f"{counts.lost:,}",
            )  # fmt: skip
    return table


def _number(value: float, form: str) -> str:
    return "–" if math.isnan(value) else format(value, form)


def _probes(reports: Sequence[Report], names: Sequence[str]) -> Table:
    table = _table("code", "tokenizer", "pieces, as the vocabulary writes them", "tokens", left=3)
    for label in PROBES:
        if len(reports) > 1:
            table.add_section()
        for report, name in zip(reports, names, strict=True):
            pieces = report.probes[label]
            table.add_row(
                label if report is reports[0] else "", name, "  ".join(pieces) or "–", str(len(pieces))
            )
    return table


def write_csv(reports: Sequence[Report], width: int, path: Path) -> None:
    """Writes one row for each tokenizer and source; a number that is not defined is left empty."""
    ratios = ("fertility", "characters_per_token", "bytes_per_token", "unknown_share", "whole_share")
    rows: list[dict[str, Any]] = []
    for report in reports:
        tied, untied = report.embedding_parameters(width)
        for source, counts in rows_of(report).items():
            values = {name: getattr(counts, name) for name in ratios}
            rows.append(
                {
                    "tokenizer": report.name,
                    "source": source,
                    "model": report.model,
                    "vocabulary": report.vocabulary,
                    "width": width,
                    "embedding_tied": tied,
                    "embedding_untied": untied,
                    **asdict(counts),
                    **{name: "" if math.isnan(value) else value for name, value in values.items()},
                }
            )
    with atomic_path(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def draw(reports: Sequence[Report], path: Path) -> None:
    """Bars of tokens per word and characters per token, a group for each source, a colour for each tokenizer."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    sources = list(rows_of(reports[0]))
    height = 0.8 / len(reports)
    inches = 1.2 + sum([0.12 + 0.17 * len(reports)] * len(sources))
    figure, panels = pyplot.subplots(1, 2, figsize=(10, inches), dpi=130, sharey=True)
    for axes, name, title in zip(
        panels,
        ("fertility", "characters_per_token"),
        ("tokens per word (fewer is cheaper)", "characters per token (more is cheaper)"),
        strict=True,
    ):
        for number, (report, label) in enumerate(zip(reports, labels(reports), strict=True)):
            places = [place + number * height for place in range(len(sources))]
            values = [getattr(counts, name) for counts in rows_of(report).values()]
            lengths = [0.0 if math.isnan(value) else value for value in values]
            axes.barh(places, lengths, height, label=label)
            for place, length, value, counts in zip(
                places, lengths, values, rows_of(report).values(), strict=True
            ):
                text = " –" if math.isnan(value) else f" {value:.2f}{_caveat(counts)}"
                axes.text(length, place, text, va="center", fontsize=6)
        axes.set_title(title, fontsize=9)
        axes.tick_params(labelsize=8)
        axes.margins(x=0.25, y=0.01)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks([place + 0.4 - height / 2 for place in range(len(sources))], sources)
    panels[0].invert_yaxis()
    handles, texts = panels[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="upper center", ncols=min(len(reports), 4), fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.3 / inches))
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:])
    pyplot.close(figure)


def _caveat(counts: Counts) -> str:
    """Says where a tokenizer is cheap because it does not know the text."""
    return f", {counts.unknown_share:.0%} unknown" if counts.unknown_share >= _MANY_UNKNOWN else ""
