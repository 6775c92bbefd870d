"""Fine-tuning here against transformers' Trainer: the same encoder, examples, head, optimizer and schedule.

    python experiments/evaluation/speed.py ../shared/data/eval --steps 100 --rounds 3

Ours packs sequences of any length end to end; theirs pads to the longest of each batch, as its collators
do. Token ids are made beforehand and are the same, in the same order. Both start with the same weights,
a random encoder of EuroBERT's shape unless another is given, and take turns; medians count.
"""

import argparse
import contextlib
import io
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
import transformers
from lightning.pytorch import Callback
from seqeval.metrics import f1_score
from torch.utils.data import SequentialSampler

from euro_lightning.cli import quiet
from euro_lightning.data.tokenizer import TokenizerConfig, train_tokenizer
from euro_lightning.evaluation.batches import examples_of_step
from euro_lightning.evaluation.encoders import Judged, open_encoder
from euro_lightning.evaluation.examples import Example, Item, Sentence
from euro_lightning.evaluation.finetuning import learner_of, prepare, train_steps
from euro_lightning.evaluation.learner import Goal, Learner
from euro_lightning.evaluation.protocol import Protocol
from euro_lightning.evaluation.sequences import Classifier
from euro_lightning.evaluation.tagging import Tagger
from euro_lightning.export import write_directory
from euro_lightning.objective.optimizers import Optimizer
from euro_lightning.pretrained import Pretrained

_SHAPE = "{layers: 4, width: 256, heads: 4, key_value_heads: 2, feed_forward: 704, max_length: 1024}"
_FIRST = 5
"""Steps that are not counted."""


class Clock(Callback):
    """When each step ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        self.ends.append(time.perf_counter())


def read_sentences(folder: Path, split: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / f"{split}.parquet").to_pylist()
    return rows


def task_of(name: str, data: Path) -> tuple[Goal, list[str], list[Item], list[Item]]:
    """What is learned, the labels, and the examples to learn from and to be judged by."""
    rows = {split: read_sentences(data / name, split) for split in ("train", "validation")}
    if name == "lener_br":
        labels = sorted({label for row in rows["train"] for label in row["ner_tags"]})
        made: dict[str, list[Item]] = {
            split: [
                Sentence(str(r["id"]), "pt", tuple(r["tokens"]), tuple(map(labels.index, r["ner_tags"])))
                for r in some
            ]
            for split, some in rows.items()
        }
        return Goal("token_classification", len(labels)), labels, made["train"], made["validation"]
    labels = sorted({row["label"] for row in rows["train"]})
    made = {
        split: [
            Example(str(r["id"]), "pt", (r["premise"], r["hypothesis"]), labels.index(r["label"]))
            for r in some
        ]
        for split, some in rows.items()
    }
    return Goal("classification", len(labels)), labels, made["train"], made["validation"]


def random_export(data: Path, folder: Path) -> str:
    """A directory that transformers loads, with a tokenizer of the training text."""
    words = [" ".join(row["tokens"]) for row in read_sentences(data / "lener_br", "train")]
    pairs = [row["premise"] for row in read_sentences(data / "inferbr_pt_nli", "train")]
    train_tokenizer(words + pairs, TokenizerConfig(vocabulary=8192)).save(folder / "tokenizer.json")
    encoder = open_encoder(f"random:{_SHAPE}@{folder / 'tokenizer.json'}")
    network: Any = encoder.network
    found = Pretrained("it", network.config, network.rotary_bases, network.state_dict(), encoder.tokenizer)
    write_directory(folder / "encoder", found, "float32", "", False)
    return str(folder / "encoder")


def ours(learner: Learner, prepared: Any) -> list[float]:
    """Trains; the seconds of each step."""
    clock = Clock()
    train_steps(learner, prepared, [clock])
    return np.diff(clock.ends)[_FIRST:].tolist()


def rows_of(learner: Any, prepared: Any) -> list[dict[str, Any]]:
    """Examples as transformers takes them, in the order in which ours come."""
    protocol = learner.protocol
    order = [
        each
        for step in range(protocol.steps)
        for each in examples_of_step(step, protocol.batch_size, len(prepared), learner.seed)
    ]
    ids, targets = prepared.encoded.ids, prepared.targets
    tags = isinstance(learner, Tagger)
    return [
        {"input_ids": ids[n].tolist(), "labels": targets[n].tolist() if tags else int(targets[n])}
        for n in order
    ]


def theirs_model(origin: str, learner: Any) -> Any:
    """transformers' class for the task, with the same new weights."""
    classes = transformers.AutoModelForTokenClassification, transformers.AutoModelForSequenceClassification
    model: Any = classes[isinstance(learner, Classifier)].from_pretrained(
        origin, num_labels=learner.goal.labels, classifier_pooling="mean", attn_implementation="sdpa"
    )
    with torch.no_grad():
        for name in ("dense", "last"):
            mine, other = (
                getattr(learner.head, name),
                getattr(model, name if name == "dense" else "classifier", None),
            )
            if mine is not None:
                other.load_state_dict(mine.state_dict())
    return model


def collator(learner: Any, pad: int) -> Any:
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=learner.encoding.tokenizer.inner, pad_token=learner.encoding.tokenizer.name_of(pad)
    )
    classes = transformers.DataCollatorForTokenClassification, transformers.DataCollatorWithPadding
    return classes[isinstance(learner, Classifier)](tokenizer)


