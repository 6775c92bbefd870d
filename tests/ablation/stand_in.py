"""In place of fit, for tests of the queue: a trial that ends in a second and leaves the same files.

A launcher names it: `python stand_in.py {folder} {arguments}`. Beside the experiment's file lies a .json with `steps`,
`step_seconds`, `waits_for` (a file without which the last step does not begin), and what goes wrong: `kills_itself`
(once), `fails` (it ends with this error) for seeds in `failing_seeds`, or for all.
"""

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from euro_lightning.files import locked, read_json, write_json


def answer_of(folder: Path, tokens: int) -> dict[str, Any]:
    """What the sweep says to a report; nothing within a second is no objection."""
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception):
            answer: dict[str, Any] = read_json(folder / "answer.json")
            if answer["tokens"] == tokens:
                return answer
        time.sleep(0.01)
    return {"prune": False}


def main(folder: Path, words: list[str]) -> int:
    files = [words[i + 1] for i, word in enumerate(words) if word == "-c"]
    behaviour = json.loads(Path(files[0]).with_suffix(".json").read_text())
    changes = yaml.safe_load(Path(files[-1]).read_text())
    seed, ratio = changes["data"]["seed"], changes["data"]["phases"]["anneal"]["masking_ratio"]
    if behaviour.get("kills_itself") and not (folder / "killed.txt").exists():
        (folder / "killed.txt").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour.get("fails") and seed in behaviour.get("failing_seeds", [seed]):
        print(f"error: {behaviour['fails']} in {folder}", file=sys.stderr)
        return 1
    with locked(folder / ".lock", wait=False) as obtained:
        if not obtained:
            print(f"error: another process is writing to {folder}", file=sys.stderr)
            return 1
        return train(folder, behaviour, loss=5 + ratio + seed / 100)


def train(folder: Path, behaviour: dict[str, Any], loss: float) -> int:
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir(exist_ok=True)
    with open(folder / "starts.txt", "a") as file:
        file.write(f"{time.time()}\n")
    done = max((int(path.stem.split("-")[1]) for path in checkpoints.glob("*.ckpt")), default=0) // 1000
    gate = behaviour.get("waits_for")
    prunes = json.loads((folder / "trial.json").read_text())["prune"]
    for step in range(done + 1, behaviour["steps"] + 1):
        time.sleep(behaviour["step_seconds"])
        while gate and step == behaviour["steps"] and not Path(gate).exists():
            time.sleep(0.02)
        row = {"tokens": step * 1000, "loss": loss + 1 / step, "accuracy": 0.1}
        with open(folder / "reports.jsonl", "a") as file:
            file.write(json.dumps(row) + "\n")
        if prunes and (answer := answer_of(folder, step * 1000))["prune"]:
            stopped = {"outcome": "pruned", "reason": answer["reason"], "tokens": step * 1000}
            write_json(folder / "stopped.json", stopped)
            return 0
        (checkpoints / f"tokens-{step * 1000}.ckpt").touch()
    score = {
        "loss": loss, "accuracy": 0.1, "mixture_unigram": 7.0, "source_unigram": 6.0, "tokens": 9, "bytes": 9,
    }  # fmt: skip
    results = {
        "tokens": behaviour["steps"] * 1000, "seconds": 1.0, "flops": 1e9, "parameters": 10,
        "split": "validation", "scores": {"0.15": {"en": score, "fr": score}},
    }  # fmt: skip
    write_json(folder / "scores.json", results)
    with open(folder / "ends.txt", "a") as file:
        file.write(f"{time.time()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
