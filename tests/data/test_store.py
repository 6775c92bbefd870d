"""Corpus to token store and back, and from the store to packed batches."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from euro_lightning.data.packing import Plan, Slice, pack, sequential
from euro_lightning.data.prepare import CorpusConfig, prepare
from euro_lightning.data.store import TOKENIZER, TokenStore
from euro_lightning.data.tokenizer import TokenizerConfig, load_tokenizer
from tests.conftest import small_corpus, small_pairs, write_jsonl

Store = Callable[..., TokenStore]


@pytest.fixture
def make(corpus: Path, tmp_path: Path) -> Store:
    def prepared(**changes: object) -> TokenStore:
        config = {
            "corpus": str(corpus),
            "tokenizer": TokenizerConfig(vocabulary=400),
            "stores": str(tmp_path / "s"),
        }
        return prepare(CorpusConfig(**{**config, **changes}), say=lambda line: None)  # type: ignore[arg-type]

    return prepared


def test_every_document_is_stored_once_with_its_end_of_text(make: Store) -> None:
    store = make()
    tokenizer = load_tokenizer(store.path / TOKENIZER)
    expected = {row["doc_id"]: row["text"] for row in small_corpus() if row["text"].strip()}
    found = {}
    for source in ("en", "fr", "code"):
        for split in ("train", "validation", "test"):
            documents = store.documents(source, split)
            identities = documents.table.column("doc_id").to_pylist()
            for number, identity in enumerate(identities):
                tokens = documents.tokens(number).tolist()
                assert tokens[-1] == tokenizer.eos
                assert len(tokens) == documents.lengths(np.array([number]))[0]
                found[identity] = tokenizer.decode(tokens[:-1])
    assert found == expected


def test_a_pair_is_source_separator_target_and_can_be_turned_round(make: Store) -> None:
    store = make()
    tokenizer = load_tokenizer(store.path / TOKENIZER)
    documents = store.documents("parallel", "train")
    separator, end = tokenizer.token_string(tokenizer.parallel_sep), tokenizer.token_string(tokenizer.eos)
    pairs = {(row["text_src"], row["text_tgt"]) for row in small_pairs()}
    for number in range(len(documents)):
        source, target = (
            tokenizer.decode(documents.tokens(number).tolist()).removesuffix(end).split(separator)
        )
        assert (source, target) in pairs
        assert tokenizer.decode(documents.swapped(number).tolist()) == target + separator + source + end


def test_pairs_are_read_in_both_directions_over_the_epochs(make: Store) -> None:
    store = make()
    documents = {"parallel": store.documents("parallel", "train")}
    special = np.zeros(400, dtype=bool)

    def read(document: int, epoch: int) -> list[int]:
        length = int(documents["parallel"].lengths(np.array([document]))[0])
        return pack(
            Plan(0, 0, {}, [Slice("parallel", document, 0, length, epoch)]), documents, special
        ).ids.tolist()

    for document in (0, 1):
        assert read(document, 0) != read(document, 1)
        assert read(document, 0) == read(document, 2)
    plain = documents["parallel"].tokens(0).tolist()
    assert (read(0, 0) == plain) != (read(1, 0) == documents["parallel"].tokens(1).tolist()), (
        "half begin turned round"
    )


def test_a_store_can_be_read_with_datasets(make: Store) -> None:
    from datasets import load_from_disk

    store = make()
    data = load_from_disk(str(store.path / "train" / "en"))
    ours = store.documents("en", "train")
    assert len(data) == len(ours)
    assert data[3]["tokens"] == ours.tokens(3).tolist()
    assert set(data.column_names) == {"tokens", "lang", "domain", "quality", "doc_id"}


def test_the_same_configuration_finds_its_store_and_another_does_not(make: Store) -> None:
    first = make()
    stamp = (first.path / "manifest.json").stat().st_mtime_ns
    again = make()
    assert again.path == first.path and (again.path / "manifest.json").stat().st_mtime_ns == stamp
    assert make(tokenizer=TokenizerConfig(vocabulary=420)).path != first.path
    assert make(validation_share=0.1).path != first.path


def test_two_that_start_together_build_one_store(make: Store, tmp_path: Path) -> None:
    stores: list[TokenStore] = []
    threads = [threading.Thread(target=lambda: stores.append(make())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({store.path for store in stores}) == 1
    assert len([p for p in (tmp_path / "s").iterdir() if p.is_dir() and p.name != "tokenizers"]) == 1
    assert stores[0].verify() > 0


def test_preparing_twice_gives_the_same_bytes(make: Store, tmp_path: Path) -> None:
    first = make()
    second = make(stores=str(tmp_path / "other"))
    assert first.manifest["files"] == second.manifest["files"]


def test_splits_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    rows = small_corpus()
    sides = []
    for name, ordered in (("a", rows), ("b", rows[::-1])):
        write_jsonl(tmp_path / f"{name}.jsonl", ordered)
        config = CorpusConfig(str(tmp_path / f"{name}.jsonl"), tokenizer=TokenizerConfig(vocabulary=400))
        store = prepare(
            CorpusConfig(**{**vars(config), "stores": str(tmp_path / name)}), say=lambda line: None
        )
        sides.append(
            {
                s: sorted(store.documents("en", s).table.column("doc_id").to_pylist())
                for s in ("validation", "test")
            }
        )
    assert sides[0] == sides[1]
    assert sides[0]["validation"] and sides[0]["test"]


def test_counts_are_those_of_the_training_split(make: Store) -> None:
    store = make()
    documents = store.documents("en", "train")
    expected = np.bincount(
        np.concatenate([documents.tokens(i) for i in range(len(documents))]), minlength=400
    )
    assert np.array_equal(store.token_counts()["en"], expected)
    facts = store.sources["en"]["splits"]["train"]
    assert facts["tokens"] == expected.sum() and facts["documents"] == len(documents)


def test_evaluation_reads_the_first_documents_of_each_source_by_itself(make: Store) -> None:
    store = make()
    sources = {name: store.documents(name, "validation") for name in ("en", "fr")}
    plans = sequential(sources, 700, 64, 256)
    for name in sources:
        mine = [p for p in plans if p.segments[0].source == name]
        assert all(part.source == name for p in mine for part in p.segments)
        total = sum(part.length for p in mine for part in p.segments)
        assert total == min(700, int(sources[name].lengths(np.arange(len(sources[name]))).sum()))
        assert all(sum(part.length for part in p.segments) <= 256 for p in mine)
        assert max(part.length for p in mine for part in p.segments) <= 64


def test_quality_and_language_of_each_document_are_kept(tmp_path: Path) -> None:
    rows = [
        {"text": f"document number {i}", "lang": "en", "doc_id": str(i), "quality": i % 5} for i in range(100)
    ]
    write_jsonl(tmp_path / "q.jsonl", rows)
    config = CorpusConfig(
        str(tmp_path / "q.jsonl"), tokenizer=TokenizerConfig(vocabulary=400), stores=str(tmp_path / "s")
    )
    documents = prepare(config, say=lambda line: None).documents("en", "train")
    identities = documents.table.column("doc_id").to_pylist()
    assert documents.quality.tolist() == [int(i) % 5 for i in identities]
