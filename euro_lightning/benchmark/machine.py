"""What this machine can do: the rate of matrix products at the encoder's own shapes."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from euro_lightning.encoder.config import EncoderConfig


class Stopwatch:
    """Seconds between marks; a GPU takes the time itself, by events, so that nothing waits while measuring."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._names: list[str] = []
        self._marks: list[Any] = [self._mark()]

    def _mark(self) -> Any:
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def lap(self, name: str) -> None:
        """Ends a part, and begins the next."""
        self._names.append(name)
        self._marks.append(self._mark())

    def read(self) -> dict[str, float]:
        """Seconds by part, which add up to the whole; waits for the device."""
        if self.device.type == "cuda":
            self._marks[-1].synchronize()
        parts: dict[str, float] = {}
        for name, begin, end in zip(self._names, self._marks, self._marks[1:], strict=False):
            seconds = begin.elapsed_time(end) / 1e3 if self.device.type == "cuda" else end - begin
            parts[name] = parts.get(name, 0.0) + seconds
        return parts


def seconds_of(action: Callable[[], object], device: torch.device) -> float:
    """How long something takes, with what it leaves to the device."""
    watch = Stopwatch(device)
    action()
    watch.lap("all")
    return watch.read()["all"]


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
