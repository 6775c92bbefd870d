"""Killed at any moment and resumed is never stopped; on any number of ranks it is the same run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from euro_lightning.__main__ import main
from euro_lightning.checkpoint import list_checkpoints
from tests.conftest import last_checkpoint, run, same_weights, small_corpus, small_pairs, write_jsonl
from tests.faults import rows


def callback(name: str, **arguments: Any) -> dict[str, Any]:
    return {"class_path": f"tests.faults.{name}", "init_args": arguments}


@pytest.fixture
def undisturbed(experiment: Callable[..., Path], tmp_path: Path) -> Path:
    """The last checkpoint of a run that nothing happened to."""
    assert run("fit", "-c", experiment(name="calm")).returncode == 0
    return last_checkpoint(tmp_path / "runs" / "calm")


def test_killed_at_five_moments_it_ends_with_the_same_weights_and_one_mlflow_run(
    experiment: Callable[..., Path], undisturbed: Path, tmp_path: Path
) -> None:
    from mlflow import MlflowClient

    moments = [(0, "between"), (5, "step"), (9, "between"), (12, "checkpoint"), (21, "step")]
    kills = [callback("KillAt", step=s, moment=m, marker=str(tmp_path / f"{s}")) for s, m in moments]
    path = experiment({"trainer.callbacks": kills, "tracking.enabled": True}, "killed")
    for _ in moments:
        assert run("fit", "-c", path, "--resume", "last").returncode == -9
    result = run("fit", "-c", path, "--resume", "last")
    assert result.returncode == 0, result.stderr
    folder = tmp_path / "runs" / "killed"
    assert [p.name for p in (tmp_path / "runs").iterdir() if p.name.startswith("killed")] == ["killed"]
    assert same_weights(last_checkpoint(folder), undisturbed)
    assert not list((folder / "checkpoints").glob(".*tmp")), "half-written checkpoints are cleared away"

    client = MlflowClient(f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}")
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    assert [r.info.status for r in runs if r.info.run_name == "killed"] == ["FINISHED"]
    history = client.get_metric_history(runs[0].info.run_id, "train/loss")
    assert {m.step for m in history} >= {24_576}
    assert all(m.step % 1024 == 0 for m in history), "the x-axis is tokens"


FAST = {
    "compile": {"compile": True},
    "bfloat16": {"recompute_every": 2, "logits_gib": 1e-4, "optimizer": {"kind": "stable_adamw"}},
}


@pytest.mark.parametrize("kind", ["modernbert", "baseline", *FAST])
def test_dropout_goes_on_where_it_was(kind: str, experiment: Callable[..., Path], tmp_path: Path) -> None:
    """Dropout is drawn from keys, so a killed run drops the same elements after it, however it computes."""
    if kind == "bfloat16":
        pytest.importorskip("optimi")
    modern = {
        "preset": "tiny-modernbert", "layers": 3, "width": 32, "heads": 2, "key_value_heads": 2,
        "feed_forward": 48, "max_length": 128, "window": 16,
    }  # fmt: skip
    (tmp_path / "bert").mkdir()
    bert = {
        "model_type": "bert", "vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64,
    }  # fmt: skip
    (tmp_path / "bert" / "config.json").write_text(json.dumps(bert))
    model = {"baseline": str(tmp_path / "bert")} if kind == "baseline" else {"encoder": modern}
    changes = {
        "model": {**model, "optimizer": {"epsilon": 1e-8}, **FAST.get(kind, {})},
        "data.phases.anneal.rotary_base": 10_000.0,
        "trainer.precision": "bf16-mixed" if kind == "bfloat16" else "32-true",
    }
    kill = callback("KillAt", step=14, moment="between", marker=str(tmp_path / "killed"))
    assert run("fit", "-c", experiment(changes, "calm")).returncode == 0
    path = experiment({**changes, "trainer.callbacks": [kill]}, "disturbed")
    assert run("fit", "-c", path).returncode == -9
    assert run("fit", "-c", path, "--resume", "last").returncode == 0
    runs = tmp_path / "runs"
    assert same_weights(last_checkpoint(runs / "calm"), last_checkpoint(runs / "disturbed"))


def batches(path: Path, ranks: int) -> list[tuple[int, int, str]]:
    """Number, step and content of every micro-batch that any rank saw, in order."""
    seen = [
        row for rank in range(ranks) for row in rows(path.with_name(f"{path.name}.{rank}")) if "number" in row
    ]
    return sorted({(row["number"], row["step"], row["ids"]) for row in seen})


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1)])
def test_another_number_of_ranks_goes_on_with_the_same_global_batches(
    first: int, second: int, experiment: Callable[..., Path], tmp_path: Path
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert (
        run(
            "fit", "-c", experiment({"trainer.callbacks": [callback("Record", path=str(whole))]}, "whole")
        ).returncode
        == 0
    )

    def path(ranks: int, stop: bool) -> Path:
        recorder = callback("Record", path=str(parts))
        kill = callback("KillAt", step=10, moment="step", marker=str(tmp_path / "killed"))
        changes = {"trainer.callbacks": [recorder, kill] if stop else [recorder], "trainer.devices": ranks}
        return experiment({**changes, "trainer.strategy": "ddp" if ranks > 1 else "auto"}, "elastic")

    assert run("fit", "-c", path(first, True)).returncode != 0
    assert [p.stem for p in list_checkpoints(tmp_path / "runs" / "elastic" / "checkpoints")] == [
        "tokens-000000000004096",
        "tokens-000000000008192",
    ]
    result = run("fit", "-c", path(second, False), "--resume", "last")
    assert result.returncode == 0, result.stderr
    assert batches(parts, 2) == batches(whole, 1)
    end = rows(tmp_path / "parts.0")[-1]
    assert end == {"end": 24_576, "steps": 24}


def test_two_processes_and_accumulation_have_the_same_loss_curve(
    experiment: Callable[..., Path], tmp_path: Path
) -> None:
    curves = []
    for ranks in (1, 2):
        path = tmp_path / f"losses{ranks}"
        changes = {"trainer.callbacks": [callback("RecordLoss", path=str(path))], "trainer.devices": ranks}
        changes["trainer.strategy"] = "ddp" if ranks > 1 else "auto"
        result = run("fit", "-c", experiment(changes, f"ranks{ranks}"))
        assert result.returncode == 0, result.stderr
        curves.append(rows(path))
    assert len(curves[0]) == 24
    for (clock, loss), (other_clock, other_loss) in zip(*curves, strict=True):
        assert clock == other_clock
        assert loss == pytest.approx(other_loss, abs=1e-4)


def test_a_finished_run_is_left_alone_and_can_be_extended(
    experiment: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(experiment())
    assert main(["fit", "-c", path]) == 0
    folder = tmp_path / "runs" / "small"
    before = last_checkpoint(folder).read_bytes()
    assert main(["fit", "-c", path, "--resume", "last"]) == 0
    assert last_checkpoint(folder).read_bytes() == before
    more = ["--data.phases.anneal.tokens", "10240"]
    assert main(["fit", "-c", path, "--resume", "last", *more]) == 1
    assert "data.phases.anneal.tokens (8192 → 10240)" in capsys.readouterr().err
    assert main(["fit", "-c", path, "--resume", "last", *more, "--allow_changes"]) == 0
    assert last_checkpoint(folder).stem.endswith("26624")


def test_resuming_under_another_recipe_lists_what_differs(
    experiment: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "-c", str(experiment())]) == 0
    changes = ["--data.phases.pretrain.masking_ratio", "0.4", "--data.batch_tokens", "2048"]
    free = [
        "--data.workers",
        "0",
        "--data.evaluation.tokens",
        "512",
        "--trainer.enable_autolog_hparams",
        "false",
    ]
    capsys.readouterr()
    assert main(["fit", "-c", str(experiment()), "--resume", "last", *free, *changes]) == 1
    message = capsys.readouterr().err
    assert "data.phases.pretrain.masking_ratio (0.5 → 0.4)" in message
    assert "data.batch_tokens (1024 → 2048)" in message
    assert "workers" not in message and "evaluation" not in message


def test_resuming_from_an_earlier_checkpoint_sets_later_ones_aside(
    experiment: Callable[..., Path], tmp_path: Path
) -> None:
    assert main(["fit", "-c", str(experiment())]) == 0
    folder = tmp_path / "runs" / "small" / "checkpoints"
    final = folder.parent / "final.ckpt"
    final.write_bytes(last_checkpoint(folder.parent).read_bytes())
    earlier = list_checkpoints(folder)[1]
    assert main(["fit", "-c", str(experiment()), "--resume", str(earlier)]) == 0
    assert same_weights(last_checkpoint(folder.parent), final)
    assert list(folder.glob("*.abandoned"))


def test_workers_change_nothing(experiment: Callable[..., Path], tmp_path: Path) -> None:
    for workers in (0, 2):
        result = run("fit", "-c", experiment(name=f"w{workers}"), "--data.workers", str(workers))
        assert result.returncode == 0, result.stderr
    assert same_weights(last_checkpoint(tmp_path / "runs" / "w0"), last_checkpoint(tmp_path / "runs" / "w2"))


def test_resuming_on_other_text_is_refused(
    experiment: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", "-c", str(experiment())]) == 0
    rows_ = [*small_corpus(), {"text": "one more", "lang": "fr", "doc_id": "new"}]
    (tmp_path / "other").mkdir()
    write_jsonl(tmp_path / "other" / "text.jsonl", rows_)
    write_jsonl(tmp_path / "other" / "pairs.jsonl", small_pairs())
    capsys.readouterr()
    more = ["--data.corpus", str(tmp_path / "other"), "--resume", "last"]
    assert main(["fit", "-c", str(experiment()), *more]) == 1
    assert "data.corpus has other content" in capsys.readouterr().err
