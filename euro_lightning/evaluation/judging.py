"""One encoder on one task under one protocol: the setting chosen on the validation split, the test split read once.

What was judged is kept by its content: weights, tokenizer, task, data and protocol. The same
question is answered from there.
"""

import dataclasses
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from euro_lightning.errors import ConfigError, UserError
from euro_lightning.evaluation.encoders import Judged
from euro_lightning.evaluation.examples import Search
from euro_lightning.evaluation.finetuning import Items, Outcome, finetune, learner_of, prepare
from euro_lightning.evaluation.learner import Goal, Learner
from euro_lightning.evaluation.metrics import LOWER_IS_BETTER, METRICS
from euro_lightning.evaluation.protocol import Protocol
from euro_lightning.evaluation.reading import content_hash, read_split
from euro_lightning.evaluation.scoring import Judgement, score_split
from euro_lightning.evaluation.searching import read_search
from euro_lightning.evaluation.study import Grid, Point
from euro_lightning.evaluation.task import Split, Task
from euro_lightning.evaluation.untuned import entity_f1_by_fertility
from euro_lightning.files import atomic_path, hash_value, locked, read_json, write_json

_CODE = 1
"""Raised when the same encoder, task and protocol would give other scores."""

_RESULT = "result.json"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """What is known of an encoder on a task."""

    task: str
    encoder: str
    family: str
    metric: str
    learning_rate: float | None
    """The chosen one; None where nothing was learned."""
    seeds: Sequence[int]
    tests: Sequence[Judgement]
    """Of the test split, for each seed."""
    validation: Sequence[Mapping[str, float]]
    """Of the validation split, for each seed; empty where nothing was learned."""
    cut: Mapping[str, int]
    """Sequences of each split that were too long and are cut."""
    lengths: Sequence[int]
    """Tokens of each item of the test split; of a query, of its longest relevant document."""
    search: Sequence[Mapping[str, Any]]
    """Every setting that was tried."""
    fertility: Sequence[Mapping[str, Any]] = ()
    """Of entities: their F1 by the tokens of a word, see `entity_f1_by_fertility`."""
    folder: str = ""
    """Where it is kept."""

    def values(self, metric: str | None = None) -> list[float]:
        """The mean over languages of the main metric, or another, for each seed."""
        return [test.overall[metric or self.metric] for test in self.tests]

    def of_language(self, lang: str) -> list[float]:
        """The main metric in a language, for each seed."""
        return [float(test.languages[lang][self.metric]) for test in self.tests]

    @property
    def languages(self) -> list[str]:
        """Languages of the test split."""
        return list(self.tests[0].languages)


