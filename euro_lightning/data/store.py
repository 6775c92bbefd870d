"""The token store: a tokenised corpus on disk, read without copying.

    store/
      manifest.json              counts, tokenizer hash, size and checksum of every file
      tokenizer.json
      counts.safetensors         how often each token occurs in the training split, per source
      train/en/                  one data set per split and source, for `datasets.load_from_disk`
        data-00000-of-00001.arrow, dataset_info.json, state.json

Sizes are checked whenever a store is opened; contents by `verify`, because hashing terabytes
at every start is not an option.
"""

import bisect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from euro_lightning.errors import DataError, UserError, nearest
from euro_lightning.files import hash_file, read_json

VERSION = 1
MANIFEST = "manifest.json"
COUNTS = "counts.safetensors"
TOKENIZER = "tokenizer.json"


class Documents:
    """The tokenised documents of one source in one split, memory-mapped."""

    def __init__(self, files: list[Path], separator: int | None = None) -> None:
        """Args:
        files: Arrow stream files, in order.
        separator: for parallel text, the token between the two sides; None for other text.
        """
        self.files = files
        self.separator = separator

    def __getstate__(self) -> dict[str, Any]:
        return {"files": self.files, "separator": self.separator}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @cached_property
    def table(self) -> pa.Table:
        """All columns (tokens, lang, domain, quality, doc_id), memory-mapped."""
        tables = []
        for file in self.files:
            try:
                tables.append(pa.ipc.open_stream(pa.memory_map(str(file))).read_all())
            except (pa.ArrowInvalid, OSError) as error:
                raise DataError(f"{file} cannot be read as Arrow ({error}); run prepare again") from None
        return pa.concat_tables(tables)

    @cached_property
    def _chunks(self) -> list[tuple[NDArray[Any], NDArray[np.int32]]]:
        chunks = self.table.column("tokens").chunks
        return [(c.values.to_numpy(zero_copy_only=True), c.offsets.to_numpy()) for c in chunks if len(c)]

    @cached_property
    def _firsts(self) -> list[int]:
        return [0, *np.cumsum([len(offsets) - 1 for _, offsets in self._chunks]).tolist()]

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def lengths(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tokens in each of the given documents, int64 [N]."""
        chunk_of = np.searchsorted(self._firsts, documents, side="right") - 1
        result = np.empty(len(documents), dtype=np.int64)
        for chunk in np.unique(chunk_of):
            here = chunk_of == chunk
            rows = documents[here] - self._firsts[chunk]
            offsets = self._chunks[chunk][1]
            result[here] = offsets[rows + 1] - offsets[rows]
        return result

    def tokens(self, document: int, start: int = 0, length: int | None = None) -> NDArray[Any]:
        """A slice of a document's tokens, without copying; uint16 or uint32 [length]."""
        chunk = bisect.bisect_right(self._firsts, document) - 1
        values, offsets = self._chunks[chunk]
        row = document - self._firsts[chunk]
        first, end = int(offsets[row]), int(offsets[row + 1])
        return values[first + start : end if length is None else first + start + length]

    def swapped(self, document: int) -> NDArray[Any]:
        """A parallel pair in the other direction: target, separator, source, end of text."""
        tokens = self.tokens(document)
        middle = int(np.argmax(tokens == self.separator))
        return np.concatenate(
            [tokens[middle + 1 : -1], tokens[middle : middle + 1], tokens[:middle], tokens[-1:]]
        )

    @cached_property
    def quality(self) -> NDArray[np.int8]:
        """The quality bucket of each document, 0 when it was never scored."""
        return np.asarray(self.table.column("quality").to_numpy(), dtype=np.int8)


@dataclass(frozen=True)
class TokenStore:
    """An opened store. Use `TokenStore.open`."""

    path: Path
    manifest: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path) -> "TokenStore":
        """Opens a store and checks its version and the size of every file.

        Raises:
            DataError: no store, of another version, or a file that is missing or has another size.
        """
        if not (path / MANIFEST).is_file():
            raise DataError(f"{path} is not a token store: it has no {MANIFEST}; make one with prepare")
        try:
            manifest = read_json(path / MANIFEST)
            files = dict(manifest["files"])
            version = manifest["version"]
        except (KeyError, TypeError, ValueError, UserError) as error:
            raise DataError(
                f"{path / MANIFEST} is damaged ({error}); delete the store and prepare it again"
            ) from None
        if version != VERSION:
            raise DataError(
                f"{path} has store version {version}, this program reads {VERSION}; prepare it again"
            )
        for name, facts in files.items():
            file = path / name
            size = file.stat().st_size if file.is_file() else None
            if size != facts["bytes"]:
                found = "is missing" if size is None else f"has {size:,} bytes instead of {facts['bytes']:,}"
                raise DataError(f"token store {path}: {name} {found}; delete the store and prepare it again")
        return cls(path, manifest)

    def verify(self) -> int:
        """Compares every file with its checksum; returns how many were compared."""
        for name, facts in self.manifest["files"].items():
            if hash_file(self.path / name) != facts["sha256"]:
                raise DataError(
                    f"token store {self.path}: the content of {name} was altered; delete the store and prepare it again"
                )
        return len(self.manifest["files"])

    @property
    def sources(self) -> dict[str, dict[str, Any]]:
        """Facts per source: kind, and per split documents, tokens, characters."""
        return dict(self.manifest["sources"])

    @property
    def training_tokens(self) -> dict[str, int]:
        """Tokens of each source in the training split."""
        return {
            name: int(facts["splits"].get("train", {}).get("tokens", 0))
            for name, facts in self.sources.items()
        }

    @property
    def tokenizer_hash(self) -> str:
        return str(self.manifest["tokenizer_hash"])

    def documents(self, source: str, split: str) -> Documents:
        """The documents of a source in a split.

        Raises:
            DataError: the store has no such source, or the source has nothing in that split.
        """
        if source not in self.sources:
            known = ", ".join(self.sources)
            raise DataError(
                f"token store {self.path} has no source {source!r} (it has {known}){nearest(source, self.sources)}"
            )
        if not self.sources[source]["splits"].get(split, {}).get("documents"):
            raise DataError(f"source {source!r} has no document in the {split} split of {self.path}")
        folder = self.path / split / source
        names = [
            entry["filename"] for entry in json.loads((folder / "state.json").read_text())["_data_files"]
        ]
        separator = (
            self.manifest["parallel_separator"] if self.sources[source]["kind"] == "parallel" else None
        )
        return Documents([folder / name for name in names], separator)

    def token_counts(self) -> dict[str, NDArray[np.int64]]:
        """How often each token occurs in the training split, int64 [vocabulary] per source."""
        from safetensors.numpy import load_file

        return dict(load_file(self.path / COUNTS))
