"""Which source is next.

The source served next is the one whose segment would be finished first by an ideal mixture
that serves all sources at once, among those that are not ahead of it: worst-case fair
weighted fair queueing (Bennett, Zhang: WF2Q, INFOCOM 1996). A source is then never more than
one longest segment away from its share, which picking the largest deficit does not promise.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from euro_lightning.errors import nearest


@dataclass(frozen=True)
class Share:
    """A source's part of a mixture."""

    share: float
    """Share of the phase's tokens, 0 to 1."""

    quality: tuple[int, ...] = ()
    """Quality buckets to draw from (1 lowest to 4); empty for all documents."""

    tau: float | None = None
    """Of a group: its sources share in proportion to tokens^tau; 1 (default) in proportion, 0 equally."""

    within: dict[str, float] = field(default_factory=dict)
    """Of a group: relative parts of its sources, in place of tau."""


ROUNDED = 1e-4
"""How far the shares may sum from one, as rounded percentages do."""

Mixture = Mapping[str, float | Share]


def normalise(mixture: Mapping[str, "float | Share | Mapping[str, object]"]) -> dict[str, Share]:
    """Every entry as a `Share`; entries of share 0 are left out, for they are never read."""
    shares = {}
    for source, entry in mixture.items():
        if isinstance(entry, Mapping):
            values: dict[str, Any] = {**entry, "share": float(cast(float, entry["share"]))}
            values["quality"] = tuple(values.get("quality") or ())
            entry = Share(**{**values, "within": values.get("within") or {}})
        share = entry if isinstance(entry, Share) else Share(float(entry))
        if share.share != 0:
            shares[source] = share
    return shares


def mixture_problems(mixture: Mixture, known: Iterable[str], where: str) -> list[str]:
    """What is wrong with a mixture over the known sources, one line each.

    Shares that miss one by rounding are rescaled exactly.
    """
    known = list(known)
    shares = normalise(mixture)
    found = []
    for source, share in shares.items():
        if source not in known:
            hint = nearest(source, known)
            found.append(f"{where}.{source} names no source; the corpus has {', '.join(known)}{hint}")
        if not 0 < share.share <= 1:
            found.append(f"{where}.{source} is {share.share}: a share lies between 0 and 1")
        if any(bucket not in (1, 2, 3, 4) for bucket in share.quality):
            found.append(f"{where}.{source}.quality is {list(share.quality)}: buckets are 1, 2, 3 and 4")
    total = sum(share.share for share in shares.values())
    if abs(total - 1) > ROUNDED:
        found.append(f"{where}: the shares sum to {total:.6g} instead of 1")
    return found


class FairQueue:
    """Realises shares of tokens exactly: see the module's docstring."""

    def __init__(self, shares: list[float], served: list[int]) -> None:
        """Args:
        shares: share of each source; rescaled to sum to one.
        served: tokens each source has served so far in this phase.
        """
        total = sum(shares)
        self.shares = [share / total for share in shares]
        self.served = served
        self.total = sum(served)

    def ranking(self, lengths: list[int]) -> list[int]:
        """The sources, most deserving first.

        Args:
            lengths: tokens of the next segment of each source.
        """
        total = self.total
        keys = []
        for index, (share, served) in enumerate(zip(self.shares, self.served, strict=True)):
            start = served / share
            ahead = start > total
            keys.append((ahead, start if ahead else start + lengths[index] / share, index))
        return [key[2] for key in sorted(keys)]

    def first(self, lengths: list[int]) -> int:
        """`ranking(lengths)[0]`, without sorting."""
        best, finish = -1, float("inf")
        total = self.total
        for index, (share, served, length) in enumerate(zip(self.shares, self.served, lengths, strict=True)):
            if served <= total * share and (end := (served + length) / share) < finish:
                best, finish = index, end
        return best if best >= 0 else self.ranking(lengths)[0]

    def serve(self, source: int, tokens: int) -> None:
        """Counts a segment."""
        self.served[source] += tokens
        self.total += tokens
