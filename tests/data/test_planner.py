"""What is trained on, in which order: nothing lost, shares exact, resumable anywhere."""

import json
import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from euro_lightning.data.cropping import Lengths
from euro_lightning.data.packing import Plan, Slice, pack
from euro_lightning.data.phase import Phase, Timeline
from euro_lightning.data.planner import Planner, PlanSampler
from euro_lightning.errors import ConfigError
from euro_lightning.schedule import LearningRate
from tests.data.fake import FakeDocuments

RATE = LearningRate(1e-3)
POLICIES = [
    Lengths("fixed", 64),
    Lengths("fixed", 200, 1),
    Lengths("random", 96, 12),
    Lengths("random", 50, 50),
    Lengths("fixed", 200, 10, start=20),
    Lengths("random", 150, 12, start=40),
    Lengths("concatenated", 128),
    Lengths("concatenated", 200, 12, start=30),
]

sizes = st.lists(st.integers(1, 400), min_size=1, max_size=40)
corpora = st.dictionaries(st.sampled_from(["en", "fr", "code", "hi"]), sizes, min_size=1)


def planner(
    corpus: dict[str, FakeDocuments],
    lengths: Lengths,
    tokens: int,
    shares: dict[str, float] | None = None,
    micro: int = 512,
    batch: int = 1024,
    seed: int = 3,
) -> Planner:
    shares = shares or {name: 1 / len(corpus) for name in corpus}
    phase = Phase(tokens, shares, RATE, lengths=lengths)
    return Planner(corpus, Timeline({"only": phase}, batch), micro, seed)


def plans_of(planner: Planner, cursor: dict | None = None) -> list[Plan]:
    return [plan for batch in planner.global_batches(cursor or Planner.beginning()) for plan in batch]


def slices_of(plans: list[Plan]) -> list[Slice]:
    return [part for plan in plans for part in plan.segments]


@settings(deadline=None, max_examples=40)
@given(corpora, st.sampled_from(POLICIES), st.integers(0, 99))
def test_no_token_is_lost_or_repeated_within_an_epoch(corpus: dict, lengths: Lengths, seed: int) -> None:
    documents = {name: FakeDocuments(sizes) for name, sizes in corpus.items()}
    served: dict[tuple[str, int, int], list[tuple[int, int]]] = {}
    for part in slices_of(plans_of(planner(documents, lengths, 12_000, micro=256, seed=seed))):
        served.setdefault((part.source, part.epoch, part.document), []).append((part.start, part.length))
    for name, reader in documents.items():
        last = max((epoch for source, epoch, _ in served if source == name), default=0)
        for epoch in range(last):
            for document, size in enumerate(reader.sizes):
                parts = served[name, epoch, document]
                assert parts[0][0] == 0
                assert all(a + n == b for (a, n), (b, _) in pairwise(parts))
                assert sum(parts[-1]) == size


@settings(deadline=None, max_examples=40)
@given(corpora, st.sampled_from(POLICIES), st.lists(st.integers(1, 100), min_size=4, max_size=4))
def test_realised_shares_are_within_two_longest_segments(
    corpus: dict, lengths: Lengths, weights: list
) -> None:
    documents = {name: FakeDocuments(sizes) for name, sizes in corpus.items()}
    total = sum(weights[: len(corpus)])
    shares = {name: weight / total for name, weight in zip(corpus, weights, strict=False)}
    served: Counter[str] = Counter()
    for plan in plans_of(planner(documents, lengths, 12_000, shares)):
        for part in plan.segments:
            served[part.source] += part.length
        tokens = served.total()
        assert all(
            abs(served[name] - share * tokens) <= 2 * lengths.maximum for name, share in shares.items()
        )


@settings(deadline=None, max_examples=40)
@given(corpora, st.sampled_from(POLICIES))
def test_micro_batches_hold_exactly_their_tokens(corpus: dict, lengths: Lengths) -> None:
    documents = {name: FakeDocuments(sizes) for name, sizes in corpus.items()}
    for plan in plans_of(planner(documents, lengths, 8_000)):
        assert sum(part.length for part in plan.segments) == 512
        assert max(part.length for part in plan.segments) <= lengths.maximum
        batch = pack(plan, documents, np.zeros(10**6, dtype=bool))
        assert sum(batch.lengths) == 512 and max(batch.lengths) <= lengths.maximum


