"""Shards to documents: rows of any reader, whose bad ones are told and left out."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from euro_lightning.corpora.config import SourceRecipe
from euro_lightning.corpora.shard import Shard
from euro_lightning.corpora.shards import TEXT_ENDINGS
from euro_lightning.data.corpus import content_id, lang_of, text_of
from euro_lightning.data.documents import Document
from euro_lightning.data.embedded import embedded_documents
from euro_lightning.data.lines import read_lines
from euro_lightning.data.rows import check_content, location, lookup, read_rows
from euro_lightning.errors import DataError

Row = tuple[str, dict[str, Any]]
"""Where a row is, and what it holds."""


@dataclass(frozen=True)
class Noted:
    """A document and what its quality bucket will be made of."""

    document: Document
    score: float = math.nan
    """Number in the quality column."""


def read_documents(
    name: str, source: SourceRecipe, shard: Shard, bad: Callable[[str], None]
) -> Iterator[Noted | None]:
    """Each document of a shard; None for a row without text.

    Args:
        name: the source's name in the configuration.
        source: how it is read.
        shard: which part of it.
        bad: told of each row that cannot be used.

    Raises:
        DataError: the rest of the shard cannot be read.
    """
    if source.embedded:
        for document in embedded_documents():
            yield Noted(document)
        return
    for where, row in _rows(source, shard, bad):
        try:
            yield _noted(name, source, row, where)
        except DataError as error:
            bad(str(error))


def _rows(source: SourceRecipe, shard: Shard, bad: Callable[[str], None]) -> Iterator[Row]:
    if source.hub:
        from euro_lightning.corpora.hub import hub_rows

        yield from hub_rows(source, shard)
        return
    assert shard.file is not None
    file = Path(shard.file)
    if file.name.endswith(TEXT_ENDINGS):
        yield from _texts(source, file, bad)
        return
    for number, row in read_rows(file, source, bad, shard.groups):
        yield location(file, number), row


def _texts(source: SourceRecipe, file: Path, bad: Callable[[str], None]) -> Iterator[Row]:
    """The documents of a text file, each with the line where it begins."""
    waiting: list[bytes] = []
    first = 1
    try:
        check_content(file)
        for number, line in read_lines(file):
            ends = source.text_per == "line" or (source.text_per == "paragraph" and not line.strip())
            waiting = waiting or []
            if not waiting:
                first = number
            waiting.append(line)
            if ends:
                yield from _decoded(source, waiting, location(file, first), bad)
                waiting = []
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from None
    yield from _decoded(source, waiting, location(file, first), bad)


def _decoded(
    source: SourceRecipe, lines: list[bytes], where: str, bad: Callable[[str], None]
) -> Iterator[Row]:
    if not lines:
        return
    try:
        text = b"".join(lines).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        bad(f"{where} is not valid UTF-8 (byte {error.start + 1} of the document); convert the file")
        return
    if text.strip():
        yield where, {source.columns.text: text if source.text_per == "file" else text.strip("\r\n")}


def _noted(name: str, source: SourceRecipe, row: dict[str, Any], where: str) -> Noted | None:
    columns, pair = source.columns, source.domain == "parallel"
    names = [columns.text_src, columns.text_tgt] if pair else [columns.text]
    sides = [text_of(lookup(row, column), column, where) for column in names]
    if not all(sides):
        return None
    declared = [source.lang, source.target_lang] if pair else [source.lang]
    langs = [columns.lang_src, columns.lang_tgt] if pair else [columns.lang]
    if not pair and source.lang is None and source.domain != "text":
        declared = [source.domain]
    found = [
        given or lang_of(lookup(row, column), column, where, pair)
        for given, column in zip(declared, langs, strict=True)
    ]
    doc_id = lookup(row, columns.doc_id)
    document = Document(
        text=sides[0],
        lang=found[0],
        doc_id=content_id(sides) if doc_id is None else str(doc_id),
        domain=source.domain,
        target=sides[1] if pair else None,
        target_lang=found[1] if pair else None,
    )
    return _with_quality(document, name, source, row, where)


def _with_quality(
    document: Document, name: str, source: SourceRecipe, row: dict[str, Any], where: str
) -> Noted:
    quality = source.quality
    if quality is None:
        return Noted(document)
    value = lookup(row, quality.noted) if quality.noted else name
    if quality.classes:
        bucket = quality.bucket_of_class(value, where)
        return Noted(dataclasses.replace(document, quality=bucket))
    if quality.column is None:
        return Noted(dataclasses.replace(document, origin=None if value is None else str(value)))
    try:
        return Noted(document, score=float(value))
    except (TypeError, ValueError):
        raise DataError(f"{where}: {quality.column!r} is {value!r}; a quality score is a number") from None
