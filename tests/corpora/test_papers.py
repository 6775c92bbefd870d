"""The shipped corpora: the papers' numbers, the columns of the Hub, and the same YAML on text that is here."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
import yaml

from euro_lightning.__main__ import main
from euro_lightning.corpora.building import read_recipe
from euro_lightning.corpora.config import CorpusRecipe
from euro_lightning.data.embedded import embedded_documents
from euro_lightning.data.store import TokenStore
from tests.conftest import REPOSITORY, SHARED_DATA
from tests.corpora.conftest import report, write_parquet

CORPORA = sorted((REPOSITORY / "experiments" / "corpora").glob("*.yaml"))
PAPERS = [path for path in CORPORA if path.stem not in ("laptop", "embedded", "three_languages")]
FEATURES = yaml.safe_load((Path(__file__).parent / "features.yaml").read_text())

# Table 5 of the EuroBERT paper: tokens in millions, and percentages of the languages
TOTAL = 4_843_357
GROUPS = {"en": 2_002_327, "code": 496_850, "math": 211_656, "parallel": 211_371, "culturax": 1_921_120}
CULTURAX = {
    "fr": 6.09, "de": 6.02, "es": 6.00, "zh": 4.92, "it": 2.48, "ru": 2.41, "pt": 2.32, "ja": 2.32, "pl": 2.31,
    "tr": 1.10, "ar": 1.08, "vi": 1.05, "nl": 1.05, "hi": 0.53,
}  # fmt: skip
PERCENT = {"en": 41.34, "code": 10.26, "math": 4.37, "parallel": 4.36, **CULTURAX}


def shipped(path: Path) -> CorpusRecipe:
    return read_recipe(["-c", str(path)])


@pytest.mark.parametrize("path", CORPORA, ids=lambda path: path.stem)
def test_every_shipped_corpus_can_be_read(path: Path) -> None:
    recipe = shipped(path)
    assert recipe.problems() == []
    assert recipe.store == f"stores/{path.stem}"


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_the_columns_that_a_corpus_reads_are_those_of_the_hub(path: Path) -> None:
    for name, source in shipped(path).sources.items():
        features = FEATURES[source.hub or source.path]
        source.require(features, f"sources.{name}")
        assert source.hub is None or source.files is None or source.config is None


@pytest.mark.parametrize("name", ["eurobert-pretraining", "eurobert-annealing"])
def test_the_limits_are_table_5_of_the_paper(name: str) -> None:
    recipe = shipped(REPOSITORY / "experiments" / "corpora" / f"{name}.yaml")
    tokens: dict[str, int] = {}
    for source in recipe.sources.values():
        assert source.limit.tokens is not None and source.stored_as is not None
        tokens[source.stored_as] = tokens.get(source.stored_as, 0) + source.limit.tokens
    for stored_as, percent in PERCENT.items():
        assert 100 * tokens[stored_as] / (TOTAL * 1e6) == pytest.approx(percent, abs=0.011)
    for group in ("en", "code", "math", "parallel"):
        assert tokens[group] == pytest.approx(GROUPS[group] * 1e6, rel=3e-3)
    assert sum(tokens[lang] for lang in CULTURAX) == pytest.approx(GROUPS["culturax"] * 1e6, rel=1e-3)
    assert sum(tokens.values()) == pytest.approx(TOTAL * 1e6, rel=5e-4)


@pytest.mark.parametrize("size", ["210m", "610m", "2.1b"])
def test_the_mixture_of_pretraining_is_table_5_and_sums_to_one(size: str) -> None:
    tree = yaml.safe_load((REPOSITORY / "experiments" / "eurobert" / f"{size}-pretrain.yaml").read_text())
    mixture = tree["data"]["phases"]["pretrain"]["mixture"]
    assert mixture.keys() == PERCENT.keys()
    assert sum(PERCENT.values()) == pytest.approx(100, abs=0.015)
    assert sum(mixture.values()) == pytest.approx(1, abs=1e-9)
    for source, percent in PERCENT.items():
        assert 100 * mixture[source] == pytest.approx(
            percent, abs=0.0101
        )  # English gives way to the others' rounding


def texts() -> dict[str, list[str]]:
    """Some text of every source, shared where it is there, else from installed packages."""
    found: dict[str, list[str]] = {}
    if SHARED_DATA.is_dir():
        for file in sorted((SHARED_DATA / "corpus").glob("*.parquet")):
            if file.stem != "parallel":
                rows = parquet.read_table(file, columns=["text"])["text"].to_pylist()
                found[file.stem.removeprefix("text_")] = [
                    text[:1500] for text in rows[:: max(1, len(rows) // 40)]
                ]
        return found
    for document in embedded_documents():
        if len(found.setdefault(document.source, [])) < 40:
            found[document.source].append(document.text)
    return found


def rows_of(hub: str, lang: str, target: str | None, pool: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    """Rows with the columns of the data set that a source reads."""
    for number, text in enumerate(pool[lang if lang in pool else "en"]):
        row: dict[str, Any] = {"text": text}
        if hub == "HuggingFaceFW/fineweb":
            row |= {
                "id": f"<urn:uuid:{number}>",
                "dump": "x",
                "language": "en",
                "language_score": 0.9,
                "token_count": 1,
            }
        if hub in ("HuggingFaceFW/fineweb", "uonlp/CulturaX"):
            row["url"] = f"https://{lang}.{'wikipedia' if number % 3 == 0 else 'example'}.org/{number}"
        if hub == "EleutherAI/proof-pile-2":
            row["meta"] = json.dumps({"n": number})
        if hub == "Helsinki-NLP/opus-100":
            row = {"translation": {"en": f"{number} {text[:80]}", str(target): f"{target} {text[:80]}"}}
        if hub.startswith("corpora/the-stack-v2"):
            row = {"blob_id": f"b{number}", "content": text, "language": "Python"}
        yield row


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_the_same_yaml_makes_a_store_of_text_that_is_here(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every source reads a file with the columns of its Hub data set; all else stays as shipped."""
    tree, pool = yaml.safe_load(path.read_text()), texts()
    for name, source in tree["sources"].items():
        place = source.pop("hub", None) or source["path"]
        lang = source.get("lang") or source.get("domain")
        rows = list(rows_of(place, lang, source.get("target_lang"), pool))
        for key in ("config", "split", "revision", "files"):
            source.pop(key, None)
        source["path"] = str(write_parquet(tmp_path / f"{name}.parquet", rows))
    tree |= {"store": str(tmp_path / "store"), "tokenizer": {"vocabulary": 1000}, "workers": 1}
    tree |= {"validation_share": 0.1, "test_share": 0.1}
    file = tmp_path / "corpus.yaml"
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    assert main(["prepare", "-c", str(file)]) == 0
    store, found = TokenStore.open(tmp_path / "store"), report(tmp_path / "store")
    assert set(found["sources"]) == set(tree["sources"])
    assert all(
        row["kept"] and not row["bad_rows"] and not row["bad_files"] for row in found["sources"].values()
    )
    expected = {"pt"} if path.stem == "bertomelo" else set(PERCENT)
    assert set(store.sources) == expected
    if path.stem == "eurobert-annealing":
        assert {facts["source"] for facts in found["quality"].values()} == {"en", *CULTURAX}
        assert all(min(found["sources"][name]["quality"][1:]) > 0 for name in ("fineweb", "culturax_fr"))
