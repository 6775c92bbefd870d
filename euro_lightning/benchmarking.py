"""benchmark: what this machine can do, how close our step comes, and what the alternative does."""

import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console
from rich.table import Table

from euro_lightning.allocator import keep_freed_memory
from euro_lightning.arguments import parse
from euro_lightning.benchmark.growth import grid, local_block_seconds
from euro_lightning.benchmark.loops import write_store
from euro_lightning.benchmark.measuring import (
    TYPES,
    Measured,
    compare,
    compare_loops,
    data_rates,
    facts_of,
    utilisation,
)
from euro_lightning.benchmark.workload import Workload
from euro_lightning.data.prepare import report as say
from euro_lightning.encoder.config import PRESETS, EncoderConfig, encoder_config
from euro_lightning.errors import ConfigError, nearest
from euro_lightning.files import atomic_path, write_json

REFERENCE = EncoderConfig(8, 512, 8, 2, 1408)
"""A EuroBERT of 8 layers that a CPU trains in seconds a step."""


@dataclass(frozen=True)
class Options:
    """Measures in turns what this machine can do, our training step, and transformers' with the same optimizer."""

    encoder: str = "reference"
    """A preset, or reference: 8 layers of width 512."""

    lengths: str = "natural"
    """Lengths of the documents: natural (exp(N(5, 0.8)), 16 to 1,024 tokens), or one number."""

    masking_ratio: float = 0.5
    """Share of the tokens that is hidden."""

    vocabulary: int = 32_768
    """Rows of the embedding."""

    tokens: int = 8192
    """Tokens of a step of ours and of dense chunks; padded batches have 16 documents."""

    dtypes: str = "float32,bf16"
    """Types, with commas between them; bf16 is autocast."""

    turns: int = 3
    """Rounds over all contestants; medians of them are shown, and their spread."""

    steps: int = 2
    """Steps in a turn; padded batches are smaller, and as many of them as have the same tokens."""

    parts: Literal["all", "bare", "loops"] = "all"
    """What is measured: bare steps, steps in the training loops (ours in Lightning, theirs in Trainer), or both."""

    growth: bool = False
    """Measures instead how the time of a token grows with length, vocabulary and masking ratio."""

    device: str = "auto"
    """cpu, cuda (also ROCm), or auto."""

    output: str = "benchmark"
    """Name of the files that are written, without ending: a table as JSON and a figure."""


def benchmark(words: Sequence[str]) -> None:
    """Measures, prints tables, writes JSON and a figure."""
    options = parse(Options, "benchmark", words, ())
    if options is None:
        return
    work, device, dtypes = _settings(options)
    result: dict[str, Any] = {"options": asdict(options), "machine": facts_of(device)}
    if options.growth:
        result |= _growth(work, device, dtypes[-1])
    else:
        result |= _comparison(options, work, device, dtypes)
    write_json(Path(f"{options.output}.json"), result)
    print(f"numbers {options.output}.json")
    if not options.growth:
        draw(result, Path(f"{options.output}.png"))
        print(f"figure {options.output}.png")


def _settings(options: Options) -> tuple[Workload, torch.device, list[str]]:
    dtypes = [name.strip() for name in options.dtypes.split(",")]
    for name in dtypes:
        if name not in TYPES:
            raise ConfigError(f"--dtypes {name}: choose from {', '.join(TYPES)}{nearest(name, TYPES)}")
    for name in ("tokens", "turns", "steps"):
        if getattr(options, name) < 1:
            raise ConfigError(f"--{name} is {getattr(options, name)}: it must be at least 1")
    if not 0 < options.masking_ratio < 1:
        raise ConfigError(f"--masking_ratio is {options.masking_ratio}: it lies between 0 and 1")
    if options.encoder != "reference" and options.encoder not in PRESETS:
        known = ["reference", *PRESETS]
        raise ConfigError(
            f"--encoder {options.encoder}: presets are {', '.join(known)}{nearest(options.encoder, known)}"
        )
    encoder = REFERENCE if options.encoder == "reference" else encoder_config(options.encoder)
    encoder = replace(encoder, vocabulary=options.vocabulary)
    name = options.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda") or (name == "cuda" and not torch.cuda.is_available()):
        raise ConfigError(
            f"--device {options.device}: this machine has cpu{', cuda' * torch.cuda.is_available()}"
        )
    work = Workload(encoder, options.lengths, options.masking_ratio, options.tokens)
    work.documents(10)  # tells of wrong lengths
    if work.longest > options.tokens:
        raise ConfigError(f"--tokens {options.tokens} is below the longest document ({work.longest})")
    return work, torch.device(name), dtypes


def _comparison(options: Options, work: Workload, device: torch.device, dtypes: list[str]) -> dict[str, Any]:
    data = data_rates(work)
    for name, rate in data.items():
        print(f"{name}: {rate / 1e6:.1f}M tokens/s on one core")
    rows: list[dict[str, Any]] = []
    products: dict[str, dict[str, float]] = {}

    def add(part: str, measured: list[Measured], rates: dict[str, float]) -> None:
        products[part] = rates
        found = [_row(m, work, rates) for m in measured]
        for name, rate in rates.items():
            print(f"{part}: matrix products in {name} at {rate / 1e9:,.0f} GFLOP/s at the encoder's shapes")
        _print_rates(found)
        rows.extend(found)

    if options.parts != "loops":
        add("bare", *compare(work, device, dtypes, options.turns, options.steps, say))
        _print_parts(rows)
    if options.parts != "bare":
        with tempfile.TemporaryDirectory() as folder:
            store = write_store(work, Path(folder))
            add("in loops", *compare_loops(work, store, device, dtypes, options.turns, options.steps, say))
    for row in rows:
        if row["waiting"] is not None:
            print(f"{row['name']}, {row['dtype']}: waits for data {row['waiting']:.2%} of the time")
    ratios = _ratios(rows)
    for line in ratios:
        print(line)
    return {"products": products, "data": data, "rows": rows, "ratios": ratios}


