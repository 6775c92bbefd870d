"""Duplicates: which documents are found, and which of them is kept."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from euro_lightning.corpora.duplicates import Duplicates, duplicates_of, write_pairs, write_signatures
from euro_lightning.corpora.words import words
from tests.conftest import SHARED_DATA

NEAR = Duplicates("near")


def dropped(
    folder: Path, shards: Sequence[Sequence[str]], rule: Duplicates, bands: Sequence[int] = ()
) -> set[str]:
    """The texts that are dropped; sources are s0, s1, … by shard."""
    for rank, texts in enumerate(shards):
        write_signatures([(f"s{rank}", text) for text in texts], rule, folder / "signatures", rank)
    for band in bands or range(1 if rule.kind == "exact" else rule.bands):
        write_pairs(rule, folder / "signatures", folder / "pairs", band)
    found = duplicates_of(folder / "pairs")
    return {f"{rank}/{place}" for rank, places in found.items() for place in places.tolist()}


def test_the_first_of_several_copies_is_kept_within_and_across_shards(tmp_path: Path) -> None:
    shards = [
        ["one two three", "a b c d e f g"],
        ["a b c d e f g", "one two three", "a b c d e f g"],
        ["other"],
    ]
    for kind in ("exact", "near"):
        assert dropped(tmp_path / kind, shards, Duplicates(kind)) == {"1/0", "1/1", "1/2"}  # type: ignore[arg-type]


def test_across_sources_only_if_asked(tmp_path: Path) -> None:
    shards = [["one two three", "x", "x"], ["one two three"]]
    for kind in ("exact", "near"):
        assert dropped(tmp_path / kind, shards, Duplicates(kind, across=False)) == {"0/2"}  # type: ignore[arg-type]


def test_exact_compares_whole_texts_and_near_ignores_case_and_signs(tmp_path: Path) -> None:
    shards = [["Short, text", "short text", "another short text"]]
    assert dropped(tmp_path / "exact", shards, Duplicates("exact")) == set()
    assert dropped(tmp_path / "near", shards, NEAR) == {"0/1"}


def test_the_order_of_the_work_does_not_matter(tmp_path: Path) -> None:
    texts = [
        " ".join(f"{'abcdefg'[i % 7]}{word}" for word in ["once", "more", "the", "same", "words"])
        for i in range(40)
    ]
    shards = [texts[:13], texts[13:14], texts[14:]]
    forwards = dropped(tmp_path / "a", shards, NEAR)
    assert forwards == dropped(tmp_path / "b", shards, NEAR, bands=list(reversed(range(NEAR.bands))))
    assert len(forwards) == 33


def shingles(text: str) -> set[tuple[str, ...]]:
    found = words(text.lower())
    return set(zip(*(found[i:] for i in range(5)), strict=False)) or {tuple(found)}


def jaccard(left: set[tuple[str, ...]], right: set[tuple[str, ...]]) -> float:
    return len(left & right) / len(left | right)


def altered(text: str, draw: random.Random) -> str:
    """A copy with words replaced, as many as leave a Jaccard similarity of at least 0.85."""
    pieces, before = text.split(), shingles(text)
    copy = text
    for _ in range(max(1, len(pieces) // 50)):
        pieces[draw.randrange(len(pieces))] = f"w{draw.randrange(10**6)}"
        if jaccard(before, shingles(" ".join(pieces))) < 0.85:
            break
        copy = " ".join(pieces)
    return copy


def documents() -> list[str]:
    """Real text where there is some, else 2,000 documents of random words."""
    draw = random.Random(3)
    if SHARED_DATA.is_dir():
        import pyarrow.parquet as parquet

        texts: list[str] = []
        for name in ("text_en", "text_pt", "text_de", "math"):
            texts += (
                parquet.read_table(SHARED_DATA / "corpus" / f"{name}.parquet")
                .column("text")
                .to_pylist()[:1200]
            )
        return [text[:4000] for text in texts]
    names = [f"{a}{b}{c}" for a in "bcdfglmnprst" for b in "aeiou" for c in "lmnrs"]
    return [" ".join(draw.choices(names, k=draw.randint(60, 400))) for _ in range(2000)]


@pytest.mark.timeout(240)
def test_near_copies_are_found_and_others_are_left_alone(tmp_path: Path) -> None:
    """500 planted copies of a Jaccard similarity of 0.85 and more: at least 95% are found; of the
    documents that resemble no other (below 0.5) at most 1% are dropped."""
    draw = random.Random(1)
    originals = documents()
    long = [place for place, text in enumerate(originals) if len(text.split()) >= 60]
    sources = draw.sample(long, 500)
    copies = [altered(originals[place], draw) for place in sources]
    similar = [jaccard(shingles(originals[p]), shingles(c)) for p, c in zip(sources, copies, strict=True)]
    assert min(similar) >= 0.85 and np.mean(similar) < 0.97
    found = dropped(tmp_path, [originals, copies], NEAR)
    recall = sum(f"1/{number}" in found for number in range(500)) / 500

    index: dict[tuple[str, ...], int] = {}
    rows = [[index.setdefault(s, len(index)) for s in shingles(text)] for text in originals]
    ends = np.cumsum([0, *map(len, rows)])
    matrix = csr_array(
        (np.ones(ends[-1], dtype=np.int32), np.concatenate(rows), ends), shape=(len(rows), len(index))
    )
    common = (matrix @ matrix.T).tocoo()
    sizes = np.array([len(row) for row in rows])
    apart = common.row != common.col
    similarity = common.data / (sizes[common.row] + sizes[common.col] - common.data)
    lone = np.ones(len(rows), dtype=bool)
    lone[common.row[apart & (similarity >= 0.5)]] = False
    wrong = [place for place in np.flatnonzero(lone) if f"0/{place}" in found]
    print(f"recall {recall:.1%}; {len(wrong)} of {int(lone.sum())} lone documents dropped")
    assert recall >= 0.95
    assert len(wrong) <= 0.01 * lone.sum()
