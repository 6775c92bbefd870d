"""The encoder is transformers' EuroBERT on the same weights, in both directions."""

import pytest
import torch

from euro_lightning.encoder.attention import Segments
from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.encoder.huggingface import eurobert_config, from_eurobert, to_eurobert
from euro_lightning.encoder.model import MaskedLanguageEncoder
from euro_lightning.errors import UserError

SHAPES = {
    "grouped": EncoderConfig(3, 96, 6, 2, 128, vocabulary=211, max_length=1024),
    "plain": EncoderConfig(2, 64, 2, 2, 96, vocabulary=97, max_length=1024),
}


def pair(config: EncoderConfig, base: float):
    """Our encoder and transformers' with the same random weights."""
    from transformers import EuroBertConfig, EuroBertForMaskedLM

    theirs = EuroBertForMaskedLM(
        EuroBertConfig(**eurobert_config(config, base), pad_token_id=None, attn_implementation="eager")
    ).train()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1 + (parameter.ndim == 1))
    ours = MaskedLanguageEncoder(config)
    ours.load_state_dict(from_eurobert(theirs.state_dict(), config))
    ours.set_rotary_base(base)
    return ours, theirs


def close(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Within 1e-5 of the tensor's largest value."""
    return bool((ours - theirs).abs().max() <= 1e-5 * theirs.abs().max())


@pytest.mark.parametrize("base", [10_000.0, 250_000.0])
@pytest.mark.parametrize("length", [1, 5, 64, 129, 513])
@pytest.mark.parametrize("shape", SHAPES)
def test_logits_and_gradients_equal_transformers(shape: str, length: int, base: float) -> None:
    config = SHAPES[shape]
    ours, theirs = pair(config, base)
    ids = torch.randint(config.vocabulary, (length,), generator=torch.Generator().manual_seed(length))
    positions = torch.arange(length)
    logits = ours.logits(ids, Segments.from_lengths([length]), positions)
    reference = theirs(input_ids=ids[None]).logits[0]
    assert close(logits, reference)

    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(1))
    (logits * weights).sum().backward()
    (reference * weights).sum().backward()
    gradients = to_eurobert({name: p.grad for name, p in ours.named_parameters()}, config)
    for name, parameter in theirs.named_parameters():
        if length > 1 or not name.endswith(
            ("q_proj.weight", "k_proj.weight")
        ):  # one token: their true gradient is 0
            assert close(gradients[name], parameter.grad), name


def test_weights_go_there_and_back_unchanged() -> None:
    config = SHAPES["grouped"]
    ours, theirs = pair(config, 1e4)
    exported = to_eurobert(ours.state_dict(), config)
    assert exported.keys() == theirs.state_dict().keys()
    again = from_eurobert(exported, config)
    assert all(torch.equal(again[name], tensor) for name, tensor in ours.state_dict().items())


def test_missing_and_unexpected_weights_are_named() -> None:
    config = SHAPES["plain"]
    _, theirs = pair(config, 1e4)
    weights = dict(theirs.state_dict())
    weights["model.extra"] = weights.pop("model.norm.weight")
    with pytest.raises(UserError, match=r"1 tensors are missing \(model.norm.weight\).*model.extra"):
        from_eurobert(weights, config)
