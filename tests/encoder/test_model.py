"""The encoder over packed tokens."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from euro_lightning.encoder.attention import Segments, attention, resolve_backend
from euro_lightning.encoder.config import PRESETS, EncoderConfig, encoder_config
from euro_lightning.encoder.cost import flops_per_token, parameter_count
from euro_lightning.encoder.model import MaskedLanguageEncoder
from euro_lightning.errors import ConfigError

CONFIG = EncoderConfig(2, 48, 6, 2, 64, vocabulary=101, max_length=256)


def network(seed: int = 1) -> MaskedLanguageEncoder:
    model = MaskedLanguageEncoder(CONFIG)
    model.initialise(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(5)  # far enough from linear for differences to show
    return model


def gradients(model: MaskedLanguageEncoder) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(1, 70), min_size=1, max_size=7), st.booleans())
def test_packed_is_alone(lengths: list[int], equal: bool) -> None:
    """Hidden states and gradients of a segment do not depend on its neighbours."""
    lengths = [lengths[0]] * len(lengths) if equal else lengths
    model = network()
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


def test_a_new_rotary_base_takes_effect_at_once() -> None:
    ids, segments = torch.arange(60), Segments.from_lengths([60])
    changed = network()
    before = changed.encoder(ids, segments)
    changed.set_rotary_base(250_000.0)
    fresh = MaskedLanguageEncoder(CONFIG)
    fresh.set_rotary_base(250_000.0)
    fresh.load_state_dict(changed.state_dict())
    assert torch.equal(changed.encoder(ids, segments), fresh.encoder(ids, segments))
    assert not torch.allclose(before, changed.encoder(ids, segments), atol=1e-3)


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
    ("preset", "total", "without_output", "core"),
    [
        ("eurobert-210m", 310_266_624, 211_766_016, 113_265_408),
        ("eurobert-610m", 755_625_600, 607_874_688, 460_123_776),
        ("eurobert-2.1b", 2_403_092_736, 2_107_590_912, 1_812_089_088),
    ],
)
def test_published_sizes_have_their_published_parameters(
    preset: str, total: int, without_output: int, core: int
) -> None:
    with torch.device("meta"):
        model = MaskedLanguageEncoder(PRESETS[preset])
    counted = sum(p.numel() for p in model.parameters())
    count = parameter_count(PRESETS[preset])
    assert counted == count.total == total
    assert total - model.head.weight.numel() == without_output
    assert count.core == core


def test_the_tiny_preset_has_one_to_four_million_parameters() -> None:
    assert 1e6 <= parameter_count(PRESETS["tiny"]).core <= 4e6


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
    ours, reference = (attention(query, key, value, segments, name) for name in (backend, "sdpa"))
    assert torch.allclose(ours, reference, atol=2e-2)