@settings(deadline=None, max_examples=40)
@example([134, 13, 13, 13, 13], 0)  # 21 tokens of room, and documents with 13 and 18 left: nothing closes it
@given(st.lists(st.integers(13, 900), min_size=5, max_size=60), st.integers(0, 50))
def test_segments_below_the_minimum_end_their_document_or_are_counted(sizes: list[int], seed: int) -> None:
    documents = {"short": FakeDocuments(sizes), "long": FakeDocuments([5000, 7001, 9002])}
    lengths = Lengths("random", 96, 12)
    plans = plans_of(planner(documents, lengths, 40_000, seed=seed))
    assert _cut_below(12, plans, documents) == plans[-1].cursor["short_segments"]


def test_documents_of_natural_lengths_never_need_one() -> None:
    """Lengths as in a corpus of web text: exp(N(5, 0.8)) tokens."""
    draws = random.Random(1)
    documents = {
        name: FakeDocuments([max(13, round(draws.lognormvariate(5, 0.8))) for _ in range(3000)])
        for name in ("en", "fr", "code")
    }
    plans = plans_of(planner(documents, Lengths("random", 512, 12), 600_000, micro=4096, batch=8192))
    assert _cut_below(12, plans, documents) == plans[-1].cursor["short_segments"] == 0


def _cut_below(minimum: int, plans: list[Plan], documents: dict[str, FakeDocuments]) -> int:
    short = 0
    for part in slices_of(plans):
        ends = part.start + part.length == documents[part.source].sizes[part.document]
        short += part.length < minimum and not ends
    return short


def test_a_micro_batch_that_cannot_be_closed_otherwise_is_counted() -> None:
    documents = {"en": FakeDocuments([15] * 50)}
    last = plans_of(planner(documents, Lengths("random", 96, 12), 10_240))[-1]
    assert 0 < last.cursor["short_segments"] <= 20


@settings(deadline=None, max_examples=25)
@given(corpora, st.sampled_from(POLICIES), st.integers(0, 7))
def test_planning_from_any_cursor_goes_on_as_if_never_stopped(
    corpus: dict, lengths: Lengths, stop: int
) -> None:
    documents = {name: FakeDocuments(sizes) for name, sizes in corpus.items()}
    whole = plans_of(planner(documents, lengths, 8192))
    cursor = json.loads(json.dumps(whole[2 * stop + 1].cursor))
    rest = plans_of(planner(documents, lengths, 8192), cursor)
    assert rest == whole[2 * stop + 2 :]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_share_the_same_global_batches(ranks: int) -> None:
    documents = {"en": FakeDocuments([300, 40, 77] * 20), "fr": FakeDocuments([90] * 30)}
    build = lambda: planner(documents, POLICIES[2], 16_384, batch=2048)  # noqa: E731
    whole = plans_of(build())
    dealt = [list(PlanSampler(build(), Planner.beginning(), rank, ranks)) for rank in range(ranks)]
    together = [plan._replace(closes=False) for step in zip(*dealt, strict=True) for plan in step]
    assert together == whole
    per_rank = 4 // ranks
    assert [p.closes for p in dealt[0]] == ([False] * (per_rank - 1) + [True]) * 8


def test_phases_change_mixture_and_lengths_and_keep_the_place_in_each_source() -> None:
    documents = {"en": FakeDocuments([1000] * 9), "fr": FakeDocuments([1000] * 9), "hi": FakeDocuments([50])}
    phases = {
        "pretrain": Phase(4096, {"en": 0.5, "fr": 0.5, "hi": 0}, RATE, lengths=Lengths("fixed", 256)),
        "anneal": Phase(4096, {"en": 0.25, "fr": 0.75}, RATE, lengths=Lengths("random", 64, 12)),
    }
    plans = plans_of(Planner(documents, Timeline(phases, 1024), 512, 1))
    first, second = slices_of(plans[:8]), slices_of(plans[8:])
    assert abs(sum(p.length for p in first if p.source == "en") - 2048) <= 256
    assert abs(sum(p.length for p in second if p.source == "fr") - 3072) <= 64
    assert max(p.length for p in second) <= 64
    assert not any(p.source == "hi" for p in first + second), "a share of 0 is never read"
    for source in ("en", "fr"):
        before = [p for p in first if p.source == source][-1]
        after = next(p for p in second if p.source == source)
        left = 1000 - before.start - before.length
        assert after.start == (before.start + before.length if left else 0)
        assert (after.document == before.document) == (left > 0)


