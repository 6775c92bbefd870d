"""Where the rows of a task are, and what their columns are called."""

from dataclasses import dataclass, field
from typing import Any

SPLITS = ("train", "validation", "test")
"""The parts of a task's data: to learn from, to choose settings by, to judge by once."""

ALL = "all"
"""The name of a part that is cut into others, or that serves all of them."""


@dataclass(frozen=True)
class Columns:
    """Names of the columns; a dot leads into a structure, or into each structure of a list."""

    text: str | list[str] = "text"
    """The text to judge, or the list of columns of a pair (with `template`, of any number of texts);
    the text of a query or of a document, where each has its table. A list of texts is joined by spaces."""

    label: str = "label"
    """The label: its name, its place in the task's labels, or a list of truths, true if all are."""

    score: str | list[str] = "score"
    """The score, or a list of columns whose mean is the score."""

    words: str = "tokens"
    """The words of a sentence, a list of texts."""

    tags: str = "tags"
    """The label of each word, a list of names or of places in the task's labels."""

    query: str = "query"
    """Of pairs: the text of the query. Of judgements: the id of the query."""

    document: str = "document"
    """Of pairs: the text that answers it, or a list of them. Of judgements: the id of the document."""

    negative: str | None = None
    """Of pairs to learn from: a text that does not answer the query though it looks so, or a list of
    which the first is taken."""

    grade: str | None = None
    """Of judgements: how relevant the document is, a whole number; 1 where there is no such column."""

    id: str | None = None
    """Identifies the row; what is cut by hash is cut by it. Without it, the row's number, of pairs the query."""

    lang: str | None = None
    """Language of the row (ISO 639-1, a language pair, a programming language)."""

    split: str | None = None
    """Which split a row belongs to, where one table holds several."""


@dataclass(frozen=True)
class Table:
    """Rows of local files or of a data set of the Hugging Face Hub."""

    path: str | None = None
    """A file, folder or glob of parquet or jsonl (also .gz, .zst), seen from the working directory;
    {split} and {lang} stand for the split and the language."""

    hub: str | None = None
    """Name of a data set on the Hub, in place of path."""

    config: str | None = None
    """Configuration of the Hub data set; {lang} stands for the language."""

    revision: str | None = None
    """Commit, tag or branch of the Hub data set."""

    splits: dict[str, str] = field(default_factory=dict)
    """What the data set calls train, validation and test, where it has other names; what it calls the
    part that serves all of them goes under all."""

    codes: dict[str, str] = field(default_factory=dict)
    """What {lang} becomes for a language, where it is not the language's own code."""

    columns: Columns = field(default_factory=Columns)
    """Names of the columns."""

    lang: str | None = None
    """Language of all rows, where no column and no {lang} says it."""

    where: dict[str, Any] = field(default_factory=dict)
    """Columns and the value, or list of values, that a row must have to be read."""

    where_not: dict[str, Any] = field(default_factory=dict)
    """Columns and the value, or list of values, that a row must not have."""

    lengths: dict[str, int] = field(default_factory=dict)
    """Columns that hold lists, and how long a row's list must be."""

    share: float = 1.0
    """Share of the rows that is read, chosen by a hash of their ids."""

    first: int | None = None
    """Reading ends after so many rows; null reads all."""

    @property
    def by_language(self) -> bool:
        """Whether each language is a file or configuration of its own."""
        return "{lang}" in f"{self.path}{self.config}"

    @property
    def names_its_splits(self) -> bool:
        """Whether the rows of one split can be told from those of others."""
        return self.hub is not None or "{split}" in str(self.path) or self.columns.split is not None

    def problems(self, key: str, languages: list[str], *, needs_lang: bool = True) -> list[str]:
        """What is wrong, one line each.

        Args:
            key: where this table is in the task.
            languages: the task's.
            needs_lang: whether its rows have a language.
        """
        found = []
        if (self.path is None) == (self.hub is None):
            found.append(f"{key}: give path or hub, one of them")
        if self.hub is None and (self.config or self.revision):
            found.append(f"{key}: config and revision belong to a hub data set")
        if self.by_language and not languages:
            found.append(f"{key}: {{lang}} needs languages: list them")
        says = [self.by_language, self.lang is not None, self.columns.lang is not None]
        if needs_lang and sum(says) != 1:
            found.append(f"{key}: give lang, columns.lang or {{lang}} in path or config, one of them")
        for code in sorted(self.codes.keys() - set(languages)):
            found.append(f"{key}.codes.{code}: no such language in languages")
        for name in sorted(self.splits.keys() - {*SPLITS, ALL}):
            found.append(f"{key}.splits.{name}: it must be one of {', '.join(SPLITS)}, {ALL}")
        if not 0 < self.share <= 1:
            found.append(f"{key}.share is {self.share}: it must be above 0 and at most 1")
        if self.first is not None and self.first < 1:
            found.append(f"{key}.first is {self.first}: it must be at least 1")
        return found
