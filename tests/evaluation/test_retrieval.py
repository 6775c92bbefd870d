"""Vectors are those of sentence-transformers; mini-batches change memory and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from euro_lightning.evaluation.encoders import open_encoder
from euro_lightning.evaluation.examples import Pair
from euro_lightning.evaluation.finetuning import learner_of
from euro_lightning.evaluation.learner import Goal
from euro_lightning.evaluation.retrieval import PreparedPairs, Retriever
from tests.conftest import FRENCH, small_corpus
from tests.evaluation.small import QUICK, minilm, pairs, small_encoder, texts


def retriever(encoder: object, protocol: object = QUICK) -> Retriever:
    found = learner_of(encoder, Goal("retrieval"), protocol)  # type: ignore[arg-type]
    assert isinstance(found, Retriever)
    return found


def test_vectors_of_minilm_are_those_of_sentence_transformers() -> None:
    library = pytest.importorskip("sentence_transformers")
    given = [row["text"] for row in small_corpus()[:40]] + [FRENCH, "x", "漢字 😀"]
    theirs = library.SentenceTransformer(minilm(), device="cpu").encode(given)
    ours = retriever(open_encoder(minilm()), replace(QUICK, max_length=256)).embed(texts(*given))
    assert ours.dtype == np.float32
    assert np.abs(ours - theirs).max() < 1e-5


def test_gradients_with_mini_batches_are_those_without(tmp_path_factory: pytest.TempPathFactory) -> None:
    encoder = small_encoder(tmp_path_factory.mktemp("encoder"))
    found = []
    for size in (None, 4, 5):
        learner = retriever(encoder, replace(QUICK, mini_batch=size)).double().train()
        prepared = learner.prepare(pairs(24))
        loss = learner.loss(learner.batch(prepared, range(0, 24, 2)), 7)
        loss.backward()
        gradients = [p.grad for p in learner.parameters()]
        assert all(gradient is not None for gradient in gradients)
        found.append((loss.item(), torch.cat([g.flatten() for g in gradients if g is not None])))
    for loss, gradient in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-6)
        assert (gradient - found[0][1]).abs().max() <= 1e-5 * found[0][1].abs().max()


def test_the_loss_is_cross_entropy_over_cosines_of_all_documents(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    learner = retriever(small_encoder(tmp_path_factory.mktemp("encoder"))).eval()
    items = pairs(12)
    batch = learner.batch(learner.prepare(items), range(12))
    queries = learner.embed(texts(*(item.query for item in items)))
    documents = learner.embed(
        texts(*(i.positive for i in items), *(i.negative for i in items if i.negative is not None))
    )
    cosines = torch.from_numpy(queries @ documents.T) / 0.05
    expected = torch.nn.functional.cross_entropy(cosines, torch.arange(12))
    assert learner.loss(batch, 0).item() == pytest.approx(expected.item(), rel=1e-4)


def test_a_document_that_answers_two_queries_is_no_negative(tmp_path_factory: pytest.TempPathFactory) -> None:
    learner = retriever(small_encoder(tmp_path_factory.mktemp("encoder")))
    items = [Pair(str(n), "fr", f"question {n}", text, "non") for n, text in enumerate(("a", "b", "a"))]
    prepared = learner.prepare(items)
    assert isinstance(prepared, PreparedPairs)
    batch = learner.batch(prepared, [2, 1, 0])
    assert batch.targets.tolist() == [0, 1, 0]
    assert len(batch.segments.lengths) == 3 + 3, "three queries, and a, b and the negative once"