def test_quality_buckets_choose_the_documents() -> None:
    documents = {"en": FakeDocuments([100] * 8, quality=[1, 2, 3, 4] * 2)}
    phase = Phase(4096, {"en": {"share": 1.0, "quality": [3, 4]}}, RATE)
    chosen = {
        p.document for p in slices_of(plans_of(Planner(documents, Timeline({"a": phase}, 1024), 512, 1)))
    }
    assert chosen == {2, 3, 6, 7}
    none = Phase(4096, {"en": {"share": 1.0, "quality": [3]}}, RATE)
    with pytest.raises(ConfigError, match="no document of quality"):
        plans_of(Planner({"en": FakeDocuments([9], [1])}, Timeline({"a": none}, 1024), 512, 1))


def test_a_ramp_lengthens_segments_over_the_phase_and_at_each_global_batch_alike() -> None:
    documents = {"en": FakeDocuments([100_000] * 5)}
    lengths = Lengths("fixed", 220, 12, start=20)
    plans = plans_of(planner(documents, lengths, 40_960, micro=2048, batch=4096))
    longest = [max(part.length for part in plan.segments) for plan in plans]
    assert longest == [20 + 200 * step // 10 for step in range(10) for _ in range(2)]
    assert lengths.at(40_960, 40_960).maximum == 220
    assert Lengths("fixed", 64).at(5, 10) == Lengths("fixed", 64)
    problems = Lengths("fixed", 64, start=5).problems("lengths")
    assert problems == ["lengths.start is 5: it must lie between the minimum 12 and the maximum 64"]


def test_concatenated_segments_run_on_from_document_to_document_of_one_source() -> None:
    """As in EuroBERT's pretraining: blocks of one length, cut wherever it falls."""
    sizes = {"en": [30, 50, 7, 400, 90], "fr": [10, 20, 30]}
    documents = {name: FakeDocuments(sizes[name]) for name in sizes}
    plans = plans_of(planner(documents, Lengths("concatenated", 64), 4096))
    streams: dict[str, list[int]] = {"en": [], "fr": []}
    for plan in plans:
        batch = pack(plan, documents, np.zeros(10**6, dtype=bool))
        assert set(batch.lengths) == {64}
        assert batch.cu_seqlens.tolist() == list(range(0, 513, 64))
        sources = [part.source for part in plan.segments if not part.joined]
        for source, ids in zip(sources, batch.ids.split(64), strict=True):
            streams[source] += ids.tolist()
    for name, ids in streams.items():
        # the documents of an epoch in some order, whole, then those of the next
        while len(ids) >= sum(sizes[name]):
            left = set(range(len(sizes[name])))
            while left:
                document = ids[0] // 10_000
                left.remove(document)
                whole = documents[name].tokens(document).tolist()
                assert ids[: len(whole)] == whole
                ids = ids[len(whole) :]


def test_random_lengths_are_uniform_and_seeds_differ() -> None:
    documents = {"en": FakeDocuments([100_000] * 5)}
    lengths = Lengths("random", 111, 12)
    counts = [
        p.length for p in slices_of(plans_of(planner(documents, lengths, 400_000, micro=4096, batch=4096)))
    ]
    tenths = [sum(lo <= n < lo + 10 for n in counts) / len(counts) for lo in range(12, 112, 10)]
    assert all(0.07 < share < 0.13 for share in tenths)
    first, second = (slices_of(plans_of(planner(documents, lengths, 4096, seed=s))) for s in (1, 2))
    assert first != second
