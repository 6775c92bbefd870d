"""Contestants take turns, and medians count: what else the machine does then meets all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from euro_lightning.allocator import keep_freed_memory
from euro_lightning.benchmark.contestants import Contestant, Ours, Step, Theirs
from euro_lightning.benchmark.loops import Turn, lightning_steps, trainer_steps
from euro_lightning.benchmark.machine import product_rate
from euro_lightning.benchmark.workload import DENSE, SPECIAL, Workload
from euro_lightning.data.packing import pack
from euro_lightning.data.planner import Planner
from euro_lightning.encoder.attention import available_backends
from euro_lightning.encoder.cost import flops_per_token

Found = TypeVar("Found")

TYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
"""The types by name; bf16 is autocast."""


@dataclass
class Measured:
    """What came of one contestant."""

    name: str
    dtype: str
    rates: list[float] = field(default_factory=list)
    """Tokens a second, of each turn."""
    parts: dict[str, list[float]] = field(default_factory=dict)
    """Seconds by part, of each step."""
    waits: list[float] = field(default_factory=list)
    """Share of the time that a loop waits for data, of each turn, where known."""
    peak_bytes: int = 0
    """Most memory that a step took besides what was there before it."""
    attended: float = 0.0
    """Tokens that a token attends to on average."""

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


def compare(
    work: Workload,
    device: torch.device,
    dtypes: list[str],
    turns: int,
    steps: int,
    say: Callable[[str], None],
) -> tuple[list[Measured], dict[str, float]]:
    """Bare steps of all contestants, in turns, and the FLOP/s of plain products in between, by type.

    Each type has a process of its own, for memory that is kept would hide what the next one needs.

    Args:
        work: what is trained on.
        device: where.
        dtypes: float32, bf16.
        turns: rounds over all contestants.
        steps: steps of `work.tokens` tokens in a turn.
        say: told what is going on.
    """
    found: list[Measured] = []
    rates = {}
    for dtype in dtypes:
        turn = partial(_take_turns, work, device, dtype, turns, steps, say)
        measured, rates[dtype] = in_own_process(turn)
        found += measured
    return found, rates


def _makers(
    work: Workload, device: torch.device, dtype: str
) -> dict[str, tuple[Callable[[], Contestant], float]]:
    """How the contestants of a type are made, and the tokens that each of theirs attends to, by name."""
    half = dtype == "bf16"
    found: dict[str, tuple[Callable[[], Contestant], float]] = {}
    backends = available_backends(device, TYPES[dtype])
    for backend, compiled in product(backends, (False, True)):
        if compiled and backend == "sdpa" and device.type != "cpu":
            continue  # many calls there, which do not compile
        name = "ours" + ", compiled" * compiled + f" ({backend})" * (len(backends) > 1)
        found[name] = partial(Ours, work, device, half, compiled, backend), work.attended()
    padded, dense = (partial(Theirs, work, device, half, rows) for rows in (work.padded, work.dense))
    found["transformers, padded"] = padded, work.attended()
    found["transformers, dense"] = dense, DENSE
    return found


def _take_turns(
    work: Workload, device: torch.device, dtype: str, turns: int, steps: int, say: Callable[[str], None]
) -> tuple[list[Measured], float]:
    """The contestants of a type, all in memory at once, and the FLOP/s of plain products meanwhile."""
    contestants: dict[str, Contestant] = {}
    measured: dict[str, Measured] = {}
    for name, (make, attended) in _makers(work, device, dtype).items():
        say(f"warming up {name} {dtype}")
        contestants[name] = make()
        contestants[name].step()
        peak = peak_of(contestants[name].step, device)
        measured[name] = Measured(name, dtype, peak_bytes=peak, attended=attended)
    if device.type == "cpu":
        keep_freed_memory()  # as fit does, and for all alike; from here on nothing can be told of memory
    products = []
    for turn in range(turns):
        say(f"{dtype}, turn {turn + 1} of {turns}")
        products.append(machine_rate(work, device, dtype))
        for name, contestant in contestants.items():
            done: list[Step] = []
            # padded batches are smaller, and differ: all train on as many tokens in a turn
            while sum(step.tokens for step in done) < steps * work.tokens:
                done.append(contestant.step())
            measured[name].rates.append(sum(s.tokens for s in done) / sum(s.total for s in done))
            for step in done:
                for part, seconds in step.watch.read().items():
                    measured[name].parts.setdefault(part, []).append(seconds)
    return list(measured.values()), statistics.median(products)


def compare_loops(
    work: Workload,
    store: Path,
    device: torch.device,
    dtypes: list[str],
    turns: int,
    steps: int,
    say: Callable[[str], None],
) -> tuple[list[Measured], dict[str, float]]:
    """The same in the training loops that people use, and the FLOP/s of plain products in between, by type.

    Every turn starts anew, in a process of its own.
    """
    found: list[Measured] = []
    rates: dict[str, float] = {}
    for dtype in dtypes:
        half = dtype == "bf16"
        rows: dict[str, Measured] = {}
        products = []
        for turn in range(turns):
            say(f"loops in {dtype}, turn {turn + 1} of {turns}")
            products.append(machine_rate(work, device, dtype))
            for name, way in _ways(replace(work, seed=work.seed + turn), store, device, half, steps).items():
                done = in_own_process(way)
                attended = DENSE if "dense" in name else work.attended()
                row = rows.setdefault(name, Measured(name, dtype, attended=attended))
                row.rates.append(done.tokens / done.seconds)
                if done.waiting is not None:
                    row.waits.append(done.waiting / done.seconds)
        found += rows.values()
        rates[dtype] = statistics.median(products)
    return found, rates


def in_own_process(action: Callable[[], Found]) -> Found:
    """What an action returns in a fresh process, which leaves no memory behind."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(action).result()


