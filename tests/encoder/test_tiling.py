"""Weight tiling: which weight goes where, and what it keeps."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from euro_lightning.encoder.attention import Segments
from euro_lightning.encoder.config import PRESETS, EncoderConfig
from euro_lightning.encoder.model import MaskedLanguageEncoder
from euro_lightning.encoder.tiling import layer_map, tile, wrap
from euro_lightning.errors import UserError

MODERN = replace(
    PRESETS["modernbert-base"], layers=4, width=32, heads=4, key_value_heads=4, feed_forward=20, vocabulary=50
)
EURO = EncoderConfig(2, 32, 4, 2, 24, vocabulary=50)


def trained(config: EncoderConfig, seed: int = 1) -> MaskedLanguageEncoder:
    """An encoder with norms and biases that are not those of a start."""
    model = MaskedLanguageEncoder(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            spread = 0.3 if parameter.ndim > 1 else 0.2
            parameter.copy_(
                torch.randn(parameter.shape, generator=generator) * spread + (parameter.ndim == 1)
            )
    return model


def logits(model: MaskedLanguageEncoder) -> torch.Tensor:
    ids = torch.arange(40)
    return model.logits(ids, Segments.from_lengths([25, 15]), ids)


def test_an_axis_repeats_cyclically_around_its_centre() -> None:
    assert wrap(8, 4).tolist() == [2, 3, 0, 1, 2, 3, 0, 1]
    assert wrap(1024, 768)[128:896].tolist() == list(range(768))
    assert wrap(1024, 768)[:2].tolist() == [640, 641]
    assert wrap(5, 5).tolist() == [0, 1, 2, 3, 4]


def test_modernberts_layer_map_mixes_types_and_ours_does_not() -> None:
    base, large = PRESETS["modernbert-base"], PRESETS["modernbert-large"]
    nearest = layer_map(base, large, "nearest")
    assert nearest == [
        0, 1, 2, 2, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 12, 13, 13, 14, 15, 16, 16, 17, 18, 19, 20, 20, 21,
    ]  # fmt: skip
    assert sum(base.is_global(o) != large.is_global(n) for n, o in enumerate(nearest)) == 12
    ours = layer_map(base, large, "type_preserving")
    assert all(base.is_global(old) == large.is_global(new) for new, old in enumerate(ours))
    assert set(ours) == set(range(22))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 30), st.integers(0, 30), st.integers(1, 5))
def test_type_preserving_maps_are_monotone_and_use_every_layer(old: int, more: int, every: int) -> None:
    source = replace(MODERN, layers=old, global_every=every)
    target = replace(source, layers=old + more)
    chosen = layer_map(source, target, "type_preserving")
    assert set(chosen) == set(range(old))
    for kind in (True, False):
        places = [place for layer, place in enumerate(chosen) if target.is_global(layer) == kind]
        assert places == sorted(places)
        if kind or source.has_local_layers:
            assert all(source.is_global(place) == kind for place in places)


@pytest.mark.parametrize("rescale", ["none", "even", "uneven"])
def test_the_same_shape_is_a_copy(rescale) -> None:
    model = trained(MODERN)
    again = tile(model.state_dict(), MODERN, MODERN, rescale=rescale)
    assert all(torch.equal(again[name], tensor) for name, tensor in model.state_dict().items())


def test_heads_are_kept_whole_and_in_modernberts_order() -> None:
    """Of 12 heads in 16 the first are 10 and 11, as upstream's tiling from the middle has them."""
    base = replace(MODERN, width=12 * 8, heads=12, key_value_heads=12)
    large = replace(base, width=16 * 8, heads=16, key_value_heads=16)
    model = trained(base)
    tiled = tile(model.state_dict(), base, large, rescale="none")
    name = "encoder.blocks.1.attention.query_key_value.weight"
    old = model.state_dict()[name].unflatten(0, (3, 12, 8))
    new = tiled[name].unflatten(0, (3, 16, 8))
    columns = wrap(128, 96)
    for head, source in enumerate([10, 11, *range(12), 0, 1]):
        assert torch.equal(new[:, head], old[:, source][..., columns])
    output = "encoder.blocks.1.attention.output.weight"
    old, new = model.state_dict()[output].unflatten(1, (12, 8)), tiled[output].unflatten(1, (16, 8))
    assert torch.equal(new[:, 0], old[:, 10][columns])