class Case:
    """An encoder on a task under a protocol, and the folder that keeps what comes of it."""

    def __init__(
        self, encoder: Judged, task: Task, protocol: Protocol, root: Path, limit: int | None = None
    ) -> None:
        """
        Args:
            encoder: what is judged.
            task: by what.
            protocol: how. It learns nothing where its steps are 0, which only retrieval allows.
            root: folder of all cases.
            limit: examples of each split at most; None takes all.

        Raises:
            ConfigError: the protocol does not fit the task or the encoder.
        """
        longest = min(task.max_length, protocol.max_length or task.max_length)
        select = protocol.select or task.metric
        self.encoder, self.task, self.limit = encoder, task, limit
        self.protocol = dataclasses.replace(protocol, max_length=longest, select=select)
        self.select = select
        if select not in METRICS[task.family]:
            raise ConfigError(
                f"{task.name}: protocol.select is {select!r}, and {task.family} has {', '.join(METRICS[task.family])}"
            )
        if not protocol.steps and task.family != "retrieval":
            raise ConfigError(f"{task.name}: protocol.steps is 0, and {task.family} must be learned")
        if encoder.max_length < longest:
            raise ConfigError(
                f"{encoder.origin} reads {encoder.max_length:,} tokens at most, and {task.name} has {longest:,}:"
                f" --protocol.max_length {encoder.max_length} gives all encoders the same"
            )
        self.goal = Goal(task.family, len(task.label_names) if task.family != "retrieval" else 0)
        splits: list[Split] = ["train", "validation", "test"] if protocol.steps else ["test"]
        content = {split: content_hash(task, split) for split in splits}
        how = [asdict(self.protocol), encoder.fingerprint, content, limit, _CODE]
        name = re.sub(r"[^\w.\-]+", "-", f"{task.name}-{encoder.label}")
        self.folder = root / f"{name}-{hash_value(how)[:12]}"

    @property
    def known(self) -> bool:
        """Whether it has been judged."""
        return (self.folder / _RESULT).is_file()

    def result(self) -> Result:
        """What was found, under the names that task and encoder have today."""
        stored = read_json(self.folder / _RESULT)
        stored["tests"] = [Judgement(**test) for test in stored["tests"]]
        found = Result(**stored)
        return dataclasses.replace(
            found, task=self.task.name, encoder=self.encoder.label, folder=str(self.folder)
        )

    def judge(self, say: Say) -> Result:
        """Finds the setting, then reads the test split; continues what was interrupted.

        Raises:
            UserError: another process is at it, the data is wrong, or every setting diverged.
        """
        if self.known:
            return self.result()
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / ".lock", wait=False) as mine:
            if not mine:
                raise UserError(
                    f"{self.folder}: another process judges {self.encoder.label} on {self.task.name}"
                )
            if self.protocol.steps:
                self._learn(say)
            else:
                learner = learner_of(self.encoder, self.goal, self.protocol)
                self._test(say, [learner], None, [], [])
        return self.result()

    def _learn(self, say: Say) -> None:
        task, protocol = self.task, self.protocol
        train = self._prepare(read_split(task, "train", self.limit))
        held_out = self._evaluated("validation")
        judged = self._prepare(held_out)
        settings = Grid(self.folder / "study.db", protocol, self.select not in LOWER_IS_BETTER)

        def run(point: Point) -> Outcome:
            return finetune(
                self.encoder, train, judged, self.goal, protocol, *point,
                lambda predictions: score_split(task, held_out, predictions).overall,
            )  # fmt: skip

        tried: list[float] = []
        for rate in protocol.learning_rates:
            known = settings.known()
            for seed in protocol.seeds:
                if (rate, seed) not in known:
                    self._try(run, settings, (rate, seed), say)
            tried.append(rate)
            self._forget_all_but(settings.best(tried))
        best = settings.best(protocol.learning_rates)
        if best is None:
            raise UserError(f"{task.name}, {self.encoder.label}: training diverged at every learning rate")
        learners = [self._trained(run, (best, seed)) for seed in protocol.seeds]
        facts = {(fact["learning_rate"], fact["seed"]): fact for fact in settings.facts()}
        validation = [facts[best, seed]["validation"] for seed in protocol.seeds]
        self._test(say, learners, best, validation, list(facts.values()))
        shutil.rmtree(self.folder / "weights", ignore_errors=True)

    def _try(self, run: Callable[[Point], Outcome], settings: Grid, point: Point, say: Say) -> None:
        outcome = run(point)
        facts = {
            "steps": outcome.steps, "seconds": round(outcome.seconds, 2), "cut": dict(outcome.cut),
            "curve": [{"step": p.step, "loss": p.loss, **p.scores} for p in outcome.curve],
        }  # fmt: skip
        what = f"{self.task.name}, {self.encoder.label}, learning rate {point[0]:g}, seed {point[1]}"
        if outcome.diverged or outcome.best is None:
            settings.add(point, None, {**facts, "diverged": True})
            say(f"{what}: diverged")
            return
        self._save(outcome.module, point)
        score = outcome.best.scores[self.select]
        settings.add(
            point, score, {**facts, "validation": dict(outcome.best.scores), "best": outcome.best.step}
        )
        say(f"{what}: {self.select} {score:.4f} after {outcome.best.step} steps ({outcome.seconds:.0f} s)")

    def _weights(self, point: Point) -> Path:
        return self.folder / "weights" / f"{point[0]!r}-{point[1]}.safetensors"

    def _save(self, learner: Learner, point: Point) -> None:
        from safetensors.torch import save_file

        tensors = {
            name: tensor.detach().cpu().contiguous().clone() for name, tensor in learner.state_dict().items()
        }
        with atomic_path(self._weights(point)) as temporary:
            save_file(tensors, temporary)

    def _trained(self, run: Callable[[Point], Outcome], point: Point) -> Learner:
        """From its weights, or trained again where they are lost: the same on one machine."""
        from safetensors.torch import load_file

        file = self._weights(point)
        if not file.is_file():
            return run(point).module
        learner = learner_of(self.encoder, self.goal, self.protocol, point[1])
        learner.load_state_dict(load_file(file))
        return learner

    def _forget_all_but(self, rate: float | None) -> None:
        """Weights of settings that are not the best so far are not needed again."""
        kept = {self._weights((rate, seed)) for seed in self.protocol.seeds} if rate is not None else set()
        for file in (self.folder / "weights").glob("*.safetensors"):
            if file not in kept:
                file.unlink()

    def _prepare(self, items: Items) -> Any:
        return prepare(self.encoder, self.goal, self.protocol, items)

    def _evaluated(self, split: Split) -> Any:
        if self.task.family == "retrieval":
            return read_search(self.task, split, self.limit)
        return read_split(self.task, split, self.limit)

    def _test(
        self,
        say: Say,
        learners: Sequence[Learner],
        rate: float | None,
        validation: Sequence[Mapping[str, float]],
        search: Sequence[Mapping[str, Any]],
    ) -> None:
        items = self._evaluated("test")
        prepared = self._prepare(items)
        predictions = [learner.predict(prepared) for learner in learners]
        tests = [score_split(self.task, items, predicted) for predicted in predictions]
        names = self.task.label_names
        fertility = []
        if self.task.family == "token_classification" and any(name.startswith("B-") for name in names):
            fertility = entity_f1_by_fertility(items, predictions, prepared.encoded.words, names)
        cut = {**(dict(search[0]["cut"]) if search else {}), "test": prepared.cut}
        result = Result(
            self.task.name, self.encoder.label, self.task.family, self.task.metric, rate,
            list(self.protocol.seeds) if self.protocol.steps else [0],
            tests, list(validation), cut, _lengths(items, prepared), list(search), fertility,
        )  # fmt: skip
        write_json(self.folder / _RESULT, json.loads(json.dumps(asdict(result))))
        say(
            f"{self.task.name}, {self.encoder.label}: {self.task.metric} {np.mean(result.values()):.4f} (test)"
        )


def _lengths(items: Any, prepared: Any) -> list[int]:
    if not isinstance(items, Search):
        return [len(ids) for ids in prepared.encoded.ids]
    sizes = {d.row: len(ids) for d, ids in zip(items.documents, prepared.documents.ids, strict=True)}
    return [max(sizes.get(row, 0) for row in items.relevant[query.row]) for query in items.queries]
