"""Weights and configuration between this encoder and transformers' EuroBERT."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.errors import UserError

_PLAIN = {
    "encoder.embedding.weight": "model.embed_tokens.weight",
    "encoder.final_norm.weight": "model.norm.weight",
    "head.weight": "lm_head.weight",
}
_BLOCK = {
    "attention.output.weight": "self_attn.o_proj.weight",
    "mlp.down.weight": "mlp.down_proj.weight",
    "attention_norm.weight": "input_layernorm.weight",
    "mlp_norm.weight": "post_attention_layernorm.weight",
}
_FUSED = {
    "attention.query_key_value.weight": tuple(f"self_attn.{name}_proj.weight" for name in "qkv"),
    "mlp.gate_up.weight": ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
}


def _names(config: EncoderConfig) -> dict[str, tuple[str, ...]]:
    """Which of transformers' tensors make up each of ours, stacked by rows."""
    names: dict[str, tuple[str, ...]] = {ours: (theirs,) for ours, theirs in _PLAIN.items()}
    for layer in range(config.layers):
        for ours, theirs in _BLOCK.items():
            names[f"encoder.blocks.{layer}.{ours}"] = (f"model.layers.{layer}.{theirs}",)
        for ours, parts in _FUSED.items():
            names[f"encoder.blocks.{layer}.{ours}"] = tuple(f"model.layers.{layer}.{part}" for part in parts)
    return names


def _rows(ours: str, config: EncoderConfig) -> list[int]:
    """Rows of the parts of a fused tensor."""
    if "query_key_value" in ours:
        kv_width = config.key_value_heads * config.head_size
        return [config.width, kv_width, kv_width]
    return [config.feed_forward, config.feed_forward]


def _check(found: Mapping[str, Tensor], expected: set[str], what: str) -> None:
    missing, unexpected = sorted(expected - found.keys()), sorted(found.keys() - expected)
    if missing or unexpected:
        raise UserError(
            f"{what}: {len(missing)} tensors are missing ({', '.join(missing[:3]) or 'none'}),"
            f" {len(unexpected)} unexpected ({', '.join(unexpected[:3]) or 'none'})"
        )


def from_eurobert(weights: Mapping[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """Our state dict from that of transformers' EuroBertForMaskedLM.

    Raises:
        UserError: names tensors that are missing or unexpected.
    """
    names = _names(config)
    _check(weights, {part for parts in names.values() for part in parts}, "EuroBERT weights")
    return {ours: torch.cat([weights[part] for part in parts]) for ours, parts in names.items()}


def to_eurobert(weights: Mapping[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """The state dict of transformers' EuroBertForMaskedLM from ours.

    Raises:
        UserError: names tensors that are missing or unexpected.
    """
    names = _names(config)
    _check(weights, set(names), "encoder weights")
    result: dict[str, Tensor] = {}
    for ours, parts in names.items():
        tensor = weights[ours]
        pieces = torch.split(tensor, _rows(ours, config)) if len(parts) > 1 else (tensor,)
        result |= {part: piece.contiguous() for part, piece in zip(parts, pieces, strict=True)}
    return result


def eurobert_config(config: EncoderConfig, rotary_base: float) -> dict[str, Any]:
    """Arguments of transformers' EuroBertConfig; token ids are the caller's."""
    return {
        "vocab_size": config.vocabulary,
        "hidden_size": config.width,
        "intermediate_size": config.feed_forward,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.key_value_heads,
        "head_dim": config.head_size,
        "max_position_embeddings": config.max_length,
        "rms_norm_eps": config.norm_epsilon,
        "initializer_range": config.initializer_std,
        "rope_parameters": {"rope_type": "default", "rope_theta": rotary_base},
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
    }
