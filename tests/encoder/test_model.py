"""The encoder over packed tokens."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from euro_lightning.encoder.attention import Segments, attention, resolve_backend
from euro_lightning.encoder.config import PRESETS, EncoderConfig, encoder_config
from euro_lightning.encoder.cost import flops_per_token, parameter_count
from euro_lightning.encoder.layers import keyed_dropout
from euro_lightning.encoder.model import MaskedLanguageEncoder
from euro_lightning.errors import ConfigError

CONFIG = EncoderConfig(2, 48, 6, 2, 64, vocabulary=101, max_length=256)
MODERN = replace(
    PRESETS["modernbert-base"], layers=4, width=48, heads=6, key_value_heads=6, feed_forward=64,
    vocabulary=101, max_length=256, window=16,
)  # fmt: skip
FAMILIES = {"eurobert": CONFIG, "modernbert": MODERN}


def network(seed: int = 1, config: EncoderConfig = CONFIG) -> MaskedLanguageEncoder:
    model = MaskedLanguageEncoder(config)
    model.initialise(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(5)  # far enough from linear for differences to show
    return model


def gradients(model: MaskedLanguageEncoder) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(sorted(FAMILIES)), st.lists(st.integers(1, 70), min_size=1, max_size=7), st.booleans())
def test_packed_is_alone(family: str, lengths: list[int], equal: bool) -> None:
    """Hidden states and gradients of a segment do not depend on its neighbours."""
    lengths = [lengths[0]] * len(lengths) if equal else lengths
    model = network(config=FAMILIES[family])
    ids = torch.randint(101, (sum(lengths),), generator=torch.Generator().manual_seed(sum(lengths)))
    weights = torch.randn(len(ids), 48, generator=torch.Generator().manual_seed(2))
    packed = model.encoder(ids, Segments.from_lengths(lengths))
    (packed * weights).sum().backward()
    together = gradients(model)
    model.zero_grad()
    alone = [model.encoder(part, Segments.from_lengths([len(part)])) for part in ids.split(lengths)]
    for part, weight in zip(alone, weights.split(lengths), strict=True):
        (part * weight).sum().backward()
    assert torch.allclose(packed, torch.cat(alone), atol=1e-5 * packed.abs().max().item())
    for name, gradient in gradients(model).items():
        assert (gradient - together[name]).abs().max() <= 1e-5 * gradient.abs().max() + 1e-12, name


def test_positions_restart_at_each_segment() -> None:
    assert Segments.from_lengths([3, 1, 2]).positions().tolist() == [0, 1, 2, 0, 0, 1]


def test_attention_is_softmax_of_scaled_products() -> None:
    query, key, value = torch.randn(7, 4, 8), torch.randn(7, 2, 8), torch.randn(7, 2, 8)
    output = attention(query, key, value, Segments.from_lengths([4, 3]), "sdpa")
    for rows in (slice(0, 4), slice(4, 7)):
        for head in range(4):
            scores = query[rows, head] @ key[rows, head // 2].T / 8**0.5
            assert torch.allclose(output[rows, head], scores.softmax(-1) @ value[rows, head // 2], atol=1e-6)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.integers(1, 150), min_size=1, max_size=5),
    st.integers(1, 70),
    st.sampled_from([(2, 2), (4, 2), (3, 1)]),
)
def test_local_attention_is_attention_within_reach(
    lengths: list[int], reach: int, heads: tuple[int, int]
) -> None:
    """By blocks, forward and backward, against one softmax over the masked scores of all pairs."""
    generator = torch.Generator().manual_seed(sum(lengths))
    total, groups = sum(lengths), heads[1]
    query, key, value = (
        torch.randn(total, h, 8, generator=generator, dtype=torch.float64, requires_grad=True)
        for h in (heads[0], groups, groups)
    )
    weights = torch.randn(query.shape, generator=generator, dtype=torch.float64)
    output = attention(query, key, value, Segments.from_lengths(lengths), "sdpa", reach)
    owner = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    place = torch.arange(total)
    seen = (owner[:, None] == owner) & ((place[:, None] - place).abs() <= reach)
    keys, values = (x.repeat_interleave(heads[0] // groups, 1) for x in (key, value))
    scores = torch.einsum("ihk,jhk->hij", query, keys) / 8**0.5
    expected = torch.einsum("hij,jhk->ihk", scores.masked_fill(~seen, -torch.inf).softmax(-1), values)
    assert torch.allclose(output, expected)
    ours = torch.autograd.grad((output * weights).sum(), (query, key, value))
    true = torch.autograd.grad((expected * weights).sum(), (query, key, value))
    assert all(torch.allclose(x, y) for x, y in zip(ours, true, strict=True))


def _layer_inputs(model: MaskedLanguageEncoder, ids: torch.Tensor) -> list[torch.Tensor]:
    """What enters each layer's residual stream from attention."""
    found: list[torch.Tensor] = []
    hooks = [
        block.attention.register_forward_hook(lambda _, __, output: found.append(output.detach()))
        for block in model.encoder.blocks
    ]
    model.encoder(ids, Segments.from_lengths([len(ids)]))
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_new_rotary_base_takes_effect_at_once(family: str, compiled: bool) -> None:
    """As if the encoder had been built with it, also after compilation for the old one."""
    config = FAMILIES[family]
    ids, segments, places = torch.arange(100), Segments.from_lengths([100]), torch.arange(100)
    changed = network(config=config)
    call = torch.compile(changed.logits, backend="aot_eager") if compiled else changed.logits
    outputs = [call(ids, segments, places)]
    for bases in ((160_000.0, 10_000.0), (160_000.0, 500.0), (250_000.0, 500.0)):
        changed.set_rotary_base(*bases)
        outputs.append(call(ids, segments, places))
        fresh = MaskedLanguageEncoder(config)
        fresh.set_rotary_base(*bases)
        fresh.load_state_dict(changed.state_dict())
        assert torch.allclose(outputs[-1], fresh.logits(ids, segments, places), atol=1e-5)
        moved = not torch.allclose(outputs[-1], outputs[-2], atol=1e-3)
        assert moved == (config.has_local_layers or bases[1] == 10_000.0 or bases[0] == 250_000.0)


