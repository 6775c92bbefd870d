"""Documents from files: every format, every column, any order of folders."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from euro_lightning.data.corpus import open_corpus
from euro_lightning.data.documents import Document, split_of
from euro_lightning.data.rows import Columns
from euro_lightning.errors import DataError
from tests.conftest import SHARED_DATA

ROWS = [
    {"text": "Hello.", "lang": "en", "doc_id": "1"},
    {"text": "नमस्ते\n दुनिया", "lang": "hi", "doc_id": "2", "quality": 3},
    {"text": "x = 1", "lang": "code", "doc_id": "3"},
    {"text": "1 + 1", "lang": "en", "domain": "math", "doc_id": "4"},
]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()


def write(path: Path) -> Path:
    if path.suffix == ".parquet":
        names = [(name, pa.string()) for name in ("text", "lang", "domain", "doc_id")]
        schema = pa.schema([*names, ("quality", pa.int64())])
        pq.write_table(pa.Table.from_pylist(ROWS, schema=schema), path)
    else:
        packers = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress, ".jsonl": bytes}
        path.write_bytes(packers[path.suffix](LINES))
    return path


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
def test_every_format_gives_the_same_documents(name: str, tmp_path: Path) -> None:
    documents = list(open_corpus(str(write(tmp_path / name))).documents())
    assert documents == [
        Document("Hello.", "en", "1"),
        Document("नमस्ते\n दुनिया", "hi", "2", quality=3),
        Document("x = 1", "code", "3", domain="code"),
        Document("1 + 1", "en", "4", domain="math"),
    ]
    assert [d.source for d in documents] == ["en", "hi", "code", "math"]


def test_files_folders_and_globs_may_be_mixed(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("deep/er/b.jsonl", "a.jsonl", "c.jsonl.gz"):
        write(tmp_path / name)
    (tmp_path / "notes.txt").write_text("not a corpus")
    everything = open_corpus(str(tmp_path))
    assert [f.name for f in everything.files] == ["a.jsonl", "c.jsonl.gz", "b.jsonl"]
    some = open_corpus([str(tmp_path / "*.gz"), str(tmp_path / "deep")])
    assert sorted(f.name for f in some.files) == ["b.jsonl", "c.jsonl.gz"]
    assert everything.fingerprint() != some.fingerprint()


def test_columns_may_have_other_names(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"content": "Bonjour", "language": "fr", "id": 7}\n')
    columns = Columns(text="content", lang="language", doc_id="id")
    assert list(open_corpus(str(path), columns).documents()) == [Document("Bonjour", "fr", "7")]


def test_pairs_and_documents_without_an_id(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    pair = {"text_src": "Hi", "text_tgt": "Salut", "lang_src": "en", "lang_tgt": "fr"}
    other = {**pair, "text_src": "HiS", "text_tgt": "alut"}
    path.write_text("\n".join(json.dumps(row) for row in (pair, other)))
    first, second = open_corpus(str(path)).documents()
    assert (first.text, first.target, first.lang, first.target_lang, first.source) == (
        "Hi",
        "Salut",
        "en",
        "fr",
        "parallel",
    )
    assert first.doc_id != second.doc_id, "the id is a hash of both sides"


def test_a_changed_file_changes_the_fingerprint(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl")
    before = open_corpus(str(path)).fingerprint()
    assert open_corpus(str(path)).fingerprint() == before
    path.write_bytes(LINES.replace(b"Hello", b"Hallo"))
    assert open_corpus(str(path)).fingerprint() != before


def test_a_truncated_zstandard_file_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl.zst")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match="truncated or damaged"):
        list(open_corpus(str(path)).documents())


def test_splits_are_fixed_and_have_their_shares() -> None:
    documents = [Document("", "en", str(i)) for i in range(20_000)]
    splits = [split_of(d, 0.05, 0.02) for d in documents]
    assert splits.count("validation") == pytest.approx(1000, abs=120)
    assert splits.count("test") == pytest.approx(400, abs=80)
    wider = [split_of(d, 0.10, 0.02) for d in documents]
    assert [s == "test" for s in splits] == [s == "test" for s in wider], "test never changes with validation"
    assert split_of(Document("", "en", "x", split="test"), 0, 0) == "test"


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="the shared corpus is not here")
def test_the_shared_corpus_is_read_unchanged() -> None:
    files = [
        str(SHARED_DATA / "corpus" / f"{name}.parquet") for name in ("text_nl", "code", "math", "parallel")
    ]
    counts: dict[str, int] = {}
    corpus = open_corpus(files)
    for document in corpus.documents():
        counts[document.source] = counts.get(document.source, 0) + 1
    assert counts == {"nl": 409, "code": 1829, "math": 9755, "parallel": 86_800}
    assert not corpus.warnings()
