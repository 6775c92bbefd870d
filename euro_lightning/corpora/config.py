"""A corpus as YAML describes it."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from euro_lightning.corpora.duplicates import Duplicates
from euro_lightning.corpora.filters import Filters
from euro_lightning.corpora.quality import Quality
from euro_lightning.data.corpus import EMBEDDED, is_language
from euro_lightning.data.documents import DOMAINS
from euro_lightning.data.tokenizer import TokenizerConfig
from euro_lightning.errors import DataError, nearest
from euro_lightning.files import hash_value

_CODE = 1
"""Raised when the same configuration would give another store."""


@dataclass(frozen=True)
class SourceColumns:
    """Names of the columns of one source; a dot leads into a structure (translation.en)."""

    text: str = "text"
    """The text."""

    lang: str = "lang"
    """ISO 639-1 code of the text; needed where the source declares no lang."""

    doc_id: str = "doc_id"
    """Identifies the document for ever; a hash of the text where there is no such column."""

    text_src: str = "text_src"
    """One side of a parallel pair."""

    text_tgt: str = "text_tgt"
    """The other side."""

    lang_src: str = "lang_src"
    """ISO 639-1 code of `text_src`; needed where the source declares no lang."""

    lang_tgt: str = "lang_tgt"
    """ISO 639-1 code of `text_tgt`; needed where the source declares no target_lang."""


@dataclass(frozen=True)
class Limit:
    """How much of a source is taken at most, spread over its files in proportion to their size."""

    documents: int | None = None
    """Documents that pass the filters; duplicates are dropped afterwards."""

    tokens: int | None = None
    """Tokens; of each file, the document that reaches its part is the last. Reading ends at twelve
    characters for each token."""


@dataclass(frozen=True)
class SourceRecipe:
    """One part of the corpus: where it is read, and what is kept of it."""

    path: str | list[str] | None = None
    """Files, folders or globs of parquet, jsonl and txt (the latter two also .gz and .zst), or
    embedded."""

    hub: str | None = None
    """Name of a data set on the Hugging Face Hub, in place of path; it is streamed."""

    config: str | None = None
    """Configuration of the Hub data set."""

    split: str = "train"
    """Split of the Hub data set."""

    revision: str | None = None
    """Commit, tag or branch of the Hub data set; the commit is recorded in the store."""

    files: str | list[str] | None = None
    """Globs of parquet, jsonl or jsonl.zst files in the Hub repository, in place of config and split."""

    columns: SourceColumns = field(default_factory=SourceColumns)
    """Names of the columns."""

    lang: str | None = None
    """ISO 639-1 code of all documents (of parallel pairs: of the first side)."""

    target_lang: str | None = None
    """ISO 639-1 code of the second side of parallel pairs."""

    domain: Literal["text", "code", "math", "parallel"] = "text"
    """What the documents are. Text goes to the store's source of its language, all else to that of
    its domain."""

    text_per: Literal["file", "paragraph", "line"] = "file"
    """In txt files, what is a document; paragraphs stand between empty lines."""

    filters: Filters = field(default_factory=Filters)
    """Which documents are kept."""

    duplicates: bool = True
    """Whether documents are compared with others; see `duplicates` of the corpus."""

    quality: Quality | None = None
    """Where quality buckets come from; null scores nothing."""

    limit: Limit = field(default_factory=Limit)
    """How much is taken at most."""

    @property
    def embedded(self) -> bool:
        return self.path == EMBEDDED

    @property
    def stored_as(self) -> str | None:
        """The store's source, where it is the same for all documents."""
        return self.lang if self.domain == "text" else self.domain

    def wanted(self) -> set[str]:
        """Every column that is read when it is there."""
        return {*self._required(), self.columns.doc_id}

    def require(self, present: Iterable[str], where: str) -> None:
        """Raises a `DataError` naming the first required column that is not among `present`."""
        names = list(present)
        wanted = self._required()
        if self.columns.doc_id != SourceColumns().doc_id:
            wanted.append(self.columns.doc_id)
        for name in wanted:
            if name not in names and name.split(".")[0] not in names:
                raise DataError(
                    f"{where} has no column {name!r}; it has {', '.join(map(repr, sorted(names))) or 'none'}"
                    f"{nearest(name, names)} (name the columns with the source's columns)"
                )

    def _required(self) -> list[str]:
        columns = self.columns
        if self.domain == "parallel":
            wanted = [columns.text_src, columns.text_tgt]
            wanted += [] if self.lang else [columns.lang_src]
            wanted += [] if self.target_lang else [columns.lang_tgt]
        else:
            wanted = [columns.text]
            wanted += [] if self.lang or self.domain != "text" else [columns.lang]
        if self.quality is not None and self.quality.noted is not None:
            wanted.append(self.quality.noted)
        return wanted

    def problems(self, where: str) -> list[str]:
        """What is wrong with this source, one line each."""
        found = []
        if (self.path is None) == (self.hub is None):
            found.append(f"{where}: give path or hub, one of them")
        if self.hub is None and (self.config or self.revision or self.files):
            found.append(f"{where}: config, revision and files belong to a hub data set")
        if self.files and self.config:
            found.append(f"{where}: files and config exclude each other")
        if self.embedded and (self.lang or self.domain != "text"):
            found.append(
                f"{where}: the embedded corpus knows its languages and domains; leave lang and domain out"
            )
        for key, lang in (("lang", self.lang), ("target_lang", self.target_lang)):
            if lang is not None and not is_language(lang):
                found.append(f"{where}.{key} is {lang!r}: it must be a language code such as 'en'")
        if self.target_lang and self.domain != "parallel":
            found.append(f"{where}.target_lang is for the domain parallel")
        for name in ("documents", "tokens"):
            value = getattr(self.limit, name)
            if value is not None and value < 1:
                found.append(f"{where}.limit.{name} is {value}: it must be at least 1")
        found += self.filters.problems(f"{where}.filters", self.lang if self.domain == "text" else None)
        return found + (self.quality.problems(f"{where}.quality") if self.quality else [])


