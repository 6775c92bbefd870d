"""Writes the data sets of a token store, or of a part of one."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from euro_lightning.data.documents import Document, split_of
from euro_lightning.data.tokenizer import Tokenizer
from euro_lightning.errors import DataError

BATCH = 512
"""Rows in a record batch."""


def encode_documents(documents: list[Document], tokenizer: Tokenizer) -> list[np.ndarray[Any, Any]]:
    """The tokens of documents: text and end of text; or source, separator, target, end of text."""
    dtype = token_dtype(tokenizer.vocabulary)
    texts = tokenizer.encode_batch([d.text for d in documents])
    pairs = [i for i, d in enumerate(documents) if d.target is not None]
    for i, target in zip(
        pairs, tokenizer.encode_batch([documents[i].target or "" for i in pairs]), strict=True
    ):
        texts[i] = [*texts[i], tokenizer.parallel_sep, *target]
    return [np.asarray([*ids, tokenizer.eos], dtype=dtype) for ids in texts]


def token_dtype(vocabulary: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that holds every id."""
    return np.uint16 if vocabulary <= 1 << 16 else np.uint32


class SourceWriter:
    """One data set of the store: Arrow record batches of a fixed number of documents."""

    def __init__(self, folder: Path, dtype: type[np.unsignedinteger[Any]]) -> None:
        folder.mkdir(parents=True)
        self.path = folder / data_file(0, 1)
        self.schema = schema_of(dtype)
        self.sink = pa.OSFile(str(self.path), "wb")
        self.stream = pa.ipc.new_stream(self.sink, self.schema)
        self.rows: list[tuple[np.ndarray[Any, Any], Document]] = []
        self.documents = self.tokens = self.characters = 0

    def add(self, tokens: np.ndarray[Any, Any], document: Document) -> None:
        self.rows.append((tokens, document))
        self.documents += 1
        self.tokens += len(tokens)
        self.characters += len(document.text) + len(document.target or "")
        if len(self.rows) == BATCH:
            self._flush()

    def _flush(self) -> None:
        if self.rows:
            offsets = np.zeros(len(self.rows) + 1, dtype=np.int32)
            np.cumsum([len(tokens) for tokens, _ in self.rows], out=offsets[1:])
            values = pa.array(np.concatenate([tokens for tokens, _ in self.rows]))
            columns = [pa.ListArray.from_arrays(offsets, values)]
            documents = [document for _, document in self.rows]
            columns += [pa.array([getattr(d, name) for d in documents]) for name in ("lang", "domain")]
            columns += [
                pa.array([d.quality for d in documents], pa.int8()),
                pa.array([d.doc_id for d in documents]),
            ]
            self.stream.write_batch(pa.record_batch(columns, schema=self.schema))
            self.rows = []

    def close(self) -> dict[str, int]:
        """Ends the file; returns the counts."""
        self._flush()
        self.stream.close()
        self.sink.close()
        return {"documents": self.documents, "tokens": self.tokens, "characters": self.characters}


@dataclass(frozen=True)
class Written:
    """What a `PartWriter` wrote."""

    data: dict[tuple[str, str], dict[str, int]]
    """Documents, tokens and characters by split and source."""
    counts: dict[str, np.ndarray[Any, Any]]
    """How often each token occurs in the training split, int64 [vocabulary] by source."""
    unknown: dict[str, int]
    """Unknown tokens by source."""
    quality: dict[str, list[int]]
    """Documents in each quality bucket, 0 (not scored) to 4, by source."""
    kinds: dict[str, str]
    """parallel or text, by source."""


class PartWriter:
    """Tokenised documents, each into the data set of its split and source."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, shares: tuple[float, float]) -> None:
        """
        Args:
            folder: where SPLIT/SOURCE/ folders are made.
            tokenizer: what the documents are tokenised with.
            shares: of the documents that validate and test.
        """
        self.folder, self.tokenizer, self.shares = folder, tokenizer, shares
        self.writers: dict[tuple[str, str], SourceWriter] = {}
        self.written = Written({}, {}, {}, {}, {})

    @property
    def tokens(self) -> int:
        return sum(writer.tokens for writer in self.writers.values())

    def add(self, documents: Sequence[Document], tokens: Sequence[np.ndarray[Any, Any]]) -> None:
        """Writes documents with their tokens.

        Raises:
            DataError: a source would hold both parallel pairs and plain text.
        """
        by_source: dict[str, list[np.ndarray[Any, Any]]] = {}
        trained: dict[str, list[np.ndarray[Any, Any]]] = {}
        for document, ids in zip(documents, tokens, strict=True):
            split, source = split_of(document, *self.shares), document.source
            kind = "parallel" if document.target is not None else "text"
            if self.written.kinds.setdefault(source, kind) != kind:
                raise DataError(
                    f"source {source!r} mixes parallel pairs and plain text; give one of them another domain"
                )
            if (split, source) not in self.writers:
                self.writers[split, source] = SourceWriter(
                    self.folder / split / source, token_dtype(self.tokenizer.vocabulary)
                )
            self.writers[split, source].add(ids, document)
            by_source.setdefault(source, []).append(ids)
            self.written.quality.setdefault(source, [0] * 5)[document.quality] += 1
            if split == "train":
                trained.setdefault(source, []).append(ids)
        size, unknown = self.tokenizer.vocabulary, self.tokenizer.unknown
        for source, parts in by_source.items():
            counts = self.written.counts.setdefault(source, np.zeros(size, dtype=np.int64))
            if source in trained:
                counts += np.bincount(np.concatenate(trained[source]), minlength=size)
            found = 0 if unknown is None else int(np.count_nonzero(np.concatenate(parts) == unknown))
            self.written.unknown[source] = self.written.unknown.get(source, 0) + found

    def close(self) -> Written:
        """Ends all files."""
        for place, writer in sorted(self.writers.items()):
            self.written.data[place] = writer.close()
        return self.written


def data_file(number: int, files: int) -> str:
    """Name of one of the files of a data set, as datasets names them."""
    return f"data-{number:05d}-of-{files:05d}.arrow"


def schema_of(dtype: type[np.unsignedinteger[Any]]) -> pa.Schema:
    """The columns of a data set of the store."""
    return pa.schema(
        [
            ("tokens", pa.list_(pa.from_numpy_dtype(dtype))),
            ("lang", pa.string()),
            ("domain", pa.string()),
            ("quality", pa.int8()),
            ("doc_id", pa.string()),
        ]
    )


def describe_data_set(folder: Path, files: Sequence[str], fingerprint: str, schema: pa.Schema) -> None:
    """Writes what `datasets.load_from_disk` wants to see beside the files."""
    from datasets import DatasetInfo, Features

    DatasetInfo(features=Features.from_arrow_schema(schema)).write_to_directory(str(folder))
    state: dict[str, Any] = {
        "_data_files": [{"filename": file} for file in files],
        "_fingerprint": fingerprint[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    (folder / "state.json").write_text(json.dumps(state))
