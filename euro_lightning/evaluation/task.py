"""A task as YAML describes it: what is judged, on which data, by which metric."""

import dataclasses
import string
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from euro_lightning.errors import ConfigError, nearest
from euro_lightning.evaluation.entities import bio_labels
from euro_lightning.evaluation.metrics import LOWER_IS_BETTER, METRICS
from euro_lightning.evaluation.table import ALL, SPLITS, Table
from euro_lightning.schema import check_tree, construct, fields_of
from euro_lightning.settings import read_file

Split = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class Task:
    """Something that an encoder is judged by."""

    family: Literal["classification", "regression", "token_classification", "retrieval"]
    """What is predicted: a label or a score for a text or pair, a label for each word, or which
    documents answer a query."""

    metric: str
    """The main metric: settings are chosen by it on the validation split, and tables show it."""

    data: Table
    """The rows; of retrieval the queries, or pairs of a query and a document that answers it."""

    name: str = ""
    """What tables call the task; the name of its file without ending where empty."""

    documents: Table | None = None
    """Of retrieval: what is searched. Without it, the documents of the split's pairs are."""

    judgements: Table | None = None
    """Of retrieval: which documents are relevant to which queries. Queries without any are left out."""

    training: Table | None = None
    """Of retrieval: pairs to learn from, where they are a data set of their own."""

    labels: list[str] = field(default_factory=list)
    """Labels of texts or words, in the order of their numbers where the data has numbers."""

    entities: list[str] = field(default_factory=list)
    """In place of labels: types of entities. The labels are then O, and B- and I- of each type in order."""

    languages: list[str] = field(default_factory=list)
    """Languages that are read, `training` excepted; empty reads all there are."""

    train_languages: list[str] = field(default_factory=list)
    """Languages of the train and validation splits, where they are not those of the test split:
    learn in one, be judged in others."""

    template: str | None = None
    """Writes several texts as one, {0} and {1} standing for them; null gives the encoder a pair."""

    query_prefix: str = ""
    """Stands before each query."""

    document_prefix: str = ""
    """Stands before each document."""

    across_languages: bool = False
    """Of retrieval: search the documents of all languages. What is judged of a document holds for its
    translations too: those whose ids differ from its id in the language only."""

    positives_only: bool = False
    """Of retrieval: search only documents that answer some query of the split, as EuroBERT's
    evaluation does. Much easier: not comparable with scores on all documents."""

    cut: dict[str, dict[str, float]] = field(default_factory=dict)
    """Splits that are made of others: a split of the data (or all) to shares of train, validation and
    test. Rows are dealt by a hash of their ids without the language, so that translations of one
    another stay together."""

    balanced: bool = False
    """Of classification: training rows of frequent labels are left out until all are as frequent as the
    rarest."""

    max_length: int = 512
    """Tokens of the longest text or pair, special ones included; the same for every encoder."""

    seed: int = 42
    """Which rows are chosen wherever a hash decides."""

    @property
    def label_names(self) -> tuple[str, ...]:
        """Name of each label; empty where nothing is labelled."""
        return bio_labels(self.entities) if self.entities else tuple(self.labels)

    @property
    def higher_is_better(self) -> bool:
        """Whether the main metric is to be large."""
        return self.metric not in LOWER_IS_BETTER

    @property
    def text_columns(self) -> list[str]:
        """Columns of the texts of an example."""
        text = self.data.columns.text
        return [text] if isinstance(text, str) else list(text)

    @property
    def score_columns(self) -> list[str]:
        """Columns whose mean is the score."""
        score = self.data.columns.score
        return [score] if isinstance(score, str) else list(score)

    def languages_of(self, split: str) -> list[str]:
        """Languages of a split; empty for all there are."""
        return self.train_languages if self.train_languages and split != "test" else self.languages

    def source_of(self, split: str) -> tuple[str, float, float]:
        """The data's split that one of ours is taken from, and the range of hashes in 0 … 1 of its rows."""
        for source, shares in self.cut.items():
            start = 0.0
            for part in SPLITS:
                end = start + shares.get(part, 0.0)
                if part == split and part in shares:
                    return source, start, 1.0 if end > 1 - 1e-9 else end
                start = end
        return split, 0.0, 1.0

    def tables(self) -> dict[str, Table]:
        """Every table of the task by its key."""
        keys = ("data", "documents", "judgements", "training")
        return {key: table for key in keys if (table := getattr(self, key)) is not None}

    def problems(self) -> list[str]:
        """What is wrong, one line each."""
        found = []
        for key, table in self.tables().items():
            languages = list(dict.fromkeys([*self.languages, *self.train_languages]))
            found += table.problems(key, languages, needs_lang=key != "judgements")
        if self.metric not in METRICS[self.family]:
            options = METRICS[self.family]
            hint = nearest(self.metric, options)
            found.append(f"metric is {self.metric!r}: {self.family} has {', '.join(options)}{hint}")
        found += self._label_problems() + self._text_problems() + self._cut_problems()
        found += self._retrieval_problems() if self.family == "retrieval" else self._foreign_keys()
        if self.languages and (other := set(self.train_languages) - set(self.languages)):
            found.append(f"train_languages: {', '.join(sorted(other))} not in languages")
        if self.max_length < 8:
            found.append(f"max_length is {self.max_length}: it must be at least 8")
        return found

    def _label_problems(self) -> list[str]:
        found = []
        if self.labels and self.entities:
            found.append("labels and entities exclude each other")
        if self.entities and self.family != "token_classification":
            found.append("entities are for token_classification; give labels")
        if self.metric.startswith("entity_") and not any(name[:2] == "B-" for name in self.label_names):
            found.append(f"metric {self.metric} needs entities, or labels that begin with B- and I-")
        names = self.label_names
        if self.family in ("classification", "token_classification"):
            if len(names) < 2:
                found.append("labels is missing: list all of them, at least two")
        elif names:
            found.append(f"labels are not for {self.family}")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            found.append(f"labels: {', '.join(twice)} is given twice")
        if self.balanced and self.family != "classification":
            found.append("balanced is for classification")
        return found

    def _text_problems(self) -> list[str]:
        number = len(self.text_columns)
        if self.family not in ("classification", "regression"):
            return ["template is for classification and regression"] if self.template is not None else []
        if self.template is None:
            return [] if 1 <= number <= 2 else [f"data.columns.text: {number} texts need a template"]
        try:
            asked = {name for _, name, _, _ in string.Formatter().parse(self.template) if name is not None}
        except ValueError as error:
            return [f"template {self.template!r}: {error}"]
        expected = {str(index) for index in range(number)}
        if asked != expected:
            return [
                f"template must hold {', '.join(f'{{{index}}}' for index in sorted(expected))}, once each"
            ]
        return []

    def _cut_problems(self) -> list[str]:
        found = []
        for source, shares in self.cut.items():
            if source not in (*SPLITS, ALL):
                found.append(f"cut.{source}: it must be one of {', '.join(SPLITS)}, {ALL}")
            for part, share in shares.items():
                if part not in SPLITS:
                    found.append(f"cut.{source}.{part}: it must be one of {', '.join(SPLITS)}")
                if not 0 < share <= 1:
                    found.append(f"cut.{source}.{part} is {share}: it must be above 0 and at most 1")
            if sum(shares.values()) > 1 + 1e-9:
                found.append(f"cut.{source}: the shares sum to more than 1")
        parts = [part for shares in self.cut.values() for part in shares]
        found += [f"cut makes {part} twice" for part in SPLITS if parts.count(part) > 1]
        if ALL in self.cut and self.data.hub and ALL not in self.data.splits:
            found.append("cut.all: name the Hub's split with data.splits.all")
        if not self.data.names_its_splits and set(self.cut) != {ALL}:
            found.append("data: splits cannot be told apart; give {split} in path, columns.split or cut.all")
        return found

    def _retrieval_problems(self) -> list[str]:
        found = []
        if (self.documents is None) != (self.judgements is None):
            found.append("documents and judgements belong together: give both, or pairs in data")
        if self.judgements is not None and self.data.columns.id is None:
            found.append("data.columns.id is missing: judgements name queries by it")
        if self.documents is not None and self.documents.columns.id is None:
            found.append("documents.columns.id is missing: judgements name documents by it")
        for key, table in (("data", self.data), ("documents", self.documents)):
            if self.documents is not None and table is not None and not isinstance(table.columns.text, str):
                found.append(f"{key}.columns.text: one column, not a list")
        return found

    def _foreign_keys(self) -> list[str]:
        plain = {f.name: f.default for f in dataclasses.fields(self)}
        keys = ("documents", "judgements", "training", "query_prefix", "document_prefix",
                "across_languages", "positives_only")  # fmt: skip
        return [f"{key} is for retrieval" for key in keys if getattr(self, key) != plain[key]]


def read_task(path: str | Path) -> Task:
    """The task that a YAML file describes.

    Raises:
        ConfigError: all that is wrong, in one line.
    """
    tree = read_file(str(path))
    declared = fields_of(Task)
    problems = check_tree(tree, {name: kind for name, (kind, _) in declared.items()}, "")
    problems += [
        f"{name} is missing" for name, (_, needed) in declared.items() if needed and name not in tree
    ]
    if not problems:
        named: dict[str, Any] = {**tree, "name": tree.get("name") or Path(path).stem}
        task: Task = construct(Task, named)
        problems = task.problems()
        if not problems:
            return task
    raise ConfigError(f"{path}: {' | '.join(dict.fromkeys(problems))}")
