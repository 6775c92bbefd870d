"""A piece of work: a part of a source that one process reads."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shard:
    """A part of a source that one process reads."""

    source: str
    """Name of the source in the configuration."""
    size: int
    """Bytes, or 1 where they are not known; limits are spread in proportion."""
    file: str | None = None
    """The file, or its address on the Hub."""
    first_group: int | None = None
    """Of a parquet file, the first row group; None reads the whole file."""
    last_group: int | None = None
    """The row group behind the last."""
    number: int = 0
    """Which of the parts of a streamed data set."""
    parts: int = 1
    """How many parts the streamed data set has."""
    documents: int | None = None
    """This shard's part of the source's limit of documents."""
    tokens: int | None = None
    """This shard's part of the source's limit of tokens."""

    @property
    def groups(self) -> range | None:
        if self.first_group is None or self.last_group is None:
            return None
        return range(self.first_group, self.last_group)
