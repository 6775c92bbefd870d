"""Writes one data set of a token store."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from euro_lightning.data.documents import Document
from euro_lightning.data.tokenizer import Tokenizer
from euro_lightning.files import hash_file

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
        self.folder = folder
        self.schema = pa.schema(
            [
                ("tokens", pa.list_(pa.from_numpy_dtype(dtype))),
                ("lang", pa.string()),
                ("domain", pa.string()),
                ("quality", pa.int8()),
                ("doc_id", pa.string()),
            ]
        )
        self.name = "data-00000-of-00001.arrow"
        self.sink = pa.OSFile(str(folder / self.name), "wb")
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
        """Writes what `datasets.load_from_disk` wants to see; returns the counts."""
        from datasets import DatasetInfo, Features

        self._flush()
        self.stream.close()
        self.sink.close()
        info = DatasetInfo(features=Features.from_arrow_schema(self.schema))
        info.write_to_directory(str(self.folder))
        state: dict[str, Any] = {
            "_data_files": [{"filename": self.name}],
            "_fingerprint": hash_file(self.folder / self.name)[:16],
            "_format_columns": None,
            "_format_kwargs": {},
            "_format_type": None,
            "_output_all_columns": False,
            "_split": None,
        }
        (self.folder / "state.json").write_text(json.dumps(state))
        return {"documents": self.documents, "tokens": self.tokens, "characters": self.characters}