def theirs(model: Any, learner: Any, rows: list[dict[str, Any]], rate: float, pad: int) -> list[float]:
    """Trains; the seconds of each step."""
    ends: list[float] = []
    protocol, optimizer = learner.protocol, learner.protocol.optimizer

    class Ends(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ends.append(time.perf_counter())

    class Trainer(transformers.Trainer):  # type: ignore[misc]
        def _get_train_sampler(self, *_: Any) -> Any:
            return SequentialSampler(rows)

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        arguments = transformers.TrainingArguments(
            output_dir=folder, max_steps=protocol.steps, per_device_train_batch_size=protocol.batch_size,
            learning_rate=rate, warmup_steps=protocol.steps // 10, lr_scheduler_type="linear",
            optim="adamw_torch_fused", adam_beta1=optimizer.beta1, adam_beta2=optimizer.beta2,
            adam_epsilon=optimizer.epsilon, weight_decay=optimizer.weight_decay,
            max_grad_norm=protocol.gradient_clip, report_to=[], save_strategy="no", logging_strategy="no",
            disable_tqdm=True, use_cpu=not torch.cuda.is_available(), seed=learner.seed,
        )  # fmt: skip
        Trainer(
            model, arguments, train_dataset=rows, data_collator=collator(learner, pad), callbacks=[Ends()]
        ).train()  # fmt: skip
    return np.diff(ends)[_FIRST:].tolist()


def theirs_scores(model: Any, prepared: Any, pad: int) -> Iterator[torch.Tensor]:
    """Scores of each sequence, padded as in training."""
    model.eval()
    ids = [torch.from_numpy(each) for each in prepared.encoded.ids]
    for start in range(0, len(ids), 32):
        some = ids[start : start + 32]
        padded = torch.nn.utils.rnn.pad_sequence(some, batch_first=True, padding_value=pad)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(each) for each in some], batch_first=True)
        with torch.no_grad():
            scores = model(input_ids=padded, attention_mask=mask).logits
        yield from (
            row if row.ndim == 1 else row[: len(each)] for row, each in zip(scores, some, strict=True)
        )


def score(learner: Any, predictions: Any, items: list[Any], labels: list[str]) -> float:
    """Entity F1, or accuracy."""
    if isinstance(learner, Tagger):
        wanted = [[labels[each] for each in item.labels] for item in items]
        return float(f1_score(wanted, [[labels[each] for each in one] for one in predictions]))
    return float(np.mean(np.argmax(predictions, 1) == [item.target for item in items]))


def compare(name: str, data: Path, origin: str, protocol: Protocol, rate: float, rounds: int) -> None:
    encoder: Judged = open_encoder(origin)
    goal, labels, train, held_out = task_of(name, data)
    pad = encoder.tokenizer.pad
    seconds: tuple[list[float], list[float]] = ([], [])
    scores: tuple[list[float], list[float]] = ([], [])
    prepared, judged = (prepare(encoder, goal, protocol, items) for items in (train, held_out))
    for seed in range(rounds):
        learner: Any = learner_of(encoder, goal, protocol, seed).train()
        learner.peak = rate
        learner.begin(prepared)
        model, rows = theirs_model(origin, learner), rows_of(learner, prepared)
        for side in (0, 1) if seed % 2 == 0 else (1, 0):
            seconds[side].extend(
                ours(learner, prepared) if side == 0 else theirs(model, learner, rows, rate, pad)
            )
        found = list(theirs_scores(model, judged, pad))
        if isinstance(learner, Tagger):
            found = [
                learner.vote(one.softmax(-1).numpy(), judged.encoded.words[n], judged.words[n], judged.commonest)
                for n, one in enumerate(found)
            ]  # fmt: skip
        else:
            found = [one.numpy() for one in found]
        scores[0].append(score(learner, learner.predict(judged), held_out, labels))
        scores[1].append(score(learner, found, held_out, labels))
    lengths = [len(each["input_ids"]) for each in rows]
    padded = sum(
        max(lengths[i : i + protocol.batch_size]) * protocol.batch_size
        for i in range(0, len(lengths), protocol.batch_size)
    )
    mine, other = (statistics.median(each) for each in seconds)
    padding = f"{1 - sum(lengths) / padded:.0%} of the padded tokens are padding"
    print(f"{name}: ours {mine:.3f} s, theirs {other:.3f} s a step: {other / mine:.2f}x; {padding}")
    both = ("   ".join(f"{value:.3f}" for value in side) for side in scores)
    print("  scores: ours {}; theirs {}".format(*both), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with lener_br and inferbr_pt_nli")
    parser.add_argument("--tasks", nargs="+", default=["lener_br", "inferbr_pt_nli"])
    parser.add_argument("--encoder", help="a directory of transformers; a random one of EuroBERT's shape")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=1e-3)
    options = parser.parse_args()
    quiet()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    # Trainer spares norms and biases, too
    optimizer = Optimizer(beta2=0.999, epsilon=1e-8, weight_decay=0.01, decay="all_but_norms")
    protocol = replace(Protocol(optimizer=optimizer), steps=options.steps)
    with tempfile.TemporaryDirectory() as folder:
        origin = options.encoder or random_export(options.data, Path(folder))
        for name in options.tasks:
            compare(name, options.data, origin, protocol, options.rate, options.rounds)


if __name__ == "__main__":
    main()
