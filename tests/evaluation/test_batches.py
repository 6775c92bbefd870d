"""Every example comes once an epoch, in an order that is a function of seed and step."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from euro_lightning.evaluation.batches import examples_of_step, groups_by_length, pack_sequences

Counts = st.integers(1, 50)


@given(Counts, Counts, st.integers(0, 5))
def test_an_epoch_holds_every_example_once(batch_size: int, examples: int, seed: int) -> None:
    steps = -(-2 * examples // batch_size)
    order = [e for step in range(steps) for e in examples_of_step(step, batch_size, examples, seed)]
    for epoch in range(2):
        assert sorted(order[epoch * examples : (epoch + 1) * examples]) == list(range(examples))
    assert examples_of_step(steps - 1, batch_size, examples, seed) == order[-batch_size:]


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    first, second, other = (examples_of_step(s, 30, 30, seed) for s, seed in ((0, 1), (1, 1), (0, 2)))
    assert first != second and first != other


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(1, 100))
def test_groups_hold_all_and_keep_the_budget(lengths: list[int], tokens: int) -> None:
    groups = groups_by_length(lengths, tokens)
    assert sorted(number for group in groups for number in group) == list(range(len(lengths)))
    assert all(sum(lengths[n] for n in group) <= tokens or len(group) == 1 for group in groups)


def test_sequences_lie_end_to_end() -> None:
    batch = pack_sequences([np.array([1, 2, 3]), np.array([4])], torch.tensor([1, 0]))
    assert batch.ids.tolist() == [1, 2, 3, 4]
    assert batch.segments.cu_seqlens.tolist() == [0, 3, 4]
    moved = batch.to(torch.device("cpu"))
    assert torch.equal(moved.ids, batch.ids) and moved.segments.lengths == (3, 1)
