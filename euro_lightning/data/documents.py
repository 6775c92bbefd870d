"""What a corpus is made of: documents, the source each belongs to, and its split."""

import hashlib
from dataclasses import dataclass

SPLITS = ("train", "validation", "test")

DOMAINS = ("text", "code", "math", "parallel")

UNSPACED = frozenset({"zh", "yue", "wuu", "ja", "th", "lo", "km", "my", "bo", "dz"})
"""Languages written without spaces between words (ISO 639): what counts words means nothing there."""


@dataclass(frozen=True, slots=True)
class Document:
    """One text, or one pair of texts that say the same in two languages."""

    text: str
    """The text; of a parallel pair, the side in `lang`."""

    lang: str
    """ISO 639-1 code of `text`; "code" or "math" where no natural language is named."""

    doc_id: str
    """Identifies the document for ever; its hash decides the split."""

    domain: str = "text"
    """One of `DOMAINS`."""

    quality: int = 0
    """Quality bucket, 1 (lowest) to 4; 0 when never scored."""

    target: str | None = None
    """The other side of a parallel pair."""

    target_lang: str | None = None
    """ISO 639-1 code of `target`."""

    split: str | None = None
    """One of `SPLITS` when the corpus itself fixes it."""

    origin: str | None = None
    """What the text was taken from, such as wikipedia, where the corpus tells."""

    @property
    def whole(self) -> str:
        """All of its text: of a parallel pair, both sides, a line end between them."""
        return self.text if self.target is None else f"{self.text}\n{self.target}"

    @property
    def source(self) -> str:
        """The source this document belongs to: its language if it is text, else its domain."""
        return self.lang if self.domain == "text" else self.domain


def fraction(key: str) -> float:
    """A number in [0, 1) that depends on `key` alone: the same on every machine, for ever."""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    # 53 bits, for that many a float holds exactly: more could round up to 1
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)


def split_of_key(key: str, validation: float, test: float) -> str:
    """The split of whatever `key` identifies, for shares of the whole between 0 and 1.

    The test share lies at the end of the hash range and validation before it, so raising the
    validation share never moves a document into or out of test.
    """
    position = fraction(key)
    if position >= 1 - test:
        return "test"
    return "validation" if position >= 1 - test - validation else "train"


def split_of(document: Document, validation: float, test: float) -> str:
    """The split of a document: the corpus's own choice, else by a hash of the document id."""
    return document.split or split_of_key(document.doc_id, validation, test)
