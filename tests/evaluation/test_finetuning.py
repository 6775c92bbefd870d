"""Each family learns; runs are functions of seed and rate; the best evaluation is kept."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from euro_lightning.errors import ConfigError, DataError
from euro_lightning.evaluation.encoders import Judged, open_encoder
from euro_lightning.evaluation.examples import Example, Sentence
from euro_lightning.evaluation.finetuning import Outcome, Scorer, finetune, learner_of, prepare
from euro_lightning.evaluation.learner import Goal, Learner
from euro_lightning.evaluation.protocol import Protocol
from euro_lightning.evaluation.tagging import Tagger
from tests.evaluation.small import QUICK, colours, minilm, pairs, single, small_encoder, tagged

CLASSES, SCORES, TAGS = Goal("classification", 2), Goal("regression"), Goal("token_classification", 3)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return small_encoder(tmp_path_factory.mktemp("encoder"))


def learn(
    encoder: Judged, train: Any, held_out: Any, goal: Goal, protocol: Protocol, rate: float, seed: int,
    scorer: Scorer,
) -> Outcome:  # fmt: skip
    prepared = [prepare(encoder, goal, protocol, items) for items in (train, held_out)]
    return finetune(encoder, *prepared, goal, protocol, rate, seed, scorer)


def predict(module: Learner, items: Any) -> Any:
    return module.predict(module.prepare(items))


def accuracy(items: list[Example]) -> Any:
    wanted = np.array([item.target for item in items])
    return lambda scores: {"accuracy": float((scores.argmax(1) == wanted).mean())}


def word_accuracy(items: list[Sentence]) -> Any:
    wanted = [label for item in items for label in item.labels]
    return lambda labels: {"accuracy": float(np.mean(np.concatenate(labels) == wanted))}


def learn_colours(encoder: Judged, protocol: Any = QUICK, seed: int = 1, rate: float = 1e-2) -> Outcome:
    held_out = single(colours(60, 1))
    return learn(encoder, single(colours(200)), held_out, CLASSES, protocol, rate, seed, accuracy(held_out))


@pytest.mark.parametrize("pooling", ["mean", "bos", "late"])
@pytest.mark.parametrize("pair", [False, True])
def test_labels_of_texts_and_pairs_are_learned(encoder: Judged, pooling: Any, pair: bool) -> None:
    train, held_out = colours(300), colours(60, 1)
    if not pair:
        train, held_out = single(train), single(held_out)
    protocol = replace(QUICK, pooling=pooling, steps=80)
    outcome = learn(encoder, train, held_out, CLASSES, protocol, 1e-2, 1, accuracy(held_out))
    assert outcome.best is not None and outcome.best.scores["accuracy"] > 0.85, outcome.curve
    scores = predict(outcome.module, held_out)
    assert scores.shape == (60, 2) and scores.dtype == np.float32
    assert accuracy(held_out)(scores) == outcome.best.scores, "the module has the best weights"


def test_a_baseline_learns_and_its_dropout_is_keyed() -> None:
    encoder = open_encoder(minilm())
    train = single(colours(40))
    protocol = replace(QUICK, steps=4, evaluate_every=4, batch_size=4)
    runs = [
        learn(encoder, train, train[:8], CLASSES, protocol, 1e-4, 1, accuracy(train[:8])) for _ in range(2)
    ]
    assert np.array_equal(*(predict(run.module, train[:8]) for run in runs))


def test_scores_are_predicted_on_their_own_scale(encoder: Judged) -> None:
    items = [replace(item, target=100 + 20 * item.target) for item in single(colours(200))]
    wanted = np.array([item.target for item in items])

    def scorer(found: Any) -> dict[str, float]:
        return {"mse": float(((found - wanted) ** 2).mean())}

    protocol = replace(QUICK, steps=60)
    outcome = learn(encoder, items, items, SCORES, protocol, 1e-2, 1, scorer)
    assert outcome.best is not None
    assert outcome.best.scores["mse"] == min(point.scores["mse"] for point in outcome.curve) < 30
    assert predict(outcome.module, items).shape == (200,)


@pytest.mark.parametrize("labels", ["first", "all"])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_labels_of_words_are_learned(labels: Any, kind: str, tmp_path: Path) -> None:
    train, held_out = tagged(200), tagged(30, 1)
    protocol = replace(QUICK, labels=labels, steps=100)
    encoder = small_encoder(tmp_path, kind)
    outcome = learn(encoder, train, held_out, TAGS, protocol, 1e-2, 1, word_accuracy(held_out))
    assert outcome.best is not None and outcome.best.scores["accuracy"] > 0.9, outcome.curve
    found = predict(outcome.module, held_out)
    assert [len(labels) for labels in found] == [len(item.words) for item in held_out]


def test_a_word_without_a_token_has_the_commonest_label(encoder: Judged) -> None:
    train = [Sentence("0", "fr", ("La", "taille"), (1, 2)), Sentence("1", "fr", ("mots", "La"), (2, 1))] * 4
    train.append(Sentence("2", "fr", ("La",), (1,)))
    odd = [Sentence("3", "fr", ("", "La", " ", *["masque"] * 90), (0,) * 93)]
    outcome = learn(encoder, train, odd, TAGS, QUICK, 1e-2, 1, word_accuracy(odd))
    found = predict(outcome.module, odd)[0]
    assert len(found) == 93 and found[0] == found[2] == found[-1] == 1
    assert outcome.cut == {"train": 0, "validation": 1}


def test_the_majority_of_tokens_decides_and_then_their_probability(encoder: Judged) -> None:
    learner = learner_of(encoder, TAGS, replace(QUICK, labels="all"))
    assert isinstance(learner, Tagger)
    shares = np.array([[0.9, 0.1, 0], [0.4, 0.6, 0], [0.4, 0.6, 0], [0.7, 0.3, 0], [0.1, 0.9, 0]], np.float32)
    assert learner.vote(shares, np.array([0, 0, 0, 1, 1]), 3, 2) == [1, 1, 2]


def test_retrieval_is_learned(encoder: Judged) -> None:
    items = pairs(90)
    wanted = np.arange(len(items))

    def scorer(found: Any) -> dict[str, float]:
        queries, documents = found
        assert np.allclose(np.linalg.norm(queries, axis=1), 1, atol=1e-5)
        return {"first": float(((queries @ documents.T).argmax(1) == wanted).mean())}

    before = scorer(predict(learner_of(encoder, Goal("retrieval"), QUICK), items))
    outcome = learn(encoder, items, items, Goal("retrieval"), QUICK, 1e-2, 1, scorer)
    assert outcome.best is not None and outcome.best.scores["first"] > before["first"] + 0.1


def test_a_run_is_a_function_of_seed_and_rate_and_leaves_the_encoder_alone(encoder: Judged) -> None:
    fingerprint = encoder.fingerprint
    first, again, other = learn_colours(encoder), learn_colours(encoder), learn_colours(encoder, seed=2)
    weights = [outcome.module.state_dict() for outcome in (first, again, other)]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())
    assert not torch.equal(weights[0]["head.last.weight"], weights[2]["head.last.weight"])
    del encoder.__dict__["fingerprint"]
    assert encoder.fingerprint == fingerprint


def test_training_ends_when_an_epoch_brings_nothing_better(encoder: Judged) -> None:
    held_out = single(colours(8, 1))
    protocol = replace(QUICK, steps=40, evaluate_every=2, patience=1.0)
    outcome = learn(
        encoder, single(colours(32)), held_out, CLASSES, protocol, 1e-9, 1, lambda _: {"accuracy": 0.5}
    )
    assert (outcome.steps, len(outcome.curve)) == (6, 3), "32 examples are 4 steps of 8"


def test_a_loss_that_is_no_number_is_told(encoder: Judged) -> None:
    outcome = learn_colours(encoder, replace(QUICK, gradient_clip=0.0), rate=1e30)
    assert outcome.diverged and outcome.best is None and outcome.steps == 10


def test_an_error_is_better_when_it_is_less_and_an_unknown_score_is_one_line(encoder: Judged) -> None:
    with pytest.raises(
        ConfigError, match=r"protocol.select is 'acuracy', and the task reports accuracy; did"
    ):
        learn_colours(encoder, replace(QUICK, select="acuracy"))
    values = iter([3.0, 1.0, 2.0, 5.0])
    items = single(colours(8))
    outcome = learn(encoder, items, items, CLASSES, QUICK, 1e-3, 1, lambda _: {"mse": next(values)})
    assert outcome.best is not None and outcome.best.step == 20


def test_what_cannot_be_is_one_line(encoder: Judged) -> None:
    items = single(colours(8))
    with pytest.raises(DataError, match="the split is empty"):
        prepare(encoder, CLASSES, QUICK, [])
    with pytest.raises(ConfigError, match=r"max_length is 9,000, and random:.* reads 8,192 tokens at most"):
        learner_of(encoder, CLASSES, replace(QUICK, max_length=9000))
    with pytest.raises(DataError, match=r"row 0: .* at most 8 are taken"):
        prepare(encoder, CLASSES, replace(QUICK, max_length=8, cut="refuse"), items)
