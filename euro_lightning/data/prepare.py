"""Corpus → token store: tokenise once, train many times.

A store is named by a hash of all that goes into it (corpus content, tokenizer, splits), so
the same configuration finds its store again and another one never gets the wrong store.
"""

import dataclasses
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from euro_lightning.data.corpus import Columns, Corpus, open_corpus
from euro_lightning.data.documents import Document, split_of
from euro_lightning.data.manifest import finish_store
from euro_lightning.data.sampling import sample_texts
from euro_lightning.data.store import MANIFEST, VERSION, TokenStore
from euro_lightning.data.tokenizer import Tokenizer, TokenizerConfig, load_tokenizer, train_tokenizer
from euro_lightning.data.writer import (
    BATCH,
    PartWriter,
    data_file,
    describe_data_set,
    encode_documents,
    schema_of,
    token_dtype,
)
from euro_lightning.errors import DataError, raise_all
from euro_lightning.files import atomic_directory, hash_file, hash_value, locked

_CODE = 2
"""Raised when the same input would give another store."""


@dataclass(frozen=True)
class CorpusConfig:
    """Which text, how it is tokenised and split, and where the result is kept."""

    corpus: str | list[str] = "embedded"
    """"embedded" (text of installed packages); files, directories or globs of parquet, jsonl,
    jsonl.gz and jsonl.zst; or a token store that prepare made of a corpus in YAML."""

    columns: Columns = field(default_factory=Columns)
    """Names of the columns in the corpus files."""

    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    """The tokenizer to train or to load."""

    validation_share: float = 0.05
    """Share of the documents that validate, chosen by a hash of the document id."""

    test_share: float = 0.05
    """Share of the documents that test, chosen likewise."""

    stores: str = "stores"
    """Folder of the token stores and trained tokenizers."""

    def problems(self) -> list[str]:
        """What is wrong with this configuration, one line each."""
        found = []
        for name in ("validation_share", "test_share"):
            if not 0 <= getattr(self, name) < 1:
                found.append(f"data.{name} is {getattr(self, name)}: a share lies between 0 and 1")
        if self.validation_share + self.test_share >= 1:
            found.append("data.validation_share and data.test_share leave nothing to train on")
        return found


def report(line: str) -> None:
    """Tells the user what preparing does; stderr, so that results stay apart."""
    print(line, file=sys.stderr, flush=True)


def prepare(config: CorpusConfig, *, say: Callable[[str], None] = report) -> TokenStore:
    """Makes the token store of a configuration, or finds it; safe when two processes start together.

    Args:
        config: what to prepare.
        say: receives a line of progress now and then.

    Returns:
        The opened store.

    Raises:
        UserError: the corpus, the tokenizer or an existing store cannot be used.
    """
    raise_all(config.problems())
    ready = ready_store(config)
    if ready is not None:
        return ready
    corpus = open_corpus(config.corpus, config.columns)
    stores = Path(config.stores)
    tokenizer_key, key = store_keys(config, corpus)
    path = stores / key
    if not path.is_dir():
        with locked(stores / f".{key}.lock"):
            if not path.is_dir():
                tokenizer = _tokenizer(config, corpus, stores / "tokenizers" / f"{tokenizer_key}.json", say)
                with atomic_directory(path) as folder:
                    build_store(corpus, tokenizer, config, folder, say)
                say(f"token store {path} is ready")
    return TokenStore.open(path)


def ready_store(config: CorpusConfig) -> TokenStore | None:
    """The store that a configuration names as its corpus; None when it names text.

    Raises:
        DataError: the store is damaged, or was made with another tokenizer than the configuration's.
    """
    if not isinstance(config.corpus, str) or not (Path(config.corpus) / MANIFEST).is_file():
        return None
    store = TokenStore.open(Path(config.corpus))
    path = config.tokenizer.path
    if path and load_tokenizer(Path(path)).content_hash != store.tokenizer_hash:
        raise DataError(
            f"the token store {config.corpus} was made with another tokenizer than data.tokenizer.path {path};"
            " leave that key out to use the store's"
        )
    return store


def store_keys(config: CorpusConfig, corpus: Corpus) -> tuple[str, str]:
    """The names of the tokenizer and of the store that a configuration leads to."""
    recipe = dataclasses.asdict(config.tokenizer)
    if config.tokenizer.path:
        recipe = {"content": load_tokenizer(Path(config.tokenizer.path)).content_hash}
    text = [
        corpus.fingerprint(),
        dataclasses.asdict(config.columns),
        config.validation_share,
        config.test_share,
    ]
    tokenizer_key = hash_value([_CODE, recipe, text])[:16]
    return tokenizer_key, hash_value([VERSION, _CODE, tokenizer_key])[:16]


def _tokenizer(config: CorpusConfig, corpus: Corpus, cache: Path, say: Callable[[str], None]) -> Tokenizer:
    if config.tokenizer.path:
        return load_tokenizer(Path(config.tokenizer.path))
    if not cache.is_file():
        say(f"training a tokenizer of {config.tokenizer.vocabulary:,} tokens")
        training = (d for d in corpus.documents() if _split(d, config) == "train")
        tokenizer = train_tokenizer(
            sample_texts(training, config.tokenizer.sample_characters), config.tokenizer
        )
        tokenizer.save(cache)
    return load_tokenizer(cache)


def _split(document: Document, config: CorpusConfig) -> str:
    return split_of(document, config.validation_share, config.test_share)


def _batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    iterator = iter(documents)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def build_store(
    corpus: Corpus, tokenizer: Tokenizer, config: CorpusConfig, folder: Path, say: Callable[[str], None]
) -> None:
    """Writes a whole store into an empty folder."""
    writer = PartWriter(folder, tokenizer, (config.validation_share, config.test_share))
    told = time.monotonic()
    for batch in _batches(corpus.documents()):
        writer.add(batch, encode_documents(batch, tokenizer))
        if time.monotonic() - told > 10:
            told = time.monotonic()
            say(f"tokenised {writer.tokens:,} tokens so far")
    written = writer.close()
    total = writer.tokens
    if not total:
        raise DataError(f"corpus {config.corpus} has no document")
    for line in corpus.warnings():
        say(f"warning: {line}")
    schema = schema_of(token_dtype(tokenizer.vocabulary))
    for split, source in written.data:
        place = folder / split / source
        describe_data_set(place, [data_file(0, 1)], hash_file(place / data_file(0, 1)), schema)
    sources: dict[str, Any] = {
        source: {"kind": kind, "splits": {s: n for (s, name), n in written.data.items() if name == source}}
        for source, kind in sorted(written.kinds.items())
    }
    finish_store(folder, tokenizer, written.counts, sources, {"corpus": corpus.fingerprint()})
    documents = sum(counts["documents"] for counts in written.data.values())
    say(f"tokenised {documents:,} documents, {total:,} tokens")
