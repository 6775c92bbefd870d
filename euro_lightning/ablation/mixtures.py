"""Mixtures of an experiment changed as the papers' ablations change them."""

from collections.abc import Mapping, Sequence
from typing import Any

from euro_lightning.data.composition import DOMAINS, GROUPS
from euro_lightning.data.mixture import normalise
from euro_lightning.errors import ConfigError, nearest

_COLUMNS = (
    "en", "fr", "de", "nl", "hi", "it", "ja", "pl", "pt", "ru", "es", "ar", "zh", "tr", "code", "math", "parallel",
)  # fmt: skip
_ROWS = {
    0.46: (46.3, 5.8, 5.7, 1.0, 0.3, 1.5, 0.8, 1.0, 1.4, 1.0, 5.7, 0.4, 4.7, 1.0, 8.7, 8.2, 5.2),
    0.26: (26, 6, 6, 4, 4, 4, 4, 4, 4, 4, 6, 4, 6, 4, 4, 4, 5),
    0.17: (17, 6, 6, 5, 5, 5, 5, 5, 5, 5, 6, 5, 6, 5, 4, 4, 5),
}
ENGLISH_AS_PUBLISHED = {share: dict(zip(_COLUMNS, row, strict=True)) for share, row in _ROWS.items()}
"""EuroBERT's ablation of English (arXiv 2503.05500, table 6), percentages by source; by the share of English.
The column of instruction data is left out."""


def _explicit(mixture: Mapping[str, Any], where: str) -> dict[str, float]:
    """Shares of a mixture that names sources and no groups.

    Raises:
        ConfigError: it names a group, whose sources only the corpus knows.
    """
    groups = [name for name in mixture if name in GROUPS]
    if groups:
        raise ConfigError(f"{where} names the group {groups[0]}: name each source and its share")
    return {name: entry.share for name, entry in normalise(mixture).items()}


def _entry(before: Any, share: float) -> Any:
    """The entry with another share and the same quality buckets."""
    return {**before, "share": share} if isinstance(before, Mapping) and share else share


def share_of(row: Mapping[str, float], mixture: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The mixture's entries with the shares of a published row, scaled to sum to one.

    Raises:
        ConfigError: the mixture names a group, or nothing that the row has.
    """
    _explicit(mixture, where)
    total = sum(row.get(name, 0.0) for name in mixture)
    if not total:
        raise ConfigError(f"{where} names no source of the published mixtures ({', '.join(row)})")
    return {name: _entry(before, row.get(name, 0.0) / total) for name, before in mixture.items()}


def with_quality(mixture: Mapping[str, Any], buckets: Sequence[int]) -> dict[str, Any]:
    """The entries that have a quality, drawing from other buckets; none draws from all documents."""
    found = {}
    for name, entry in mixture.items():
        given = dict(entry) if isinstance(entry, Mapping) else {"share": entry}
        if (name not in DOMAINS and name != "rest") or given.get("quality"):
            found[name] = {**given, "quality": list(buckets)} if given["share"] else entry
    return found


def equal_tokens(
    mixture: Mapping[str, Any], kept: Sequence[str], tokens: int, where: str
) -> tuple[dict[str, Any], int]:
    """The mixture with some of its sources only, and the tokens that give the first as many as before.

    Args:
        mixture: entries of a phase.
        kept: names of sources, or `languages` for all that are no code, math or parallel text.
        tokens: length of the phase.
        where: the phase's key, for messages.

    Raises:
        ConfigError: a name is not in the mixture, or the mixture names a group.
    """
    shares = _explicit(mixture, f"{where}.mixture")
    names = dict.fromkeys(kept)
    if "languages" in names:
        names |= dict.fromkeys(name for name in shares if name not in DOMAINS)
        del names["languages"]
    unknown = [name for name in names if name not in shares]
    if unknown or not names:
        missing = unknown[0] if unknown else "nothing"
        raise ConfigError(
            f"languages: {missing} has no share in {where}.mixture, which has {', '.join(shares)}"
            f"{nearest(missing, shares)}"
        )
    total = sum(shares[name] for name in names)
    found = {
        name: _entry(before, shares[name] / total if name in names else 0.0)
        for name, before in mixture.items()
    }
    return found, round(tokens * total)
