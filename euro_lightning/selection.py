"""Which documents of a corpus a command reads that needs no token store."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from euro_lightning.data.corpus import Columns, open_corpus
from euro_lightning.data.documents import Document, split_of
from euro_lightning.errors import DataError
from euro_lightning.schema import check


@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """Which text."""

    corpus: str | list[str]
    """Files, directories or globs of parquet, jsonl, jsonl.gz and jsonl.zst, or "embedded"."""

    columns: dict[str, str] | None = None
    """Names of the columns where they differ from the usual ones, as '{text: content}'."""

    languages: str | None = None
    """Sources to take, with commas between them: languages, code, math, parallel; by default all."""

    validation_share: float = 0.05
    """Share of the documents that validate; as in the experiments that use the tokenizer."""

    test_share: float = 0.05
    """Share of the documents that test, likewise."""


def selection_problems(options: CorpusOptions, command: str) -> list[str]:
    """What is wrong with the options, one line each."""
    shares = {name: getattr(options, name) for name in ("validation_share", "test_share")}
    problems = [
        f"{command}: --{name} is {share}: a share lies between 0 and 1"
        for name, share in shares.items()
        if not 0 <= share < 1
    ]
    if not problems and sum(shares.values()) >= 1:
        problems.append(f"{command}: --validation_share and --test_share leave nothing to train on")
    return problems + check(dict(options.columns or {}), Columns, f"{command}: --columns")


def selected(options: CorpusOptions, split: str) -> Iterator[Document]:
    """The documents of a split ("all" for any), of the sources asked for.

    Raises:
        DataError: a source asked for has no document there, or there is none at all.
    """
    corpus = open_corpus(options.corpus, Columns(**options.columns or {}))
    wanted = [name.strip() for name in (options.languages or "").split(",") if name.strip()]
    there: set[str] = set()
    for document in corpus.documents():
        if split in ("all", split_of(document, options.validation_share, options.test_share)):
            there.add(document.source)
            if not wanted or document.source in wanted:
                yield document
    where = "the corpus" if split == "all" else f"the {split} split of the corpus"
    for name in wanted:
        if name not in there:
            raise DataError(
                f"{where} has no document of {name!r}; it has {', '.join(sorted(there)) or 'none'}"
            )
    if not there:
        raise DataError(f"{where} has no document")
    for line in corpus.warnings():
        print(f"warning: {line}", file=sys.stderr)
