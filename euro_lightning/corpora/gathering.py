"""First stages: shards are read and filtered, duplicates found."""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from euro_lightning.corpora.config import SourceRecipe
from euro_lightning.corpora.duplicates import duplicates_of, write_pairs, write_signatures
from euro_lightning.corpora.filters import FilterChain
from euro_lightning.corpora.progress import Tick
from euro_lightning.corpora.reading import Noted, read_documents
from euro_lightning.corpora.shard import Shard
from euro_lightning.corpora.work import NotedWriter, Work, read_noted
from euro_lightning.errors import DataError
from euro_lightning.files import atomic_path, write_json

CHARACTERS_PER_TOKEN = 12
"""More than any tokenizer puts into a token on average; reading a limited source ends there."""

_LISTED = 1000
"""Bad rows of a shard that are listed; all are counted."""


@dataclass
class ShardFacts:
    """What became of the rows of a shard."""

    read: int = 0
    """Documents read."""
    parts: int = 0
    """Paragraphs that documents were cut into, less those documents."""
    dropped: dict[str, int] = field(default_factory=Counter)
    """Documents dropped, by reason."""
    kept: dict[str, int] = field(default_factory=Counter)
    """Documents kept, by source of the store."""
    bad_rows: int = 0
    """Rows that could not be read."""
    bad_files: int = 0
    """1 where the rest of the shard could not be read."""
    bad: list[str] = field(default_factory=list)
    """What was wrong with them."""

    def bad_row(self, line: str) -> None:
        """Counts a row that cannot be used."""
        self.bad_rows += 1
        if len(self.bad) < _LISTED:
            self.bad.append(line)

    def bad_file(self, line: str) -> None:
        """Counts a shard whose rest cannot be read."""
        self.bad_files += 1
        self.bad.append(line)


def read(work: Work, rank: int, tick: Tick) -> None:
    """Reads and filters a shard, and writes the signatures of what is kept."""
    shard = work.shards[rank]
    source = work.recipe.sources[shard.source]
    facts = ShardFacts()
    chain = FilterChain(source.filters, f"sources.{shard.source}.filters", work.recipe.shares)
    with atomic_path(work.documents_file(rank)) as temporary, NotedWriter(temporary) as out:
        for noted in _limited(_kept(shard, source, chain, facts, tick), shard):
            facts.kept[noted.document.source] += 1
            out.add(noted)
    write_json(work.documents_file(rank).with_suffix(".json"), vars(facts))
    if work.recipe.duplicates.kind != "none" and source.duplicates:
        _sign(work, rank)


def _kept(
    shard: Shard, source: SourceRecipe, chain: FilterChain, facts: ShardFacts, tick: Tick
) -> Iterator[Noted]:
    """The documents that pass the filters; counts the others."""
    for noted in _careful(read_documents(shard.source, source, shard, facts.bad_row), facts):
        facts.read += 1
        if noted is None:
            facts.dropped["empty"] += 1
            continue
        size = len(noted.document.text.encode()) + len((noted.document.target or "").encode())
        tick(1, size, share=(tick.amounts.bytes + size) / shard.size)
        facts.parts -= 1
        for document, reason in chain(noted.document):
            facts.parts += 1
            if reason is None:
                yield Noted(document, noted.score)
            else:
                facts.dropped[reason] += 1


def _careful(documents: Iterator[Noted | None], facts: ShardFacts) -> Iterator[Noted | None]:
    """The documents up to where a file breaks."""
    try:
        yield from documents
    except DataError as error:
        facts.bad_file(str(error))


def _limited(documents: Iterator[Noted], shard: Shard) -> Iterator[Noted]:
    """The first documents, up to the shard's part of the limits."""
    if 0 in (shard.documents, shard.tokens):
        return
    characters = 0
    for count, noted in enumerate(documents, 1):
        yield noted
        characters += len(noted.document.text) + len(noted.document.target or "")
        if shard.documents is not None and count >= shard.documents:
            return
        if shard.tokens is not None and characters >= shard.tokens * CHARACTERS_PER_TOKEN:
            return


def _sign(work: Work, rank: int) -> None:
    texts = (
        (work.shards[rank].source, noted.document.whole)
        for batch in read_noted(work.documents_file(rank))
        for noted in batch
    )
    with _moved_into(work.signatures) as folder:
        write_signatures(texts, work.recipe.duplicates, folder, rank)


class _moved_into:
    """A temporary folder whose files take their place in another when all are written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.temporary = Path(tempfile.mkdtemp(prefix=f".{self.folder.name}.", dir=self.folder.parent))
        return self.temporary

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            for file in sorted(self.temporary.rglob("*")):
                place = self.folder / file.relative_to(self.temporary)
                if file.is_dir():
                    place.mkdir(exist_ok=True)
                else:
                    os.replace(file, place)
        shutil.rmtree(self.temporary, ignore_errors=True)


def pairs(work: Work, rank: int, tick: Tick) -> None:
    """Finds the pairs of documents that agree in one band of their signatures."""
    with _moved_into(work.pairs) as folder:
        write_pairs(work.recipe.duplicates, work.signatures, folder, rank)


def duplicates(work: Work, rank: int, tick: Tick) -> None:
    """Decides which documents are dropped as duplicates."""
    with _moved_into(work.path / "duplicates") as folder:
        for shard, places in duplicates_of(work.pairs).items():
            np.save(folder / f"{shard:05d}.npy", places)
