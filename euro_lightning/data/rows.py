"""The rows of one corpus file: parquet, or JSON lines that may be compressed."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from euro_lightning.data.lines import one_line, read_lines
from euro_lightning.errors import DataError, nearest

ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst")

_CONTENT = {b"PAR1": "parquet", b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstandard"}
"""First bytes of a file: Apache Parquet format, RFC 1952, RFC 8878."""

_PROMISED = {".parquet": "parquet", ".gz": "gzip", ".zst": "zstandard", ".jsonl": "text", ".txt": "text"}

_BATCH = 256
"""Parquet rows held in memory at once."""


class RowSchema(Protocol):
    """Which columns are read, and which must be there."""

    def wanted(self) -> set[str]:
        """Every column that is read when it is there; a dot leads into a structure."""

    def require(self, present: Iterable[str], where: str) -> None:
        """Raises a `DataError` when a required column is not among `present`."""


@dataclass(frozen=True)
class Columns:
    """Names of the columns in the corpus files (of the keys, in JSON lines)."""

    text: str = "text"
    """The text of a document; required, unless the file holds parallel pairs."""

    lang: str = "lang"
    """ISO 639-1 code of the text, or "code" or "math"; required beside `text`."""

    domain: str = "domain"
    """"text", "code" or "math"; optional, text where absent."""

    quality: str = "quality"
    """Quality bucket, 1 to 4; optional, 0 (never scored) where absent."""

    doc_id: str = "doc_id"
    """Identifies the document; optional, a hash of the text where absent."""

    text_src: str = "text_src"
    """One side of a parallel pair; a file of pairs needs this and the next three."""

    text_tgt: str = "text_tgt"
    """The other side."""

    lang_src: str = "lang_src"
    """ISO 639-1 code of `text_src`."""

    lang_tgt: str = "lang_tgt"
    """ISO 639-1 code of `text_tgt`."""

    def wanted(self) -> set[str]:
        """Every column that is read when it is there."""
        return set(vars(self).values())

    def require(self, present: Iterable[str], where: str) -> None:
        """Raises a `DataError` naming the first required column that is not among `present`."""
        names = list(present)
        pairs = (self.text_src, self.text_tgt, self.lang_src, self.lang_tgt)
        required: tuple[str, ...] = (self.text, self.lang)
        if self.text not in names and not {self.text_src, self.text_tgt}.isdisjoint(names):
            required = pairs
        for name in required:
            if name not in names:
                raise DataError(
                    f"{where} has no column {name!r}; it has {', '.join(map(repr, sorted(names))) or 'none'}"
                    f"{nearest(name, names)} (name the columns with data.columns)"
                )


def location(path: Path, number: int) -> str:
    """Where a row is, for a message; rows and lines count from 1."""
    return f"{path}, {'row' if path.suffix == '.parquet' else 'line'} {number}"


def lookup(row: dict[str, Any], name: str) -> Any:
    """The value of a column; a dot leads into a structure, or into each structure of a list."""
    return row[name] if name in row else _inside(row, name.split("."))


def _inside(value: Any, parts: list[str]) -> Any:
    if isinstance(value, list):
        return [_inside(one, parts) for one in value]
    if not parts:
        return value
    return _inside(value.get(parts[0]), parts[1:]) if isinstance(value, dict) else None


def read_rows(
    path: Path,
    columns: RowSchema,
    bad: Callable[[str], None] | None = None,
    groups: range | None = None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields each row with its number (from 1), in bounded memory.

    Args:
        path: a file whose name ends in one of `ENDINGS`.
        columns: what is read, and what must be there.
        bad: told of each row that cannot be read, which is then left out; None raises instead.
        groups: of a parquet file, the row groups to read; None reads all.

    Raises:
        DataError: the content is not what the name says, is damaged or lacks a column.
    """
    try:
        check_content(path)
        if path.suffix == ".parquet":
            yield from _parquet(path, columns, bad, groups)
        else:
            yield from _json_lines(path, columns, bad)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {one_line(error)}") from None


def check_content(path: Path) -> None:
    """Raises a `DataError` when a file's first bytes are not those of what its name promises."""
    with open(path, "rb") as file:
        start = file.read(4)
    found = next((kind for magic, kind in _CONTENT.items() if start.startswith(magic)), "text")
    promised = _PROMISED[path.suffix]
    if found != promised:
        content = "empty" if not start else "JSON lines or other text" if found == "text" else found
        raise DataError(
            f"{path} is not what its name says: it should be {promised}, its content is {content}"
        )


def _parquet(
    path: Path, columns: RowSchema, bad: Callable[[str], None] | None, groups: range | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            columns.require(names, str(path))
            read = sorted(name for name in columns.wanted() if name in names or name.split(".")[0] in names)
            if groups is not None:
                number = sum(file.metadata.row_group(group).num_rows for group in range(groups.start))
            for batch in file.iter_batches(
                batch_size=_BATCH, columns=read, row_groups=groups and list(groups)
            ):
                for row in _python_rows(batch):
                    number += 1
                    if row is not None:
                        yield number, row
                    elif bad is None:
                        raise DataError(f"{location(path, number)}: the text is not valid UTF-8")
                    else:
                        bad(f"{location(path, number)}: the text is not valid UTF-8")
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is damaged after row {number}: {one_line(error)}") from None


def _python_rows(batch: Any) -> Iterator[dict[str, Any] | None]:
    """The rows of a batch; None for one that is not valid UTF-8."""
    try:
        rows = batch.to_pylist()
    except UnicodeDecodeError:
        rows = [_python_row(batch.slice(row, 1)) for row in range(batch.num_rows)]
    yield from rows


def _python_row(one: Any) -> dict[str, Any] | None:
    try:
        row: dict[str, Any] = one.to_pylist()[0]
    except UnicodeDecodeError:
        return None
    return row


def _json_lines(
    path: Path, columns: RowSchema, bad: Callable[[str], None] | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            row = _json_row(line, location(path, number))
            columns.require(row, location(path, number))
        except DataError as error:
            if bad is None:
                raise
            bad(str(error))
        else:
            yield number, row


def _json_row(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(f"{where} is not valid UTF-8 (byte {error.start + 1}); convert the file") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not valid JSON: {one_line(error)}") from None
    if not isinstance(row, dict):
        raise DataError(f"{where} is a JSON {type(row).__name__}; each line must be an object")
    return row