def test_each_kind_of_layer_has_its_own_rotary_base() -> None:
    ids, model = torch.arange(100), network(config=MODERN)
    before = _layer_inputs(model, ids)
    model.set_rotary_base(10_000.0, local=300.0)
    after = _layer_inputs(model, ids)
    assert torch.equal(before[0], after[0])  # layer 0 is global
    assert not torch.allclose(before[1], after[1], atol=1e-4)
    model.set_rotary_base(160_000.0)
    assert model.rotary_bases == (160_000.0, 300.0)
    assert not torch.allclose(before[0], _layer_inputs(model, ids)[0], atol=1e-4)


def test_local_layers_see_their_window_and_no_further() -> None:
    config = replace(MODERN, layers=2, global_every=2)
    model = network(config=config)
    ids = torch.arange(100)
    other = ids.clone()
    other[50] = 7
    model.encoder.blocks[0].attention.output.weight.data.zero_()  # the global layer adds nothing
    segments = Segments.from_lengths([100])
    changed = (model.encoder(ids, segments) != model.encoder(other, segments)).any(-1).nonzero().squeeze(1)
    assert changed.tolist() == list(range(50 - 8, 50 + 8 + 1))


def test_dropout_is_a_function_of_its_key_and_acts_on_attentions_output_only() -> None:
    ids, segments = torch.arange(60), Segments.from_lengths([40, 20])
    model = network(config=replace(MODERN, attention_output_dropout=0.25)).train()
    first, again, other = (model.encode(ids, segments, key) for key in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert torch.equal(model.encode(ids, segments), model.eval().encode(ids, segments, 1))
    states = torch.ones(4000, 10)
    dropped = keyed_dropout(states, 0.25, torch.tensor(3))
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert (dropped == 0).float().mean() == pytest.approx(0.25, abs=0.01)


def test_losses_are_the_cross_entropy_at_hidden_positions_only() -> None:
    model = network().eval()
    ids, segments = torch.randint(101, (30,)), Segments.from_lengths([20, 10])
    positions, targets = torch.tensor([3, 4, 25]), torch.tensor([7, 8, 9])
    prediction = model(ids, segments, positions, targets)
    logits = model.logits(ids, segments, torch.arange(30))
    expected = -logits.log_softmax(-1)[positions, targets]
    assert torch.allclose(prediction.losses_N, expected, atol=1e-5)
    assert prediction.losses_N.dtype == torch.float32
    assert prediction.correct_N.tolist() == (logits[positions].argmax(-1) == targets).tolist()


def test_a_seed_gives_the_same_weights_whatever_the_global_state() -> None:
    torch.manual_seed(1)
    first = network(3).state_dict()
    torch.manual_seed(2)
    again, other = network(3).state_dict(), network(4).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


@pytest.mark.parametrize(
    ("preset", "total", "output", "core"),
    [
        ("eurobert-210m", 310_266_624, 310_266_624 - 211_766_016, 113_265_408),
        ("eurobert-610m", 755_625_600, 755_625_600 - 607_874_688, 460_123_776),
        ("eurobert-2.1b", 2_403_092_736, 2_403_092_736 - 2_107_590_912, 1_812_089_088),
        ("modernbert-base", 149_655_232, 0, 149_655_232 - 50_368 * 769),
        ("modernbert-large", 395_881_664, 0, 395_881_664 - 50_368 * 1025),
        ("bertomelo-base", 136_120_832, 0, 136_120_832 - 32_768 * 769),
        ("bertomelo-large", 377_841_664, 0, 377_841_664 - 32_768 * 1025),
    ],
)
def test_published_sizes_have_their_published_parameters(
    preset: str, total: int, output: int, core: int
) -> None:
    with torch.device("meta"):
        model = MaskedLanguageEncoder(PRESETS[preset])
    counted = sum(p.numel() for p in model.parameters())
    count = parameter_count(PRESETS[preset])
    assert counted == count.total == total
    assert (0 if model.head.weight is None else model.head.weight.numel()) == output
    assert count.core == core


def test_each_family_starts_as_published() -> None:
    euro = MaskedLanguageEncoder(replace(CONFIG, width=192, feed_forward=512, vocabulary=1000))
    euro.initialise(1)
    assert all(p.std().item() == pytest.approx(0.02, rel=0.05) for p in euro.parameters() if p.ndim > 1)
    modern = MaskedLanguageEncoder(replace(MODERN, width=192, feed_forward=512, vocabulary=1000))
    modern.initialise(1)
    small = ("attention.output.weight", "mlp.down.weight", "head.dense.weight")
    for name, parameter in modern.named_parameters():
        if parameter.ndim < 2:
            assert (parameter == (0 if name == "head.bias" else 1)).all(), name
            continue
        deviation = 0.02 / (8**0.5 if name.endswith(small) else 1)
        assert parameter.abs().max() <= 2 * deviation, name
        # a normal distribution cut at two deviations has 0.88 of one
        assert parameter.std().item() == pytest.approx(0.8796 * deviation, rel=0.05), name


@pytest.mark.parametrize("preset", ["tiny", "tiny-modernbert"])
def test_the_tiny_presets_are_for_a_laptop(preset: str) -> None:
    assert 5e5 <= parameter_count(PRESETS[preset]).core <= 4e6


def test_local_layers_cost_their_window() -> None:
    """The facts of ModernBERT: 825 MFLOP a token at 1,024, 1,353 at 8,192; 3,189 for large."""
    base, large = PRESETS["modernbert-base"], PRESETS["modernbert-large"]
    assert flops_per_token(base, 1024, 0.3) == pytest.approx(825e6, rel=1e-3)
    assert flops_per_token(base, 8192, 0.3) == pytest.approx(1353e6, rel=1e-3)
    assert flops_per_token(large, 8192, 0.3) == pytest.approx(3189e6, rel=1e-3)


def test_training_flops_follow_the_palm_formula() -> None:
    config = EncoderConfig(**{**vars(CONFIG), "vocabulary": 1000})
    core = parameter_count(config).core
    assert flops_per_token(config, 100, 0.5) == 6 * (core + 0.5 * 1000 * 48) + 12 * 2 * 48 * 100


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("tinny", "did you mean 'tiny'"),
        ({"preset": "tiny", "layer": 3}, "unknown key 'model.encoder.layer'; did you mean 'layers'"),
        (
            {"preset": "tiny", "heads": 5, "key_value_heads": 2},
            "not a multiple of heads 5.*not a multiple of key_value_heads",
        ),
        ({"width": 64}, "layers is missing"),
        ({"preset": "tiny", "layers": "four"}, "must be a whole number"),
        ({"preset": "tiny", "layers": 0}, "at least 1"),
        ({"preset": "tiny", "layers": 2.5}, "layers is 2.5: it must be a whole number"),
        ({"preset": "tiny", "vocabulary": 0}, "vocabulary is 0: it must be at least 1"),
        ({"preset": "tiny", "initializer_std": float("nan")}, "initializer_std is nan: it must be above 0"),
        ({"preset": "tiny", "norm": "rmsnorm"}, "choose one of rms, layer; did you mean 'rms'"),
        ({"preset": "tiny", "window": 5}, "window 5 must be even"),
        ({"preset": "tiny", "attention_output_dropout": 1.0}, "at least 0, below 1"),
    ],
)
def test_a_wrong_shape_is_one_line(spec, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        encoder_config(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("backend", ["varlen", "flash_attn"])
def test_a_backend_that_cannot_work_here_says_why(backend: str) -> None:
    with pytest.raises(ConfigError, match="needs a GPU"):
        resolve_backend(backend, torch.device("cpu"), torch.bfloat16)
    assert resolve_backend("auto", torch.device("cpu"), torch.bfloat16) == "sdpa"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("backend", ["varlen", "flash_attn"])
def test_gpu_backends_agree_with_sdpa(backend: str) -> None:
    device = torch.device("cuda")
    try:
        resolve_backend(backend, device, torch.bfloat16)
    except ConfigError as error:
        pytest.skip(str(error))
    segments = Segments.from_lengths([100, 1, 27, 512], device)
    query, key, value = (
        torch.randn(640, heads, 64, device=device, dtype=torch.bfloat16) for heads in (6, 2, 2)
    )
    for reach in (None, 64):
        found = []
        for name in (backend, "sdpa"):
            inputs = [x.clone().requires_grad_() for x in (query, key, value)]
            output = attention(*inputs, segments, name, reach)
            found.append([output, *torch.autograd.grad(output, inputs, query)])
        for ours, reference in zip(*found, strict=True):
            assert (ours - reference).abs().max() <= 2e-2 * reference.abs().max()
