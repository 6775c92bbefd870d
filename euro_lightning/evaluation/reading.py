"""The splits of a task, checked row by row."""

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from euro_lightning.errors import DataError, nearest
from euro_lightning.evaluation.examples import Example, Pair, Sentence
from euro_lightning.evaluation.places import fingerprint
from euro_lightning.evaluation.records import Record, chosen, empty_split, read_records, unique
from euro_lightning.evaluation.searching import read_pairs
from euro_lightning.evaluation.task import Split, Task
from euro_lightning.files import hash_value

_CODE = 1
"""Raised when the same task and files would give other examples."""


def read_split(
    task: Task, split: Split, limit: int | None = None
) -> list[Example] | list[Sentence] | list[Pair]:
    """What a split holds: examples of classification and regression, sentences of token
    classification, pairs of retrieval.

    Args:
        task: the task.
        split: which part of its data.
        limit: at most so many, chosen by a hash of their ids without the language: every time the
            same, and translations of one another together.

    Raises:
        DataError: a file is missing, a column or label is wrong, a row cannot be used, or nothing is left.
    """
    if task.family == "retrieval":
        return read_pairs(task, split, limit)
    columns = task.data.columns
    if task.family == "token_classification":
        content = {columns.words: "words", columns.tags: "tags"}
    else:
        content = dict.fromkeys(task.text_columns, "text")
        content |= (
            {columns.label: "label"}
            if task.family == "classification"
            else dict.fromkeys(task.score_columns, "score")
        )
    records = list(read_records(task, "data", split, content))
    if not records:
        raise empty_split(task, split, "row")
    if task.balanced and split == "train":
        records = _balanced(task, records)
    records = chosen(task, records, limit)
    if task.family == "token_classification":
        sentences = [_sentence(task, record) for record in records]
        unique(records, [sentence.row for sentence in sentences])
        return sentences
    examples = [_example(task, record) for record in records]
    unique(records, [example.row for example in examples])
    return examples


def content_hash(task: Task, split: Split) -> str:
    """A hash of a task and of all that its split is made of: equal where examples are equal.

    Files count by what they hold, not by their place; a Hub data set by its commit, which is
    asked for unless `revision` is one.

    Raises:
        DataError: a file is missing, or the Hub cannot be asked.
    """
    values = dataclasses.asdict(task)
    del values["name"]
    parts = {}
    for key in task.tables():
        del values[key]["path"]
        parts[key] = fingerprint(task, key, split)
    return hash_value([_CODE, split, values, parts])


def label_index(value: Any, column: str, record: Record, labels: Sequence[str]) -> int:
    """Which of a task's labels a value means.

    A number has the name that the data set gives it; without one, it is a label that is written so
    ("5" of a rating), or the place of a label.

    Raises:
        DataError: it is none of them.
    """
    names = record.names.get(column.split(".")[0])
    if isinstance(value, list):  # right if every step is
        value = all(value)
    number = isinstance(value, int) and not isinstance(value, bool)
    if names is not None and number and 0 <= value < len(names):
        value, number = names[value], False
    written = str(value).lower() if isinstance(value, bool) else str(value)
    if written in labels:
        return labels.index(written)
    if isinstance(value, bool):
        value, number = int(value), True
    if number and 0 <= value < len(labels):
        return int(value)
    shown = labels if len(labels) <= 10 else [*labels[:10], "…"]
    raise DataError(
        f"{record.where}: {column!r} is {value!r}; the labels are {', '.join(shown)}{nearest(written, labels)}"
    )


def _row(record: Record) -> str:
    return record.row if record.row.startswith(f"{record.lang}/") else f"{record.lang}/{record.row}"


def _example(task: Task, record: Record) -> Example:
    texts = tuple(record.text(column) for column in task.text_columns)
    if task.template is not None:
        texts = (task.template.format(*texts),)
    columns = task.data.columns
    if task.family == "classification":
        labels = task.label_names
        target = float(label_index(record.value(columns.label), columns.label, record, labels))
    else:
        scores = [_score(record, column) for column in task.score_columns]
        target = sum(scores) / len(scores)
    return Example(row=_row(record), lang=record.lang, texts=texts, target=target)


def _score(record: Record, column: str) -> float:
    value = record.value(column)
    try:
        score = float(value)
    except (TypeError, ValueError):
        score = math.nan
    if not math.isfinite(score):
        raise DataError(f"{record.where}: {column!r} is {value!r}; a score is a number")
    return score


def _sentence(task: Task, record: Record) -> Sentence:
    columns, labels = task.data.columns, task.label_names
    words, tags = record.value(columns.words), record.value(columns.tags)
    for column, value in ((columns.words, words), (columns.tags, tags)):
        if not isinstance(value, list):
            raise DataError(f"{record.where}: {column!r} is no list")
    if len(words) != len(tags):
        raise DataError(
            f"{record.where}: {len(words)} words in {columns.words!r}, {len(tags)} labels in {columns.tags!r}"
        )
    if not words or not all(isinstance(word, str) and word for word in words):
        raise DataError(f"{record.where}: {columns.words!r} must hold words, at least one and none empty")
    return Sentence(
        row=_row(record),
        lang=record.lang,
        words=tuple(words),
        labels=tuple(label_index(tag, columns.tags, record, labels) for tag in tags),
    )


def _balanced(task: Task, records: list[Record]) -> list[Record]:
    column = task.data.columns.label
    labels = [label_index(r.value(column), column, r, task.label_names) for r in records]
    rarest = min(Counter(labels).values())
    kept = {
        id(record)
        for label in set(labels)
        for record in chosen(
            task, [r for r, found in zip(records, labels, strict=True) if found == label], rarest
        )
    }
    return [record for record in records if id(record) in kept]
