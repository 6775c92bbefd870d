"""Where the rows of a table come from: files, or the Hub."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from euro_lightning.corpora.config import SourceRecipe
from euro_lightning.corpora.hub import hub_rows, pinned
from euro_lightning.corpora.shard import Shard
from euro_lightning.data.corpus import content_hash as file_hash
from euro_lightning.data.corpus import find_files
from euro_lightning.data.rows import ENDINGS, location, read_rows
from euro_lightning.errors import DataError, nearest
from euro_lightning.evaluation.table import ALL, Table
from euro_lightning.evaluation.task import Task

Values = dict[str, Any]
ClassNames = Mapping[str, list[str]]
"""Names of the numbers in a column, where the data set says them."""


class Needed:
    """Columns that must be there, and the keys that name them."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = dict(columns)

    def wanted(self) -> set[str]:
        """Every column that is read, whole where a dot leads into it."""
        return {name.split(".")[0] for name in self._columns}

    def require(self, present: Iterable[str], where: str) -> None:
        """Raises a `DataError` naming the first required column that is not among `present`."""
        names = list(present)
        for name, key in self._columns.items():
            if name not in names and name.split(".")[0] not in names:
                raise DataError(
                    f"{where} has no column {name!r}; it has {', '.join(map(repr, sorted(names))) or 'none'}"
                    f"{nearest(name, names)} ({key} names it)"
                )


def open_rows(
    task: Task, key: str, source: str, lang: str | None, needed: Needed
) -> tuple[ClassNames, Iterator[tuple[str, Values]]]:
    """Names of the numbers in columns, and each row with its place, before any is left out.

    Args:
        task: the task.
        key: which of its tables.
        source: the split of the data.
        lang: which language, where each has its file or configuration.
        needed: columns that must be there.

    Raises:
        DataError: a file or data set is missing or damaged, or lacks a column.
    """
    table = task.tables()[key]
    if table.hub is not None:
        recipe = _recipe(table, key, source, lang)
        commit, stream = pinned(f"{task.name}: {key}", recipe)
        features = stream.features.to_dict() if stream.features else {}
        if features:
            needed.require(features, f"{table.hub}")
        return _class_names(features), hub_rows(recipe, Shard(key, 1, commit))
    files = _files(task, key, source, lang)
    return _class_names(_features(files[0])), (
        (location(file, number), row) for file in files for number, row in read_rows(file, needed)
    )


def fingerprint(task: Task, key: str, split: str) -> list[Any]:
    """What the rows of a table are made of: hashes of files, or the commit of a Hub data set."""
    table, source = task.tables()[key], part_of(task, key, split)
    found: list[Any] = []
    for lang in task.languages_of(split) if table.by_language else [None]:
        if table.hub is not None:
            recipe = _recipe(table, key, source, lang)
            commit = table.revision or ""
            if not re.fullmatch(r"[0-9a-f]{40}", commit):
                commit, _ = pinned(f"{task.name}: {key}", recipe)
            found.append([table.hub, recipe.config, recipe.split, commit])
        else:
            found += [file_hash(file) for file in _files(task, key, source, lang)]
    return found


def part_of(task: Task, key: str, split: str) -> str:
    """The split of a table's data that goes with one of our splits."""
    return split if key == "training" else task.source_of(split)[0]


def _name_of(table: Table, key: str, source: str) -> str:
    """What the data calls a split; a table that serves all splits has a name for itself."""
    return table.splits.get(source, source if key == "data" else table.splits.get(ALL, source))


def _recipe(table: Table, key: str, source: str, lang: str | None) -> SourceRecipe:
    return SourceRecipe(
        hub=table.hub,
        config=None if table.config is None else _filled(table, table.config, "", lang),
        split=_name_of(table, key, source),
        revision=table.revision,
    )


def _files(task: Task, key: str, source: str, lang: str | None) -> list[Path]:
    table = task.tables()[key]
    name = "*" if source == ALL else _name_of(table, key, source)
    place = _filled(table, str(table.path), name, lang)
    return sorted(find_files(place, f"{task.name}: {key}.path", ENDINGS))


def _filled(table: Table, pattern: str, split: str, lang: str | None) -> str:
    code = table.codes.get(lang or "", lang or "")
    return pattern.replace("{split}", split).replace("{lang}", code)


def _features(file: Path) -> dict[str, Any]:
    """The features that `datasets` notes in a parquet file it writes."""
    if file.suffix != ".parquet":
        return {}
    import pyarrow.parquet as parquet

    try:
        noted = (parquet.read_schema(file).metadata or {}).get(b"huggingface")
        return dict(json.loads(noted)["info"]["features"]) if noted else {}
    except (OSError, ValueError, KeyError):
        return {}  # a damaged file is told of by whoever reads it


def _class_names(features: Mapping[str, Any]) -> ClassNames:
    found = {}
    for column, feature in features.items():
        inner = feature[0] if isinstance(feature, list) else feature
        inner = inner.get("feature", inner)
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel":
            found[column] = list(inner["names"])
    return found
