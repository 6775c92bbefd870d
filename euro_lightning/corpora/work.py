"""The working folder of a corpus in the making, beside the store that it will become.

    .NAME.work/
      plan.json                    configuration and shards; another plan starts over
      documents/00000.arrow        what is kept of a shard, and .json: what was read and dropped
      signatures/, pairs/, duplicates/   which documents are dropped as duplicates
      scorers/, scores/, cuts.json       quality
      tokenizer.json
      tokens/00000/SPLIT/SOURCE/   the tokenised documents of a shard
      progress/, failures/, logs/  for the person who waits

Every file is written whole or not at all, so that work goes on wherever it was stopped.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from euro_lightning.corpora.config import CorpusRecipe
from euro_lightning.corpora.reading import Noted
from euro_lightning.corpora.shard import Shard
from euro_lightning.data.documents import Document
from euro_lightning.files import read_json, write_json
from euro_lightning.schema import construct

BATCH = 512
"""Documents held in memory at once."""

_TEXTS = ("text", "lang", "doc_id", "domain", "target", "target_lang", "split", "origin")

_SCHEMA = pa.schema(
    [*((name, pa.string()) for name in _TEXTS), ("quality", pa.int8()), ("score", pa.float64())]
)


@dataclass(frozen=True)
class Work:
    """The working folder; processes of one corpus share it."""

    path: Path

    def write_plan(self, key: str, recipe: CorpusRecipe, shards: list[Shard], facts: dict[str, Any]) -> None:
        """Writes what all processes need to know.

        Args:
            key: equal for plans that lead to the same store.
            recipe: the configuration.
            shards: the pieces of work.
            facts: what identifies the input of each source.
        """
        plan = {"recipe": asdict(recipe), "shards": [asdict(shard) for shard in shards], "facts": facts}
        write_json(self.path / "plan.json", {"key": key, **plan})
        for name in ("plan", "recipe", "shards"):
            self.__dict__.pop(name, None)  # read anew

    @cached_property
    def plan(self) -> dict[str, Any]:
        """The plan as it was written."""
        return dict(read_json(self.path / "plan.json"))

    @cached_property
    def recipe(self) -> CorpusRecipe:
        recipe: CorpusRecipe = construct(CorpusRecipe, self.plan["recipe"])
        return recipe

    @cached_property
    def shards(self) -> list[Shard]:
        return [Shard(**shard) for shard in self.plan["shards"]]

    def documents_file(self, rank: int) -> Path:
        return self.path / "documents" / f"{rank:05d}.arrow"

    def read_facts(self, rank: int) -> dict[str, Any]:
        """What was read and dropped of a shard."""
        return dict(read_json(self.documents_file(rank).with_suffix(".json")))

    @property
    def signatures(self) -> Path:
        return self.path / "signatures"

    @property
    def pairs(self) -> Path:
        return self.path / "pairs"

    def duplicates(self, rank: int) -> NDArray[np.uint32]:
        """Positions of the documents of a shard that are dropped as duplicates, ascending."""
        file = self.path / "duplicates" / f"{rank:05d}.npy"
        return np.load(file) if file.is_file() else np.zeros(0, dtype=np.uint32)

    def scorer_file(self, group: str) -> Path:
        return self.path / "scorers" / f"{group}.safetensors"

    def scores_file(self, rank: int) -> Path:
        return self.path / "scores" / f"{rank:05d}.npz"

    @property
    def cuts_file(self) -> Path:
        return self.path / "cuts.json"

    @property
    def tokenizer_file(self) -> Path:
        return self.path / "tokenizer.json"

    def tokens(self, rank: int) -> Path:
        return self.path / "tokens" / f"{rank:05d}"

    def kept(self, rank: int) -> Iterator[list[Noted]]:
        """The documents of a shard that are no duplicates, in batches."""
        dropped = set(self.duplicates(rank).tolist())
        first = 0
        for batch in read_noted(self.documents_file(rank)):
            yield [noted for place, noted in enumerate(batch, first) if place not in dropped]
            first += len(batch)


class NotedWriter:
    """Writes documents to an Arrow stream, compressed, a batch at a time."""

    def __init__(self, path: Path) -> None:
        self.waiting: list[Noted] = []
        self.sink = pa.OSFile(str(path), "wb")
        self.stream = pa.ipc.new_stream(
            self.sink, _SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")
        )

    def __enter__(self) -> "NotedWriter":
        return self

    def add(self, noted: Noted) -> None:
        self.waiting.append(noted)
        if len(self.waiting) == BATCH:
            self._flush()

    def _flush(self) -> None:
        documents = [noted.document for noted in self.waiting]
        columns = [pa.array([getattr(d, name) for d in documents], pa.string()) for name in _TEXTS]
        columns.append(pa.array([d.quality for d in documents], pa.int8()))
        columns.append(pa.array([noted.score for noted in self.waiting], pa.float64()))
        self.stream.write_batch(pa.record_batch(columns, schema=_SCHEMA))
        self.waiting = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self.waiting:
                self._flush()
            if kind is None:
                self.stream.close()
        finally:
            self.sink.close()


def read_noted(path: Path) -> Iterator[list[Noted]]:
    """The documents that `NotedWriter` wrote, a batch at a time."""
    with pa.OSFile(str(path), "rb") as source, pa.ipc.open_stream(source) as stream:
        for batch in stream:
            columns = [batch.column(name).to_pylist() for name in (*_TEXTS, "quality", "score")]
            yield [
                Noted(
                    Document(
                        text=text, lang=lang, doc_id=doc_id, domain=domain, quality=quality, target=target,
                        target_lang=target_lang, split=split, origin=origin,
                    ),
                    math.nan if score is None else score,
                )
                for text, lang, doc_id, domain, target, target_lang, split, origin, quality, score in zip(
                    *columns, strict=True
                )
            ]  # fmt: skip