def _row(measured: Measured, work: Workload, rates: dict[str, float]) -> dict[str, Any]:
    return {
        "name": measured.name,
        "dtype": measured.dtype,
        "tokens_per_second": measured.rate,
        "least": min(measured.rates),
        "most": max(measured.rates),
        "utilisation": utilisation(measured, work, rates),
        "peak_bytes": measured.peak_bytes,
        "waiting": statistics.median(measured.waits) if measured.waits else None,
        "seconds": {name: statistics.median(found) for name, found in measured.parts.items()},
    }


def _print_rates(rows: list[dict[str, Any]]) -> None:
    table = Table()
    for heading in ("contestant", "type", "tokens/s", "spread", "MFU", "peak, MB"):
        table.add_column(heading, justify="left" if heading in ("contestant", "type") else "right")
    for row in rows:
        peak = f"{row['peak_bytes'] / 1e6:,.0f}" if row["peak_bytes"] else "–"
        table.add_row(
            row["name"], row["dtype"], f"{row['tokens_per_second']:,.0f}",
            f"{row['least']:,.0f} to {row['most']:,.0f}", f"{row['utilisation']:.0%}", peak,
        )  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def _print_parts(rows: list[dict[str, Any]]) -> None:
    names = ("data", "masking", "encoder", "head and loss", "backward", "optimizer")
    table = Table()
    for heading in ("share of the step", "type", *names):
        table.add_column(heading, justify="left" if heading in ("share of the step", "type") else "right")
    for row in rows:
        total = sum(row["seconds"].values())
        if total:
            cells = [f"{row['seconds'].get(name, 0.0) / total:.1%}" for name in names]
            table.add_row(row["name"], row["dtype"], *cells)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    print("transformers computes head and loss with its encoder")


def _ratios(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for kind, mine, others in (
        ("bare", "ours", ("transformers, padded", "transformers, dense")),
        ("in loops", "ours in Lightning", ("padded in Trainer", "dense in Trainer")),
    ):
        for dtype in dict.fromkeys(row["dtype"] for row in rows):
            own = [r["tokens_per_second"] for r in rows if r["name"].startswith(mine) and r["dtype"] == dtype
                   and ("Lightning" in r["name"]) == ("Lightning" in mine)]  # fmt: skip
            for other in others:
                rates = [r["tokens_per_second"] for r in rows if r["name"] == other and r["dtype"] == dtype]
                if own and rates:
                    lines.append(f"{kind}, {dtype}: {max(own) / rates[0]:.1f} times {other}")
    return lines


def _growth(work: Workload, device: torch.device, dtype: str) -> dict[str, Any]:
    half = dtype == "bf16"
    if device.type == "cpu":
        keep_freed_memory()  # as fit does
    local = local_block_seconds(work, device, half)
    rows = grid(work, device, half, say)
    table = Table(title=f"our eager step in {dtype}, tokens/s", title_justify="left")
    for heading in ("length", "vocabulary", "10% hidden", "30%", "50%"):
        table.add_column(heading, justify="right")
    for vocabulary in dict.fromkeys(row[1] for row in rows):
        for length in dict.fromkeys(row[0] for row in rows):
            rates = [f"{row[3]:,.0f}" for row in rows if row[:2] == (length, vocabulary)]
            table.add_row(f"{length:,}", f"{vocabulary:,}", *rates)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    first = next(iter(local.values()))
    for length, seconds in local.items():
        print(
            f"windowed block, segments of {length:,}: {seconds * 1e6:.2f} µs a token ({seconds / first:.2f})"
        )
    return {"growth": rows, "windowed_block_seconds": local}


def draw(result: dict[str, Any], path: Path) -> None:
    """Bars of tokens a second, with their spread."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    rows = result["rows"]
    dtypes = list(dict.fromkeys(row["dtype"] for row in rows))
    names = list(dict.fromkeys(row["name"] for row in rows))
    found = {(row["name"], row["dtype"]): row for row in rows}
    figure, axes = pyplot.subplots(figsize=(8, 0.8 + 0.5 * len(names)), dpi=130)
    height = 0.8 / len(dtypes)
    for number, dtype in enumerate(dtypes):
        own = [found[name, dtype] for name in names]
        places = [place + number * height for place in range(len(names))]
        rates = [row["tokens_per_second"] for row in own]
        spread = [[r - row["least"] for r, row in zip(rates, own, strict=True)],
                  [row["most"] - r for r, row in zip(rates, own, strict=True)]]  # fmt: skip
        axes.barh(places, rates, height, xerr=spread, label=dtype, error_kw={"elinewidth": 0.8})
        for place, row in zip(places, own, strict=True):
            text = f"  {row['tokens_per_second']:,.0f}"
            axes.text(row["most"], place, text, va="center", fontsize=7)
    axes.set_yticks([place + 0.4 - height / 2 for place in range(len(names))], names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("tokens a second; padding does not count")
    axes.margins(x=0.12)
    axes.legend(fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png")
    pyplot.close(figure)