@pytest.mark.parametrize(("heads", "groups"), [(8, 4), (6, 2), (12, 4), (6, 3)])
def test_a_new_group_takes_its_key_its_value_and_its_queries_from_one_old_group(
    heads: int, groups: int
) -> None:
    weights = trained(EURO).state_dict()
    name = "encoder.blocks.0.attention.query_key_value.weight"
    # mark each row with its group: query rows by group, key and value rows likewise
    rows = [*([0] * 16), *([1] * 16), *([0] * 8), *([1] * 8), *([0] * 8), *([1] * 8)]
    weights[name] = torch.tensor(rows, dtype=torch.float)[:, None].expand(-1, 32).clone()
    target = replace(EURO, width=8 * heads, heads=heads, key_value_heads=groups)
    marks = tile(weights, EURO, target, rescale="none")[name][:, 0].view(-1, 8)[:, 0]
    query, key, value = marks.split([heads, groups, groups])
    assert torch.equal(key, value)
    assert torch.equal(query, key.repeat_interleave(heads // groups))
    assert set(key.tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("config", [MODERN, EURO, replace(MODERN, head_transform=False)], ids=str)
@pytest.mark.parametrize("rescale", ["even", "uneven"])
def test_rescaling_keeps_the_function_where_every_axis_is_repeated_evenly(
    config: EncoderConfig, rescale
) -> None:
    model = trained(config)
    target = replace(
        config,
        width=2 * config.width,
        heads=2 * config.heads,
        key_value_heads=2 * config.key_value_heads,
        feed_forward=3 * config.feed_forward,
    )
    grown = MaskedLanguageEncoder(target).eval()
    grown.load_state_dict(tile(model.state_dict(), config, target, rescale=rescale))
    assert torch.allclose(logits(grown), logits(model), atol=1e-4 * logits(model).abs().max().item())
    plain = MaskedLanguageEncoder(target).eval()
    plain.load_state_dict(tile(model.state_dict(), config, target, rescale="none"))
    assert not torch.allclose(logits(plain), logits(model), atol=1e-2 * logits(model).abs().max().item())


def test_rescaling_keeps_activations_near_their_size_on_uneven_axes() -> None:
    """Tiled from 3 heads to 4, sums over the width grow by √2 without rescaling (ModernBERT: 768 to 1,024)."""
    small = replace(MODERN, width=96, heads=12, key_value_heads=12)
    large = replace(small, width=128, heads=16, key_value_heads=16)
    model = trained(small)
    inputs = torch.randn(500, 96)
    spread = {}
    for rescale in ("none", "even"):
        tiled = tile(model.state_dict(), small, large, rescale=rescale)
        weight = tiled["encoder.blocks.0.mlp.gate_up.weight"]
        spread[rescale] = (inputs[:, wrap(128, 96)] @ weight.T).std()
    true = (inputs @ model.state_dict()["encoder.blocks.0.mlp.gate_up.weight"].T).std()
    assert spread["none"] / true == pytest.approx(2**0.5, rel=0.05)
    assert spread["even"] / true == pytest.approx(1, rel=0.05)


def test_copies_part_only_when_their_parts_are_uneven() -> None:
    """Equal copies have equal gradients and would stay equal for ever."""
    target = replace(EURO, width=64, heads=8, key_value_heads=4, feed_forward=48)
    differences = {}
    for rescale in ("even", "uneven"):
        grown = MaskedLanguageEncoder(target)
        grown.load_state_dict(tile(trained(EURO).state_dict(), EURO, target, rescale=rescale))
        logits(grown).square().sum().backward()
        gradient = grown.encoder.embedding.weight.grad
        differences[rescale] = (gradient[:, :32] - gradient[:, 32:]).abs().max() / gradient.abs().max()
    assert differences["even"] < 1e-5
    assert differences["uneven"] > 1e-2


def test_depth_only_copies_whole_layers_and_gives_a_missing_norm_ones() -> None:
    target = replace(MODERN, layers=10)
    weights = trained(MODERN).state_dict()
    tiled = tile(weights, MODERN, target)
    for layer, source in enumerate(layer_map(MODERN, target, "type_preserving")):
        name = "encoder.blocks.{}.mlp.down.weight"
        assert torch.equal(tiled[name.format(layer)], weights[name.format(source)])
    MaskedLanguageEncoder(target).load_state_dict(tiled)
    assert "encoder.blocks.0.attention_norm.weight" not in tiled
    assert (tiled["encoder.blocks.3.attention_norm.weight"] == 1).all()  # its source is layer 0
    assert torch.equal(tiled["encoder.final_norm.weight"], weights["encoder.final_norm.weight"])


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (replace(MODERN, layers=3), "layers would shrink from 4 to 3"),
        (replace(MODERN, width=64), "the head size differs: 8 and 16; heads are kept whole"),
        (replace(MODERN, activation="silu"), "activation differs: gelu and silu"),
        (replace(MODERN, vocabulary=60), "vocabulary differs: 50 and 60"),
        (replace(MODERN, feed_forward=10, layers=2), "layers would shrink.*feed_forward would shrink"),
    ],
)
def test_what_cannot_be_tiled_is_refused_with_all_reasons(target: EncoderConfig, message: str) -> None:
    with pytest.raises(UserError, match=message):
        tile(trained(MODERN).state_dict(), MODERN, target)


def test_groups_cannot_lose_queries() -> None:
    source = replace(EURO, key_value_heads=1)
    target = replace(EURO, width=64, heads=8, key_value_heads=4)
    with pytest.raises(UserError, match="query heads of a key/value head would shrink from 4 to 2"):
        tile(trained(source).state_dict(), source, target)
