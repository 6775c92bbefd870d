"""prepare -c corpus.yaml, as a user runs it."""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from euro_lightning.__main__ import main
from euro_lightning.data.prepare import CorpusConfig, prepare
from euro_lightning.data.store import TokenStore
from euro_lightning.data.tokenizer import load_tokenizer
from tests.conftest import (
    REPOSITORY,
    SHARED_DATA,
    command_line,
    last_checkpoint,
    run,
    same_weights,
    write_experiment,
)
from tests.corpora.conftest import by_language, checksum, report, write_parquet

Write = Callable[..., Path]
Complaint = Callable[..., str]


def store_of(tmp_path: Path) -> Path:
    return tmp_path / "stores" / "small"


def test_a_corpus_becomes_a_store_that_an_experiment_trains_on(
    corpus_file: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prepare", "-c", str(corpus_file()), "--verify"]) == 0
    output = capsys.readouterr().out
    for word in ("english", "french", "programs", "pairs", "chars/token", "dropped by", "files verified"):
        assert word in output
    store = prepare(CorpusConfig(corpus=str(store_of(tmp_path))))
    assert list(store.sources) == ["code", "en", "fr", "parallel"]
    tokenizer = load_tokenizer(store.path / "tokenizer.json")
    rows = {row["doc_id"]: row["text"] for row in by_language()["code"]}
    seen: dict[str, str] = {}
    for split in ("train", "validation", "test"):
        documents = store.documents("code", split)
        ids = documents.table.column("doc_id").to_pylist()
        seen |= {name: tokenizer.decode(documents.tokens(i).tolist()[:-1]) for i, name in enumerate(ids)}
    assert seen == {name: text for name, text in rows.items() if text.strip()}
    assert len(store.documents("code", "train").files) == 3  # one for each shard
    counted = store.token_counts()["code"]
    tokens = np.concatenate(
        [store.documents("code", "train").tokens(i) for i in range(len(store.documents("code", "train")))]
    )
    assert np.array_equal(counted, np.bincount(tokens, minlength=tokenizer.vocabulary))
    assert not list((tmp_path / "stores").glob(".*.work"))


def test_an_experiment_may_name_the_corpus_and_the_store_is_made_on_first_use(
    corpus_file: Write, config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del config["data"]["tokenizer"]  # the store brings its own
    config["data"]["corpus"] = str(corpus_file())
    path = write_experiment(tmp_path / "on_it.yaml", config)
    assert main(["fit", "-c", str(path)]) == 0
    made = checksum(store_of(tmp_path))
    assert main(["fit", "-c", str(path), "--name", "again"]) == 0
    assert checksum(store_of(tmp_path)) == made
    runs = tmp_path / "runs"
    assert same_weights(last_checkpoint(runs / "on_it"), last_checkpoint(runs / "again"))
    capsys.readouterr()
    assert main(["mixture", "-c", str(path)]) == 0
    assert "parallel" in capsys.readouterr().out


def test_the_same_command_again_shows_the_report_and_makes_nothing(
    corpus_file: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = corpus_file()
    assert main(["prepare", "-c", str(path)]) == 0
    before, first = checksum(store_of(tmp_path)), capsys.readouterr().out
    assert main(["prepare", "-c", str(path)]) == 0
    assert capsys.readouterr().out == first
    assert checksum(store_of(tmp_path)) == before


EVERYTHING = {
    "duplicates": {"kind": "near", "bands": 2, "hashes": 4},
    "sources.english.filters": {"minimum_characters": 60, "gopher_repetition": True},
    "sources.french.quality": {"scorer": "tests.corpora.scorer:length", "quantiles": [0.25, 0.5, 0.75]},
    "sources.french.limit": {"documents": 60},
    "sources.english.quality": {
        "scorer": "reference",
        "reference": {"column": "doc_id", "values": ["a*"]},
        "quantiles": [0.2, 0.5, 0.8],
    },
}


@pytest.mark.timeout(240)
def test_one_process_two_processes_and_a_ray_cluster_make_the_same_store(
    corpus_file: Write, tmp_path: Path
) -> None:
    found = {}
    for name, changes in (
        ("one", {"workers": 1}),
        ("two", {"workers": 2}),
        ("ray", {"workers": 2, "executor": "ray"}),
    ):
        store = tmp_path / name / "store"
        done = run(
            "prepare", "-c", corpus_file({**EVERYTHING, "store": str(store), **changes}, name), PYTHONPATH="."
        )
        assert done.returncode == 0, done.stderr
        found[name] = checksum(store)
    assert found["one"] == found["two"] == found["ray"]


@pytest.mark.timeout(240)
def test_killed_at_any_moment_and_started_again_the_store_is_the_same(
    corpus_file: Write, tmp_path: Path
) -> None:
    undisturbed = run(
        "prepare", "-c", corpus_file({**EVERYTHING, "store": str(tmp_path / "a")}, "a"), PYTHONPATH="."
    )
    assert undisturbed.returncode == 0, undisturbed.stderr
    command = command_line(
        "prepare", "-c", corpus_file({**EVERYTHING, "store": str(tmp_path / "b"), "workers": 2}, "b")
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": "."}
    draw, work = random.Random(4), tmp_path / ".b.work"

    def begun() -> set[str]:
        return {folder.name for folder in (work / "logs").glob("*")}

    before: set[str] = set()
    for _ in range(4):
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        # each is killed in a later stage than the one before
        while begun() <= before and not (tmp_path / "b").exists():
            assert process.poll() is None
            time.sleep(0.05)
        before |= begun()
        time.sleep(draw.uniform(0, 1))
        # the parent alone in one case, as the kernel would when memory is short
        (os.kill if draw.random() < 0.5 else os.killpg)(process.pid, signal.SIGKILL)
        process.wait()
        assert not (tmp_path / "b").exists() or checksum(tmp_path / "b") == checksum(tmp_path / "a")
    done = run("prepare", "-c", tmp_path / "b.yaml", PYTHONPATH=".")
    assert done.returncode == 0, done.stderr
    assert checksum(tmp_path / "a") == checksum(tmp_path / "b")
    assert len(before) >= 4
    assert not work.exists()


def test_every_document_is_accounted_for(corpus_file: Write, tmp_path: Path) -> None:
    changes = {
        **EVERYTHING,
        "duplicates": {"kind": "exact"},
        "sources.english.quality": None,
        "sources.english.filters": {"paragraphs": {"minimum_words": 5}, "minimum_characters": 60},
        "sources.programs.limit": {"tokens": 3000},
    }
    assert main(["prepare", "-c", str(corpus_file(changes))]) == 0
    found, store = report(store_of(tmp_path)), TokenStore.open(store_of(tmp_path))
    for row in found["sources"].values():
        assert row["read"] + row["parts"] - sum(row["dropped"].values()) == row["kept"] > 0
    rows = found["sources"]
    assert rows["english"]["parts"] > 0 and "paragraph_short" in rows["english"]["dropped"]
    assert rows["french"]["kept"] + rows["french"]["dropped"].get("exact_duplicate", 0) == 60
    assert rows["french"]["quality"][0] == 0 and min(rows["french"]["quality"][1:]) >= 5
    assert rows["programs"]["tokens"] >= 3000 and rows["programs"]["dropped"]["limit"] > 0
    assert sum(row["tokens"] for row in rows.values()) == sum(
        split["tokens"] for source in store.sources.values() for split in source["splits"].values()
    )


def test_quality_from_a_column_of_numbers_or_of_classes(corpus_file: Write, tmp_path: Path) -> None:
    rows = by_language()["en"]
    scored = [{**row, "score": i % 10, "grade": "AB"[i % 2]} for i, row in enumerate(rows)]
    path = write_parquet(tmp_path / "scored.parquet", scored)
    source = {"path": str(path), "lang": "en"}
    for number, (quality, expected) in enumerate((
        ({"column": "score", "thresholds": [3, 5, 9]}, [0, 3, 2, 4, 1]),
        ({"column": "score", "quantiles": [0.3, 0.5, 0.9]}, None),
        ({"column": "grade", "classes": {"A": 4, "B": 2}}, [0, 0, 5, 0, 5]),
    )):  # fmt: skip
        changes = {
            "sources": {"english": {**source, "quality": quality}},
            "store": str(tmp_path / f"s{number}"),
        }
        assert main(["prepare", "-c", str(corpus_file(changes))]) == 0
        buckets = np.array(report(tmp_path / f"s{number}")["sources"]["english"]["quality"])
        assert buckets.sum() == len(rows) and buckets[0] == 0
        if expected is not None:
            assert np.allclose(buckets / buckets.sum(), np.array(expected) / 10, atol=0.02)
        store = TokenStore.open(tmp_path / f"s{number}")
        kept = np.concatenate(
            [store.documents("en", split).quality for split in ("train", "validation", "test")]
        )
        assert np.array_equal(np.bincount(kept, minlength=5), buckets)


def test_text_files_hold_a_document_in_a_file_a_paragraph_or_a_line(
    corpus_file: Write, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"one {name}\ntwo {name}\n\n\nthree {name}\n", encoding="utf-8")
    found = {}
    for per in ("file", "paragraph", "line"):
        source = {"path": str(tmp_path / "*.txt"), "lang": "en", "text_per": per}
        assert (
            main(
                [
                    "prepare",
                    "-c",
                    str(corpus_file({"sources": {"text": source}, "store": str(tmp_path / per)})),
                ]
            )
            == 0
        )
        found[per] = report(tmp_path / per)["sources"]["text"]["kept"]
    assert found == {"file": 2, "paragraph": 4, "line": 6}


def test_columns_may_lie_in_structures_and_have_other_names(corpus_file: Write, tmp_path: Path) -> None:
    rows = [{"translation": {"en": f"number {i}", "fr": f"nombre {i}"}, "key": f"k{i}"} for i in range(40)]
    source = {
        "path": str(write_parquet(tmp_path / "nested.parquet", rows)),
        "domain": "parallel",
        "lang": "en",
        "target_lang": "fr",
        "columns": {"text_src": "translation.en", "text_tgt": "translation.fr", "doc_id": "key"},
    }
    assert main(["prepare", "-c", str(corpus_file({"sources": {"pairs": source}}))]) == 0
    store = TokenStore.open(store_of(tmp_path))
    tokenizer = load_tokenizer(store.path / "tokenizer.json")
    documents = store.documents("parallel", "train")
    number = int(documents.table.column("doc_id")[0].as_py()[1:])
    assert (
        tokenizer.decode(documents.tokens(0).tolist()[:-1])
        == f"number {number}<|parallel_sep|>nombre {number}"
    )


def test_a_large_file_is_cut_into_shards_by_its_row_groups(
    corpus_file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = by_language()["en"]
    path = write_parquet(tmp_path / "large.parquet", rows, row_group_size=50)
    monkeypatch.setattr("euro_lightning.corpora.shards._SHARD", 10_000)
    changes = {"sources": {"english": {"path": str(path), "lang": "en", "limit": {"documents": 100}}}}
    assert main(["prepare", "-c", str(corpus_file(changes))]) == 0
    store = TokenStore.open(store_of(tmp_path))
    assert len(store.documents("en", "train").files) > 3
    ids = [
        name
        for s in ("train", "validation", "test")
        for name in store.documents("en", s).table["doc_id"].to_pylist()
    ]
    places = sorted(next(i for i, row in enumerate(rows) if row["doc_id"] == name) for name in ids)
    assert len(set(ids)) == 100 and places[-1] > 0.8 * len(rows)  # spread over the file


def test_the_embedded_corpus_gets_quality_buckets(tmp_path: Path) -> None:
    path = REPOSITORY / "experiments" / "corpora" / "embedded.yaml"
    assert (
        main(["prepare", "-c", str(path), "--store", str(tmp_path / "s"), "--tokenizer.vocabulary", "1000"])
        == 0
    )
    found = report(tmp_path / "s")
    assert {facts["source"] for facts in found["quality"].values()} >= {"en", "fr", "hi", "zh"}
    assert all(facts["auc"] > 0.5 for facts in found["quality"].values())
    store = TokenStore.open(tmp_path / "s")
    assert len(store.sources) == 18
    assert set(np.unique(store.documents("fr", "train").quality)) == {1, 2, 3, 4}
    assert set(np.unique(store.documents("code", "train").quality)) == {0}


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="needs the shared corpus")
def test_the_shared_corpus_can_be_planned(tmp_path: Path) -> None:
    from euro_lightning.corpora.building import read_recipe
    from euro_lightning.corpora.shards import find_shards

    recipe = read_recipe(["-c", str(REPOSITORY / "experiments" / "corpora" / "laptop.yaml")])
    shards, _ = find_shards(recipe)
    assert list(dict.fromkeys(shard.source for shard in shards)) == list(recipe.sources)


def test_a_hub_data_set_is_streamed_in_parts_and_pinned_to_a_commit(
    corpus_file: Write, complaint: Complaint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets
    import huggingface_hub

    rows = by_language()["en"]
    for number in range(3):
        write_parquet(tmp_path / f"part{number}.parquet", [{"body": r["text"]} for r in rows[number::3]])
    asked: list[tuple[Any, ...]] = []
    failing: list[int] = [2]
    load = datasets.load_dataset

    def load_dataset(name: str, config: str | None = None, **more: Any) -> Any:
        asked.append((name, config, more["split"], more["revision"]))
        if len(asked) == 3 and failing.pop():
            raise ConnectionError("the line is dead")
        return load("parquet", data_files=str(tmp_path / "part*.parquet"), split="train", streaming=True)

    class Api:
        def dataset_info(self, name: str, revision: str | None = None) -> Any:
            return type("Info", (), {"sha": f"commit-of-{revision}"})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    source = {
        "hub": "someone/text", "config": "en", "split": "train", "revision": "v2", "lang": "en",
        "columns": {"text": "body"},
    }  # fmt: skip
    path = corpus_file({"sources": {"web": source}})
    assert "part 1, fails after row 0: the line is dead; the same command goes on" in complaint(
        1, "prepare", "-c", path
    )
    begun = len(asked)
    assert main(["prepare", "-c", str(path)]) == 0
    assert len(asked) == begun + 2  # the two parts that were left
    store = TokenStore.open(store_of(tmp_path))
    assert set(asked) == {("someone/text", "en", "train", "commit-of-v2")}
    assert store.manifest["inputs"]["web"]["commit"] == "commit-of-v2"
    assert len(store.documents("en", "train").files) == 3
    assert report(store.path)["sources"]["web"]["read"] == len(rows)


def test_slurm_gets_one_job_array_for_each_stage_after_the_one_before(
    corpus_file: Write, tmp_path: Path
) -> None:
    """A stand-in for sbatch runs the tasks of a job at once."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    log = tmp_path / "jobs.jsonl"
    (bin_ / "sbatch").write_text(
        "#!/usr/bin/env python3\n"
        "import json, os, re, subprocess, sys\n"
        f"log = {str(log)!r}\n"
        "script = open(sys.argv[-1]).read()\n"
        "number = 100 + (len(open(log).readlines()) if os.path.exists(log) else 0)\n"
        "options = dict(re.findall(r'#SBATCH --([a-z-]+)=(\\S+)', script))\n"
        "options |= dict(o[2:].split('=', 1) for o in sys.argv[1:-1])\n"
        "open(log, 'a').write(json.dumps({**options, 'id': number, 'merge': 'merge_stats' in script}) + '\\n')\n"
        "if 'merge_stats' not in script:\n"
        "    first, last = re.match(r'(\\d+)-(\\d+)', options['array']).groups()\n"
        "    for rank in range(int(first), int(last) + 1):\n"
        "        env = {**os.environ, 'SLURM_ARRAY_TASK_ID': str(rank), 'RUN_OFFSET': '0', 'SLURM_NODELIST': 'n1',"
        " 'SLURM_JOB_ID': str(number)}\n"
        "        subprocess.run(['bash', sys.argv[-1]], env=env, check=True, stdout=subprocess.DEVNULL)\n"
        "print('Submitted batch job', number)\n"
    )
    (bin_ / "srun").write_text(
        '#!/bin/bash\nwhile [[ $1 == -* ]]; do [[ $1 == -n ]] && shift; shift; done\nexec "$@"\n'
    )
    (bin_ / "scontrol").write_text("#!/bin/bash\necho n1\n")
    for file in bin_.iterdir():
        file.chmod(0o755)
    changes = {**EVERYTHING, "sources.english.quality": None, "sources.french.quality": None}
    slurm = {
        "executor": "slurm",
        "workers": 0,
        "slurm": {"partition": "cpu", "arguments": {"account": "lab"}},
    }
    path = corpus_file({**changes, **slurm})
    environment = {"PATH": f"{bin_}:{os.environ['PATH']}", "PYTHONPATH": "."}
    done = run("prepare", "-c", path, **environment)
    assert done.returncode == 0, done.stderr
    stages = ["read", "pairs", "duplicates", "tokenizer", "tokenise", "assemble"]
    assert [line.split()[2] for line in done.stdout.splitlines() if line.startswith("job ")] == stages
    jobs = [job for job in map(json.loads, log.read_text().splitlines()) if not job["merge"]]
    assert [job["job-name"] for job in jobs] == [f"prepare-{stage}" for stage in stages]
    assert all(job["partition"] == "cpu" and job["account"] == "lab" for job in jobs)
    assert [job.get("dependency") for job in jobs] == [None, *(f"afterok:{job['id']}" for job in jobs[:-1])]
    assert [job["array"] for job in jobs] == ["0-5", "0-1", "0-0", "0-0", "0-5", "0-0"]
    (bin_ / "squeue").write_text("#!/bin/bash\n")
    (bin_ / "squeue").chmod(0o755)
    shown = run("prepare", "-c", path, **environment)
    assert shown.returncode == 0 and "french" in shown.stdout, shown.stderr
    alone = tmp_path / "alone"
    assert main(["prepare", "-c", str(corpus_file({**changes, "store": str(alone)}, "alone"))]) == 0
    assert checksum(alone) == checksum(store_of(tmp_path))


def test_jobs_that_wait_or_run_are_not_submitted_again(corpus_file: Write, tmp_path: Path) -> None:
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "sbatch").write_text(
        f"#!/bin/bash\necho x >> {tmp_path}/n\necho Submitted $(wc -l < {tmp_path}/n)\n"
    )
    (bin_ / "squeue").write_text("#!/bin/bash\nprintf '7\\n7\\n9\\n'\n")
    for file in bin_.iterdir():
        file.chmod(0o755)
    path = corpus_file({"executor": "slurm", "slurm": {"partition": "cpu"}})
    environment = {"PATH": f"{bin_}:{os.environ['PATH']}"}
    assert run("prepare", "-c", path, **environment).returncode == 0
    again = run("prepare", "-c", path, **environment)
    assert again.returncode == 1
    assert again.stderr.splitlines()[-1] == "error: jobs 7, 9 are not done yet; to start over: scancel 7 9"
    (bin_ / "squeue").write_text("#!/bin/bash\nexit 1\n")  # it has forgotten them
    assert run("prepare", "-c", path, **environment).returncode == 0
