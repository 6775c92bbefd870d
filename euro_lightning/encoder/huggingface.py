"""Names of tensors: this encoder's, and those of transformers' EuroBERT and ModernBERT."""

from collections.abc import Mapping

import torch
from torch import Tensor

from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.encoder.families import family_of
from euro_lightning.errors import UserError

_Names = dict[str, tuple[str, ...]]

_PLAIN: dict[str, _Names] = {
    "eurobert": {
        "encoder.embedding.weight": ("model.embed_tokens.weight",),
        "encoder.final_norm.weight": ("model.norm.weight",),
        "head.weight": ("lm_head.weight",),
    },
    "modernbert": {
        "encoder.embedding.weight": ("model.embeddings.tok_embeddings.weight",),
        "encoder.embedding_norm.weight": ("model.embeddings.norm.weight",),
        "encoder.final_norm.weight": ("model.final_norm.weight",),
        "head.dense.weight": ("head.dense.weight",),
        "head.norm.weight": ("head.norm.weight",),
        "head.weight": ("decoder.weight",),
        "head.bias": ("decoder.bias",),
    },
}
_BLOCK: dict[str, _Names] = {
    "eurobert": {
        "attention_norm.weight": ("input_layernorm.weight",),
        "attention.query_key_value.weight": tuple(f"self_attn.{name}_proj.weight" for name in "qkv"),
        "attention.output.weight": ("self_attn.o_proj.weight",),
        "mlp_norm.weight": ("post_attention_layernorm.weight",),
        "mlp.gate_up.weight": ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
        "mlp.down.weight": ("mlp.down_proj.weight",),
    },
    "modernbert": {
        "attention_norm.weight": ("attn_norm.weight",),
        "attention.query_key_value.weight": ("attn.Wqkv.weight",),
        "attention.output.weight": ("attn.Wo.weight",),
        "mlp_norm.weight": ("mlp_norm.weight",),
        "mlp.gate_up.weight": ("mlp.Wi.weight",),
        "mlp.down.weight": ("mlp.Wo.weight",),
    },
}
"""Which of transformers' tensors make up each of ours, stacked by rows."""


def _names(config: EncoderConfig) -> _Names:
    """Which of transformers' tensors make up each of ours, for a whole network."""
    family = family_of(config)
    absent = {"head.weight"} if config.tied else set()
    absent |= set() if config.output_bias else {"head.bias"}
    names = {ours: theirs for ours, theirs in _PLAIN[family].items() if ours not in absent}
    layers = "model.layers"
    for layer in range(config.layers):
        for ours, parts in _BLOCK[family].items():
            if layer == 0 and ours.startswith("attention_norm") and not config.first_attention_norm:
                continue
            names[f"encoder.blocks.{layer}.{ours}"] = tuple(f"{layers}.{layer}.{part}" for part in parts)
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


def from_huggingface(weights: Mapping[str, Tensor], config: EncoderConfig, what: str) -> dict[str, Tensor]:
    """Our state dict from that of transformers' class for masked language modelling.

    Args:
        weights: theirs; a tied output matrix and tables of the rotary embedding may be there.
        config: the encoder.
        what: the weights' name for messages.

    Raises:
        UserError: names tensors that are missing, unexpected, or tied and yet different.
    """
    names = _names(config)
    theirs = {name: tensor for name, tensor in weights.items() if not name.endswith("inv_freq")}
    if config.tied:
        output = theirs.pop(_PLAIN[family_of(config)]["head.weight"][0], None)
        embedding = theirs.get(names["encoder.embedding.weight"][0])
        if output is not None and embedding is not None and not torch.equal(output, embedding):
            raise UserError(f"{what}: the output matrix differs from the embedding that it is tied to")
    _check(theirs, {part for parts in names.values() for part in parts}, what)
    return {
        ours: torch.cat([theirs[part] for part in parts]) if len(parts) > 1 else theirs[parts[0]]
        for ours, parts in names.items()
    }


def to_huggingface(weights: Mapping[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """The state dict of transformers' class from ours, without a tied output matrix.

    Raises:
        UserError: transformers has no such class, or tensors are missing or unexpected.
    """
    names = _names(config)
    _check(weights, set(names), "encoder weights")
    result: dict[str, Tensor] = {}
    for ours, parts in names.items():
        tensor = weights[ours]
        pieces = torch.split(tensor, _rows(ours, config)) if len(parts) > 1 else (tensor,)
        result |= {part: piece.contiguous() for part, piece in zip(parts, pieces, strict=True)}
    return result
