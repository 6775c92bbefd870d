"""Files that are whole or absent: atomic writes, locks and content hashes."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from euro_lightning.errors import UserError


def sync_directory(path: Path) -> None:
    """Makes a rename in `path` survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`; on success it takes the place of `path`.

    The temporary file is synchronised to disk before the rename and removed on failure, so a
    reader sees the old content or the new one, whatever happens in between.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yields a temporary directory beside `path` that becomes `path` on success.

    `path` must not exist when the block ends, unless another process made it in between; then
    the other's is kept.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                with open(file, "rb+") as handle:
                    os.fsync(handle.fileno())
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            os.rename(temporary, path)
        sync_directory(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def whole_directory(out: Path) -> Iterator[Path]:
    """Yields a directory that takes the name `out` when the block ends well, in place of what has it."""
    staged = out.with_name(f".{out.name}.{uuid.uuid4().hex[:8]}.new")
    try:
        with atomic_directory(staged) as folder:
            yield folder
        _replace_directory(staged, out)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _replace_directory(new: Path, out: Path) -> None:
    """Gives a complete directory its name; one that had the name goes only then."""
    old = out.with_name(f".{out.name}.{uuid.uuid4().hex[:8]}.old")
    if out.exists():
        os.rename(out, old)
    os.rename(new, out)
    shutil.rmtree(old, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Writes `text` atomically as UTF-8."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Writes `value` atomically as JSON, one key per line."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Reads JSON; a missing or damaged file is a `UserError` that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is not valid JSON ({error}); it is damaged or not ours") from None


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Holds an exclusive advisory lock on `path`; yields whether it was obtained.

    The kernel drops the lock when the process ends, however it ends, so a killed process
    never leaves a stale one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True


def hash_file(path: Path) -> str:
    """SHA-256 of a file's content, as hexadecimal text."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_value(value: Any) -> str:
    """SHA-256 of a JSON-like value; equal values hash alike on every machine."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()