@dataclass(frozen=True)
class Slurm:
    """How jobs are asked for with --executor slurm."""

    partition: str = ""
    """Partition; required there."""

    time: str = "24:00:00"
    """Time limit of a job."""

    cpus_per_task: int = 1
    """CPUs of a task; more of them are a way to more memory."""

    memory_gb_per_cpu: int = 4
    """Memory of a CPU in GB."""

    qos: str = ""
    """Quality of service."""

    environment: str = ""
    """Shell command that makes python available in a job; by default the folder of the running python
    is put on the path."""

    arguments: dict[str, str] = field(default_factory=dict)
    """Further options of sbatch, such as account: NAME."""


@dataclass(frozen=True)
class CorpusRecipe:
    """A whole corpus: its parts, the tokenizer, and the store that is made of them."""

    sources: dict[str, SourceRecipe]
    """The parts of the corpus, by a name of your choice. Their order decides which of several
    duplicates is kept: the first."""

    store: str = ""
    """Folder of the token store; give it to data.corpus of an experiment."""

    defaults: SourceRecipe = field(default_factory=SourceRecipe)
    """What every source has that does not give the same key itself."""

    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    """The tokenizer to train or to load."""

    validation_share: float = 0.05
    """Share of the documents that validate, chosen by a hash of the document id."""

    test_share: float = 0.05
    """Share of the documents that test, chosen likewise."""

    duplicates: Duplicates = field(default_factory=Duplicates)
    """Which documents count as the same."""

    most_bad: int | None = None
    """Unreadable rows and files above which no store is made; null goes on whatever their number."""

    executor: Literal["local", "slurm", "ray"] = "local"
    """What runs the work: processes of this machine, SLURM jobs, or a Ray cluster."""

    workers: int = 0
    """Tasks that run at the same time; 0 is the number of this machine's cores (local, ray), or no
    limit (slurm)."""

    slurm: Slurm = field(default_factory=Slurm)
    """How SLURM jobs are asked for."""

    @property
    def shares(self) -> tuple[float, float]:
        """Shares of the documents that validate and test."""
        return self.validation_share, self.test_share

    def problems(self) -> list[str]:
        """What is wrong with this corpus, one line each."""
        found = [] if self.store else ["store is missing: name the folder of the token store"]
        if not self.sources:
            found.append("sources is empty: name at least one")
        for name, source in self.sources.items():
            found += source.problems(f"sources.{name}")
        if min(self.shares) < 0 or sum(self.shares) >= 1:
            found.append("validation_share and test_share leave nothing to train on, or are below 0")
        if self.most_bad is not None and self.most_bad < 0:
            found.append(f"most_bad is {self.most_bad}: it must not be below 0")
        if self.workers < 0:
            found.append(f"workers is {self.workers}: it must not be below 0")
        if self.executor == "slurm" and not self.slurm.partition:
            found.append("slurm.partition is missing: SLURM must know where to run")
        found += self.tokenizer.problems("tokenizer.")
        return found + self.duplicates.problems("duplicates")

    def content(self) -> dict[str, Any]:
        """All that decides what is in the store, as plain values."""
        values = dataclasses.asdict(self)
        for name in ("store", "defaults", "most_bad", "executor", "workers", "slurm"):
            del values[name]
        # a mapping's order is lost in a hash, and the order of the sources matters
        return {
            **values,
            "sources": [[name, values["sources"][name]] for name in self.sources],
            "code": _CODE,
        }

    def quality_group(self, name: str, stored_as: str) -> str | None:
        """Documents of a group are scored and cut together: the same source of the store, scored alike."""
        quality = self.sources[name].quality
        if quality is None or quality.classes:
            return None
        if self.sources[name].embedded and stored_as in DOMAINS:
            return None  # one kind of document each: nothing to compare with
        return f"{stored_as}-{hash_value(dataclasses.asdict(quality))[:8]}"
