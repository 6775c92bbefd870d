"""How a corpus is cut into shards: the pieces of work that processes take.

The shards depend on the configuration and the files alone, never on the number of processes, and
so does all that is made of them.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from euro_lightning.corpora.config import CorpusRecipe, Limit, SourceRecipe
from euro_lightning.corpora.hub import hub_shards
from euro_lightning.corpora.shard import Shard
from euro_lightning.data.corpus import content_hash, find_files
from euro_lightning.data.embedded import embedded_fingerprint
from euro_lightning.data.rows import ENDINGS
from euro_lightning.errors import DataError

TEXT_ENDINGS = (".txt", ".txt.gz", ".txt.zst")

_SHARD = 64 << 20
"""Bytes of a parquet file, before compression, that make a shard."""


def file_facts(recipe: CorpusRecipe) -> dict[str, Any]:
    """What identifies the content of each source that lies on this machine.

    Raises:
        DataError: something is not found, or is no corpus file.
    """
    facts: dict[str, Any] = {}
    for name, source in recipe.sources.items():
        if source.embedded:
            facts[name] = embedded_fingerprint()
        elif not source.hub:
            facts[name] = [
                [file.name, file.stat().st_size, content_hash(file)] for file in _files(name, source)
            ]
    return facts


def find_shards(recipe: CorpusRecipe) -> tuple[list[Shard], dict[str, Any]]:
    """The shards of a corpus, in the order of its sources and files, and the commits of Hub data sets.

    Raises:
        DataError: something is not found, is no corpus file, or lacks a column.
    """
    shards: list[Shard] = []
    commits: dict[str, Any] = {}
    for name, source in recipe.sources.items():
        if source.embedded:
            found = [Shard(name, 1)]
        elif source.hub:
            found, commits[name] = hub_shards(name, source)
        else:
            found = [shard for file in _files(name, source) for shard in _file_shards(name, source, file)]
        shards += _limited(found, source.limit)
    return shards, commits


def _files(name: str, source: SourceRecipe) -> list[Path]:
    places = [source.path] if isinstance(source.path, str) else list(source.path or ())
    if not places:
        raise DataError(f"sources.{name}.path is empty")
    found = {
        file for place in places for file in find_files(place, f"sources.{name}.path", ENDINGS + TEXT_ENDINGS)
    }
    return sorted(found, key=lambda file: file.as_posix())


def _file_shards(name: str, source: SourceRecipe, file: Path) -> Iterator[Shard]:
    size = file.stat().st_size
    if file.suffix != ".parquet":
        if file.name.endswith(TEXT_ENDINGS) and (source.lang is None and source.domain == "text"):
            raise DataError(f"sources.{name}: {file} has no language of its own; give the source lang")
        yield Shard(name, size, str(file))
        return
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        with parquet.ParquetFile(file) as opened:
            names = opened.schema_arrow.names
            sizes = [opened.metadata.row_group(i).total_byte_size for i in range(opened.num_row_groups)]
    except (pa.ArrowException, OSError):
        yield Shard(name, size, str(file))  # reading it will tell what is wrong
        return
    source.require(names, str(file))
    first = 0
    for group in range(len(sizes)):
        if sum(sizes[first : group + 1]) >= _SHARD or group == len(sizes) - 1:
            yield Shard(name, sum(sizes[first : group + 1]), str(file), first, group + 1)
            first = group + 1


def _limited(shards: list[Shard], limit: Limit) -> list[Shard]:
    sizes = [shard.size for shard in shards]
    documents, tokens = spread(limit.documents, sizes), spread(limit.tokens, sizes)
    return [
        Shard(**{**asdict(shard), "documents": d, "tokens": t})
        for shard, d, t in zip(shards, documents, tokens, strict=True)
    ]


def spread(limit: int | None, sizes: list[int]) -> list[int | None]:
    """A limit in whole parts in proportion to sizes; they sum to the limit exactly."""
    if limit is None:
        return [None] * len(sizes)
    total, given, seen = max(sum(sizes), 1), 0, 0
    parts: list[int | None] = []
    for size in sizes:
        seen += size
        until = limit * seen // total
        parts.append(until - given)
        given = until
    return parts
