"""Which tokens are hidden: an exact number, never a special one, always the same for a key."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from euro_lightning.objective.masking import Masking, Replacement

SPECIAL = (0, 1, 2, 3, 4)
MASK = 3
VOCABULARY = 50

tokens = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=300)
ratios = st.floats(0.01, 0.99)
splits = st.sampled_from(
    [Replacement(), Replacement(0.8, 0.1, 0.1), Replacement(0, 1, 0), Replacement(0, 0, 1)]
)


def hide(ids: list[int], ratio: float, replacement: Replacement, *key: int | str):
    tensor = torch.tensor(ids)
    ordinary = sum(i not in SPECIAL for i in ids)
    masking = Masking(VOCABULARY, SPECIAL, MASK, replacement)
    return tensor, masking(tensor, ordinary, ratio, *key)


@settings(deadline=None)
@given(tokens, ratios, splits, st.integers(0, 2**40))
def test_an_exact_number_of_ordinary_tokens_is_hidden(
    ids: list, ratio: float, split: Replacement, key: int
) -> None:
    before, masked = hide(ids, ratio, split, key)
    ordinary = sum(i not in SPECIAL for i in ids)
    assert len(masked.positions) == min(round(ratio * len(ids)), ordinary)
    assert len(set(masked.positions.tolist())) == len(masked.positions)
    assert not set(masked.targets.tolist()) & set(SPECIAL), "special tokens are never hidden"
    assert torch.equal(masked.targets, before[masked.positions])
    untouched = torch.ones(len(ids), dtype=torch.bool)
    untouched[masked.positions] = False
    assert torch.equal(masked.ids[untouched], before[untouched])


@settings(deadline=None)
@given(tokens, ratios, splits, st.integers(0, 2**40))
def test_replacements_are_split_exactly_and_never_special(
    ids: list, ratio: float, split: Replacement, key: int
) -> None:
    _, masked = hide(ids, ratio, split, key)
    count = len(masked.positions)
    new = masked.ids[masked.positions]
    assert int((new == MASK).sum()) == round(split.mask * count)
    assert not set(new[new != MASK].tolist()) & set(SPECIAL), "special tokens are never drawn"
    if split.keep == 1:
        assert torch.equal(new, masked.targets)


def test_the_same_key_hides_the_same_tokens() -> None:
    ids = list(range(5, 50)) * 20
    split = Replacement(0.8, 0.1, 0.1)
    first, again, other = (hide(ids, 0.3, split, "train", 17, index)[1] for index in (4, 4, 5))
    assert torch.equal(first.ids, again.ids) and torch.equal(first.positions, again.positions)
    assert not torch.equal(first.positions, other.positions)


def test_hidden_positions_are_uniform() -> None:
    counts = torch.zeros(100)
    for index in range(2000):
        counts[hide([7] * 100, 0.3, Replacement(), index)[1].positions] += 1
    assert counts.min() > 500 and counts.max() < 700


@pytest.mark.parametrize("split", [Replacement(0.8, 0.1, 0.2), Replacement(1.1, 0, -0.1)])
def test_shares_that_do_not_sum_to_one_are_refused(split: Replacement) -> None:
    assert len(split.problems("model.replacement")) == 1


def test_shares_need_not_sum_to_the_float_one_exactly() -> None:
    assert 0.7 + 0.2 + 0.1 != 1.0
    assert Replacement(0.7, 0.2, 0.1).problems("model.replacement") == []
