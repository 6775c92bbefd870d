"""evaluate: encoders on tasks under one protocol, as one table."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from euro_lightning.arguments import parse
from euro_lightning.errors import ConfigError
from euro_lightning.evaluation.encoders import open_encoder
from euro_lightning.evaluation.judging import Case, Result
from euro_lightning.evaluation.protocol import Protocol
from euro_lightning.evaluation.reading import content_hash, read_split
from euro_lightning.evaluation.report import (
    as_json,
    draw_lengths,
    fertility_table,
    length_table,
    tables,
    untuned_table,
)
from euro_lightning.evaluation.searching import read_search
from euro_lightning.evaluation.task import Task, read_task
from euro_lightning.evaluation.untuned import untuned
from euro_lightning.files import hash_value, read_json, write_json
from euro_lightning.schema import construct, fields_of
from euro_lightning.settings import load

_PREFIX = "--protocol."


@dataclass(frozen=True)
class Options:
    """Judges encoders on tasks: fine-tunes each at every learning rate and seed of a protocol, chooses the
    rate by the validation split, and reads the test split once. What was judged before is not done again.
    --protocol.KEY VALUE changes a key of the protocol; its file documents them."""

    config: tuple[str, ...]
    """Tasks, as YAML files; -c for short."""

    encoder: tuple[str, ...]
    """Run folders, checkpoints, exports, directories or Hub names of transformers; `random:` before one
    of them, or `random:PRESET@TOKENIZER`, is a fresh start of its shape."""

    protocol: str = "experiments/evaluation/protocols/quick.yaml"
    """How encoders are fine-tuned, a YAML file."""

    limit: int | None = None
    """Examples of each split at most, for a first look; null takes all."""

    untuned: bool = False
    """Also shows what is known before anything is learned: tokens per word, prediction of hidden tokens,
    how sentence vectors lie."""

    lengths: bool = False
    """Also shows scores against the length of texts, as a table and a figure."""

    root: str = "runs"
    """Folder of runs; what was judged is kept in its folder evaluation."""

    output: str = "evaluation"
    """Name of the files that are written, without ending."""

    tracking: bool = True
    """Whether each encoder and task becomes a run in MLflow."""

    uri: str | None = None
    """Tracking server or database; null takes sqlite:///ROOT/mlflow.db."""


def evaluate(words: Sequence[str]) -> None:
    """Judges, prints tables, writes JSON and figures."""
    own, changes = _split(list(words))
    options = parse(Options, "evaluate", own, ())
    if options is None:
        return
    from euro_lightning.cli import quiet

    quiet()
    protocol = read_protocol(options.protocol, changes)
    tasks = [read_task(path) for path in options.config]
    _check(options, tasks)
    results = judge_all(
        tasks, options.encoder, protocol, Path(options.root) / "evaluation", options.limit, _say
    )
    if options.tracking:
        from euro_lightning.evaluation.tracking import track

        track(results, protocol, Path(options.root), options.uri or os.environ.get("MLFLOW_TRACKING_URI"))
    before = {}
    if options.untuned:
        before = {task.name: untuned_of(task, options, Path(options.root) / "evaluation") for task in tasks}
    console = Console(width=None if sys.stdout.isatty() else 140)
    for table in tables(results):
        console.print(table)
    for task, found in results.items():
        if task in before:
            console.print(untuned_table(task, before[task]))
        if any(result.fertility for result in found):
            console.print(fertility_table(found))
        if options.lengths:
            console.print(length_table(found))
            draw_lengths(found, Path(f"{options.output}-{task}.png"))
            print(f"figure {options.output}-{task}.png")
        for result in found:
            if many := {split: count for split, count in result.cut.items() if count}:
                told = ", ".join(f"{count:,} of {split}" for split, count in many.items())
                print(f"{task}, {result.encoder}: texts above the maximum length were cut: {told}")
    write_json(
        Path(f"{options.output}.json"), {"protocol": asdict(protocol), **as_json(results), "untuned": before}
    )
    print(f"numbers {options.output}.json")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The command's own words, and those that change the protocol."""
    own: list[str] = []
    changes: list[str] = []
    while words:
        word = words.pop(0)
        if not word.startswith(_PREFIX):
            own.append(word)
            continue
        changes.append("--" + word.removeprefix(_PREFIX))
        if "=" not in word and words and not words[0].startswith("--"):
            changes.append(words.pop(0))
    return own, changes


