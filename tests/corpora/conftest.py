"""Corpora in YAML, small enough to be prepared in a second."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import yaml

from tests.conftest import small_corpus, small_pairs, write_jsonl


def by_language() -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in small_corpus():
        rows.setdefault(row["lang"], []).append({"text": row["text"], "doc_id": row["doc_id"]})
    return rows


def write_parquet(path: Path, rows: list[dict[str, Any]], row_group_size: int | None = None) -> Path:
    parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=row_group_size)
    return path


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """en.parquet, fr.jsonl, code/*.jsonl and pairs.parquet."""
    folder = tmp_path_factory.mktemp("files")
    rows = by_language()
    write_parquet(folder / "en.parquet", rows["en"])
    write_jsonl(folder / "fr.jsonl", rows["fr"])
    (folder / "code").mkdir()
    for number in range(3):
        write_jsonl(folder / "code" / f"{number}.jsonl", rows["code"][number::3])
    write_parquet(folder / "pairs.parquet", small_pairs())
    return folder


@pytest.fixture
def recipe(files: Path, tmp_path: Path) -> dict[str, Any]:
    """A corpus of four sources in six shards."""
    return {
        "store": str(tmp_path / "stores" / "small"),
        "tokenizer": {"vocabulary": 400},
        "sources": {
            "english": {"path": str(files / "en.parquet"), "lang": "en"},
            "french": {"path": str(files / "fr.jsonl"), "lang": "fr"},
            "programs": {"path": str(files / "code"), "domain": "code"},
            "pairs": {"path": str(files / "pairs.parquet"), "domain": "parallel"},
        },
        "workers": 1,
    }


@pytest.fixture
def corpus_file(recipe: dict[str, Any], tmp_path: Path) -> Callable[..., Path]:
    """Writes the corpus, changed at dotted keys (None removes), and returns the file."""

    def write(changes: dict[str, Any] | None = None, name: str = "corpus") -> Path:
        tree = json.loads(json.dumps(recipe))
        for key, value in (changes or {}).items():
            *parents, last = key.split(".")
            node = tree
            for parent in parents:
                node = node.setdefault(parent, {})
            if value is None:
                node.pop(last, None)
            else:
                node[last] = value
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(tree, sort_keys=False))
        return path

    return write


def checksum(store: Path) -> str:
    """Of all files of a store, names and content."""
    digest = hashlib.sha256()
    for file in sorted(store.rglob("*")):
        if file.is_file():
            digest.update(str(file.relative_to(store)).encode() + file.read_bytes())
    return digest.hexdigest()


def report(store: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((store / "report.json").read_text())
    return found
