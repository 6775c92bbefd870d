"""Whether the encoder is compiled: by a rule, since compiling takes as long as many short steps."""

import shutil
from collections.abc import Mapping
from typing import Literal

from euro_lightning.data.phase import Phase, Timeline
from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.encoder.cost import flops_per_token
from euro_lightning.errors import ConfigError

Compile = bool | Literal["auto"]

ENOUGH: Mapping[str, float] = {"cpu": 1e14, "cuda": 1e17}
"""FLOPs of a run from which compiling pays: about ten minutes of training, against half of one for
compiling (a CPU core does 0.1 TFLOP/s, a GPU 200)."""


def run_flops(config: EncoderConfig, timeline: Timeline) -> float:
    """FLOPs of a whole run, with every segment as long as it may be."""
    return sum(
        tokens * flops_per_token(config, phase.lengths.maximum, _mean_ratio(phase))
        for _, phase, _, tokens in timeline
    )


def _mean_ratio(phase: Phase, parts: int = 60) -> float:
    """The masking ratio of a phase, at the middles of equal parts; 60 has the steps of common schedules whole."""
    middles = ((2 * part + 1) * phase.tokens // (2 * parts) for part in range(parts))
    return sum(map(phase.masking_ratio_at, middles)) / parts


def compiles(
    choice: Compile, config: EncoderConfig | None, timeline: Timeline, device: str, backend: str = "sdpa"
) -> bool:
    """Whether to compile.

    Args:
        choice: yes, no, or auto for the rule of `ENOUGH`.
        config: the encoder; None for a baseline, which is never compiled.
        timeline: the run.
        device: cpu or cuda.
        backend: of attention.

    Raises:
        ConfigError: it is asked for and cannot be.
    """
    reason = ""
    if config is None:
        reason = "is for the encoder of this package, not for model.baseline"
    elif device == "cpu" and not any(map(shutil.which, ("g++", "c++", "clang++"))):
        reason = "needs a C++ compiler on a CPU, such as the package g++"
    elif device == "cuda" and backend == "sdpa":
        reason = "needs model.attention varlen or flash_attn on a GPU, for sdpa is many calls there"
    elif device not in ENOUGH:
        reason = f"works on a CPU and on a GPU, and this runs on {device}"
    if choice is True and reason:
        raise ConfigError(f"model.compile {reason}; false works everywhere")
    if choice != "auto" or reason or config is None:
        return choice is True
    return run_flops(config, timeline) >= ENOUGH[device]
