"""What goes wrong is told in one line, and nothing is half-written."""

import gzip
import json
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from euro_lightning.__main__ import main
from tests.conftest import REPOSITORY, command_line, write_experiment, write_jsonl
from tests.corpora.conftest import by_language, report, write_parquet

Write = Callable[..., Path]
Complaint = Callable[..., str]


def nothing_written(tmp_path: Path) -> bool:
    return not (tmp_path / "stores" / "small").exists()


def damaged(tmp_path: Path, kind: str) -> Path:
    rows = by_language()["en"]
    whole = write_parquet(tmp_path / f"{kind}.parquet", rows)
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    if kind == "unreadable":
        whole.write_bytes(b"PAR1" + b"\0" * 400 + b"PAR1")
        return whole
    if kind == "no parquet":
        whole.write_bytes(lines)
        return whole
    if kind == "cut":
        path = tmp_path / "cut.jsonl.gz"
        packed = gzip.compress(lines)
        path.write_bytes(packed[: len(packed) // 2])
        return path
    path = tmp_path / "encoding.jsonl"
    path.write_bytes(lines + '{"text": "Stra\u00dfe"}\n'.encode("latin-1") + lines)
    return path


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("unreadable", "unreadable.parquet is damaged after row 0"),
        ("no parquet", "no parquet.parquet is not what its name says"),
        ("cut", "cut.jsonl.gz is truncated or damaged after line"),
        ("encoding", "encoding.jsonl, line {} is not valid UTF-8"),
    ],
)
def test_bad_rows_and_broken_files_are_listed_and_do_not_stop_the_rest(
    kind: str, told: str, corpus_file: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = damaged(tmp_path, kind)
    good = write_jsonl(tmp_path / "good.jsonl", by_language()["en"])
    changes = {"sources.english.path": [str(path), str(good)]}
    assert main(["prepare", "-c", str(corpus_file(changes))]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("bad: ")]
    assert told.format(len(by_language()["en"]) + 1) in line
    row = report(tmp_path / "stores" / "small")["sources"]["english"]
    assert (row["bad_rows"], row["bad_files"]) == ((1, 0) if kind == "encoding" else (0, 1))
    assert row["kept"] >= len(by_language()["en"])


@pytest.mark.parametrize("kind", ["unreadable", "no parquet", "cut", "encoding"])
def test_unless_there_are_more_than_allowed(
    kind: str, corpus_file: Write, complaint: Complaint, tmp_path: Path
) -> None:
    changes = {"sources.english.path": str(damaged(tmp_path, kind)), "most_bad": 0}
    line = complaint(1, "prepare", "-c", corpus_file(changes))
    assert "1 rows and files cannot be read, most_bad is 0; the first: " in line
    assert nothing_written(tmp_path)


def test_a_missing_column_is_told_with_the_nearest_before_anything_runs(
    corpus_file: Write, complaint: Complaint, tmp_path: Path
) -> None:
    path = corpus_file({"sources.english.columns": {"text": "txt"}})
    line = complaint(1, "prepare", "-c", path)
    assert "en.parquet has no column 'txt'" in line and "did you mean 'text'?" in line
    assert not (tmp_path / "stores" / ".small.work").exists()


def test_rows_without_the_column_are_bad_rows_and_a_source_without_documents_an_error(
    corpus_file: Write, complaint: Complaint, tmp_path: Path
) -> None:
    line = complaint(1, "prepare", "-c", corpus_file({"sources.french.columns": {"text": "txt"}}))
    assert "sources.french has no document: 0 documents were read; " in line
    assert "fr.jsonl, line 1 has no column 'txt'" in line
    assert nothing_written(tmp_path)


def test_an_empty_source_is_told_with_what_was_dropped(
    corpus_file: Write, complaint: Complaint, tmp_path: Path
) -> None:
    changes = {
        "sources.french.filters": {"minimum_characters": 10**6},
        "sources.empty": {"path": "", "lang": "en"},
    }
    (tmp_path / "empty.jsonl").write_text("")
    changes["sources.empty"] = {"path": str(tmp_path / "empty.jsonl"), "lang": "en"}
    line = complaint(1, "prepare", "-c", corpus_file(changes))
    assert "sources.french has no document: 150 documents were read, dropped 150 minimum_characters" in line
    assert "sources.empty has no document: 0 documents were read" in line
    assert nothing_written(tmp_path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sources.english.quality": {"column": "x", "thresholds": [3, 2, 1]}}, "[3.0, 2.0, 1.0] is out of order"),
        ({"sources.english.qality": {}}, "unknown key 'sources.english.qality'; did you mean 'quality'?"),
        ({"sources.english.domain": "texts"}, "sources.english.domain is 'texts': choose one of text"),
        ({"sources.english.hub": "a/b"}, "sources.english: give path or hub, one of them"),
        ({"sources.english.filters": {"paragraphs": {}}, "sources.english.lang": "zh"}, "counts words, and 'zh'"),
        ({"sources.english.lang": "../x"}, "sources.english.lang is '../x': it must be a language code"),
        ({"store": None}, "store is missing"),
        ({"executor": "slurm"}, "slurm.partition is missing"),
        ({"executor": "local_"}, "executor is 'local_': choose one of local, slurm, ray; did you mean 'local'?"),
        ({"tokenizer.vocabulary": 10}, "tokenizer.vocabulary is 10"),
        ({"duplicates": {"kind": "near", "bands": 0}}, "duplicates.bands is 0"),
        ({"validation_share": 0.9, "test_share": 0.2}, "nothing to train on"),
        ({"sources.english.limit": {"tokens": 0}}, "sources.english.limit.tokens is 0"),
        ({"sources": {}}, "sources is"),
    ],
)  # fmt: skip
def test_a_configuration_that_makes_no_sense_is_told_before_anything_is_read(
    changes: dict[str, Any], told: str, corpus_file: Write, complaint: Complaint, tmp_path: Path
) -> None:
    line = complaint(2, "prepare", "-c", corpus_file(changes))
    assert told in line
    assert not (tmp_path / "stores").exists()


