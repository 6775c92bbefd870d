"""The lines of a file that may be compressed."""

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from euro_lightning.errors import DataError

_CHUNK = 1 << 16
"""Compressed bytes expanded at once."""


def one_line(error: Exception) -> str:
    """The start of an error's text, without line breaks."""
    return " ".join(str(error).split())[:200]


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that may be compressed, each with its number (from 1).

    Raises:
        DataError: the compressed content is damaged, or ends too early.
    """
    number = 0
    try:
        with _open(path) as file:
            for line in file:
                number += 1
                yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is truncated or damaged after line {number}: {one_line(error)}") from None


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
                raise EOFError(one_line(error)) from None
            self._inside = not self._frame.eof
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
