"""compare: what differs between runs, and what they scored, side by side."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from euro_lightning.arguments import parse
from euro_lightning.errors import ConfigError, UserError
from euro_lightning.settings import flatten, read_file

WHERE = ("name", "root")
"""Keys that say where a run lies and nothing of what it is."""


@dataclass(frozen=True)
class Options:
    """Shows runs side by side: the keys of their configurations that differ, and their final scores."""

    run: tuple[str, ...]
    """Folders of runs."""

    all: bool = False
    """Also scores of single sources, and keys that are equal."""


def compare(words: Sequence[str]) -> None:
    """Prints both tables and the command that shows curves."""
    options = parse(Options, "compare", list(words), ("run",))
    if options is None:
        return
    if len(options.run) < 2:
        raise ConfigError("compare: give at least two run folders, such as runs/anneal runs/anneal-2")
    folders = [Path(run) for run in options.run]
    configs = [_config(folder) for folder in folders]
    scores = [_scores(folder) for folder in folders]
    names = _names(folders)
    console = Console(width=None if sys.stdout.isatty() else 160)
    keys = [key for key in dict.fromkeys(k for c in configs for k in c) if key not in WHERE]
    shown = [key for key in keys if options.all or len({repr(c.get(key)) for c in configs}) > 1]
    if shown:
        rows = [[key, *(_text(config.get(key, "–")) for config in configs)] for key in shown]
        console.print(_table("configuration" if options.all else "what differs", "key", names, rows))
    else:
        console.print("The configurations are the same.")
    metrics = list(dict.fromkeys(name for own in scores for name in own))
    metrics = [name for name in metrics if options.all or name.count("/") < 2]
    if metrics:
        rows = [[name, *(_number(own.get(name)) for own in scores)] for name in metrics]
        console.print(_table("final scores", "score", names, rows))
    for folder, own in zip(folders, scores, strict=True):
        if not own:
            print(f"{folder} has no final scores: it has not ended")
    print(f"curves  {_mlflow(folders[0], configs[0])}")


def _config(folder: Path) -> dict[str, Any]:
    if not (folder / "config.yaml").is_file():
        raise UserError(f"{folder} is no run folder: it has no config.yaml")
    return flatten(read_file(str(folder / "config.yaml")))


def _scores(folder: Path) -> dict[str, float]:
    """Final scores by name; nothing for a run that has none yet."""
    from euro_lightning.results import SCORES, read_results

    if not (folder / SCORES).is_file():
        return {}
    results = read_results(folder)
    return {"tokens": float(results.tokens), "seconds": results.seconds, **results.metrics()}


def _names(folders: Sequence[Path]) -> list[str]:
    """Short names that stay apart."""
    names = [folder.resolve().name for folder in folders]
    return [str(f) if names.count(n) > 1 else n for f, n in zip(folders, names, strict=True)]


def _table(title: str, first: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first, overflow="fold")
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _text(value: Any) -> str:
    return "null" if value is None else str(value)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4f}"


def _mlflow(folder: Path, config: Mapping[str, Any]) -> str:
    from euro_lightning.tracking import mlflow_command

    uri = config.get("tracking.uri") or os.environ.get("MLFLOW_TRACKING_URI")
    return mlflow_command(folder.parent, uri)