def test_all_problems_are_told_at_once(corpus_file: Write, complaint: Complaint) -> None:
    changes = {"sources.english.limit": {"tokens": 0}, "sources.french.lang": "zh",
               "sources.french.filters": {"paragraphs": {}}, "workers": -1}  # fmt: skip
    line = complaint(2, "prepare", "-c", corpus_file(changes))
    assert line.count(" | ") == 2


def test_files_that_are_not_there_are_told(corpus_file: Write, complaint: Complaint) -> None:
    line = complaint(1, "prepare", "-c", corpus_file({"sources.english.path": "nowhere/*.parquet"}))
    assert "sources.english.path 'nowhere/*.parquet' matches nothing" in line


def test_a_scorer_that_gives_no_number_for_each_text_is_told(
    corpus_file: Write, complaint: Complaint, tmp_path: Path
) -> None:
    quality = {"scorer": "tests.corpora.scorer:wrong", "thresholds": [1, 2, 3]}
    line = complaint(1, "prepare", "-c", corpus_file({"sources.english.quality": quality}))
    assert "tests.corpora.scorer:wrong gave scores of shape []" in line
    assert nothing_written(tmp_path)


def test_a_class_without_a_bucket_makes_its_rows_bad(
    corpus_file: Write, complaint: Complaint, tmp_path: Path
) -> None:
    quality = {"column": "doc_id", "classes": {"x": 1}}
    line = complaint(1, "prepare", "-c", corpus_file({"sources.english.quality": quality}))
    assert "en.parquet, row 1: class 'assert/0' is not among the quality classes ['x']" in line


