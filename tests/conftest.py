"""A small real corpus, an experiment on it that takes seconds, and how to run commands."""

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.forked import Server

REPOSITORY = Path(__file__).parents[1]
SHARED_DATA = REPOSITORY.parent / "shared" / "data"

FRENCH = (
    "La recette compte plus que la taille. On masque la moitié des mots, puis un dixième, et le modèle apprend"
    " à lire ce qui reste. Les phrases courtes et longues se suivent dans le même lot, sans jamais se voir."
)


def small_corpus() -> list[dict[str, Any]]:
    """Python's help topics and source, some French, and pairs: about 200,000 characters."""
    from pydoc_data.topics import topics

    rows: list[dict[str, Any]] = []
    for name, text in sorted(topics.items())[:60]:
        rows += [
            {"text": part, "lang": "en", "doc_id": f"{name}/{i}"}
            for i, part in enumerate(inspect.cleandoc(text).split("\n\n"))
            if len(part) > 40
        ]
    words = FRENCH.split()
    rows += [
        {"text": " ".join(words[i % 20 :] + words[: i % 33]), "lang": "fr", "doc_id": f"fr/{i}"}
        for i in range(150)
    ]
    for module in (json, inspect, subprocess):
        source = inspect.getsource(module).split("\n\n\n")
        rows += [
            {"text": part, "lang": "code", "doc_id": f"{module.__name__}/{i}"}
            for i, part in enumerate(source)
        ]
    return rows


def small_pairs() -> list[dict[str, str]]:
    words = FRENCH.split()
    return [
        {
            "text_src": f"Number {i} is followed by {i + 1}.",
            "text_tgt": f"{words[i % 40]} {i} {i + 1}.",
            "lang_src": "en",
            "lang_tgt": "fr",
        }
        for i in range(200)
    ]


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with text.jsonl and pairs.jsonl."""
    folder = tmp_path_factory.mktemp("corpus")
    write_jsonl(folder / "text.jsonl", small_corpus())
    write_jsonl(folder / "pairs.jsonl", small_pairs())
    return folder


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where token stores go, shared by the tests of a process."""
    return tmp_path_factory.mktemp("stores")


def small_recipe(corpus: Path, stores: Path, root: Path) -> dict[str, Any]:
    """A whole recipe of 24 steps for a very small encoder."""
    mixture = {"en": 0.4, "fr": 0.2, "code": 0.3, "parallel": 0.1}
    return {
        "root": str(root),
        "model": {
            "encoder": {
                "layers": 1, "width": 32, "heads": 2, "key_value_heads": 1, "feed_forward": 48, "max_length": 128,
                "initializer_std": 0.1,
            },
            "optimizer": {"epsilon": 1e-8},
        },
        "data": {
            "corpus": str(corpus),
            "stores": str(stores),
            "tokenizer": {"vocabulary": 400},
            "batch_tokens": 1024,
            "micro_batch_tokens": 512,
            "evaluation": {"tokens": 1024, "length": 64},
            "phases": {
                "pretrain": {
                    "tokens": 16_384,
                    "mixture": dict(mixture),
                    "masking_ratio": 0.5,
                    "lengths": {"kind": "fixed", "maximum": 64},
                    "learning_rate": {"peak": 1e-2, "warmup": "10%"},
                },
                "anneal": {
                    "tokens": 8192,
                    "mixture": dict(mixture),
                    "masking_ratio": 0.1,
                    "lengths": {"kind": "random", "minimum": 12, "maximum": 64},
                    "rotary_base": 250_000.0,
                    "learning_rate": {"peak": 1e-2, "decay": "100%"},
                },
            },
        },
        "throughput": {"every_steps": 1},
        "checkpoints": {"every_tokens": 4096, "keep": 3},
        "tracking": {"enabled": False},
        "progress": {"enabled": False},
        "trainer": {"accelerator": "cpu", "devices": 1, "gradient_clip_val": 1.0},
    }  # fmt: skip


@pytest.fixture
def config(corpus: Path, stores: Path, tmp_path: Path) -> dict[str, Any]:
    """The small recipe, with its runs in the test's folder."""
    return small_recipe(corpus, stores, tmp_path / "runs")


def write_experiment(path: Path, recipe: dict[str, Any], changes: dict[str, Any] | None = None) -> Path:
    """Writes a recipe, changed at dotted keys."""
    tree = json.loads(json.dumps(recipe))
    for key, value in (changes or {}).items():
        *parents, last = key.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return path


@pytest.fixture
def experiment(config: dict[str, Any], tmp_path: Path) -> Callable[..., Path]:
    """Writes the recipe, changed at dotted keys, and returns the file."""

    def write(changes: dict[str, Any] | None = None, name: str = "small") -> Path:
        return write_experiment(tmp_path / f"{name}.yaml", config, changes)

    return write


def command_line(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "euro_lightning", *map(str, arguments)]


_SERVER = Server(REPOSITORY)


def run(*arguments: str | Path, timeout: float = 240, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in a process of its own, one thread per process."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return _SERVER.run(list(map(str, arguments)), env, timeout)


def weights(checkpoint: Path) -> dict[str, Any]:
    import torch

    state: dict[str, Any] = torch.load(checkpoint, weights_only=True)["state_dict"]
    return state


def last_checkpoint(run_folder: Path) -> Path:
    from euro_lightning.checkpoint import list_checkpoints

    return list_checkpoints(run_folder / "checkpoints")[-1]


def same_weights(first: Path, second: Path) -> bool:
    """Whether two checkpoints hold the same weights bit for bit."""
    import torch

    left, right = weights(first), weights(second)
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must fail; returns its last line, after checking that it is one."""

    from euro_lightning.__main__ import main

    def complain(code: int, *arguments: str | Path) -> str:
        capsys.readouterr()
        assert main([str(a) for a in arguments]) == code
        lines = capsys.readouterr().err.strip().splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        assert len(errors) == 1 and lines[-1] == errors[0], lines
        return errors[0].removeprefix("error: ")

    return complain
