"""What is known of an encoder on a task's text before anything is learned.

T tokens, N positions, S sequences, D width.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from euro_lightning.data.documents import UNSPACED, Document
from euro_lightning.data.tokenizer_report import examine
from euro_lightning.errors import DataError
from euro_lightning.evaluation.batches import groups_by_length, pack_sequences
from euro_lightning.evaluation.encoders import Judged
from euro_lightning.evaluation.encoding import Encoding, Ids
from euro_lightning.evaluation.entities import entities_of
from euro_lightning.evaluation.examples import Search, Sentence
from euro_lightning.evaluation.heads import mean_of_segments
from euro_lightning.evaluation.scoring import Items
from euro_lightning.objective.masking import Masking, Replacement

MASKED = 0.15
"""Share of the tokens that is hidden for masked accuracy, as validation during training hides by default."""

_TEXTS, _VECTORS = 256, 256
"""Texts of each language that accuracy, tokenizer and vectors are measured on."""

_SCORED, _SCORED_LENGTH = 32, 64
"""Texts whose pseudo-log-likelihood is measured, and tokens of each: every token is a pass of its own."""

_TOKENS = 8192
"""In a batch."""


def untuned(encoder: Judged, items: Items, max_length: int) -> dict[str, dict[str, float]]:
    """Of each language: tokenizer, prediction of hidden tokens, and geometry of sentence vectors.

    Args:
        encoder: is not changed.
        items: a split of a task; of a search, its documents are the text.
        max_length: tokens of a text at most.

    Returns:
        tokens_per_word (not a number where words are not told by spaces), characters_per_token,
        unknown_share; where the encoder has its head, masked_accuracy and pseudo_log_likelihood, in
        nats per character; cosine and dimensions, see `geometry`.
    """
    network = encoder.network
    device = next(network.parameters()).device
    encoding = Encoding(encoder.tokenizer, max_length)
    found = {}
    with torch.inference_mode():
        for lang, texts in texts_of(items).items():
            encoded = encoding.texts([(text,) for text in texts], texts).ids
            found[lang] = _of_tokenizer(encoder, lang, texts)
            if encoder.logits is not None:
                found[lang]["masked_accuracy"] = masked_accuracy(encoder, encoded)
                found[lang]["pseudo_log_likelihood"] = pseudo_log_likelihood(encoder, texts[:_SCORED])
            vectors = []
            for group in groups_by_length([len(ids) for ids in encoded[:_VECTORS]], _TOKENS):
                batch = pack_sequences([encoded[number] for number in group]).to(device)
                states = network.encode(batch.ids, batch.segments)
                vectors.append(mean_of_segments(states, batch.segments).cpu().numpy())
            found[lang] |= geometry(np.concatenate(vectors))
    return found


def texts_of(items: Items) -> dict[str, list[str]]:
    """Different texts of each language, the first of each."""
    found: dict[str, dict[str, None]] = {}
    for lang, text in _texts(items):
        own = found.setdefault(lang, {})
        if len(own) < _TEXTS and text.strip():
            own[text] = None
    if not found:
        raise DataError("there is no text to measure an encoder on")
    return {lang: list(texts) for lang, texts in found.items() if texts}


def _texts(items: Items) -> Iterator[tuple[str, str]]:
    if isinstance(items, Search):
        yield from ((document.lang, document.text) for document in items.documents)
        return
    for item in items:
        if isinstance(item, Sentence):
            yield item.lang, ("" if item.lang.split("-")[0] in UNSPACED else " ").join(item.words)
        else:
            yield from ((item.lang, text) for text in getattr(item, "texts", ()))


def _of_tokenizer(encoder: Judged, lang: str, texts: Sequence[str]) -> dict[str, float]:
    documents = [Document(text, lang, str(number)) for number, text in enumerate(texts)]
    counts = examine(encoder.label, encoder.tokenizer.inner, {lang: documents}).total
    return {
        "tokens_per_word": counts.fertility,
        "characters_per_token": counts.characters_per_token,
        "unknown_share": counts.unknown_share,
    }


def _ordinary(encoder: Judged, ids: Ids) -> NDArray[np.int64]:
    return np.flatnonzero(~np.isin(ids, encoder.tokenizer.special_ids))


def masked_accuracy(encoder: Judged, sequences: Sequence[Ids]) -> float:
    """Share of hidden tokens that are predicted, where 15% are hidden by the mask token."""
    tokenizer, logits = encoder.tokenizer, encoder.logits
    assert logits is not None
    device = next(encoder.network.parameters()).device
    masking = Masking(tokenizer.vocabulary, tokenizer.special_ids, tokenizer.mask, Replacement()).to(device)
    right = hidden = 0
    for number, group in enumerate(groups_by_length([len(ids) for ids in sequences], _TOKENS)):
        chosen = [sequences[each] for each in group]
        batch = pack_sequences(chosen).to(device)
        ordinary = sum(len(_ordinary(encoder, ids)) for ids in chosen)
        masked = masking(batch.ids, ordinary, MASKED, "untuned", number)
        guesses = logits(masked.ids, batch.segments, masked.positions).argmax(-1)
        right += int((guesses == masked.targets).sum())
        hidden += len(masked.targets)
    return right / hidden if hidden else math.nan


def pseudo_log_likelihood(encoder: Judged, texts: Sequence[str]) -> float:
    """Mean log-probability of each token when it alone is hidden, in nats per character of text.

    Salazar et al.: Masked language model scoring, ACL 2020. Per character, and not per token, so that
    encoders of different tokenizers compare. A text counts as far as its first 64 tokens go.
    """
    tokenizer, logits = encoder.tokenizer, encoder.logits
    assert logits is not None
    device = next(encoder.network.parameters()).device
    encoding = Encoding(tokenizer, _SCORED_LENGTH)
    total, characters = 0.0, 0
    copies: list[Ids] = []
    wanted: list[tuple[int, int]] = []
    for text, ids in zip(texts, encoding.texts([(text,) for text in texts], texts).ids, strict=True):
        places = _ordinary(encoder, ids)
        whole = len(tokenizer.encode_batch([text])[0])
        characters += round(len(text) * min(1.0, len(places) / max(whole, 1)))
        for place in places.tolist():
            copy = ids.copy()
            copy[place] = tokenizer.mask
            copies.append(copy)
            wanted.append((place, int(ids[place])))
    for group in groups_by_length([len(ids) for ids in copies], _TOKENS):
        batch = pack_sequences([copies[each] for each in group]).to(device)
        starts = batch.segments.cu_seqlens[:-1].long()
        places_N = starts + torch.tensor([wanted[each][0] for each in group], device=device)
        targets_N = torch.tensor([wanted[each][1] for each in group], device=device)
        scores = logits(batch.ids, batch.segments, places_N).float().log_softmax(-1)
        total += float(scores.gather(1, targets_N[:, None]).sum())
    return total / characters if characters else math.nan


def geometry(vectors: NDArray[np.float32]) -> dict[str, float]:
    """How vectors lie in their space.

    Args:
        vectors: float32 [S, D].

    Returns:
        cosine: its mean over pairs of different vectors, 0 where they point everywhere (Ethayarajh
        2019); dimensions: how many of their principal axes share the variance, (Σλ)² / Σλ², as a share
        of all that S vectors could have.
    """
    count = len(vectors)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    total = unit.astype(np.float64).sum(axis=0)
    cosine = (float(total @ total) - count) / (count * (count - 1)) if count > 1 else math.nan
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    variances = np.linalg.svd(centred, compute_uv=False) ** 2
    spread = float(variances.sum() ** 2 / (variances**2).sum()) if variances.any() else math.nan
    return {"cosine": cosine, "dimensions": spread / max(min(count - 1, vectors.shape[1]), 1)}


FERTILITIES = (1.0, 1.5, 2.0, 3.0)
"""Tokens per word at which a new group of entities begins."""


def entity_f1_by_fertility(
    sentences: Sequence[Sentence],
    predictions: Sequence[Sequence[Sequence[int]]],
    owners: Sequence[Ids],
    names: Sequence[str],
) -> list[dict[str, Any]]:
    """Entity F1 of entities that take few or many tokens a word.

    The EuroBERT paper explains its lower F1 by its tokenizer: entities of equal fertility score alike.

    Args:
        sentences: N of them.
        predictions: for each seed, N lists of the indices of predicted labels.
        owners: int64 [length], N of them: the word of each token, −1 for none.
        names: the label of each index.

    Returns:
        For each group, its first fertility, the number of right entities in it, and the mean F1 over
        seeds. Entities that were predicted count in the group of their own words.
    """
    counts = np.zeros((len(predictions), len(FERTILITIES), 3))
    for number, sentence in enumerate(sentences):
        tokens = np.bincount(owners[number][owners[number] >= 0], minlength=len(sentence.words))
        wanted = entities_of([names[label] for label in sentence.labels])
        for seed, predicted in enumerate(predictions):
            given = entities_of([names[label] for label in predicted[number]])
            for place, entities in enumerate((wanted, given, wanted & given)):
                for _, start, end in entities:
                    fertility = max(tokens[start:end].mean(), FERTILITIES[0])
                    group = int(np.searchsorted(FERTILITIES, fertility, side="right")) - 1
                    counts[seed, group, place] += 1
    found = []
    for group, first in enumerate(FERTILITIES):
        wanted_count, given_count, hits = counts[:, group].T
        if wanted_count[0]:
            f1 = float((2 * hits / (wanted_count + given_count)).mean())
            found.append({"from": first, "entities": int(wanted_count[0]), "entity_f1": f1})
    return found


def mean_over_languages(found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Each language counts alike; languages without a number are left out."""
    names = dict.fromkeys(name for own in found.values() for name in own)
    means = {}
    for name in names:
        values = [own[name] for own in found.values() if not math.isnan(own.get(name, math.nan))]
        means[name] = float(np.mean(values)) if values else math.nan
    return means
