"""Documents from files, or from installed packages: the left end of the pipeline."""

import glob
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from euro_lightning.data.documents import DOMAINS, Document
from euro_lightning.data.embedded import embedded_documents, embedded_fingerprint
from euro_lightning.data.rows import ENDINGS, Columns, location, read_rows
from euro_lightning.errors import DataError, nearest
from euro_lightning.files import hash_file, hash_value

__all__ = ["EMBEDDED", "Columns", "Corpus", "open_corpus"]

EMBEDDED = "embedded"
"""The name of the corpus that is made from installed packages."""

_LANG = re.compile(r"[a-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
"""A language tag; a source is named by it, and so is the folder of the source."""

_NO_LANGUAGE = ("code", "math")
"""Values of a language column that name a domain."""


def open_corpus(spec: str | list[str], columns: Columns | None = None) -> "Corpus":
    """Finds the files of a corpus; reads none of them yet.

    Args:
        spec: "embedded", or one or more files, directories (all corpus files in them, at any
            depth) or globs.
        columns: names of the columns, where they differ from the usual ones.

    Raises:
        DataError: something is not found, or is no corpus file.
    """
    places = [spec] if isinstance(spec, str) else list(spec)
    if not places:
        raise DataError(f"data.corpus is empty; give {EMBEDDED!r}, files, directories or globs")
    files = {file for place in places if place != EMBEDDED for file in find_files(place)}
    return Corpus(sorted(files, key=lambda file: file.as_posix()), columns or Columns(), EMBEDDED in places)


def find_files(place: str, key: str = "data.corpus", endings: tuple[str, ...] = ENDINGS) -> list[Path]:
    """The corpus files that a file, a folder (at any depth) or a glob names.

    Raises:
        DataError: there is none.
    """
    path = Path(place).expanduser()
    if path.is_file():
        if not path.name.endswith(endings):
            raise DataError(f"{path} is no corpus file; its name must end in {', '.join(endings)}")
        return [path]
    matches = [path] if path.is_dir() else [Path(match) for match in glob.glob(str(path), recursive=True)]
    if not matches:
        wrong = "matches nothing" if glob.has_magic(place) else "does not exist"
        store = key == "data.corpus" and not (path.suffix or glob.has_magic(place))
        hint = "; a token store is made by prepare" if store else ""
        raise DataError(f"{key} {place!r} {wrong} (seen from {Path.cwd()}){hint}")
    files = [file for match in matches for file in (match.rglob("*") if match.is_dir() else [match])]
    files = [
        file for file in files if file.name.endswith(endings) and _visible(file, path) and file.is_file()
    ]
    if not files:
        raise DataError(f"{key} {place!r} has no file whose name ends in {', '.join(endings)}")
    return files


def _visible(file: Path, root: Path) -> bool:
    """Whether neither the file nor a folder between it and `root` is hidden, as temporary files are."""
    inner = file.relative_to(root) if file.is_relative_to(root) else Path(file.name)
    return not any(part.startswith(".") for part in inner.parts)


class Corpus:
    """The documents of some files, of the installed packages, or of both."""

    def __init__(self, files: list[Path], columns: Columns, embedded: bool = False) -> None:
        self.files = files
        self.columns = columns
        self.embedded = embedded
        self.skipped = 0
        """Rows without text that the last pass left out."""
        self.first_skipped: str | None = None
        """File and row of the first of them."""
        self._fingerprint: str | None = None

    def documents(self) -> Iterator[Document]:
        """Every document, in an order that depends on names and content only.

        Raises:
            DataError: a file or a row cannot be used, or there is no document at all.
        """
        self.skipped, self.first_skipped = 0, None
        empty = True
        if self.embedded:
            for document in embedded_documents():
                empty = False
                yield document
        for file in self.files:
            for number, row in read_rows(file, self.columns):
                document_or_none = self._document(row, location(file, number))
                if document_or_none is not None:
                    empty = False
                    yield document_or_none
        if empty:
            skipped = f"; {self.warnings()[0]}" if self.skipped else ""
            raise DataError(f"no document in {', '.join(map(str, self.files[:3]))}{skipped}")

    def fingerprint(self) -> str:
        """A hash of all that the documents come from: names and content of files, package versions.

        Of a file above 64 MiB only the size and both ends count, for this is computed at every
        start; a parquet file's end holds its statistics.
        """
        if self._fingerprint is None:
            files = [[file.name, file.stat().st_size, content_hash(file)] for file in self.files]
            self._fingerprint = hash_value([embedded_fingerprint() if self.embedded else None, files])
        return self._fingerprint

    def warnings(self) -> list[str]:
        """What the last pass over the documents left out, one line each."""
        if not self.skipped:
            return []
        rows = "1 row has" if self.skipped == 1 else f"{self.skipped:,} rows have"
        return [f"{rows} no text and cannot be used; the first is {self.first_skipped}"]

    def _document(self, row: dict[str, Any], where: str) -> Document | None:
        names = self.columns
        pair = row.get(names.text) is None and not {names.text_src, names.text_tgt}.isdisjoint(row)
        texts = [names.text_src, names.text_tgt] if pair else [names.text]
        langs = [names.lang_src, names.lang_tgt] if pair else [names.lang]
        sides = [text_of(row.get(name), name, where) for name in texts]
        if not all(sides):
            self.skipped += 1
            self.first_skipped = self.first_skipped or where
            return None
        lang, *target_lang = [lang_of(row.get(name), name, where, pair) for name in langs]
        domain = lang if lang in _NO_LANGUAGE else _domain(row.get(names.domain), names.domain, where, pair)
        doc_id = row.get(names.doc_id)
        return Document(
            text=sides[0],
            lang=lang,
            doc_id=content_id(sides) if doc_id is None else str(doc_id),
            domain=domain,
            quality=_quality(row.get(names.quality), names.quality, where),
            target=sides[1] if pair else None,
            target_lang=target_lang[0] if pair else None,
        )


_WHOLE, _END = 64 << 20, 4 << 20
"""Bytes up to which a file's whole content is hashed, and bytes of each end beyond."""


def content_hash(file: Path) -> str:
    """A hash of a file's content, or, above 64 MiB, of its size and both ends."""
    size = file.stat().st_size
    if size <= _WHOLE:
        return hash_file(file)
    with open(file, "rb") as content:
        digest = hashlib.sha256(content.read(_END))
        content.seek(size - _END)
        digest.update(content.read(_END))
    return digest.hexdigest()


def content_id(sides: list[str]) -> str:
    """The id of a document that has none: a hash of its text."""
    digest = hashlib.blake2b(digest_size=16)
    for side in sides:
        encoded = side.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()


def text_of(value: Any, column: str, where: str) -> str:
    """The text, or an empty string where there is none worth reading.

    Raises:
        DataError: it is no text.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{where}: {column!r} is of type {type(value).__name__}; it must be text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: {column!r} has half a surrogate pair at character {error.start + 1}; it is no valid text"
        ) from None
    return "" if value.isspace() else value


def is_language(value: str) -> bool:
    """Whether a text has the form of a language code."""
    return _LANG.fullmatch(value) is not None


def lang_of(value: Any, column: str, where: str, pair: bool) -> str:
    """A language code.

    Raises:
        DataError: it is none.
    """
    if isinstance(value, str) and (is_language(value) or (value in _NO_LANGUAGE and not pair)):
        return value
    expected = "a language code such as 'en'" + ("" if pair else ", 'code' or 'math'")
    raise DataError(f"{where}: {column!r} is {value!r}; it must be {expected}")


def _domain(value: Any, column: str, where: str, pair: bool) -> str:
    if pair:
        return "parallel"
    valid = [domain for domain in DOMAINS if domain != "parallel"]
    if value is not None and value not in valid:
        raise DataError(
            f"{where}: {column!r} is {value!r}; it must be {', '.join(valid)}{nearest(value, valid)}"
        )
    return value or "text"


def _quality(value: Any, column: str, where: str) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or value not in range(5):
        raise DataError(f"{where}: {column!r} is {value!r}; it must be 1 to 4, or 0 when never scored")
    return int(value)
