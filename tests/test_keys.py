"""Keyed randomness: pure functions of integers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from euro_lightning.keys import key_of, permute


@given(size=st.integers(1, 3000), key=st.integers(0, 2**62))
def test_a_permutation_serves_every_item_exactly_once(size: int, key: int) -> None:
    order = permute(np.arange(size), size, key)
    assert sorted(order.tolist()) == list(range(size))


@given(size=st.integers(2, 10**10), key=st.integers(0, 2**62), data=st.data())
def test_any_part_of_a_permutation_is_computed_alone(size: int, key: int, data: st.DataObject) -> None:
    positions = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=20)))
    together = permute(positions, size, key)
    alone = [int(permute(np.array([p]), size, key)[0]) for p in positions]
    assert together.tolist() == alone
    assert all(0 <= item < size for item in alone)


def test_other_keys_give_other_orders() -> None:
    first, second = (permute(np.arange(1000), 1000, key_of(17, epoch)).tolist() for epoch in (0, 1))
    assert first != second
    assert first != list(range(1000))


def test_keys_are_the_same_on_every_machine() -> None:
    assert key_of(17, "en", 3) == 8736176648424362359
    assert key_of(17, "en") != key_of("en", 17)
    assert 0 <= key_of(0) < 2**63
