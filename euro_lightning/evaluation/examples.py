"""What a task consists of, whatever file it came from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """A text, or a pair of texts, to classify or to score."""

    row: str
    """Identifies it within its split."""
    lang: str
    """ISO 639-1 code, or "code" and "math"; scores are reported for each."""
    texts: tuple[str, ...]
    """One text, or the two of a pair."""
    target: float
    """Index of the label, or the score."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words, each with a label."""

    row: str
    """Identifies it within its split."""
    lang: str
    """ISO 639-1 code."""
    words: tuple[str, ...]
    """As the data set splits them; at least one."""
    labels: tuple[int, ...]
    """Index of the label of each word."""


@dataclass(frozen=True, slots=True)
class Text:
    """A query or a document."""

    row: str
    """Identifies it among the queries, or among the documents."""
    lang: str
    """ISO 639-1 code, or the programming language; of a document, of the queries that search it."""
    text: str
    """What is encoded, with its prefix."""


@dataclass(frozen=True)
class Search:
    """Queries, and documents of which some are relevant."""

    queries: Sequence[Text]
    """Each has at least one relevant document among its candidates."""
    documents: Sequence[Text]
    """What is searched."""
    relevant: Mapping[str, Mapping[str, int]]
    """Row of a query to the rows of its relevant documents and their grades, above 0."""
    within_language: bool
    """Whether a query is compared with documents of its own language only."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and the document that answers it, to learn retrieval from."""

    row: str
    """Identifies it within its split."""
    lang: str
    """ISO 639-1 code, or the programming language."""
    query: str
    """The query, with its prefix, as the documents have theirs."""
    positive: str
    """The document that answers it."""
    negative: str | None
    """A document that does not though it looks so, where there is one."""


Item = Example | Sentence | Pair
"""What fine-tuning learns from."""
