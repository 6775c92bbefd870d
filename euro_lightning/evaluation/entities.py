"""Entities in labelled words."""

from collections.abc import Iterable, Sequence

Entity = tuple[str, int, int]
"""Type, first word, and the word behind the last."""

OUTSIDE = "O"
"""Label of a word that belongs to no entity."""


def bio_labels(types: Iterable[str]) -> tuple[str, ...]:
    """The labels of words for some types of entities: outside, then begin and inside of each."""
    return (OUTSIDE, *(f"{position}-{kind}" for kind in types for position in "BI"))


def entities_of(labels: Sequence[str]) -> set[Entity]:
    """The entities of a sentence.

    One begins at B-, and also at an I- that continues nothing of its type, as in the evaluation
    script of CoNLL-2000 and in seqeval's default mode.

    Args:
        labels: O, B-TYPE or I-TYPE of each word.
    """
    found: set[Entity] = set()
    kind, start = "", 0
    for position, label in enumerate([*labels, OUTSIDE]):
        prefix, _, here = label.partition("-")
        if kind and (prefix != "I" or here != kind):
            found.add((kind, start, position))
            kind = ""
        if not kind and prefix in ("B", "I"):
            kind, start = here, position
    return found
