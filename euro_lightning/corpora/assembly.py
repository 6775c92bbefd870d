"""Last stage: the tokenised shards become a token store, with a report of what was read and dropped."""

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from euro_lightning.corpora.progress import Tick
from euro_lightning.corpora.tokenising import COUNTS, FACTS
from euro_lightning.corpora.work import Work
from euro_lightning.data.manifest import finish_store
from euro_lightning.data.tokenizer import load_tokenizer
from euro_lightning.data.writer import data_file, describe_data_set, schema_of, token_dtype
from euro_lightning.errors import DataError, raise_all
from euro_lightning.files import atomic_directory, hash_value, read_json, write_json

REPORT = "report.json"


def check_read(work: Work) -> None:
    """Raises a `DataError` when too much could not be read, or when nothing is left of a source."""
    rows: dict[str, Counter[str]] = {name: Counter() for name in work.recipe.sources}
    first: dict[str, str] = {}
    for rank, shard in enumerate(work.shards):
        facts = work.read_facts(rank)
        counts = rows[shard.source]
        counts.update(kept=sum(facts["kept"].values()), read=facts["read"], **facts["dropped"])
        counts.update(bad=facts["bad_rows"] + facts["bad_files"])
        if facts["bad"]:
            first.setdefault(shard.source, facts["bad"][0])
    bad, most = sum(counts["bad"] for counts in rows.values()), work.recipe.most_bad
    if most is not None and bad > most:
        where = next(iter(first.values()))
        raise DataError(f"{bad:,} rows and files cannot be read, most_bad is {most:,}; the first: {where}")
    found = []
    for name, counts in rows.items():
        if counts["kept"]:
            continue
        told = [
            f"{count:,} {reason}"
            for reason, count in counts.most_common()
            if count and reason not in ("kept", "read", "bad")
        ]
        why = f"{counts['read']:,} documents were read" + (f", dropped {', '.join(told)}" if told else "")
        why += f"; {first[name]}" if name in first else ""
        found.append(f"sources.{name} has no document: {why}")
    raise_all(found, DataError)


def assemble(work: Work, rank: int, tick: Tick) -> None:
    """Makes the store of the tokenised shards, in their order."""
    check_read(work)
    tokenizer = load_tokenizer(work.tokenizer_file)
    facts = [read_json(work.tokens(number) / FACTS) for number in range(len(work.shards))]
    store = Path(work.recipe.store)
    with atomic_directory(store) as folder:
        known, sources = _link(work, facts, folder, token_dtype(tokenizer.vocabulary))
        counts: dict[str, np.ndarray[Any, Any]] = {}
        for number in range(len(work.shards)):
            with np.load(work.tokens(number) / COUNTS) as file:
                for source in file.files:
                    counts[source] = counts.get(source, 0) + file[source]
        write_json(folder / REPORT, report_of(work, facts))
        origin = {"corpus": work.plan["key"], "recipe": work.recipe.content(), "inputs": work.plan["facts"]}
        finish_store(folder, tokenizer, counts, sources, origin, known)


def _link(
    work: Work, facts: list[dict[str, Any]], folder: Path, dtype: type[np.unsignedinteger[Any]]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Puts the shards' files into the store; their checksums by path, and the facts of each source."""
    parts: dict[str, list[int]] = {}
    for number, shard in enumerate(facts):
        for place in shard["data"]:
            parts.setdefault(place, []).append(number)
    known: dict[str, str] = {}
    sources: dict[str, Any] = {}
    for place, numbers in sorted(parts.items()):
        split, source = place.split("/")
        (folder / place).mkdir(parents=True)
        files = [data_file(i, len(numbers)) for i in range(len(numbers))]
        for file, number in zip(files, numbers, strict=True):
            _link_or_copy(work.tokens(number) / place / data_file(0, 1), folder / place / file)
            known[f"{place}/{file}"] = facts[number]["data"][place]["sha256"]
        fingerprint = hash_value([known[f"{place}/{file}"] for file in files])
        describe_data_set(folder / place, files, fingerprint, schema_of(dtype))
        kind = facts[numbers[0]]["kinds"][source]
        splits = sources.setdefault(source, {"kind": kind, "splits": {}})["splits"]
        splits[split] = {
            name: sum(facts[number]["data"][place][name] for number in numbers)
            for name in ("documents", "tokens", "characters")
        }
    return known, dict(sorted(sources.items()))


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)


def report_of(work: Work, facts: list[dict[str, Any]]) -> dict[str, Any]:
    """What was read, dropped and kept of each source of the configuration."""
    sources: dict[str, dict[str, Any]] = {}
    bad: list[str] = []
    for rank, shard in enumerate(work.shards):
        read, tokenised = work.read_facts(rank), facts[rank]
        row = sources.setdefault(
            shard.source,
            dict.fromkeys(
                ("read", "parts", "kept", "tokens", "characters", "unknown", "bad_rows", "bad_files"), 0
            )
            | {"dropped": {}, "quality": [0] * 5},
        )
        stored = {
            name: sum(d[name] for d in tokenised["data"].values())
            for name in ("documents", "tokens", "characters")
        }
        twice = len(work.duplicates(rank))
        dropped = Counter(row["dropped"])
        dropped.update(read["dropped"])
        dropped.update({f"{work.recipe.duplicates.kind}_duplicate": twice})
        dropped.update(limit=sum(read["kept"].values()) - twice - stored["documents"])
        row["dropped"] = {reason: count for reason, count in sorted(dropped.items()) if count}
        row["kept"] += stored["documents"]
        for name in ("tokens", "characters"):
            row[name] += stored[name]
        for name in ("read", "parts", "bad_rows", "bad_files"):
            row[name] += read[name]
        row["unknown"] += sum(tokenised["unknown"].values())
        for buckets in tokenised["quality"].values():
            row["quality"] = [a + b for a, b in zip(row["quality"], buckets, strict=True)]
        bad += read["bad"]
    scorers = read_json(work.cuts_file) if work.cuts_file.is_file() else {}
    return {"sources": sources, "quality": scorers, "bad": bad}