def test_a_scorer_that_is_not_there_is_told_before_anything_is_read(
    corpus_file: Write, complaint: Complaint, tmp_path: Path
) -> None:
    quality = {"scorer": "tests.corpora.scorer:lenght", "thresholds": [1, 2, 3]}
    line = complaint(2, "prepare", "-c", corpus_file({"sources.english.quality": quality}))
    assert "did you mean 'length'?" in line
    assert not (tmp_path / "stores" / ".small.work").exists()


def test_what_may_be_bad_can_be_raised_and_the_work_goes_on(
    corpus_file: Write, complaint: Complaint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {"sources.english.path": str(damaged(tmp_path, "encoding")), "most_bad": 0}
    complaint(1, "prepare", "-c", corpus_file(changes))
    assert main(["prepare", "-c", str(corpus_file({**changes, "most_bad": 1}))]) == 0
    assert "goes on where it was stopped" in capsys.readouterr().err


def test_two_at_the_same_time_do_not_disturb_each_other(
    corpus_file: Write, complaint: Complaint, tmp_path: Path
) -> None:
    from euro_lightning.files import locked

    with locked(tmp_path / "stores" / ".small.lock"):
        line = complaint(1, "prepare", "-c", corpus_file())
    assert "another process prepares" in line


def test_a_store_of_another_configuration_is_not_touched(
    corpus_file: Write, complaint: Complaint, tmp_path: Path
) -> None:
    assert main(["prepare", "-c", str(corpus_file())]) == 0
    line = complaint(1, "prepare", "-c", corpus_file({"tokenizer.vocabulary": 500}))
    assert "was made from another corpus or configuration (tokenizer differ)" in line
    line = complaint(1, "prepare", "-c", corpus_file({"sources.french": None}))
    assert "(sources differ)" in line


def test_a_share_for_an_empty_bucket_is_told_by_training(
    corpus_file: Write, config: dict[str, Any], complaint: Complaint, tmp_path: Path
) -> None:
    assert main(["prepare", "-c", str(corpus_file())]) == 0
    experiment = write_experiment(
        tmp_path / "e.yaml",
        config,
        {
            "data.corpus": str(tmp_path / "stores" / "small"),
            "data.phases.pretrain.mixture": {"en": {"share": 0.5, "quality": [4]}, "rest": 0.5},
        },
    )
    line = complaint(2, "fit", "-c", experiment)
    assert "mixture.en: no document of quality [4]" in line


def test_a_store_of_another_tokenizer_is_told(
    corpus_file: Write, config: dict[str, Any], complaint: Complaint, tmp_path: Path
) -> None:
    assert main(["prepare", "-c", str(corpus_file())]) == 0
    other = {"store": str(tmp_path / "other"), "tokenizer.vocabulary": 420}
    assert main(["prepare", "-c", str(corpus_file(other))]) == 0
    changes = {
        "data.corpus": str(tmp_path / "stores" / "small"),
        "data.tokenizer": {"path": str(tmp_path / "other" / "tokenizer.json")},
    }
    line = complaint(1, "fit", "-c", write_experiment(tmp_path / "e.yaml", config, changes))
    assert "was made with another tokenizer than data.tokenizer.path" in line


def test_a_full_disk_is_told_and_the_work_goes_on_when_there_is_room(
    corpus_file: Write, tmp_path: Path
) -> None:
    """Stood in for by a limit on the size of files, which ends in the same error of writing."""
    path = corpus_file()

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    full = subprocess.run(
        command_line("prepare", "-c", path), cwd=REPOSITORY, capture_output=True, text=True, check=False,
        preexec_fn=small_files, timeout=120,
    )  # fmt: skip
    assert full.returncode == 1, full.stderr
    (line,) = [line for line in full.stderr.splitlines() if line.startswith("error: ")]
    assert "File too large" in line and "goes on from here" in line
    assert nothing_written(tmp_path)
    assert not [file for file in (tmp_path / "stores").rglob("*.tmp") if file.is_file()]
    assert main(["prepare", "-c", str(path)]) == 0
