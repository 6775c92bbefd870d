"""Wrong commands and broken inputs: one line each, what is wrong and how to mend it, nothing half-written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from euro_lightning.__main__ import main
from euro_lightning.checkpoint import list_checkpoints
from euro_lightning.data.store import TokenStore
from euro_lightning.errors import DataError
from tests.conftest import last_checkpoint, run, small_corpus, write_jsonl

Complaint = Callable[..., str]
Experiment = Callable[..., Path]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fti"], "unknown command 'fti'; did you mean 'fit'?"),
        (["fit"], "data.phases is missing: give an experiment"),
        (["fit", "-c", "experiments/aneal.yaml"], "no such file; did you mean 'experiments/anneal.yaml'?"),
        (["fit", "experiments/anneal.yaml"], "'experiments/anneal.yaml' is not expected here: give -c FILE"),
        (["fit", "--data.seed", "3", "-c", "FILE"], "--data.seed stands before -c: overrides follow"),
        (
            ["fit", "-c", "FILE", "--data.batch_token", "5"],
            "'data.batch_token'; did you mean 'batch_tokens'?",
        ),
        (["fit", "-c", "FILE", "--modle.encoder", "tiny"], "unknown key 'modle'; did you mean 'model'?"),
        (["fit", "-c", "FILE", "--data.seed", "many"], "data.seed is 'many': it must be a whole number"),
        (["fit", "-c", "FILE", "--data.seed.x", "1"], "data.seed has no keys below it"),
        (
            ["fit", "-c", "FILE", "--data.phases.anneal.masking_ratio", "[x]"],
            "must be a number or a mapping with the keys",
        ),
        (
            ["fit", "-c", "FILE", "--data.phases.anneal.masking_ratio", "[0.5, 1]"],
            "data.phases.anneal.masking_ratio is 1: it lies between 0 and 1",
        ),
        (
            ["fit", "-c", "FILE", "--data.phases.anneal.lengths.kind", "fix"],
            "choose one of fixed, random, concatenated; did you mean 'fixed'",
        ),
        (
            ["fit", "-c", "FILE", "--data.phases.anneal.learning_rate.shape", "cos"],
            "choose one of linear, cosine, 1-sqrt",
        ),
        (
            ["fit", "-c", "FILE", "--trainer.max_steps", "9"],
            "trainer.max_steps cannot be set: the run ends with its last phase",
        ),
        (
            ["fit", "-c", "FILE", "--trainer.devcies", "2"],
            "unknown key 'trainer.devcies'; did you mean 'devices'?",
        ),
        (["fit", "-c", "FILE", "--trainer.accelerator", "gpuu"], "the configuration cannot be used"),
        (["fit", "-c", "FILE", "--fill"], "unknown key 'fill'"),
        (["fit", "-c", "FILE", "--name", "../up"], "name '../up': use letters, digits"),
        (
            ["fit", "-c", "FILE", "--model.encoder.layer", "2"],
            "unknown key 'model.encoder.layer'; did you mean 'layers'?",
        ),
        (["fit", "-c", "FILE", "--model.encoder.heads", "3"], "width 32 is not a multiple of heads 3"),
        (
            ["fit", "-c", "FILE", "--data.micro_batch_tokens", "300"],
            "is not a multiple of data.micro_batch_tokens 300",
        ),
        (
            ["fit", "-c", "FILE", "--data.micro_batch_tokens", "32"],
            "is below the longest segment of phase pretrain",
        ),
        (
            ["fit", "-c", "FILE", "--data.phases.pretrain.lengths.maximum", "256"],
            "above the encoder's max_length 128",
        ),
        (
            ["fit", "-c", "FILE", "--data.phases.anneal.mixture.en", "0.5"],
            "data.phases.anneal.mixture: the shares sum to 1.1",
        ),
        (
            ["fit", "-c", "FILE", "--data.phases.anneal.mixture.cod", "0.3"],
            "mixture.cod names no source.*did you mean 'code'",
        ),
        (
            ["fit", "-c", "FILE", "--model.replacement.mask", "0.5"],
            "mask, random and keep sum to 0.5 instead of 1",
        ),
        (["fit", "-c", "FILE", "--model.attention", "flash_attn"], "model.attention flash_attn needs a GPU"),
        (["fit", "-c", "FILE", "--data.corpus", "/nowhere/*.parquet"], "matches nothing"),
        (["fit", "-c", "FILE", "--resume", "runs/none/at/all"], "no such run or checkpoint"),
        (
            ["fit", "-c", "FILE", "--init_from", "nowhere.ckpt"],
            "--init_from nowhere.ckpt: no such checkpoint",
        ),
        (
            ["fit", "-c", "FILE", "--init_from", "tests/none"],
            "--init_from tests/none: no such checkpoint, run",
        ),
        (["validate", "-c", "FILE"], "has no checkpoint: train it with fit"),
        (["predict", "-c", "FILE", "--input", "nowhere.txt"], "--input nowhere.txt: no such file"),
    ],
)
def test_wrong_commands(
    arguments: list[str], message: str, experiment: Experiment, complaint: Complaint, tmp_path: Path
) -> None:
    import re

    words = [str(experiment()) if word == "FILE" else word for word in arguments]
    by_config = not any(
        text in message for text in ("no such run", "no such checkpoint", "has no checkpoint", "matches")
    )
    line = complaint(2 if by_config else 1, *words)
    assert re.search(message if ".*" in message else re.escape(message), line), line
    assert not list((tmp_path / "runs").glob("*/checkpoints/*.ckpt"))


def test_a_missing_corpus_is_told_before_processes_wait_for_each_other(
    complaint: Complaint, tmp_path: Path
) -> None:
    """A recipe for 18 machines, started on one: it must not wait for the other 17 to say so."""
    line = complaint(1, "fit", "-c", "experiments/eurobert/210m-anneal.yaml", "--root", tmp_path)
    assert "data.corpus 'stores/eurobert-annealing' does not exist" in line
    assert "a token store is made by prepare" in line
    assert not list(tmp_path.iterdir())


def test_a_language_of_the_corpus_without_a_share_is_named(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    path = experiment({"data.phases.anneal.mixture": {"en": 0.6, "code": 0.3, "parallel": 0.1}})
    assert main(["fit", "-c", str(path)]) == 0
    assert "warning: data.phases.anneal.mixture gives no share to fr" in capsys.readouterr().err


def test_all_problems_are_reported_at_once(experiment: Experiment, complaint: Complaint) -> None:
    path = experiment({"data.sead": 1, "data.workers": "two", "model.encodr": "tiny"})
    line = complaint(2, "fit", "-c", path)
    assert all(part in line for part in ("'seed'", "data.workers is 'two'", "'encoder'"))


def test_a_key_given_twice_is_refused(experiment: Experiment, complaint: Complaint) -> None:
    path = experiment()
    path.write_text(path.read_text() + "\nroot: elsewhere\n")
    assert "key 'root' is given twice" in complaint(2, "fit", "-c", path)


def corpus_with(folder: Path, name: str, content: bytes | str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.parquet", '{"text": "x"}', "is not what its name says: it should be parquet"),
        ("a.jsonl", b"PAR1xxxx", "should be text, its content is parquet"),
        ("a.jsonl.gz", b"\x1f\x8b\x08\x00garbage", "is truncated or damaged"),
        ("a.jsonl", "", "is not what its name says|no document"),
        ("a.jsonl", '{"text": "", "lang": "en"}\n{"text": null, "lang": "en"}\n', "2 rows have no text"),
        ("a.jsonl", '{"text": "ok", "lang": "en"}\n{"text": ', "line 2 is not valid JSON"),
        ("a.jsonl", '{"txt": "ok", "lang": "en"}\n', "has no column 'text'.*did you mean 'txt'"),
        ("a.jsonl", '{"text": 5, "lang": "en"}\n', "line 1: 'text' is of type int"),
        ("a.jsonl", '{"text": "ok", "lang": "en", "quality": 9}\n', "'quality' is 9"),
    ],
)
def test_broken_corpora(
    name: str,
    content: bytes | str,
    message: str,
    experiment: Experiment,
    complaint: Complaint,
    tmp_path: Path,
) -> None:
    import re

    path = corpus_with(tmp_path / "broken", name, content)
    stores = tmp_path / "stores"
    line = complaint(1, "fit", "-c", experiment({"data.corpus": str(path), "data.stores": str(stores)}))
    assert re.search(message, line), line
    assert not [p for p in stores.glob("*") if p.is_dir() and p.name != "tokenizers"], "no half-written store"


def test_rows_without_text_are_left_out_with_a_warning(
    experiment: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_ = [*small_corpus(), {"text": " ", "lang": "en", "doc_id": "empty"}]
    write_jsonl(tmp_path / "rows.jsonl", rows_)
    path = experiment({"data.corpus": str(tmp_path / "rows.jsonl"), "data.stores": str(tmp_path / "stores")})
    assert main(["prepare", "-c", str(path)]) == 0
    assert (
        f"1 row has no text and cannot be used; the first is {tmp_path / 'rows.jsonl'}"
        in capsys.readouterr().err
    )


@pytest.fixture
def store(experiment: Experiment, config: dict[str, Any], tmp_path: Path) -> Path:
    """A token store of its own, to be damaged."""
    config["data"]["stores"] = str(tmp_path / "own")
    assert main(["prepare", "-c", str(experiment())]) == 0
    return next(p.parent for p in (tmp_path / "own").glob("*/manifest.json"))


def test_a_truncated_store_is_refused_at_open(
    store: Path, experiment: Experiment, complaint: Complaint
) -> None:
    data = next(store.rglob("train/en/*.arrow"))
    data.write_bytes(data.read_bytes()[:-100])
    line = complaint(1, "fit", "-c", experiment())
    assert "train/en/data-00000-of-00001.arrow has" in line and "prepare it again" in line
    data.unlink()
    assert "is missing" in complaint(1, "fit", "-c", experiment())


def test_an_altered_store_is_found_by_verify(
    store: Path, experiment: Experiment, complaint: Complaint
) -> None:
    data = next(store.rglob("train/en/*.arrow"))
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    line = complaint(1, "prepare", "-c", experiment(), "--verify")
    assert "the content of train/en/data-00000-of-00001.arrow was altered" in line


def test_a_damaged_manifest_is_refused(store: Path) -> None:
    for content in ("{", "[]", '{"version": 99, "files": {}}'):
        (store / "manifest.json").write_text(content)
        with pytest.raises(DataError):
            TokenStore.open(store)


def test_a_world_size_that_does_not_divide_the_batch(experiment: Experiment) -> None:
    result = run("fit", "-c", experiment(), "--trainer.devices", "3", "--trainer.strategy", "ddp")
    assert result.returncode == 2
    assert "3 processes do not divide the global batch of 2 micro-batches" in result.stderr
    assert "Traceback" not in result.stderr


def test_checkpoints_of_other_encoders_and_other_programs(
    experiment: Experiment, complaint: Complaint, tmp_path: Path
) -> None:
    import torch

    assert main(["fit", "-c", str(experiment())]) == 0
    folder = tmp_path / "runs" / "small"
    other = experiment({"model.encoder.width": 16}, "other")
    line = complaint(1, "fit", "-c", other, "--init_from", folder)
    assert "weights of another encoder: width is 32 there and 16 here" in line
    line = complaint(1, "fit", "-c", other, "--resume", folder, "--allow_changes")
    assert "weights of another encoder" in line
    foreign = tmp_path / "foreign.ckpt"
    torch.save({"state_dict": {}}, foreign)
    assert "is not a checkpoint of this program" in complaint(1, "fit", "-c", other, "--init_from", foreign)
    foreign.write_bytes(b"nonsense")
    assert "cannot be read as a checkpoint" in complaint(1, "fit", "-c", other, "--init_from", foreign)
    assert "is not in a run folder" in complaint(1, "fit", "-c", other, "--resume", foreign)


def test_a_full_disk_leaves_the_checkpoint_before(experiment: Experiment, tmp_path: Path) -> None:
    fault = {"class_path": "tests.faults.FullDisk", "init_args": {"step": 10, "limit": 10_000}}
    result = run("fit", "-c", experiment({"trainer.callbacks": [fault]}))
    assert result.returncode == 1, result.stderr
    line = result.stderr.strip().splitlines()[-1]
    assert "could not be written" in line and "8192.ckpt is good" in line and "Traceback" not in result.stderr
    folder = tmp_path / "runs" / "small" / "checkpoints"
    assert [p.stem[-5:] for p in list_checkpoints(folder)] == ["04096", "08192"]
    assert not list(folder.glob(".*tmp"))
    assert run("fit", "-c", experiment(), "--resume", "last").returncode == 0


def test_a_loss_that_is_no_number_stops_the_run_with_its_plan(experiment: Experiment, tmp_path: Path) -> None:
    fault = {"class_path": "tests.faults.Poison", "init_args": {"step": 6}}
    result = run("fit", "-c", experiment({"trainer.callbacks": [fault]}))
    assert result.returncode == 1
    line = result.stderr.strip().splitlines()[-1]
    assert "the loss is not finite at step 7 (after 6,144 tokens)" in line
    record = json.loads((tmp_path / "runs" / "small" / "not-finite-step-7-rank-0.json").read_text())
    assert record["tokens"] == 6144 and len(record["plans"]) == 2
    assert sum(segment[3] for segment in record["plans"][0]["segments"]) == 512
    assert last_checkpoint(tmp_path / "runs" / "small").stem.endswith("04096")


def test_two_fits_cannot_write_to_one_run(
    experiment: Experiment, complaint: Complaint, tmp_path: Path
) -> None:
    from euro_lightning.files import locked

    assert main(["fit", "-c", str(experiment())]) == 0
    with locked(tmp_path / "runs" / "small" / ".lock"):
        assert "another process is writing to" in complaint(1, "fit", "-c", experiment(), "--resume", "last")


def test_text_that_is_no_text_cannot_be_predicted(
    experiment: Experiment, complaint: Complaint, tmp_path: Path
) -> None:
    assert main(["fit", "-c", str(experiment())]) == 0
    texts = tmp_path / "texts.txt"
    texts.write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8" in complaint(1, "predict", "-c", experiment(), "--input", texts)
    texts.write_text("\n \n")
    assert "has no line with text" in complaint(1, "predict", "-c", experiment(), "--input", texts)
    texts.write_text("nothing to fill\n")
    assert "has no <mask> to fill" in complaint(1, "predict", "-c", experiment(), "--input", texts, "--fill")
