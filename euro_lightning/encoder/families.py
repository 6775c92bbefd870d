"""Which of transformers' classes an encoder is, and its configuration there."""

from collections.abc import Mapping
from typing import Any

from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.errors import UserError, raise_all

ARCHITECTURES = {"eurobert": "EuroBertForMaskedLM", "modernbert": "ModernBertForMaskedLM"}
"""transformers' class for each of its model types that this encoder can be."""

_FAMILY: dict[str, dict[str, Any]] = {
    "eurobert": {
        "norm": "rms",
        "embedding_norm": False,
        "first_attention_norm": True,
        "global_every": 1,
        "head_transform": False,
        "output_bias": False,
    },
    "modernbert": {
        "norm": "layer",
        "embedding_norm": True,
        "first_attention_norm": False,
        "head_transform": True,
    },
}
"""What an encoder must be for transformers to have a class for it; other fields are free."""


def family_of(config: EncoderConfig) -> str:
    """transformers' model type that computes what an encoder computes.

    Raises:
        UserError: there is none; says what is in the way of the nearest.
    """
    reasons = {}
    for family, fields in _FAMILY.items():
        wrong = [
            f"{name} is {getattr(config, name)}"
            for name, value in fields.items()
            if getattr(config, name) != value
        ]
        if family == "modernbert" and config.heads != config.key_value_heads:
            wrong.append("key/value heads are shared")
        if not wrong:
            return family
        reasons[family] = wrong
    family = min(reasons, key=lambda name: len(reasons[name]))
    raise UserError(f"transformers has no class for this encoder: for {family} {', '.join(reasons[family])}")


def to_huggingface_config(config: EncoderConfig, rotary_bases: tuple[float, float]) -> dict[str, Any]:
    """Arguments of transformers' EuroBertConfig or ModernBertConfig; token ids are the caller's.

    Dropout is 0: transformers cannot drop attention's output alone.

    Raises:
        UserError: transformers has no such class.
    """
    family = family_of(config)
    common = {
        "vocab_size": config.vocabulary,
        "hidden_size": config.width,
        "intermediate_size": config.feed_forward,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "max_position_embeddings": config.max_length,
        "initializer_range": config.initializer_std,
        "tie_word_embeddings": config.tied,
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
    }
    whole, local = ({"rope_type": "default", "rope_theta": base} for base in rotary_bases)
    if family == "eurobert":
        return {
            **common,
            "num_key_value_heads": config.key_value_heads,
            "head_dim": config.head_size,
            "rms_norm_eps": config.norm_epsilon,
            "rope_parameters": whole,
            "hidden_act": config.activation,
        }
    kinds = (
        "full_attention" if config.is_global(layer) else "sliding_attention" for layer in range(config.layers)
    )
    return {
        **common,
        "norm_eps": config.norm_epsilon,
        "norm_bias": False,
        "hidden_activation": config.activation,
        "classifier_activation": "gelu",
        "classifier_bias": False,
        "classifier_pooling": "mean",
        "decoder_bias": config.output_bias,
        "local_attention": config.window,
        "layer_types": list(kinds),
        "rope_parameters": {"full_attention": whole, "sliding_attention": local},
    }


def from_huggingface_config(given: Mapping[str, Any], what: str) -> tuple[EncoderConfig, tuple[float, float]]:
    """The encoder that a whole configuration of transformers describes, and its rotary bases.

    Args:
        given: `to_dict()` of an EuroBertConfig or a ModernBertConfig.
        what: the configuration's name for messages.

    Raises:
        UserError: what it describes cannot be computed here; names all that is in the way.
    """
    family = given["model_type"]
    modern = family == "modernbert"
    layers, kinds = given["num_hidden_layers"], given.get("layer_types") or []
    global_layers = [layer for layer, kind in enumerate(kinds) if kind == "full_attention"] if modern else []
    every = global_layers[1] if len(global_layers) > 1 else max(layers, 3) if global_layers else 1
    rope = given["rope_parameters"]
    whole = rope["full_attention"] if modern else rope
    local = rope["sliding_attention"] if modern else rope
    heads = given["num_attention_heads"]
    wanted = {
        **dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"), False),
        "head_dim": given["hidden_size"] // heads,
        "classifier_activation": "gelu",
    }
    problems = [
        f"{key} is {given[key]}, here it must be {value}"
        for key, value in wanted.items()
        if given.get(key) is not None and given[key] != value
    ]
    problems += [
        f"rope_parameters {table} cannot be used" for table in (whole, local)
        if table.get("rope_type") != "default" or not (table.get("rope_theta") or 0) > 1
    ]  # fmt: skip
    if modern and kinds != [
        "full_attention" if i % every == 0 else "sliding_attention" for i in range(layers)
    ]:
        problems.append("layer_types do not repeat from a global first layer on")
    raise_all([f"{what}: {'; '.join(problems)}"] if problems else [], UserError)
    config = EncoderConfig(
        layers=layers,
        width=given["hidden_size"],
        heads=heads,
        key_value_heads=heads if modern else given["num_key_value_heads"],
        feed_forward=given["intermediate_size"],
        vocabulary=given["vocab_size"],
        max_length=given["max_position_embeddings"],
        norm_epsilon=given["norm_eps" if modern else "rms_norm_eps"],
        activation=given["hidden_activation" if modern else "hidden_act"],
        tied=given["tie_word_embeddings"],
        initialisation="truncated" if modern else "normal",
        initializer_std=given["initializer_range"],
        **{
            **_FAMILY[family],
            **(
                {
                    "global_every": every,
                    "window": given["local_attention"],
                    "output_bias": given["decoder_bias"],
                }
                if modern
                else {}
            ),
        },
    )
    raise_all(config.problems(what), UserError)
    return config, (float(whole["rope_theta"]), float(local["rope_theta"]))
