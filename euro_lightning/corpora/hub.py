"""Data sets of the Hugging Face Hub, streamed: nothing is downloaded whole."""

from collections.abc import Iterator
from typing import Any

from euro_lightning.corpora.config import SourceRecipe
from euro_lightning.corpora.shard import Shard
from euro_lightning.data.lines import one_line
from euro_lightning.errors import DataError, UserError

_BUILDERS = {".parquet": "parquet", ".jsonl": "json", ".gz": "json", ".zst": "json", ".json": "json"}

_NETWORK = ("httpx", "httpcore", "requests", "urllib3", "aiohttp", "huggingface_hub")
"""Packages whose errors are of the network."""


def hub_shards(name: str, source: SourceRecipe) -> tuple[list[Shard], dict[str, Any]]:
    """The shards of a Hub data set, one for each of its files, pinned to the commit of now.

    Raises:
        DataError: there is no such data set, configuration or split, or it lacks a column.
    """
    commit, stream = pinned(f"sources.{name}", source)
    parts = int(stream.num_shards)
    if stream.features:
        source.require(stream.features, f"{source.hub}")
    shards = [Shard(name, 1, commit, number=number, parts=parts) for number in range(parts)]
    return shards, {"hub": source.hub, "commit": commit}


def pinned(key: str, source: SourceRecipe) -> tuple[str, Any]:
    """The commit of now of a Hub data set, and its rows at that commit.

    Args:
        key: where the data set is named, for messages.
        source: what is read of it.

    Raises:
        DataError: there is no such data set, configuration or split.
    """
    from huggingface_hub import HfApi

    try:
        commit = str(HfApi().dataset_info(source.hub or "", revision=source.revision).sha)
        return commit, open_stream(source, commit)
    except Exception as error:
        raise DataError(f"{key}: {source.hub} cannot be read from the Hub: {one_line(error)}") from None


def open_stream(source: SourceRecipe, commit: str) -> Any:
    """The rows of a Hub data set at a commit, without its code: only data files are read."""
    from datasets import load_dataset

    if source.files:
        globs = [source.files] if isinstance(source.files, str) else list(source.files)
        builder = _BUILDERS.get("." + globs[0].rsplit(".", 1)[-1], "json")
        files = [f"hf://datasets/{source.hub}@{commit}/{pattern}" for pattern in globs]
        return load_dataset(builder, data_files={"train": files}, split="train", streaming=True)
    return load_dataset(source.hub, source.config, split=source.split, revision=commit, streaming=True)


def hub_rows(source: SourceRecipe, shard: Shard) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row of a shard with its place.

    Raises:
        UserError: the connection fails, which says nothing of the data: the task is to be done again.
        DataError: the data is damaged.
    """
    assert shard.file is not None
    number = 0
    try:
        stream = open_stream(source, shard.file)
        if shard.parts > 1:
            stream = stream.shard(shard.parts, shard.number)
        for row in stream:
            number += 1
            yield f"{source.hub}, part {shard.number}, row {number}", row
    except Exception as error:
        where = f"{source.hub}, part {shard.number}, fails after row {number}: {one_line(error)}"
        if isinstance(error, OSError) or type(error).__module__.split(".")[0] in _NETWORK:
            raise UserError(f"{where}; the same command goes on from here") from None
        raise DataError(where) from None
