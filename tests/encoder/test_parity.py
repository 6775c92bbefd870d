"""The encoder is transformers' EuroBERT and ModernBERT on the same weights, in both directions."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from euro_lightning.encoder.attention import Segments
from euro_lightning.encoder.config import PRESETS, EncoderConfig
from euro_lightning.encoder.directory import read_config
from euro_lightning.encoder.families import (
    ARCHITECTURES,
    family_of,
    from_huggingface_config,
    to_huggingface_config,
)
from euro_lightning.encoder.huggingface import from_huggingface, to_huggingface
from euro_lightning.encoder.model import MaskedLanguageEncoder
from euro_lightning.errors import UserError

EUROBERT = EncoderConfig(3, 96, 6, 2, 128, vocabulary=211, max_length=4096)
MODERNBERT = replace(
    PRESETS["modernbert-base"], layers=5, width=64, heads=2, key_value_heads=2, feed_forward=96, vocabulary=97
)
SHAPES = {
    "eurobert grouped": EUROBERT,
    "eurobert plain": replace(EUROBERT, layers=2, width=64, heads=2, key_value_heads=2),
    "modernbert": MODERNBERT,
}
BASES = {"pretraining": (10_000.0, 10_000.0), "extension": (250_000.0, 20_000.0)}


def reduced(config: EncoderConfig) -> EncoderConfig:
    """A preset's architecture, all its layers and heads, with heads of 16."""
    return replace(config, width=16 * config.heads, feed_forward=64, vocabulary=101, max_length=4096)


def pair(config: EncoderConfig, bases: tuple[float, float]) -> tuple[MaskedLanguageEncoder, Any]:
    """Our encoder and transformers' with the same random weights."""
    import transformers

    cls = getattr(transformers, ARCHITECTURES[family_of(config)])
    arguments = to_huggingface_config(config, bases)
    theirs = cls(cls.config_class(**arguments, pad_token_id=None, attn_implementation="eager")).train()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in theirs.parameters():
            size = 0.1 if parameter.ndim == 1 else parameter.shape[1] ** -0.5
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * size + (parameter.ndim == 1))
    ours = MaskedLanguageEncoder(config)
    ours.load_state_dict(from_huggingface(theirs.state_dict(), config, "transformers"))
    ours.set_rotary_base(*bases)
    return ours, theirs


