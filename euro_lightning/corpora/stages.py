"""The stages of a corpus, each cut into tasks that processes take in any order.

A task is a function of the plan and its number; what it writes does not depend on who else runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from euro_lightning.corpora.assembly import assemble
from euro_lightning.corpora.config import CorpusRecipe
from euro_lightning.corpora.gathering import duplicates, pairs, read
from euro_lightning.corpora.progress import Tick, progress_file
from euro_lightning.corpora.scoring import LEARNERS, cuts, groups, learn, score
from euro_lightning.corpora.tokenising import tokenise, tokenizer
from euro_lightning.corpora.work import Work
from euro_lightning.errors import DataError, UserError
from euro_lightning.files import write_text


@dataclass(frozen=True)
class Stage:
    """A step of the work."""

    run: Callable[[Work, int, Tick], None]
    """Does one task."""
    tasks: Callable[[Work], int]
    """How many there are."""
    needed: Callable[[CorpusRecipe], bool] = lambda recipe: True
    """Whether a corpus needs it."""


def _one(work: Work) -> int:
    return 1


def _shards(work: Work) -> int:
    return len(work.shards)


def _compared(recipe: CorpusRecipe) -> bool:
    return recipe.duplicates.kind != "none"


def _scored(recipe: CorpusRecipe) -> bool:
    return any(source.quality and not source.quality.classes for source in recipe.sources.values())


def _learned(recipe: CorpusRecipe) -> bool:
    return any(source.quality and source.quality.reference for source in recipe.sources.values())


def _bands(work: Work) -> int:
    return 1 if work.recipe.duplicates.kind == "exact" else work.recipe.duplicates.bands


def _learners(work: Work) -> int:
    read = all(work.documents_file(rank).with_suffix(".json").is_file() for rank in range(len(work.shards)))
    return min(LEARNERS, max(len(groups(work)), 1)) if read else LEARNERS


STAGES = {
    "read": Stage(read, _shards),
    "pairs": Stage(pairs, _bands, _compared),
    "duplicates": Stage(duplicates, _one, _compared),
    "learn": Stage(learn, _learners, _learned),
    "score": Stage(score, _shards, _scored),
    "cuts": Stage(cuts, _one, _scored),
    "tokenizer": Stage(tokenizer, _one),
    "tokenise": Stage(tokenise, _shards),
    "assemble": Stage(assemble, _one),
}
"""In the order in which they run."""


@dataclass(frozen=True)
class Step:
    """A stage as datatrove's executors call it."""

    work: str
    stage: str

    def __call__(self, data: Any, rank: int, world_size: int) -> None:
        """Does the task `rank`.

        Raises:
            UserError: it cannot be done; the reason is also left in the working folder.
        """
        work = Work(Path(self.work))
        tick = Tick(progress_file(work.path, self.stage, rank))
        try:
            STAGES[self.stage].run(work, rank, tick)
            tick.finish()
        except UserError as error:
            self._note(work, rank, str(error))
            raise
        except OSError as error:
            place = error.filename or work.path
            text = f"{place}: {error.strerror or error}; prepare goes on from here when that is mended"
            self._note(work, rank, text)
            raise DataError(text) from error

    def _note(self, work: Work, rank: int, text: str) -> None:
        try:
            write_text(failure_file(work.path, self.stage, rank), text)
        except OSError:
            return  # the disk is full: the exception itself has to do


def failure_file(work: Path, stage: str, rank: int) -> Path:
    """Where a task that failed leaves its reason."""
    return work / "failures" / f"{stage}-{rank:05d}.txt"