def _ways(
    work: Workload, store: Path, device: torch.device, half: bool, steps: int
) -> dict[str, Callable[[], Turn]]:
    return {
        "ours in Lightning": partial(lightning_steps, work, store, device, half, False, steps),
        "ours in Lightning, compiled": partial(lightning_steps, work, store, device, half, True, steps),
        "padded in Trainer": partial(trainer_steps, work, work.padded, device, half, steps),
        "dense in Trainer": partial(trainer_steps, work, work.dense, device, half, steps),
    }


def peak_of(action: Callable[[], object], device: torch.device) -> int:
    """Bytes that an action takes at its peak besides what is there before; 0 where that is not known."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        action()
        return int(torch.cuda.max_memory_allocated(device)) - before
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not status.is_file() or not reset.exists():
        action()
        return 0
    try:
        reset.write_text("5")  # Linux: the peak begins anew
    except OSError:
        action()
        return 0
    before = _status(status, "VmRSS")
    action()
    return max(_status(status, "VmHWM") - before, 0)


def _status(file: Path, name: str) -> int:
    lines = [line.split() for line in file.read_text().splitlines()]
    return next(int(words[1]) for words in lines if words[0] == f"{name}:") * 1024


def data_rates(work: Workload, tokens: int = 20_000_000) -> dict[str, float]:
    """Tokens a second of the planner alone, and of planner and packing, on one core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    documents = work.documents()
    special = np.zeros(work.vocabulary, dtype=bool)
    special[:SPECIAL] = True
    rates: dict[str, float] = {}
    for name, packs in (("planner", False), ("planner and packing", True)):
        done, begin = 0, time.perf_counter()
        for plans in work.planner(documents, tokens).global_batches(Planner.beginning()):
            for plan in plans:
                if packs:
                    pack(plan, {"en": documents}, special)
            done += work.tokens
        rates[name] = done / (time.perf_counter() - begin)
    torch.set_num_threads(threads)
    return rates


def utilisation(measured: Measured, work: Workload, rates: Mapping[str, float]) -> float:
    """Share of the machine's rate of matrix products that goes into the encoder (MFU)."""
    flops = flops_per_token(work.encoder, measured.attended, work.masking_ratio)
    return measured.rate * flops / rates[measured.dtype]


def machine_rate(work: Workload, device: torch.device, dtype: str) -> float:
    """FLOP/s of matrix products at the encoder's shapes."""
    masked = round(work.masking_ratio * work.tokens)
    return product_rate(work.encoder, work.tokens, masked, TYPES[dtype], device)


def facts_of(device: torch.device) -> dict[str, Any]:
    """What was measured on."""
    import platform

    name = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else platform.processor() or platform.machine()
    )
    return {
        "device": device.type,
        "name": name,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
