"""Commands for tokenizers: train one; report what some make of held-out text."""

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tokenizers
from rich.console import Console

from euro_lightning.arguments import parse
from euro_lightning.data.sampling import sample_documents, sample_sources
from euro_lightning.data.tokenizer import (
    Kind,
    Tokenizer,
    TokenizerConfig,
    read_tokenizer,
    train_tokenizer,
    transformers_settings,
)
from euro_lightning.data.tokenizer_report import examine
from euro_lightning.errors import ConfigError, DataError, nearest, raise_all
from euro_lightning.files import whole_directory
from euro_lightning.selection import CorpusOptions, selected, selection_problems
from euro_lightning.tokenizer_tables import draw, print_report, write_csv

TOKENIZER, SETTINGS = FILES = ("tokenizer.json", "tokenizer_config.json")

VOCABULARIES: dict[Kind, int] = {"bpe": 8192, "unigram": 32_768}
"""Of the small experiments here, and of BERTomelo."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions(CorpusOptions):
    """Trains a tokenizer on the training split of a corpus."""

    out: str
    """The folder to write, or the tokenizer.json in it; for data.tokenizer.path and for transformers."""

    kind: Kind = "bpe"
    """bpe: bytes, any text comes back, made for code too. unigram: BERTomelo's, over lower-cased words."""

    vocabulary: int | None = None
    """Tokens to learn, special ones included; by default 8,192 for bpe and 32,768 for unigram."""

    sample_characters: int = 20_000_000
    """Characters to learn from, spread evenly over the sources."""

    force: bool = False
    """Write over a folder that holds a tokenizer and nothing else."""


@dataclass(frozen=True, kw_only=True)
class ReportOptions(CorpusOptions):
    """Compares tokenizers on the same text: what they cost, what they lose, how they cut code."""

    tokenizers: tuple[str, ...] = ()
    """Folders with a tokenizer.json, such files, or names on the Hugging Face Hub."""

    split: Literal["train", "validation", "test", "all"] = "test"
    """Which documents; those of train are the ones that our own tokenizers learned from."""

    documents: int = 1000
    """Documents of each source at most, a random sample that is always the same."""

    width: int = 768
    """Of the encoder, for the parameters of the embedding."""

    csv: str | None = None
    """A file for all numbers, one row for each tokenizer and source."""

    figure: str | None = None
    """A .png, .svg or .pdf to draw tokens per word and characters per token to."""


def tokenizer(words: list[str]) -> None:
    """Runs a subcommand."""
    commands = {"train": train, "report": report}
    if not words or words[0] in ("-h", "--help"):
        print("usage: python -m euro_lightning tokenizer train OUT --corpus CORPUS [--option value]...")
        print("       python -m euro_lightning tokenizer report A [B …] --corpus CORPUS [--option value]...")
        print("\ntokenizer train --help and tokenizer report --help explain every option.")
        return
    if words[0] not in commands:
        raise ConfigError(f"tokenizer: unknown subcommand {words[0]!r}; choose train or report"
                          f"{nearest(words[0], commands)}")  # fmt: skip
    commands[words[0]](words[1:])


def train(words: list[str]) -> None:
    """Trains a tokenizer and says what it learned from."""
    options = parse(TrainOptions, "tokenizer train", words, ("out",))
    if options is None:
        return
    config = TokenizerConfig(
        kind=options.kind,
        vocabulary=VOCABULARIES[options.kind] if options.vocabulary is None else options.vocabulary,
        sample_characters=options.sample_characters,
    )
    raise_all([*config.problems("tokenizer train: --"), *selection_problems(options, "tokenizer train")])
    out = Path(options.out).expanduser()
    out = out.parent if out.name == TOKENIZER else out
    _check_free(out, options.force)
    start = time.monotonic()
    sample = sample_sources(selected(options, "train"), config.sample_characters)
    made = train_tokenizer((text for texts in sample.values() for text in texts), config)
    _write(out, made)
    seconds = time.monotonic() - start
    sizes = {source: (len(texts), sum(map(len, texts))) for source, texts in sorted(sample.items())}
    documents, characters = (sum(column) for column in zip(*sizes.values(), strict=True))
    print(f"tokenizer   {config.kind}, {made.vocabulary:,} tokens")
    print(f"learned     from {characters:,} characters of {documents:,} training documents")
    for source, (count, size) in sizes.items():
        print(f"            {source:<10} {size:>14,} characters {count:>10,} documents")
    print(f"seconds     {seconds:.1f}")
    print(f"folder      {out} (use it with --data.tokenizer.path {out})")
    if made.vocabulary < config.vocabulary:
        print(
            f"warning: the text gives {made.vocabulary:,} tokens, not {config.vocabulary:,}; more text gives more",
            file=sys.stderr,
        )


def report(words: list[str]) -> None:
    """Prints tables; --csv and --figure write files."""
    options = parse(ReportOptions, "tokenizer report", words, ("tokenizers",))
    if options is None:
        return
    problems = selection_problems(options, "tokenizer report")
    if not options.tokenizers:
        problems.append("tokenizer report: give at least one tokenizer")
    problems += [
        f"tokenizer report: --{name} is {getattr(options, name)}: it must be at least 1"
        for name in ("documents", "width")
        if getattr(options, name) < 1
    ]
    for name, endings in (("csv", (".csv",)), ("figure", (".png", ".svg", ".pdf"))):
        given = getattr(options, name)
        if given is not None and Path(given).suffix not in endings:
            problems.append(
                f"tokenizer report: --{name} {given}: the name must end in {' or '.join(endings)}"
            )
    raise_all(problems)
    found = {name: _find(name) for name in options.tokenizers}
    samples = sample_documents(selected(options, options.split), options.documents)
    reports = [examine(name, inner, samples) for name, inner in found.items()]
    console = Console(width=None if sys.stdout.isatty() else 120, markup=False, emoji=False)
    print_report(reports, options.width, console)
    if options.csv is not None:
        with _writing(options.csv):
            write_csv(reports, options.width, Path(options.csv))
        print(f"numbers {options.csv}")
    if options.figure is not None:
        with _writing(options.figure):
            draw(reports, Path(options.figure))
        print(f"figure {options.figure}")


def _check_free(out: Path, force: bool) -> None:
    if not out.exists():
        return
    if not out.is_dir() or {path.name for path in out.iterdir()} - set(FILES):
        raise DataError(f"{out} exists and is no folder of a tokenizer alone; give another name")
    if any(out.iterdir()) and not force:
        raise DataError(f"{out} exists; --force writes over it")


def _write(out: Path, made: Tokenizer) -> None:
    with _writing(out), whole_directory(out) as folder:
        made.save(folder / TOKENIZER)
        settings = json.dumps(transformers_settings(made), indent=2, ensure_ascii=False)
        (folder / SETTINGS).write_text(settings + "\n", encoding="utf-8")


@contextlib.contextmanager
def _writing(path: str | Path) -> Iterator[None]:
    """Tells in one line that a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror or error})") from None


def _find(name: str) -> tokenizers.Tokenizer:
    """A tokenizer by the name that a user gives it: a path, or a name on the Hub."""
    path = Path(name).expanduser()
    if path.exists():
        return read_tokenizer(path)
    from euro_lightning.encoder.directory import download, is_hub_name  # which takes seconds to import

    if is_hub_name(name):
        return read_tokenizer(download(name, "tokenizer report", FILES))
    beside = (
        [str(path.parent / other.name) for other in path.parent.iterdir()] if path.parent.is_dir() else []
    )
    raise DataError(f"tokenizer report {name}: no such file or folder{nearest(name, beside)}")
