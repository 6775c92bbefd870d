"""What was read, dropped and kept, as tables."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from euro_lightning.corpora.assembly import REPORT
from euro_lightning.errors import DataError
from euro_lightning.files import read_json

_SHOWN = 20
"""Bad rows that are shown; all that are listed stand in the store's report."""


def show_report(store: Path) -> None:
    """Prints the report of a store that was made from a corpus in YAML."""
    if not (store / REPORT).is_file():
        raise DataError(f"{store} has no {REPORT}: it was not made from a corpus in YAML")
    report = read_json(store / REPORT)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(_sources(report["sources"]))
    if report["quality"]:
        console.print(_quality(report))
    bad = report["bad"]
    for line in bad[:_SHOWN]:
        print(f"bad: {line}", file=sys.stderr)
    if len(bad) > _SHOWN:
        print(f"bad: {len(bad) - _SHOWN:,} more in {store / REPORT}", file=sys.stderr)


def _sources(sources: dict[str, dict[str, Any]]) -> Table:
    table = Table()
    for heading in ("source", "read", "kept", "tokens", "chars/token", "unknown", "bad", "dropped by"):
        table.add_column(heading, justify="left" if heading in ("source", "dropped by") else "right")
    for name, row in sources.items():
        table.add_row(name, *_cells(row))
    if len(sources) > 1:
        table.add_section()
        table.add_row("all", *_cells(_total(list(sources.values()))))
    return table


def _cells(row: dict[str, Any]) -> list[str]:
    bad = [f"{row['bad_rows']:,} rows"] * bool(row["bad_rows"])
    bad += [f"{row['bad_files']:,} files"] * bool(row["bad_files"])
    read = f"{row['read']:,}" + (f"\ncut into {row['read'] + row['parts']:,}" if row["parts"] else "")
    dropped = ", ".join(f"{name} {count:,}" for name, count in _by_filter([row]).most_common())
    return [
        read, f"{row['kept']:,}", f"{row['tokens']:,}", f"{row['characters'] / max(row['tokens'], 1):.2f}",
        f"{row['unknown'] / max(row['tokens'], 1):.4%}", ", ".join(bad) or "0", dropped,
    ]  # fmt: skip


def _total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {
        name: sum(row[name] for row in rows)
        for name in ("read", "parts", "kept", "tokens", "characters", "unknown", "bad_rows", "bad_files")
    }
    total["dropped"] = _by_filter(rows)
    return total


def _by_filter(rows: list[dict[str, Any]]) -> Counter[str]:
    """Documents dropped by each filter; the report has what it was in a filter that dropped them."""
    total: Counter[str] = Counter()
    for row in rows:
        for reason, count in row["dropped"].items():
            total[reason.split("/")[0]] += count
    return total


def _quality(report: dict[str, Any]) -> Table:
    table = Table(title="quality", title_justify="left")
    for heading in ("source", "scored", "cuts", "AUC, held out", "reference", "others"):
        table.add_column(heading, justify="left" if heading == "source" else "right")
    for facts in report["quality"].values():
        cuts = " ".join(f"{cut:.3g}" for cut in facts.get("cuts", []))
        auc = f"{facts['auc']:.4f}" if "auc" in facts else ""
        learned = [f"{facts[name]:,}" if name in facts else "" for name in ("reference", "other")]
        table.add_row(facts["source"], f"{facts['documents']:,}", cuts, auc, *learned)
    return table
