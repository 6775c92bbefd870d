"""What this machine can do: the rate of matrix products at the encoder's own shapes."""

import statistics
import time
from collections.abc import Callable

import torch

from euro_lightning.encoder.config import EncoderConfig


def wait(device: torch.device) -> None:
    """Until the device has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(action: Callable[[], object], device: torch.device) -> float:
    """How long something takes, with what it left to the device."""
    wait(device)
    begin = time.perf_counter()
    action()
    wait(device)
    return time.perf_counter() - begin


def products_of(config: EncoderConfig, tokens: int, masked: int) -> list[tuple[int, int, int, int]]:
    """Rows, inputs, outputs and number of all linear layers of a forward pass."""
    kv = config.key_value_heads * config.head_size
    vocabulary = config.vocabulary or 0
    return [
        (tokens, config.width, config.width + 2 * kv, config.layers),
        (tokens, config.width, config.width, config.layers),
        (tokens, config.width, 2 * config.feed_forward, config.layers),
        (tokens, config.feed_forward, config.width, config.layers),
        (masked, config.width, vocabulary, 1),
    ]


def product_rate(
    config: EncoderConfig, tokens: int, masked: int, dtype: torch.dtype, device: torch.device, turns: int = 3
) -> float:
    """FLOP/s of the three products of every linear layer: forward, and the gradients of input and weight.

    Measured at each shape, medians; weighed by how much of the work each is.
    """
    work = spent = 0.0
    for rows, inputs, outputs, count in products_of(config, tokens, masked):
        states = torch.randn(rows, inputs, device=device).to(dtype)
        weight = torch.randn(outputs, inputs, device=device).to(dtype)
        gradient = torch.randn(rows, outputs, device=device).to(dtype)
        actions: list[Callable[[], object]] = [
            lambda a=states, b=weight: a @ b.T,  # type: ignore[misc]
            lambda a=gradient, b=weight: a @ b,  # type: ignore[misc]
            lambda a=gradient, b=states: a.T @ b,  # type: ignore[misc]
        ]
        for action in actions:
            action()
            spent += count * statistics.median(seconds_of(action, device) for _ in range(turns))
        work += count * 6 * rows * inputs * outputs
    return work / spent
