"""How the time of a token grows with the length of segments, the vocabulary and the masking ratio."""

import statistics
from collections.abc import Callable
from dataclasses import replace

import torch

from euro_lightning.benchmark.contestants import Ours
from euro_lightning.benchmark.machine import seconds_of
from euro_lightning.benchmark.workload import Workload
from euro_lightning.encoder.attention import Segments, local_mask
from euro_lightning.encoder.layers import Block, Scope, rotary_tables

LENGTHS = (512, 2048, 8192)
VOCABULARIES = (32_768, 128_256)
RATIOS = (0.1, 0.3, 0.5)


def grid(
    work: Workload, device: torch.device, half: bool, say: Callable[[str], None]
) -> list[tuple[int, int, float, float]]:
    """Length, vocabulary, masking ratio and tokens a second of our eager step, 8,192 tokens each."""
    rows = []
    for vocabulary in VOCABULARIES:
        for length in LENGTHS:
            for ratio in RATIOS:
                say(f"length {length:,}, vocabulary {vocabulary:,}, masking {ratio:.0%}")
                own = replace(
                    work,
                    encoder=replace(work.encoder, vocabulary=vocabulary, max_length=8192),
                    lengths=str(length),
                    masking_ratio=ratio,
                    tokens=8192,
                )
                contestant = Ours(own, device, half, False, "auto")
                contestant.step()
                done = [contestant.step() for _ in range(2)]
                rows.append((length, vocabulary, ratio, 8192 / statistics.median(s.total for s in done)))
    return rows


def local_block_seconds(work: Workload, device: torch.device, half: bool, turns: int = 5) -> dict[int, float]:
    """Seconds for each token of a windowed block, forward and backward, by length of the segments."""
    config = replace(work.encoder, global_every=2, window=128)
    block = Block(config, 1, "sdpa").to(device)
    states = torch.randn(8192, config.width, device=device, requires_grad=True)
    times: dict[int, list[float]] = {length: [] for length in LENGTHS}
    for _ in range(turns + 1):
        for length, found in times.items():
            segments = Segments.from_lengths([length] * (8192 // length), device)
            tables = rotary_tables(segments.positions(), config.head_size, 10_000.0)
            scope = Scope(segments.layout(), config.reach, tables, local_mask(segments, config.reach))

            def run(scope: Scope = scope) -> None:
                with torch.autocast(device.type, torch.bfloat16, enabled=half):
                    output = block(states, scope, None)
                output.float().sum().backward()

            found.append(seconds_of(run, device) / 8192)
    return {length: statistics.median(found[1:]) for length, found in times.items()}
