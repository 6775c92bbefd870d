"""Mixtures as the papers speak of them: groups of sources, temperature, and one part changed.

A mixture in a configuration names sources or groups. It becomes explicit shares of sources once
the store, and so the tokens of each source, is known.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from euro_lightning.data.mixture import ROUNDED, Share, normalise
from euro_lightning.errors import nearest

Scaled = Literal["rest", "other_languages"]

DOMAINS = ("code", "math", "parallel")
"""Sources that are no languages; each is a group of its own, too."""

GROUPS = {
    "english": "en",
    "other_languages": "all languages but English",
    "languages": "all languages",
    "rest": "all sources that the mixture does not name otherwise",
}
"""Names that stand for several sources."""


def members(group: str, sources: Mapping[str, int]) -> list[str]:
    """The sources of a group, or the source itself."""
    languages = [name for name in sources if name not in DOMAINS]
    if group == "english":
        return [name for name in languages if name == "en"]
    if group == "other_languages":
        return [name for name in languages if name != "en"]
    if group == "languages":
        return languages
    if group == "rest":
        return list(sources)
    return [group] if group in sources else []


def resolve(
    mixture: Mapping[str, "float | Share"], sources: Mapping[str, int], where: str
) -> tuple[dict[str, Share], list[str]]:
    """Explicit shares of sources.

    Within a group, sources that the mixture names themselves are left out, and the others share in
    proportion to tokens^tau (Conneau, Lample 2019; mmBERT, 2025: 0.7, 0.5, 0.3), or as `within` says.

    Args:
        mixture: shares of sources and groups.
        sources: tokens of each source.
        where: the mixture's key, for messages.

    Returns:
        The shares, and what is wrong, one line each.
    """
    found: list[str] = []
    entries = _shares(mixture)
    result = {name: share for name, share in entries.items() if name not in GROUPS and share.share}
    for name, share in entries.items():
        if name not in GROUPS and (share.tau is not None or share.within):
            found.append(f"{where}.{name} is a source: tau and within are for groups ({', '.join(GROUPS)})")
    for name in sorted(entries.keys() & GROUPS.keys(), key=list(GROUPS).index):
        share = entries[name]
        parts = [s for s in members(name, sources) if s not in entries and s not in result and sources[s]]
        if not parts:
            found.append(f"{where}.{name}: no source is left for it ({GROUPS[name]})")
            continue
        weights, problems = _weights(share, parts, sources, f"{where}.{name}")
        found += problems
        total = sum(weights.values()) or 1.0
        for source, weight in weights.items():
            if weight and share.share:
                result[source] = Share(share.share * (weight / total), share.quality)
    return result, found


def _shares(mixture: Mapping[str, "float | Share"]) -> dict[str, Share]:
    """All entries, those of share 0 too: they keep a source out of its group."""
    kept = normalise(mixture)
    return {name: kept.get(name, Share(0.0)) for name in mixture}


def _weights(
    share: Share, parts: list[str], sources: Mapping[str, int], where: str
) -> tuple[dict[str, float], list[str]]:
    """Relative parts of the sources of one entry."""
    if share.within:
        unknown = [name for name in share.within if name not in parts]
        problems = [f"{where}.within.{name} is not in the group{nearest(name, parts)}" for name in unknown]
        problems += [f"{where}.within.{name} is below 0" for name, part in share.within.items() if part < 0]
        if share.tau is not None:
            problems.append(f"{where}: tau and within are both given; one of them says how the group shares")
        return {name: float(part) for name, part in share.within.items() if name in parts}, problems
    tau = 1.0 if share.tau is None else share.tau
    if not 0 <= tau <= 1:
        return dict.fromkeys(parts, 1.0), [
            f"{where}.tau is {tau}: it lies between 0 (equal) and 1 (in proportion)"
        ]
    return {source: float(sources[source]) ** tau for source in parts}, []


def change(
    shares: Mapping[str, Share], wanted: Mapping[str, float], scaled: Scaled, where: str
) -> tuple[dict[str, Share], list[str]]:
    """Gives sources or groups another share, and scales others so that the sum stays.

    Args:
        shares: explicit shares of sources.
        wanted: share of each source or group that changes; within a group proportions stay.
        scaled: what makes room: rest is everything else, other_languages all languages but English
            that do not change, so that code, math and parallel text keep their shares. (EuroBERT's
            ablation of English also cut code and math, section 4 and table 6.)
        where: the phase's key, for messages.

    Returns:
        The shares, and what is wrong, one line each.
    """
    found: list[str] = []
    tokens = dict.fromkeys(shares, 1)
    result = dict(shares)
    changed: set[str] = set()
    for name, value in wanted.items():
        parts = [part for part in members(name, tokens) if part not in changed]
        total = sum(result[part].share for part in parts)
        if not parts or total <= 0:
            hint = nearest(name, [*shares, *GROUPS])
            found.append(f"{where}.change.{name} names no source or group of the mixture{hint}")
            continue
        if not 0 <= value <= 1:
            found.append(f"{where}.change.{name} is {value}: a share lies between 0 and 1")
        for part in parts:
            own = value if len(parts) == 1 else result[part].share * value / total
            result[part] = replace(result[part], share=own)
        changed |= set(parts)
    room = members("other_languages", tokens) if scaled == "other_languages" else list(shares)
    room = [part for part in room if part not in changed]
    before = sum(share.share for share in shares.values())
    fixed = sum(share.share for part, share in result.items() if part not in room)
    free = sum(result[part].share for part in room)
    if wanted and not found and (before - fixed < -1e-9 or (free <= 0 and before - fixed > 1e-9)):
        found.append(
            f"{where}.change: {fixed:.4g} of the tokens is taken, and {scaled} cannot make it {before:.4g}"
        )
    if wanted and not found and free > 0:
        for part in room:
            result[part] = replace(result[part], share=result[part].share * max(before - fixed, 0.0) / free)
        # what rounding has left over goes to the largest, so that the sum is exact
        largest = max(room, key=lambda part: result[part].share)
        others = math.fsum(share.share for part, share in result.items() if part != largest)
        total = 1.0 if abs(before - 1) < ROUNDED else before
        result[largest] = replace(result[largest], share=max(total - others, 0.0))
    return {name: share for name, share in result.items() if share.share > 0}, found
