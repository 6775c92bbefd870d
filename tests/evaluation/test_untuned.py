"""What is measured before anything is learned."""

from pathlib import Path

import numpy as np
import pytest
import torch

from euro_lightning.encoder.attention import Segments
from euro_lightning.evaluation.examples import Sentence
from euro_lightning.evaluation.untuned import (
    entity_f1_by_fertility,
    geometry,
    masked_accuracy,
    mean_over_languages,
    pseudo_log_likelihood,
    untuned,
)
from tests.evaluation.small import colours, small_encoder, tagged

TEXTS = ["Le chat dort.", "Une autre phrase, plus longue que la première."]


def test_pseudo_log_likelihood_hides_every_token_alone(tmp_path: Path) -> None:
    encoder = small_encoder(tmp_path)
    logits, tokenizer = encoder.logits, encoder.tokenizer
    assert logits is not None
    total = 0.0
    with torch.inference_mode():
        for text in TEXTS:
            ids = torch.tensor([*tokenizer.encode_batch([text])[0], tokenizer.eos])
            for place in range(len(ids) - 1):
                hidden = ids.clone()
                hidden[place] = tokenizer.mask
                scores = logits(hidden, Segments.from_lengths([len(ids)]), torch.tensor([place]))
                total += float(scores[0].log_softmax(-1)[ids[place]])
        expected = total / sum(map(len, TEXTS))
        assert pseudo_log_likelihood(encoder, TEXTS) == pytest.approx(expected, rel=1e-4)


def test_an_encoder_that_always_says_one_token_is_right_where_that_was_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = small_encoder(tmp_path)
    ordinary = next(n for n in range(encoder.tokenizer.vocabulary) if n not in encoder.tokenizer.special_ids)

    def say(ids: torch.Tensor, _: Segments, places: torch.Tensor) -> torch.Tensor:
        scores = torch.zeros(len(places), encoder.tokenizer.vocabulary)
        scores[:, ordinary] = 1
        return scores

    monkeypatch.setattr(type(encoder), "logits", property(lambda _: say))
    sequences = [np.array([ordinary] * 30), np.array([ordinary + 1] * 10)]
    assert masked_accuracy(encoder, sequences[:1]) == 1.0
    assert masked_accuracy(encoder, sequences[1:]) == 0.0


def test_vectors_that_point_everywhere_have_no_common_direction_and_all_dimensions() -> None:
    draw = np.random.default_rng(1)
    everywhere = geometry(draw.normal(0, 1, (4000, 8)).astype(np.float32))
    assert abs(everywhere["cosine"]) < 0.01 and everywhere["dimensions"] > 0.98
    shifted = geometry((draw.normal(0, 1, (500, 8)) * [9, 0, 0, 0, 0, 0, 0, 0] + 20).astype(np.float32))
    assert shifted["cosine"] > 0.9 and shifted["dimensions"] == pytest.approx(1 / 8)
    pair = np.array([[1, 0], [0.6, 0.8]], dtype=np.float32)
    assert geometry(pair)["cosine"] == pytest.approx(0.6)


def test_every_language_is_measured(tmp_path: Path) -> None:
    encoder = small_encoder(tmp_path)
    found = untuned(encoder, [*colours(6), *tagged(4)], 64)
    assert set(found) == {"fr"}
    names = {"tokens_per_word", "characters_per_token", "unknown_share", "masked_accuracy"}
    assert set(found["fr"]) == names | {"pseudo_log_likelihood", "cosine", "dimensions"}
    assert found["fr"]["tokens_per_word"] > 1 and found["fr"]["pseudo_log_likelihood"] < 0


def test_entities_are_told_apart_by_their_tokens_per_word() -> None:
    names = ["O", "B-X", "I-X"]
    sentences = [Sentence("0", "pt", ("a", "b", "c", "d"), (1, 2, 0, 1))]
    owners = [np.array([0, 1, 2, 3, 3, 3, 3])]  # the second entity takes four tokens
    right, wrong = [[1, 2, 0, 1]], [[1, 2, 0, 0]]
    found = entity_f1_by_fertility(sentences, [right, wrong], owners, names)
    assert found == [
        {"from": 1.0, "entities": 1, "entity_f1": 1.0},
        {"from": 3.0, "entities": 1, "entity_f1": 0.5},
    ]


def test_languages_count_alike_and_missing_numbers_are_left_out() -> None:
    found = mean_over_languages({"fr": {"a": 1.0, "b": 2.0}, "zh": {"a": 3.0, "b": float("nan")}})
    assert found == {"a": 2.0, "b": 2.0}