def close(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Within 1e-5 of the tensor's largest value."""
    return bool((ours - theirs).abs().max() <= 1e-5 * theirs.abs().max())


def compare(config: EncoderConfig, lengths: list[int], bases: tuple[float, float]) -> None:
    """Logits and all gradients of packed segments against transformers on each segment alone."""
    ours, theirs = pair(config, bases)
    generator = torch.Generator().manual_seed(sum(lengths))
    ids = torch.randint(config.vocabulary or 0, (sum(lengths),), generator=generator)
    logits = ours.logits(ids, Segments.from_lengths(lengths), torch.arange(len(ids)))
    reference = torch.cat([theirs(input_ids=part[None]).logits[0] for part in ids.split(lengths)])
    assert close(logits, reference)

    weights = torch.randn(logits.shape, generator=generator)
    (logits * weights).sum().backward()
    (reference * weights).sum().backward()
    gradients = to_huggingface({name: p.grad for name, p in ours.named_parameters()}, config)
    largest = max(parameter.grad.abs().max() for parameter in theirs.parameters())
    for name, parameter in theirs.named_parameters():
        gradient, true = gradients[name], parameter.grad
        if max(lengths) == 1:  # one token attends to itself alone: queries and keys have no gradient
            if "q_proj" in name or "k_proj" in name:
                continue
            if "Wqkv" in name:
                gradient, true = gradient[2 * config.width :], true[2 * config.width :]
        assert close(gradient, true) or true.abs().max() < 1e-7 * largest, name


@pytest.mark.parametrize("bases", BASES)
@pytest.mark.parametrize("length", [1, 5, 64, 129, 130, 513, 2048])
@pytest.mark.parametrize("shape", SHAPES)
def test_logits_and_gradients_equal_transformers(shape: str, length: int, bases: str) -> None:
    compare(SHAPES[shape], [length], BASES[bases])


@pytest.mark.parametrize("bases", BASES)
@pytest.mark.parametrize("shape", SHAPES)
def test_packed_segments_equal_transformers_on_each_alone(shape: str, bases: str) -> None:
    compare(SHAPES[shape], [130, 1, 64, 64, 300, 65, 5], BASES[bases])


@pytest.mark.parametrize("preset", [name for name in PRESETS if not name.startswith("tiny")])
def test_every_presets_architecture_equals_transformers(preset: str) -> None:
    compare(reduced(PRESETS[preset]), [200, 9], BASES["extension"])


@st.composite
def configs(draw: st.DrawFn) -> EncoderConfig:
    """Any encoder that transformers has a class for."""
    groups, shared = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    size = 2 * draw(st.integers(1, 8))
    base = EncoderConfig(
        layers=draw(st.integers(1, 4)),
        width=groups * shared * size,
        heads=groups * shared,
        key_value_heads=groups,
        feed_forward=draw(st.integers(1, 40)),
        vocabulary=draw(st.integers(2, 60)),
        activation=draw(st.sampled_from(["silu", "gelu"])),
        tied=draw(st.booleans()),
        norm_epsilon=draw(st.sampled_from([1e-6, 1e-5])),
    )
    if draw(st.booleans()):
        return base
    return replace(
        base,
        key_value_heads=base.heads,
        norm="layer",
        embedding_norm=True,
        first_attention_norm=False,
        head_transform=True,
        output_bias=draw(st.booleans()),
        global_every=draw(st.integers(1, 4)),
        window=2 * draw(st.integers(1, 40)),
    )


@settings(deadline=None, max_examples=10, suppress_health_check=list(HealthCheck))
@given(configs(), st.lists(st.integers(1, 90), min_size=1, max_size=4), st.sampled_from(list(BASES)))
def test_any_expressible_encoder_equals_transformers(
    config: EncoderConfig, lengths: list[int], bases: str
) -> None:
    """In float64, where rounding does not hide a difference nor make one in gradients that cancel."""
    torch.set_default_dtype(torch.float64)
    try:
        compare(config, lengths, BASES[bases])
    finally:
        torch.set_default_dtype(torch.float32)


@settings(deadline=None, max_examples=20)
@given(configs(), st.sampled_from(list(BASES)))
def test_configurations_go_there_and_back_unchanged(config: EncoderConfig, bases: str) -> None:
    import transformers

    cls = getattr(transformers, ARCHITECTURES[family_of(config)]).config_class
    theirs = cls(**to_huggingface_config(config, BASES[bases])).to_dict()
    again, rotary = from_huggingface_config(theirs, "it")
    assert rotary == BASES[bases] if config.norm == "layer" else rotary[0] == BASES[bases][0]
    spelled = {"initialisation": config.initialisation, "global_every": config.global_every}
    spelled |= {} if config.norm == "layer" else {"window": config.window}
    assert replace(again, **spelled) == config
    assert again.global_layers == config.global_layers


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_go_there_and_back_unchanged(shape: str) -> None:
    config = SHAPES[shape]
    ours, theirs = pair(config, BASES["pretraining"])
    exported = to_huggingface(ours.state_dict(), config)
    tied = {"decoder.weight"} if config.tied else set()
    assert exported.keys() == theirs.state_dict().keys() - tied
    again = from_huggingface(exported, config, "it")
    assert again.keys() == ours.state_dict().keys()
    assert all(torch.equal(again[name], tensor) for name, tensor in ours.state_dict().items())


def test_missing_and_unexpected_weights_are_named() -> None:
    config = SHAPES["eurobert plain"]
    _, theirs = pair(config, BASES["pretraining"])
    weights = dict(theirs.state_dict())
    weights["model.extra"] = weights.pop("model.norm.weight")
    with pytest.raises(UserError, match=r"it: 1 tensors are missing \(model.norm.weight\).*model.extra"):
        from_huggingface(weights, config, "it")


def test_an_encoder_between_the_families_has_no_class() -> None:
    with pytest.raises(UserError, match="no class for this encoder: for eurobert output_bias is True"):
        family_of(replace(EUROBERT, output_bias=True))
    with pytest.raises(UserError, match="for modernbert key/value heads are shared"):
        family_of(replace(MODERNBERT, key_value_heads=1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mlp_bias": True}, "mlp_bias is True, here it must be False"),
        ({"head_dim": 7}, "head_dim is 7"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "yarn.* cannot be used"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": -1}}, "-1.* cannot be used"),
    ],
)
def test_what_cannot_be_computed_here_is_refused(change: dict[str, Any], message: str) -> None:
    theirs = {**to_huggingface_config(EUROBERT, BASES["pretraining"]), "model_type": "eurobert", **change}
    with pytest.raises(UserError, match=message):
        from_huggingface_config(theirs, "it")


OLDER = {
    "eurobert": {
        "model_type": "eurobert", "architectures": ["EuroBertForMaskedLM"], "hidden_size": 768, "rope_theta": 250000,
        "rope_scaling": None, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 12,
        "intermediate_size": 3072, "vocab_size": 128256, "rms_norm_eps": 1e-05, "hidden_act": "silu",
        "max_position_embeddings": 8192, "mlp_bias": False, "attention_bias": False, "head_dim": 64,
        "bos_token_id": 128000, "eos_token_id": 128001, "pad_token_id": 128001, "mask_token_id": 128002,
        "clf_pooling": "late", "auto_map": {"AutoModel": "modeling_eurobert.EuroBertModel"}, "is_causal": False,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.40.0.dev0",
    },
    "modernbert": {
        "model_type": "modernbert", "architectures": ["ModernBertForMaskedLM"], "hidden_size": 768,
        "num_hidden_layers": 22, "num_attention_heads": 12, "intermediate_size": 1152, "vocab_size": 50368,
        "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0,
        "local_attention": 128, "reference_compile": None, "repad_logits_with_grad": False, "gradient": 1,
        "position_embedding_type": "absolute", "classifier_pooling": "mean", "transformers_version": "4.47.0.dev0",
    },
}  # fmt: skip
"""Configurations as version 4 of transformers, or code on the Hub, wrote them."""


@pytest.mark.parametrize(
    ("family", "change", "bases"),
    [
        ("eurobert", {}, (250_000.0, 250_000.0)),
        ("modernbert", {}, (160_000.0, 10_000.0)),
        ("modernbert", {"local_rope_theta": None}, (160_000.0, 160_000.0)),
        ("modernbert", {"global_rope_theta": 10_000.0}, (10_000.0, 10_000.0)),
    ],
)
def test_configurations_of_older_releases_are_read(
    family: str, change: dict[str, Any], bases: tuple[float, float], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**OLDER[family], **change}))
    config, found = from_huggingface_config(read_config(tmp_path), "it")
    assert found == bases
    preset = PRESETS["eurobert-210m" if family == "eurobert" else "modernbert-base"]
    assert replace(config, attention_output_dropout=preset.attention_output_dropout) == preset


def test_a_rotary_base_of_minus_one_is_refused(tmp_path: Path) -> None:
    """ModernBERT's converter writes it into checkpoints of the first phase, and all logits become NaN."""
    (tmp_path / "config.json").write_text(json.dumps({**OLDER["modernbert"], "local_rope_theta": -1}))
    with pytest.raises(UserError, match=r"rope_theta': -1.* cannot be used"):
        from_huggingface_config(read_config(tmp_path), "it")
