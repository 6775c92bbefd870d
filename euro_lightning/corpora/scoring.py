"""Middle stages: quality scores, and where they are cut into buckets."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from euro_lightning.corpora.progress import Tick
from euro_lightning.corpora.quality import REFERENCE, load_scorer
from euro_lightning.corpora.reading import Noted
from euro_lightning.corpora.reference import ReferenceScorer, is_reference, sample, train
from euro_lightning.corpora.work import Work
from euro_lightning.data.documents import Document
from euro_lightning.errors import DataError
from euro_lightning.files import atomic_path, write_json

LEARNERS = 8
"""Tasks that share the languages whose quality is learned."""


def groups(work: Work) -> dict[str, tuple[str, str]]:
    """Names of all quality groups, with a source of the configuration and the source of the store."""
    found: dict[str, tuple[str, str]] = {}
    for rank, shard in enumerate(work.shards):
        for stored_as in work.read_facts(rank)["kept"]:
            group = work.recipe.quality_group(shard.source, stored_as)
            if group is not None:
                found.setdefault(group, (shard.source, stored_as))
    return dict(sorted(found.items()))


def learn(work: Work, rank: int, tick: Tick) -> None:
    """Trains the reference scorers of this task's languages."""
    for group, (source, stored_as) in list(groups(work).items())[rank::LEARNERS]:
        quality = work.recipe.sources[source].quality
        if quality is not None and quality.scorer == REFERENCE:
            assert quality.reference is not None
            documents = (
                (d.doc_id, d.whole, is_reference(d.origin, quality.reference))
                for d in _group_documents(work, group)
            )
            chosen = sample(documents, quality.reference)
            train(*chosen, quality.reference, stored_as).save(work.scorer_file(group))


def _group_documents(work: Work, group: str) -> Iterator[Document]:
    for rank, shard in enumerate(work.shards):
        stored = [
            s for s in work.read_facts(rank)["kept"] if work.recipe.quality_group(shard.source, s) == group
        ]
        if stored:
            for batch in work.kept(rank):
                yield from (noted.document for noted in batch if noted.document.source in stored)


def score(work: Work, rank: int, tick: Tick) -> None:
    """Scores the documents of a shard: float64 [N] and the number of each one's group, int32 [N]."""
    names = list(groups(work))
    source = work.shards[rank].source
    total = sum(work.read_facts(rank)["kept"].values())
    scores: list[np.ndarray[Any, Any]] = [np.zeros(0)]
    members: list[np.ndarray[Any, Any]] = [np.zeros(0, dtype=np.int32)]
    scorers: dict[str, Any] = {}
    for batch in work.kept(rank):
        of_batch = [work.recipe.quality_group(source, noted.document.source) for noted in batch]
        values = np.array([noted.score for noted in batch], dtype=np.float64)
        for group in sorted({name for name in of_batch if name is not None}):
            places = [place for place, name in enumerate(of_batch) if name == group]
            if group not in scorers:
                scorers[group] = _scorer(work, source, group)
            if scorers[group] is not None:
                values[places] = scorers[group]([batch[place] for place in places])
        scores.append(values)
        members.append(
            np.array([-1 if name is None else names.index(name) for name in of_batch], dtype=np.int32)
        )
        size = sum(len(noted.document.text.encode()) for noted in batch)
        tick(len(batch), size, share=(tick.amounts.documents + len(batch)) / max(total, 1))
    with atomic_path(work.scores_file(rank)) as temporary, open(temporary, "wb") as file:
        np.savez(file, scores=np.concatenate(scores), groups=np.concatenate(members))


def _scorer(work: Work, source: str, group: str) -> Any:
    """Documents to scores; None where the score was read from a column."""
    quality = work.recipe.sources[source].quality
    assert quality is not None
    if quality.scorer is None:
        return None
    if quality.scorer == REFERENCE:
        trained = ReferenceScorer.load(work.scorer_file(group))
        return lambda batch: trained.scores(
            [n.document.whole for n in batch], [n.document.doc_id for n in batch]
        )
    function = load_scorer(quality.scorer)

    def score_batch(batch: list[Noted]) -> np.ndarray[Any, Any]:
        found = np.asarray(function([noted.document.whole for noted in batch]), dtype=np.float64)
        if found.shape != (len(batch),):
            raise DataError(
                f"quality.scorer {quality.scorer} gave scores of shape {list(found.shape)} for"
                f" {len(batch)} texts; it must give one number for each"
            )
        return found

    return score_batch


def cuts(work: Work, rank: int, tick: Tick) -> None:
    """Decides at which scores the buckets of each group part."""
    parts: dict[str, list[np.ndarray[Any, Any]]] = {name: [] for name in groups(work)}
    for number in range(len(work.shards)):
        with np.load(work.scores_file(number)) as file:
            scores, members = file["scores"], file["groups"]
        for place, found in enumerate(parts.values()):
            found.append(scores[members == place])
    result = {}
    for group, (source, stored_as) in groups(work).items():
        quality, scores = work.recipe.sources[source].quality, np.concatenate(parts[group])
        assert quality is not None
        facts: dict[str, Any] = {"source": stored_as, "documents": len(scores)}
        if len(scores):
            facts["cuts"] = quality.cuts(scores[~np.isnan(scores)])
        if quality.scorer == REFERENCE:
            trained = ReferenceScorer.load(work.scorer_file(group))
            facts |= {"auc": trained.auc, "reference": trained.documents[0], "other": trained.documents[1]}
        result[group] = facts
    write_json(work.cuts_file, result)