def read_protocol(path: str, changes: Sequence[str] = ()) -> Protocol:
    """A protocol from its file, changed by `--key value`.

    Raises:
        ConfigError: all that is wrong, in one line.
    """
    schema = {name: kind for name, (kind, _) in fields_of(Protocol).items()}
    protocol: Protocol = construct(Protocol, load(["-c", path, *changes], schema))
    problems = protocol.problems("protocol")
    if problems:
        raise ConfigError(f"{path}: {' | '.join(problems)}")
    return protocol


def _check(options: Options, tasks: Sequence[Task]) -> None:
    problems = [
        f"evaluate: --{name} is missing" for name in ("config", "encoder") if not getattr(options, name)
    ]
    names = [task.name for task in tasks]
    problems += [
        f"-c: two tasks are called {name}" for name in sorted({n for n in names if names.count(n) > 1})
    ]
    twice = {name for name in options.encoder if options.encoder.count(name) > 1}
    problems += [f"--encoder {name} is given twice" for name in sorted(twice)]
    if options.limit is not None and options.limit < 1:
        problems.append(f"--limit is {options.limit}: it must be at least 1")
    if problems:
        raise ConfigError(" | ".join(problems))


def judge_all(
    tasks: Sequence[Task],
    encoders: Sequence[str],
    protocol: Protocol,
    root: Path,
    limit: int | None,
    say: Any,
) -> dict[str, list[Result]]:
    """Results by task, of the encoders in their order.

    Every problem that can be known is found before the first training begins.
    """
    opened = [open_encoder(origin) for origin in encoders]
    labels = [encoder.label for encoder in opened]
    opened = [replace(e, label=e.origin) if labels.count(e.label) > 1 else e for e in opened]
    cases = [[Case(encoder, task, protocol, root, limit) for encoder in opened] for task in tasks]
    known = sum(case.known for row in cases for case in row)
    if known:
        say(f"{known} of {len(tasks) * len(opened)} results are known from before")
    return {task.name: [case.judge(say) for case in row] for task, row in zip(tasks, cases, strict=True)}


def untuned_of(task: Task, options: Options, root: Path) -> dict[str, dict[str, dict[str, float]]]:
    """See `untuned`, of the test split: by the encoder's label and the language; kept by content."""
    found = {}
    items: Any = None
    for origin in options.encoder:
        encoder = open_encoder(origin)
        longest = min(task.max_length, encoder.max_length)
        key = hash_value(
            ["untuned", 1, encoder.fingerprint, content_hash(task, "test"), longest, options.limit]
        )
        file = root / f"untuned-{key[:16]}.json"
        if not file.is_file():
            if items is None:
                retrieval = task.family == "retrieval"
                items = (read_search if retrieval else read_split)(task, "test", options.limit)
            _say(f"{task.name}, {encoder.label}: measured without fine-tuning")
            write_json(file, untuned(encoder, items, longest))
        found[encoder.label] = read_json(file)
    return found


def objective(
    encoder: str, tasks: Sequence[str], protocol: Protocol, root: Path, limit: int | None = None
) -> Mapping[str, float]:
    """What a sweep makes large or small: the main metric of each task, as the mean over languages and seeds.

    Args:
        encoder: see `open_encoder`.
        tasks: paths of their YAML files.
        protocol: how it is fine-tuned.
        root: folder of what was judged before.
        limit: examples of each split at most.
    """
    results = judge_all([read_task(path) for path in tasks], [encoder], protocol, root, limit, lambda _: None)
    return {task: sum(found[0].values()) / len(found[0].values()) for task, found in results.items()}
