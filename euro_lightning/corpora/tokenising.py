"""Late stages: the tokenizer is trained or taken, and every shard tokenised."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from euro_lightning.corpora.progress import Tick
from euro_lightning.corpora.quality import buckets
from euro_lightning.corpora.work import Work
from euro_lightning.data.documents import Document, split_of
from euro_lightning.data.sampling import sample_texts
from euro_lightning.data.tokenizer import load_tokenizer, train_tokenizer
from euro_lightning.data.writer import PartWriter, data_file, encode_documents
from euro_lightning.files import atomic_directory, hash_file, write_json

FACTS = "facts.json"
COUNTS = "counts.npz"


def tokenizer(work: Work, rank: int, tick: Tick) -> None:
    """Trains the tokenizer on the training split, or takes the one that the configuration names."""
    settings = work.recipe.tokenizer
    if settings.path:
        load_tokenizer(Path(settings.path)).save(work.tokenizer_file)
        return
    texts = sample_texts(_training(work, tick), settings.sample_characters)
    train_tokenizer(texts, settings).save(work.tokenizer_file)


def _training(work: Work, tick: Tick) -> Iterator[Document]:
    for rank in range(len(work.shards)):
        for batch in work.kept(rank):
            tick(len(batch), share=rank / len(work.shards))
            yield from (n.document for n in batch if split_of(n.document, *work.recipe.shares) == "train")


def tokenise(work: Work, rank: int, tick: Tick) -> None:
    """Tokenises a shard: one data set for each split and source of the store, counts, and facts."""
    if work.tokens(rank).is_dir():
        return
    loaded = load_tokenizer(work.tokenizer_file)
    total = sum(work.read_facts(rank)["kept"].values())
    with atomic_directory(work.tokens(rank)) as folder:
        writer = PartWriter(folder, loaded, work.recipe.shares)
        for batch in _with_buckets(work, rank):
            tokens = encode_documents(batch, loaded)
            fitting = _fitting(tokens, work.shards[rank].tokens, writer.tokens)
            writer.add(batch[:fitting], tokens[:fitting])
            size = sum(len(d.text.encode()) + len((d.target or "").encode()) for d in batch)
            share = (tick.amounts.documents + len(batch)) / max(total, 1)
            tick(len(batch), size, sum(map(len, tokens[:fitting])), share)
            if writer.tokens >= (work.shards[rank].tokens or math.inf):
                break
        written = writer.close()
        facts = {}
        for (split, source), found in written.data.items():
            file = folder / split / source / data_file(0, 1)
            facts[f"{split}/{source}"] = {**found, "sha256": hash_file(file)}
        with open(folder / COUNTS, "wb") as file_of_counts:
            np.savez(file_of_counts, **written.counts)  # type: ignore[arg-type]
        kinds, unknown, quality = written.kinds, written.unknown, written.quality
        write_json(folder / FACTS, {"data": facts, "kinds": kinds, "unknown": unknown, "quality": quality})


def _fitting(tokens: list[np.ndarray[Any, Any]], limit: int | None, before: int) -> int:
    """How many of some documents are taken until a limit of tokens is reached."""
    if limit is None:
        return len(tokens)
    reached = before + np.cumsum([len(ids) for ids in tokens], dtype=np.int64) >= limit
    return int(np.argmax(reached)) + 1 if reached.any() else len(tokens)


def _with_buckets(work: Work, rank: int) -> Iterator[list[Document]]:
    """The documents of a shard with their quality buckets."""
    if not work.scores_file(rank).is_file():
        yield from ([noted.document for noted in batch] for batch in work.kept(rank))
        return
    cuts = json.loads(work.cuts_file.read_text())
    with np.load(work.scores_file(rank)) as file:
        scores, members = file["scores"], file["groups"]
    found = np.zeros(len(scores), dtype=np.int8)
    for place, facts in enumerate(cuts.values()):
        if "cuts" in facts:
            found[members == place] = buckets(scores[members == place], facts["cuts"])
    first = 0
    for batch in work.kept(rank):
        values = found[first : first + len(batch)].tolist()
        yield [
            replace(noted.document, quality=value) if value else noted.document
            for noted, value in zip(batch, values, strict=True)
        ]
        first += len(batch)
