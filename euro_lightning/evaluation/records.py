"""The rows of a task's table: those of a split and its languages, chosen by hash where they are cut."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from euro_lightning.data.corpus import content_id
from euro_lightning.data.rows import lookup
from euro_lightning.errors import DataError
from euro_lightning.evaluation.places import ClassNames, Needed, Values, open_rows, part_of
from euro_lightning.evaluation.table import ALL, Table
from euro_lightning.evaluation.task import Task
from euro_lightning.keys import key_of

_WHOLE = 1 << 63
"""Above every key."""


@dataclass(frozen=True, slots=True)
class Record:
    """A row."""

    where: str
    """File and row, for messages."""
    row: str
    """Identifies it within its table."""
    lang: str
    """Its language; empty where the table has none."""
    group: str
    """Its id without the language: the same for translations of one another."""
    values: Values
    """The columns."""
    names: ClassNames
    """Names of the numbers in a column, where the data set says them."""

    def value(self, column: str) -> Any:
        """What a column holds; a dot leads into a structure."""
        return lookup(self.values, column)

    def text(self, column: str) -> str:
        """The text in a column; a list of texts is joined by spaces.

        Raises:
            DataError: it holds something else.
        """
        value = self.value(column)
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, str) for part in parts):
            kind = "empty" if value is None else f"of type {type(value).__name__}"
            raise DataError(f"{self.where}: {column!r} is {kind}; it must be text")
        return " ".join(parts)


def read_records(task: Task, key: str, split: str, content: Mapping[str, str]) -> Iterator[Record]:
    """The rows of one of a task's tables.

    Args:
        task: the task.
        key: which of its tables.
        split: one of ours; what the data calls it, and which of its rows are meant, the task says.
        content: columns that must be there, and the keys below `columns` that name them.

    Raises:
        DataError: a file is missing or damaged, or lacks a column.
    """
    table = task.tables()[key]
    source, low, high = task.source_of(split) if key == "data" else (part_of(task, key, split), 0.0, 1.0)
    languages = task.languages_of(split)
    kept = task.train_languages if key == "training" else languages
    needed = _needed(table, key, content)
    bounds = (round(low * _WHOLE), round(high * _WHOLE))
    for lang in languages if table.by_language else [None]:
        names, rows = open_rows(task, key, source, lang, needed)
        for number, (where, values) in enumerate(rows, 1):
            if table.first is not None and number > table.first:
                break
            if not _kept(table, source, values):
                continue
            record = _record(table, content, number, where, values, lang, names)
            if record.lang and kept and record.lang not in kept:
                continue
            if bounds[0] <= key_of(task.seed, record.group) < bounds[1] and _sampled(task, table, record):
                yield record


def chosen(task: Task, records: list[Record], number: int | None) -> list[Record]:
    """At most so many rows, of as many languages as there are, by hash; their order stays."""
    if number is None or len(records) <= number:
        return records
    keys = [(key_of(task.seed, "limit", record.group), index) for index, record in enumerate(records)]
    return [records[index] for _, index in sorted(sorted(keys)[:number], key=lambda pair: pair[1])]


def unique(records: Sequence[Record], rows: Sequence[str]) -> None:
    """Raises a `DataError` when two records are to have the same of `rows`."""
    seen: dict[str, str] = {}
    for record, row in zip(records, rows, strict=True):
        if row in seen:
            raise DataError(f"{record.where}: the id {row!r} is that of {seen[row]} too")
        seen[row] = record.where


def empty_split(task: Task, split: str, what: str) -> DataError:
    """The error about a split without anything of a kind."""
    reasons = [key for key in ("languages", "train_languages", "cut") if getattr(task, key)]
    reasons += [f"data.{key}" for key in ("where", "where_not", "lengths") if getattr(task.data, key)]
    hint = f"; look at {', '.join(reasons)}" if reasons else ""
    return DataError(f"{task.name}: the split {split!r} has no {what}{hint}")


def group_of(row: str, lang: str) -> str:
    """An id without the parts that are the language; parts are letters and digits.

    >>> group_of("xquad-en-q00017", "en")
    'xquad--q00017'
    """
    return "".join(part for part in re.split(r"([^A-Za-z0-9]+)", row) if part != lang)


def _needed(table: Table, key: str, content: Mapping[str, str]) -> Needed:
    columns = table.columns
    needed = {name: f"{key}.columns.{below}" for name, below in content.items()}
    for below in ("id", "lang", "split"):
        if (name := getattr(columns, below)) is not None:
            needed[name] = f"{key}.columns.{below}"
    for below in ("where", "where_not", "lengths"):
        needed |= dict.fromkeys(getattr(table, below), f"{key}.{below}")
    return Needed(needed)


def _kept(table: Table, source: str, values: Values) -> bool:
    column = table.columns.split
    if column is not None and source != ALL and values[column] != table.splits.get(source, source):
        return False
    return (
        all(_among(lookup(values, name), wanted) for name, wanted in table.where.items())
        and not any(_among(lookup(values, name), unwanted) for name, unwanted in table.where_not.items())
        and all(len(lookup(values, name) or ()) == length for name, length in table.lengths.items())
    )


def _among(value: Any, options: Any) -> bool:
    return value in options if isinstance(options, list) else value == options


def _record(
    table: Table,
    content: Mapping[str, str],
    number: int,
    where: str,
    values: Values,
    lang: str | None,
    names: ClassNames,
) -> Record:
    columns = table.columns
    tongue = lang or table.lang or ""
    if columns.lang is not None:
        tongue = str(lookup(values, columns.lang) or "")
        if not tongue:
            raise DataError(f"{where}: {columns.lang!r} is empty; it must be a language")
    if columns.id is not None:
        value = lookup(values, columns.id)
        if value is None:
            raise DataError(f"{where}: {columns.id!r} is empty; it identifies the row")
        row = str(value)
    elif "query" in content.values():
        row = content_id([str(lookup(values, columns.query))])
    else:
        row = str(number)
    if lang is not None:
        row = f"{lang}/{row}"
    return Record(where, row, tongue, group_of(row, tongue), values, names)


def _sampled(task: Task, table: Table, record: Record) -> bool:
    return table.share == 1 or key_of(task.seed, "share", record.group) < table.share * _WHOLE
