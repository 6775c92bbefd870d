"""What an encoder costs: parameters, and FLOPs of training."""

from typing import NamedTuple

from euro_lightning.encoder.config import EncoderConfig


class ParameterCount(NamedTuple):
    """Trainable parameters, each counted once."""

    total: int
    core: int
    """All but those of the vocabulary: blocks, norms, the head's transform."""
    vocabulary: int
    """The embedding, the output matrix unless it is tied, and its bias."""


def parameter_count(config: EncoderConfig) -> ParameterCount:
    """Parameters of the encoder with its head; the vocabulary must be known."""
    width, kv_width = config.width, config.key_value_heads * config.head_size
    attention = 2 * width * width + 2 * width * kv_width
    block = attention + 3 * width * config.feed_forward + 2 * width
    core = config.layers * block + width
    core += config.embedding_norm * width - (not config.first_attention_norm) * width
    core += config.head_transform * (width * width + width)
    matrices = 1 if config.tied else 2
    vocabulary = (config.vocabulary or 0) * (matrices * width + config.output_bias)
    return ParameterCount(core + vocabulary, core, vocabulary)


def flops_per_token(config: EncoderConfig, length: float, masked_share: float) -> float:
    """Training FLOPs per token: forward and backward (Chowdhery et al.: PaLM, 2022, appendix B).

    Args:
        config: the encoder; its vocabulary must be known.
        length: tokens that a token of a global layer attends to on average; those of a local layer
            attend to at most its window and themselves.
        masked_share: share of the tokens whose prediction is computed.
    """
    transform = config.head_transform * (config.width**2 + config.width)
    head = masked_share * ((config.vocabulary or 0) * config.width + transform)
    blocks = parameter_count(config).core - transform
    global_layers = len(config.global_layers)
    attended = global_layers * length + (config.layers - global_layers) * min(length, config.window + 1)
    return 6 * (blocks + head) + 12 * config.width * attended
