"""The rows of one corpus file: parquet, or JSON lines that may be compressed."""

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from euro_lightning.errors import DataError, nearest

ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst")

_CONTENT = {b"PAR1": "parquet", b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstandard"}
"""First bytes of a file: Apache Parquet format, RFC 1952, RFC 8878."""

_PROMISED = {".parquet": "parquet", ".gz": "gzip", ".zst": "zstandard", ".jsonl": "text"}

_BATCH = 256
"""Parquet rows held in memory at once."""

_CHUNK = 1 << 16
"""Compressed bytes expanded at once."""


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


def read_rows(path: Path, columns: Columns) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields each row with its number (from 1), in bounded memory.

    Raises:
        DataError: the content is not what the name says, is damaged or lacks a column.
    """
    try:
        _check_content(path)
        yield from (_parquet if path.suffix == ".parquet" else _json_lines)(path, columns)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _check_content(path: Path) -> None:
    with open(path, "rb") as file:
        start = file.read(4)
    found = next((kind for magic, kind in _CONTENT.items() if start.startswith(magic)), "text")
    promised = _PROMISED[path.suffix]
    if found != promised:
        content = "empty" if not start else "JSON lines or other text" if found == "text" else found
        raise DataError(
            f"{path} is not what its name says: it should be {promised}, its content is {content}"
        )


def _parquet(path: Path, columns: Columns) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            columns.require(names, str(path))
            read = [name for name in names if name in columns.wanted()]
            for batch in file.iter_batches(batch_size=_BATCH, columns=read):
                for row in _python_rows(batch):
                    number += 1
                    yield number, row
    except UnicodeDecodeError:
        raise DataError(f"{location(path, number + 1)}: the text is not valid UTF-8") from None
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is damaged after row {number}: {_one_line(error)}") from None


def _python_rows(batch: Any) -> Iterator[dict[str, Any]]:
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        # row by row, so that the error comes at the row which has it
        for row in range(batch.num_rows):
            yield batch.slice(row, 1).to_pylist()[0]


def _json_lines(path: Path, columns: Columns) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    try:
        with _open(path) as file:
            for line in file:
                number += 1
                if line.strip():
                    row = _json_row(line, location(path, number))
                    columns.require(row, location(path, number))
                    yield number, row
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is truncated or damaged after line {number}: {_one_line(error)}") from None


def _json_row(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(f"{where} is not valid UTF-8 (byte {error.start + 1}); convert the file") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not valid JSON: {_one_line(error)}") from None
    if not isinstance(row, dict):
        raise DataError(f"{where} is a JSON {type(row).__name__}; each line must be an object")
    return row


def _open(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if path.suffix == ".zst":
        return cast(BinaryIO, io.BufferedReader(_Zstandard(path), _CHUNK))
    return open(path, "rb")


class _Zstandard(io.RawIOBase):
    """Reads frames one after the other, and notices a missing end where the library's reader does not."""

    def __init__(self, path: Path) -> None:
        import zstandard

        self._error = zstandard.ZstdError
        # as large as `zstd --long=31` writes
        self._frames = zstandard.ZstdDecompressor(max_window_size=1 << 31)
        self._file = open(path, "rb")
        self._frame = self._frames.decompressobj()
        self._inside = False
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            compressed = self._frame.unused_data if self._frame.eof else b""
            compressed = compressed or self._file.read(_CHUNK)
            if not compressed:
                if self._inside:
                    raise EOFError("the last zstandard frame has no end")
                return 0
            if self._frame.eof:
                self._frame = self._frames.decompressobj()
            try:
                self._ready = memoryview(self._frame.decompress(compressed))
            except self._error as error:
                raise EOFError(_one_line(error)) from None
            self._inside = not self._frame.eof
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
