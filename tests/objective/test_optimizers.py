"""What decays, StableAdamW, and when the encoder is compiled."""

import pytest
import torch
from torch import nn

from euro_lightning.data.cropping import Lengths
from euro_lightning.data.phase import Phase, Timeline
from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.encoder.model import MaskedLanguageEncoder
from euro_lightning.errors import ConfigError
from euro_lightning.objective.compiling import ENOUGH, compiles, run_flops
from euro_lightning.objective.optimizers import Optimizer, build_optimizer
from euro_lightning.schedule import LearningRate

CONFIG = EncoderConfig(2, 32, 2, 1, 48, vocabulary=100, embedding_norm=True)


@pytest.mark.parametrize(
    ("decay", "spared"), [("all", set()), ("all_but_norms", {"norm"}), ("matrices", {"norm", "embedding"})]
)
@pytest.mark.parametrize("kind", ["adamw", "stable_adamw"])
def test_what_decays(kind: str, decay: str, spared: set[str]) -> None:
    if kind == "stable_adamw":
        pytest.importorskip("optimi")
    network = MaskedLanguageEncoder(CONFIG)
    optimizer = build_optimizer(Optimizer(kind=kind, decay=decay), network, fused=True)  # type: ignore[arg-type]
    decays = {p: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert len(decays) == len(list(network.parameters()))
    for name, parameter in network.named_parameters():
        kept = any(word in name for word in spared) and (
            "norm" in name or "norm" not in spared or parameter.ndim > 1
        )
        assert decays[parameter] == (0.0 if kept else 0.1), name


def test_stable_adamw_decays_per_unit_of_learning_rate_as_adamw() -> None:
    pytest.importorskip("optimi")
    shrunk = {}
    for kind in ("adamw", "stable_adamw"):
        layer = nn.Linear(4, 4, bias=False)
        before = layer.weight.detach().clone()
        optimizer = build_optimizer(Optimizer(kind=kind, weight_decay=0.5), layer, fused=True)  # type: ignore[arg-type]
        optimizer.param_groups[0]["lr"] = 1e-2
        layer.weight.grad = torch.zeros(4, 4)
        optimizer.step()
        shrunk[kind] = layer.weight.detach() / before
    assert torch.allclose(shrunk["adamw"], torch.full((4, 4), 1 - 0.005))
    assert torch.allclose(shrunk["stable_adamw"], shrunk["adamw"])


def test_a_decay_that_was_meant_per_step_is_warned_of() -> None:
    assert Optimizer(weight_decay=0.0125).weak_decay() is None
    assert Optimizer(weight_decay=0.0).weak_decay() is None
    line = Optimizer(weight_decay=1e-5).weak_decay()
    assert line is not None and "must be divided by the peak learning rate" in line


def timeline(tokens: int) -> Timeline:
    return Timeline(
        {"only": Phase(tokens, {"en": 1.0}, LearningRate(1e-3), lengths=Lengths("fixed", 64))}, 64
    )


def test_long_runs_are_compiled_and_short_ones_not() -> None:
    per_token = run_flops(CONFIG, timeline(6400)) / 6400
    enough = int(ENOUGH["cpu"] / per_token)
    assert not compiles("auto", CONFIG, timeline(enough // 2), "cpu")
    assert compiles("auto", CONFIG, timeline(enough * 2), "cpu")
    assert not compiles("auto", CONFIG, timeline(enough * 2), "cuda", "varlen")
    assert compiles("auto", CONFIG, timeline(enough * 2000), "cuda", "varlen")
    assert not compiles("auto", CONFIG, timeline(enough * 2000), "cuda", "sdpa")
    assert compiles(True, CONFIG, timeline(64), "cpu")
    assert not compiles(False, CONFIG, timeline(enough * 2), "cpu")


def test_what_cannot_be_compiled_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"not for model\.baseline"):
        compiles(True, None, timeline(64), "cpu")
    assert not compiles("auto", None, timeline(1 << 60), "cpu")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="needs a C\\+\\+ compiler"):
        compiles(True, CONFIG, timeline(64), "cpu")
    assert not compiles("auto", CONFIG, timeline(1 << 60), "cpu")
