"""tokenizer train and tokenizer report, from the command line."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from euro_lightning.__main__ import main
from euro_lightning.data.corpus import open_corpus
from euro_lightning.data.documents import split_of
from euro_lightning.data.prepare import CorpusConfig, prepare
from euro_lightning.data.tokenizer import TokenizerConfig, load_tokenizer
from euro_lightning.encoder import directory
from tests.conftest import SHARED_DATA, write_jsonl

Complaint = Callable[..., str]


@pytest.fixture(scope="module")
def trained(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the folders of two tokenizers."""
    folder = tmp_path_factory.mktemp("tokenizers")
    for kind in ("bpe", "unigram"):
        words = ["tokenizer", "train", folder / kind, "--kind", kind, "--corpus", corpus, "--vocabulary", 700]
        assert main([str(word) for word in words]) == 0
    return folder


def report(trained: Path, corpus: Path, *options: str | Path) -> int:
    words = ["tokenizer", "report", trained / "bpe", trained / "unigram", "--corpus", corpus, *options]
    return main([str(word) for word in words])


def numbers(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Rows of a CSV file, by the name of the tokenizer's folder and the source."""
    with open(path, encoding="utf-8", newline="") as file:
        return {(Path(row["tokenizer"]).name, row["source"]): row for row in csv.DictReader(file)}


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_trained_folder_serves_here_and_in_transformers(kind: str, trained: Path) -> None:
    from transformers import AutoTokenizer

    folder = trained / kind
    assert {path.name for path in folder.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    ours, theirs = load_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    assert ours.vocabulary == len(theirs) == 700
    ids = (theirs.bos_token_id, theirs.eos_token_id, theirs.pad_token_id, theirs.mask_token_id)
    assert ids == ours.roles[:4]
    assert (theirs.cls_token_id, theirs.sep_token_id, theirs.unk_token_id) == (
        ours.bos,
        ours.eos,
        ours.unknown,
    )
    text = "Code is text:\n    def f(x): return x"
    assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode_batch([text])[0]
    assert theirs.mask_token_id in theirs(f"one {theirs.mask_token} three")["input_ids"]


def test_unigram_frames_pairs_in_transformers_as_bertomelo_does(trained: Path) -> None:
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(trained / "unigram")
    ids = theirs("the", "the")["input_ids"]
    assert [ids[0], ids[-1], len(ids)] == [2, 3, 5] and ids[2] == 3


def test_training_reads_only_the_training_split_of_the_languages_asked_for(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tokenizer", "train", tmp_path / "out", "--corpus", corpus, "--languages", "fr,code"]
    assert main([str(word) for word in [*words, "--vocabulary", "400", "--test_share", "0.3"]]) == 0
    documents = [d for d in open_corpus(str(corpus)).documents() if split_of(d, 0.05, 0.3) == "train"]
    output = capsys.readouterr().out
    total = 0
    for source in ("fr", "code"):
        own = [len(d.text) for d in documents if d.source == source]
        total += sum(own)
        assert f"{source:<10} {sum(own):>14,} characters {len(own):>10,} documents" in output
    assert f"from {total:,} characters" in output
    assert "bpe, 400 tokens" in output


def test_fewer_tokens_than_asked_for_is_a_warning_with_the_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_jsonl(
        tmp_path / "a.jsonl", [{"text": "o mundo e a casa, o mundo e a rua", "lang": "pt"}] * 5
    )
    words = ["tokenizer", "train", tmp_path / "out", "--kind", "unigram", "--corpus", file]
    assert main([str(word) for word in [*words, "--test_share", "0", "--validation_share", "0"]]) == 0
    made = load_tokenizer(tmp_path / "out").vocabulary
    assert f"warning: the text gives {made:,} tokens, not 32,768" in capsys.readouterr().err


def test_a_folder_with_a_tokenizer_is_written_over_only_by_force(
    trained: Path, corpus: Path, tmp_path: Path, complaint: Complaint
) -> None:
    out = tmp_path / "out"
    words = ["tokenizer", "train", out / "tokenizer.json", "--corpus", corpus, "--languages", "en"]
    assert main([str(word) for word in [*words, "--vocabulary", "400"]]) == 0
    assert "exists; --force writes over it" in complaint(1, *words, "--vocabulary", "350")
    assert load_tokenizer(out).vocabulary == 400
    assert main([str(word) for word in [*words, "--vocabulary", "350", "--force"]]) == 0
    assert load_tokenizer(out).vocabulary == 350
    (out / "model.safetensors").write_text("precious")
    assert "no folder of a tokenizer alone" in complaint(1, *words, "--vocabulary", "400", "--force")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_the_report_agrees_with_counting_by_hand(trained: Path, corpus: Path, tmp_path: Path) -> None:
    assert report(trained, corpus, "--csv", tmp_path / "all.csv") == 0
    rows = numbers(tmp_path / "all.csv")
    assert {source for _, source in rows} == {"en", "fr", "code", "parallel", "total"}
    held_out = [d for d in open_corpus(str(corpus)).documents() if split_of(d, 0.05, 0.05) == "test"]
    for kind in ("bpe", "unigram"):
        tokenizer = load_tokenizer(trained / kind)
        texts = [d.text for d in held_out if d.source == "en"]
        tokens = sum(map(len, tokenizer.encode_batch(texts)))
        row = rows[kind, "en"]
        assert int(row["documents"]) == len(texts)
        assert float(row["fertility"]) == tokens / sum(len(text.split()) for text in texts)
        assert float(row["bytes_per_token"]) == sum(len(text.encode()) for text in texts) / tokens
        assert int(row["embedding_tied"]) == 700 * 768
        assert int(rows[kind, "total"]["documents"]) == len(held_out)
    assert {rows["bpe", source]["changed"] for _, source in rows} == {"0"}, "bytes always come back"
    assert rows["unigram", "code"]["changed"] == rows["unigram", "code"]["documents"]


def test_the_sample_is_as_large_as_asked_for_and_always_the_same(
    trained: Path, corpus: Path, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        options = [
            "--documents",
            "3",
            "--split",
            "all",
            "--csv",
            tmp_path / f"{name}.csv",
            "--languages",
            "en,fr",
        ]
        assert report(trained, corpus, *options) == 0
    rows = numbers(tmp_path / "one.csv")
    assert rows == numbers(tmp_path / "two.csv")
    assert {row["documents"] for (_, source), row in rows.items() if source != "total"} == {"3"}


def test_tables_fit_a_terminal_and_the_figure_is_drawn(
    trained: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = tmp_path / "new" / "figure.png"
    assert report(trained, corpus, "--figure", figure, "--width", "64") == 0
    output = capsys.readouterr().out
    assert max(map(len, output.splitlines())) <= 120
    for text in (
        "unigram",
        "Unigram",
        "BPE",
        "44,800",
        "89,600",
        "def __init__(self):",
        "ĠĠĠĠĠĠĠĠ",
        "parallel",
    ):
        assert text in output, text
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in figure.parent.iterdir()] == ["figure.png"]


def test_without_words_a_dash_stands_and_the_number_is_left_empty(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_jsonl(tmp_path / "zh.jsonl", [{"text": "世界" * 9, "lang": "zh"}])
    assert report(trained, file, "--split", "all", "--csv", tmp_path / "zh.csv") == 0
    assert "–" in capsys.readouterr().out
    rows = numbers(tmp_path / "zh.csv")
    assert {(row["fertility"], row["whole_share"]) for row in rows.values()} == {("", "")}
    assert float(rows["unigram", "zh"]["unknown_share"]) > 0


def test_a_tokenizer_without_a_mask_is_reported(corpus: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    Tokenizer(models.WordLevel({"?": 0, "a": 1}, unk_token="?")).save(str(tmp_path / "words.json"))
    words = ["tokenizer", "report", tmp_path / "words.json", "--corpus", corpus, "--documents", "2"]
    assert main([str(word) for word in words]) == 0


def test_a_name_on_the_hub_brings_the_tokenizer_and_nothing_else(
    trained: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def snapshot(name: str, allow_patterns: list[str]) -> str:
        asked[name] = allow_patterns
        return str(trained / "bpe")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    assert main(["tokenizer", "report", "someone/model", "--corpus", str(corpus), "--documents", "2"]) == 0
    assert asked == {"someone/model": ["tokenizer.json", "tokenizer_config.json"]}
    assert directory.is_hub_name("someone/model")


def test_experiments_train_unigram_too(corpus: Path, tmp_path: Path) -> None:
    config = CorpusConfig(
        corpus=str(corpus), stores=str(tmp_path), tokenizer=TokenizerConfig(kind="unigram", vocabulary=600)
    )
    store = prepare(config, say=lambda line: None)
    tokenizer = load_tokenizer(store.path)
    assert (tokenizer.vocabulary, tokenizer.eos) == (600, 3)
    bpe = CorpusConfig(corpus=str(corpus), stores=str(tmp_path), tokenizer=TokenizerConfig(vocabulary=600))
    assert prepare(bpe, say=lambda line: None).path != store.path


@pytest.mark.parametrize(
    ("code", "words", "message"),
    [
        (2, ["trian"], "unknown subcommand 'trian'; choose train or report; did you mean 'train'?"),
        (2, ["train", "--corpus", "CORPUS"], "tokenizer train: OUT is missing"),
        (2, ["train", "OUT"], "--corpus is missing"),
        (2, ["train", "OUT", "--corpus", "CORPUS", "--kind", "unigrm"], "did you mean 'unigram'?"),
        (2, ["train", "OUT", "--corpus", "CORPUS", "--vocabulary", "99"], "--vocabulary is 99: it must be at least"),
        (2, ["train", "OUT", "--corpus", "CORPUS", "--test_share", "1"], "--test_share is 1: a share lies"),
        (2, ["train", "OUT", "--corpus", "CORPUS", "--columns", "{txt: a}"], "did you mean 'text'?"),
        (1, ["train", "OUT", "--corpus", "CORPUS", "--columns", "{text: a}"], "has no column 'a'"),
        (1, ["train", "OUT", "--corpus", "CORPUS", "--languages", "pt,en"], "no document of 'pt'; it has code, en"),
        (1, ["train", "OUT", "--corpus", "nowhere/*.parquet"], "matches nothing"),
        (1, ["train", "CORPUS", "--corpus", "CORPUS"], "exists and is no folder of a tokenizer alone"),
        (1, ["train", "FILE/out", "--corpus", "CORPUS", "--vocabulary", "400"], "cannot be written"),
        (2, ["report", "--corpus", "CORPUS"], "give at least one tokenizer"),
        (1, ["report", "TRAINED/bep", "--corpus", "CORPUS"], "no such file or folder; did you mean 'TRAINED/bpe'?"),
        (1, ["report", "FILE", "--corpus", "CORPUS"], "is not a tokenizer"),
        (1, ["report", "CORPUS", "--corpus", "CORPUS"], "tokenizer.json does not exist"),
        (2, ["report", "TRAINED/bpe", "--corpus", "CORPUS", "--figure", "a.jpg"], "--figure a.jpg: the name must"),
        (2, ["report", "TRAINED/bpe", "--corpus", "CORPUS", "--csv", "a.txt"], "--csv a.txt: the name must"),
        (2, ["report", "TRAINED/bpe", "--corpus", "CORPUS", "--documents", "0"], "--documents is 0"),
        (2, ["report", "TRAINED/bpe", "--corpus", "CORPUS", "--split", "tset"], "did you mean 'test'?"),
        (1, ["report", "TRAINED/bpe", "--corpus", "CORPUS", "--test_share", "0"], "test split of the corpus has no"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_leaves_nothing(
    code: int,
    words: list[str],
    message: str,
    corpus: Path,
    trained: Path,
    tmp_path: Path,
    complaint: Complaint,
) -> None:
    (tmp_path / "FILE").write_text("{")
    places = {"CORPUS": corpus, "TRAINED": trained, "OUT": tmp_path / "OUT", "FILE": tmp_path / "FILE"}

    def placed(text: str) -> str:
        for name, path in places.items():
            text = text.replace(name, str(path)) if text.startswith(name) or "'" in text else text
        return text

    assert placed(message) in complaint(code, "tokenizer", *map(placed, words))
    assert [path.name for path in tmp_path.iterdir()] == ["FILE"]


def test_help_explains_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tokenizer"]) == 0
    assert "tokenizer train OUT" in capsys.readouterr().out
    for command in ("train", "report"):
        assert main(["tokenizer", command, "--help"]) == 0
        output = capsys.readouterr().out
        assert f"usage: python -m euro_lightning tokenizer {command}" in output
        assert "--languages" in output and "by default all" in output


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="needs the shared corpus")
def test_on_real_dutch_a_unigram_of_8000_knows_all_and_loses_nothing_but_case_and_space(
    tmp_path: Path,
) -> None:
    file = SHARED_DATA / "corpus" / "text_nl.parquet"
    out = tmp_path / "nl"
    train = ["tokenizer", "train", out, "--kind", "unigram", "--vocabulary", "8000", "--corpus", file]
    assert main([str(word) for word in train]) == 0
    words = ["tokenizer", "report", out, "--corpus", file, "--csv", tmp_path / "nl.csv"]
    assert main([str(word) for word in words]) == 0
    row = numbers(tmp_path / "nl.csv")["nl", "nl"]
    assert 1 < float(row["fertility"]) < 2.5
    assert float(row["unknown_share"]) < 1e-4
    assert row["lost"] == "0"
