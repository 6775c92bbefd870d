"""How a document is cut into segments."""

from dataclasses import dataclass, replace
from typing import Literal

from euro_lightning.keys import key_of
from euro_lightning.schedule import blend


@dataclass(frozen=True)
class Lengths:
    """The length policy of a phase, in tokens."""

    kind: Literal["fixed", "random", "concatenated"] = "fixed"
    """fixed: every segment has the maximum length, but for a document's last; random: each
    length is drawn uniformly between minimum and maximum (EuroBERT section 2.3: 12 to 8,192);
    concatenated: a segment is the next `maximum` tokens of its source, whatever documents they are
    of, and attention crosses from one document to the next (EuroBERT's pretraining; for comparison
    only)."""

    maximum: int = 512
    """Longest segment."""

    minimum: int = 12
    """Shortest segment that does not end its document; 12 as in EuroBERT's code."""

    start: int | None = None
    """Longest segment at the phase's first token, from which it grows linearly to the maximum at the
    last; null has the maximum throughout."""

    def problems(self, where: str) -> list[str]:
        """What is wrong with this policy, one line each."""
        found = []
        if self.minimum < 1:
            found.append(f"{where}.minimum is {self.minimum}: it must be at least 1")
        if self.maximum < self.minimum:
            found.append(
                f"{where}.maximum is {self.maximum}: it must not be below the minimum {self.minimum}"
            )
        if self.start is not None and not self.minimum <= self.start <= self.maximum:
            found.append(
                f"{where}.start is {self.start}: it must lie between the minimum {self.minimum} and the"
                f" maximum {self.maximum}"
            )
        return found

    def at(self, tokens: int, phase_tokens: int) -> "Lengths":
        """The policy after `tokens` tokens of the phase: with its maximum of then, and no ramp."""
        if self.start is None:
            return self
        longest = round(blend(self.start, self.maximum, tokens / phase_tokens, "linear"))
        return replace(self, maximum=longest, start=None)

    def draw(self, key: int, epoch: int, document: int, start: int) -> int:
        """The wanted length of the segment that begins there: a pure function of its place."""
        if self.kind != "random":
            return self.maximum
        return self.minimum + key_of(key, epoch, document, start) % (self.maximum - self.minimum + 1)


def fit(wanted: int, left: int, room: int, minimum: int, maximum: int) -> int | None:
    """The length of a segment so that the micro-batch can still be closed exactly.

    Args:
        wanted: length that the policy asks for.
        left: tokens left in the document.
        room: tokens left in the micro-batch.
        minimum: shortest segment allowed, unless its document ends there.
        maximum: longest segment allowed.

    Returns:
        At most `maximum` tokens such that the segment is legal and what remains of the room is
        nothing or enough for another legal segment; None when this document has no such length.
    """
    length = min(wanted, left, room)
    rest = room - length
    if rest == 0:
        return length if length >= minimum or length == left else None
    if rest >= minimum:
        return length
    if left >= room and room <= maximum:
        return room
    if room >= 2 * minimum:
        return room - minimum
    return None
