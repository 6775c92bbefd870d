"""AdamW as EuroBERT, StableAdamW as ModernBERT, and which parameters decay."""

import importlib.util
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from euro_lightning.errors import ConfigError

_WEAK = 1e-3
"""Weight decay below which somebody may have copied a recipe whose decay is per step."""


@dataclass(frozen=True)
class Optimizer:
    """The defaults are EuroBERT's (section 2.3, table 4)."""

    kind: Literal["adamw", "stable_adamw"] = "adamw"
    """adamw (Loshchilov, Hutter 2019), or stable_adamw, which also bounds the update of each tensor
    (Wortsman et al. 2023; ModernBERT; needs the extra `stable`). Its authors use no gradient clipping."""

    beta1: float = 0.9
    """Decay of the gradient's running mean."""

    beta2: float = 0.95
    """Decay of the squared gradient's running mean."""

    epsilon: float = 1e-5
    """Added to the root of the squared gradient's mean."""

    weight_decay: float = 0.1
    """Decoupled weight decay, per unit of learning rate. ModernBERT's and Composer's decoupled decay is
    per step at the peak rate: divide it by that (1e-5 at 8e-4 is 0.0125 here)."""

    decay: Literal["all", "all_but_norms", "matrices"] = "all"
    """What decays: all parameters (EuroBERT), all but norms and biases (ModernBERT), or, with
    `matrices`, neither those nor embeddings."""

    def weak_decay(self) -> str | None:
        """A warning about a weight decay that was probably meant per step."""
        if not 0 < self.weight_decay < _WEAK:
            return None
        return (
            f"model.optimizer.weight_decay {self.weight_decay:g} is per unit of learning rate and next to nothing;"
            " a decay per step (ModernBERT's, Composer's) must be divided by the peak learning rate"
        )


def build_optimizer(config: Optimizer, network: nn.Module, fused: bool) -> torch.optim.Optimizer:
    """The optimizer of a network, with a learning rate of zero.

    Args:
        config: which one.
        network: what it trains.
        fused: whether AdamW may do its step in one kernel.

    Raises:
        ConfigError: it needs a package that is not installed.
    """
    decayed: list[nn.Parameter] = []
    spared: list[nn.Parameter] = []
    for name, parameter in network.named_parameters():
        spare = config.decay != "all" and parameter.ndim < 2
        spare |= config.decay == "matrices" and "embedding" in name
        (spared if spare else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": config.weight_decay}]
    if spared:
        groups.append({"params": spared, "weight_decay": 0.0})
    betas = (config.beta1, config.beta2)
    if config.kind == "adamw":
        return torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=config.epsilon, fused=fused)
    if importlib.util.find_spec("optimi") is None:
        raise ConfigError(
            "model.optimizer.kind stable_adamw needs torch-optimi: pip install 'euro_lightning[stable]'"
        )
    from optimi import StableAdamW

    stable: torch.optim.Optimizer = StableAdamW(
        groups, lr=0.0, betas=betas, eps=config.epsilon, weight_decay=config.weight_decay
    )
    return stable
