"""The same steps inside the training loops that people use: ours in Lightning, theirs in Trainer."""

import contextlib
import io
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning.pytorch import Callback
from torch.utils.data import IterableDataset

from euro_lightning.benchmark.contestants import (
    BETAS,
    CLIP,
    DECAY,
    EPSILON,
    LEARNING_RATE,
    Rows,
    hide,
    theirs_network,
)
from euro_lightning.benchmark.workload import SPECIAL, Workload
from euro_lightning.cli import build, quiet
from euro_lightning.data.documents import Document
from euro_lightning.data.manifest import finish_store
from euro_lightning.data.tokenizer import Tokenizer
from euro_lightning.data.writer import PartWriter, data_file, describe_data_set, schema_of, token_dtype

_DOCUMENTS = 4000
"""Documents of the store that Lightning trains on."""


def write_store(work: Workload, folder: Path) -> Path:
    """A token store of the workload's documents, with a tokenizer whose tokens mean nothing."""
    import tokenizers

    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|pad|>", "<|mask|>", "<|parallel_sep|>"]
    words = {name: i for i, name in enumerate(names)}
    words |= {f"t{i}": i for i in range(SPECIAL, work.vocabulary)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token=names[1]))
    inner.add_special_tokens([tokenizers.AddedToken(name, special=True) for name in names])
    tokenizer = Tokenizer(inner)
    documents = work.documents(_DOCUMENTS)
    store = folder / "store"
    writer = PartWriter(store, tokenizer, (0.0, 0.0))
    dtype = token_dtype(work.vocabulary)
    rows = [Document("", "en", str(number), split="train") for number in range(_DOCUMENTS)]
    writer.add(rows, [documents.tokens(number).astype(dtype) for number in range(_DOCUMENTS)])
    written = writer.close()
    describe_data_set(store / "train" / "en", [data_file(0, 1)], "0" * 16, schema_of(dtype))
    facts = {"en": {"kind": "text", "splits": {"train": written.data["train", "en"]}}}
    finish_store(store, tokenizer, written.counts, facts, {"corpus": "benchmark"})
    return store


_WARMUP = 2
"""Steps of a loop that are not measured."""


class Turn(NamedTuple):
    """What a loop did in the steps that are measured."""

    tokens: int
    seconds: float
    waiting: float | None = None
    """Seconds between the end of a step and the next one's batch, on the device; None where not known."""


class _Clock(Callback):
    def __init__(self) -> None:
        self.begins: list[float] = []
        self.ends: list[float] = []

    def on_train_batch_start(self, *_: Any, **__: Any) -> None:
        self.begins.append(time.perf_counter())

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        self.ends.append(time.perf_counter())


def lightning_steps(
    work: Workload, store: Path, device: torch.device, half: bool, compiled: bool, steps: int
) -> Turn:
    """Steps of `fit`; nothing is saved."""
    quiet()
    lengths = {"kind": "fixed", "maximum": work.longest, "minimum": min(12, work.longest)}
    phase = {
        "tokens": work.tokens * (steps + _WARMUP), "mixture": {"en": 1.0}, "masking_ratio": work.masking_ratio,
        "lengths": lengths, "learning_rate": {"peak": LEARNING_RATE},
    }  # fmt: skip
    tree = {
        "model": {
            "encoder": asdict(work.encoder), "compile": compiled,
            "optimizer": {"beta1": BETAS[0], "beta2": BETAS[1], "epsilon": EPSILON, "weight_decay": DECAY},
        },
        "data": {
            "corpus": str(store), "phases": {"only": phase}, "batch_tokens": work.tokens,
            "micro_batch_tokens": work.tokens, "seed": work.seed,
        },
        "tracking": {"enabled": False}, "progress": {"enabled": False},
        "trainer": {
            "accelerator": "gpu" if device.type == "cuda" else "cpu", "devices": 1, "gradient_clip_val": CLIP,
            "precision": "bf16-mixed" if half else "32-true",
        },
    }  # fmt: skip
    clock = _Clock()
    with contextlib.redirect_stderr(io.StringIO()):
        cli = build(tree)
        cli.trainer.callbacks.append(clock)  # type: ignore[attr-defined]
        cli.trainer.fit(cli.model, datamodule=cli.datamodule)
    first = _WARMUP - 1
    waits = [begin - end for begin, end in zip(clock.begins[1:], clock.ends, strict=False)]
    return Turn(work.tokens * steps, clock.ends[-1] - clock.ends[first], sum(waits[first:]))


class _Rows(IterableDataset[dict[str, Any]]):
    def __init__(self, batches: Iterator[dict[str, Any]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.batches


def trainer_steps(
    work: Workload, rows: Callable[[], Iterator[Rows]], device: torch.device, half: bool, steps: int
) -> Turn:
    """As many steps of transformers' Trainer as it takes for `steps` times `work.tokens` tokens."""
    import transformers

    times: list[float] = []
    tokens: list[int] = []
    for _, is_token in rows():
        tokens.append(int(is_token.sum()))
        if sum(tokens[_WARMUP:]) >= steps * work.tokens:
            break
    generator = torch.Generator().manual_seed(work.seed)

    def batches() -> Iterator[dict[str, Any]]:
        for ids, is_token in rows():
            inputs, labels = hide(ids, is_token, work.masking_ratio, generator)
            batch = {"input_ids": inputs, "labels": labels}
            yield batch if is_token.all() else {**batch, "attention_mask": is_token.long()}

    class Clock(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(time.perf_counter())

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        arguments = transformers.TrainingArguments(
            output_dir=folder, max_steps=len(tokens), learning_rate=LEARNING_RATE, adam_beta1=BETAS[0],
            adam_beta2=BETAS[1], adam_epsilon=EPSILON, weight_decay=DECAY, max_grad_norm=CLIP,
            optim="adamw_torch_fused", lr_scheduler_type="constant", bf16=half, use_cpu=device.type == "cpu",
            per_device_train_batch_size=1, report_to=[], save_strategy="no", logging_strategy="no",
            disable_tqdm=True, dataloader_num_workers=0,
        )  # fmt: skip
        trainer = transformers.Trainer(
            theirs_network(work), arguments, train_dataset=_Rows(batches()), data_collator=lambda b: b[0],
            callbacks=[Clock()],
        )  # fmt: skip
        with contextlib.redirect_stdout(io.StringIO()):
            trainer.train()
    return Turn(sum(tokens[_WARMUP:]), times[-1] - times[_WARMUP - 1])
