"""Attention within segments as one operation: right, with its gradients, in every type and size."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from euro_lightning.encoder.segment_attention import attention_by_runs, segment_attention


def inputs(lengths: list[int], heads: int, groups: int, dtype: torch.dtype) -> tuple[list[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(sum(lengths) + heads)
    shapes = [(sum(lengths), count, 16) for count in (heads, groups, groups, heads)]
    *tensors, gradient = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
    return [x.requires_grad_() for x in tensors], gradient


def ends_of(lengths: list[int]) -> Tensor:
    return torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)


def reference(query: Tensor, key: Tensor, value: Tensor, lengths: list[int]) -> Tensor:
    """Each segment alone, in float64."""
    outputs = []
    for parts in zip(*(x.double().split(lengths) for x in (query, key, value)), strict=True):
        q, k, v = (x.transpose(0, 1) for x in parts)
        outputs.append(scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(0, 1))
    return torch.cat(outputs)


def results(output: Tensor, gradient: Tensor, tensors: list[Tensor]) -> list[Tensor]:
    return [output, *torch.autograd.grad(output, tensors, gradient.to(output.dtype))]


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.sampled_from([(4, 4), (4, 2), (6, 1)]),
    st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_it_is_attention_of_each_segment_alone(
    lengths: list[int], heads: tuple[int, int], dtype: torch.dtype
) -> None:
    tensors, gradient = inputs(lengths, *heads, dtype)
    found = results(segment_attention(*tensors, ends_of(lengths))[0], gradient, tensors)
    right = results(reference(*tensors, lengths), gradient, tensors)
    tolerance = 2e-6 if dtype == torch.float32 else 2e-2
    for mine, theirs in zip(found, right, strict=True):
        assert mine.dtype == dtype
        assert (mine.double() - theirs.double()).abs().max() <= tolerance * max(1, theirs.abs().max())


def test_what_other_devices_compute_is_the_same() -> None:
    lengths = [5, 5, 30, 1]
    tensors, gradient = inputs(lengths, 4, 2, torch.float32)
    found = results(attention_by_runs(*tensors, ends_of(lengths)), gradient, tensors)
    right = results(segment_attention(*tensors, ends_of(lengths))[0], gradient, tensors)
    for mine, theirs in zip(found, right, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6)


def test_long_and_short_segments_in_bfloat16_agree_with_float32() -> None:
    """Both ways of computing meet in one micro-batch."""
    lengths = [700, 30, 30, 2100, 513, 512]
    half, gradient = inputs(lengths, 4, 2, torch.bfloat16)
    whole = [x.detach().float().requires_grad_() for x in half]
    found = results(segment_attention(*half, ends_of(lengths))[0], gradient, half)
    right = results(segment_attention(*whole, ends_of(lengths))[0], gradient, whole)
    for mine, theirs in zip(found, right, strict=True):
        for own, other in zip(mine.split(lengths), theirs.split(lengths), strict=True):
            assert (own.float() - other).abs().max() <= 2e-2 * other.abs().max()


def test_the_registered_operation_keeps_the_rules_of_torch() -> None:
    tensors, _ = inputs([5, 9, 9], 4, 2, torch.float32)
    tests = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(segment_attention, (*tensors, ends_of([5, 9, 9])), test_utils=tests)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_segment_does_not_depend_on_its_neighbours(dtype: torch.dtype) -> None:
    tensors, gradient = inputs([20, 33, 7], 4, 2, dtype)
    together = results(segment_attention(*tensors, ends_of([20, 33, 7]))[0], gradient, tensors)
    own = [x.detach()[20:53].clone().requires_grad_() for x in tensors]
    alone = results(segment_attention(*own, ends_of([33]))[0], gradient[20:53], own)
    for mine, theirs in zip(together, alone, strict=True):
        assert torch.equal(mine[20:53], theirs)
