"""Encoders side by side: shapes, parameters, FLOPs, bytes; no weight is allocated."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from euro_lightning.arguments import parse
from euro_lightning.encoder.config import PRESETS, EncoderConfig, encoder_config
from euro_lightning.encoder.cost import flops_per_token, parameter_count
from euro_lightning.errors import ConfigError, UserError, nearest


@dataclass(frozen=True)
class Shape:
    """What the table shows of an encoder."""

    name: str
    layers: int
    width: int
    heads: str
    feed_forward: int
    vocabulary: int | None
    vocabulary_parameters: int
    core_parameters: int
    """All others."""
    flops: float
    """Of training, for each token."""

    @property
    def parameters(self) -> int:
        return self.vocabulary_parameters + self.core_parameters


@dataclass(frozen=True)
class Published:
    """The shape of a published encoder of the BERT kind: plain MLP, biases everywhere, tied output."""

    layers: int
    width: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    """Rows of the position embedding; 0 has rotary positions instead."""


REFERENCES = {
    "roberta-large": Published(24, 1024, 16, 4096, 50_265, 514),
    "xlm-roberta-large": Published(24, 1024, 16, 4096, 250_002, 514),
    "xlm-roberta-large-rope": Published(24, 1024, 16, 4096, 250_002, 0),
}
"""RoBERTa (Liu et al. 2019), XLM-R (Conneau et al. 2020), and XLM-R with rotary positions as jina-embeddings-v3
has it (Sturua et al. 2024), without the last one's adapters and all with their head."""


def shape_of_reference(name: str, length: float, masked_share: float) -> Shape:
    """Counts of a published encoder, with its head for masked language modelling, tied."""
    given = REFERENCES[name]
    width, inner = given.width, given.feed_forward
    block = 4 * (width * width + width) + 2 * width * inner + inner + width + 2 * 2 * width
    transform = width * width + width + 2 * width
    embedding_rest = (given.positions + 1) * width + 2 * width  # positions, one token type, the norm
    vocabulary = given.vocabulary * (width + 1)
    core = given.layers * block + transform + embedding_rest
    head = masked_share * (given.vocabulary * width + transform)
    flops = 6 * (given.layers * block + head) + 12 * given.layers * width * length
    return Shape(
        name, given.layers, width, str(given.heads), inner, given.vocabulary, vocabulary, core, flops
    )


def shape_of(name: str, length: float, masked_share: float) -> Shape:
    """Counts of an encoder by its name.

    Args:
        name: a preset, one of `REFERENCES`, a run folder, a checkpoint, or a Hugging Face directory.
        length: tokens of a segment.
        masked_share: share of the tokens that are predicted.

    Raises:
        UserError: there is no such encoder.
    """
    if name in REFERENCES:
        return shape_of_reference(name, length, masked_share)
    if name in PRESETS:
        config = PRESETS[name]
    elif Path(name).exists():
        config = _config_at(Path(name))
    else:
        known = [*PRESETS, *REFERENCES]
        raise ConfigError(
            f"inspect {name}: no such preset, file or folder{nearest(name, known)}; known are {', '.join(known)}"
        )
    count = parameter_count(config)
    heads = str(config.heads)
    if config.key_value_heads != config.heads:
        heads += f"/{config.key_value_heads}"
    return Shape(
        name, config.layers, config.width, heads, config.feed_forward, config.vocabulary,
        count.vocabulary, count.core, flops_per_token(config, length, masked_share),
    )  # fmt: skip


def _config_at(path: Path) -> EncoderConfig:
    """The configuration of a directory of transformers, or of a run or checkpoint."""
    from euro_lightning.checkpoint import find_weights, is_run, read_facts
    from euro_lightning.encoder.directory import CONFIG, read_config
    from euro_lightning.encoder.families import from_huggingface_config

    if (path / CONFIG).is_file() and not is_run(path):
        return from_huggingface_config(read_config(path), str(path / CONFIG))[0]
    facts = read_facts(find_weights(str(path), "inspect"))
    if "encoder" not in facts:
        raise UserError(f"inspect {path}: a baseline has no shape of ours")
    return encoder_config(facts["encoder"], f"{path}: encoder")


@dataclass(frozen=True)
class InspectOptions:
    """Shows encoders side by side without allocating a weight."""

    encoders: tuple[str, ...] = ()
    """Presets, run folders, checkpoints, Hugging Face directories; by default all presets, and
    roberta-large, xlm-roberta-large and xlm-roberta-large-rope for comparison."""

    length: int = 1024
    """Tokens of a segment, for the FLOPs of attention."""

    masked: float = 0.3
    """Share of the tokens that are predicted, for the FLOPs of the head."""

    against: str | None = None
    """The encoder that cores are compared with; by default xlm-roberta-large-rope."""


def inspect(words: list[str]) -> None:
    """Prints the table."""
    options = parse(InspectOptions, "inspect", words, ("encoders",))
    if options is None:
        return
    if options.length < 1 or not 0 < options.masked <= 1:
        raise ConfigError("inspect: --length must be at least 1, and --masked lie above 0 and not above 1")
    names = options.encoders or (*PRESETS, *REFERENCES)
    shapes = [shape_of(name, options.length, options.masked) for name in names]
    against = shape_of(options.against or "xlm-roberta-large-rope", options.length, options.masked)
    print_table(shapes, against, options)


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:.3g} {unit}"


def print_table(shapes: Sequence[Shape], against: Shape, options: InspectOptions) -> None:
    """One row for each encoder."""
    table = Table(show_lines=False, pad_edge=False)
    table.add_column("encoder", overflow="fold", min_width=10)
    headings = (
        "layers", "width", "heads", "MLP", "vocabulary", "parameters", "in\nvocabulary", "share", "in core",
        "core\nagainst", f"MFLOP/token\nat {options.length:,}", "weights", "optimizer",
    )  # fmt: skip
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for shape in shapes:
        known = shape.vocabulary is not None
        table.add_row(
            shape.name, str(shape.layers), f"{shape.width:,}", shape.heads, f"{shape.feed_forward:,}",
            f"{shape.vocabulary:,}" if known else "tokenizer's",
            f"{shape.parameters:,}" if known else "–",
            f"{shape.vocabulary_parameters:,}" if known else "–",
            f"{shape.vocabulary_parameters / shape.parameters:.1%}" if known else "–",
            f"{shape.core_parameters:,}",
            f"{shape.core_parameters / against.core_parameters - 1:+,.1%}",
            f"{shape.flops / 1e6:,.0f}", _bytes(4 * shape.parameters), _bytes(8 * shape.parameters),
        )  # fmt: skip
    # a narrow terminal breaks lines, which is better than losing digits
    console = Console(width=max(170, shutil.get_terminal_size().columns))
    console.print(table)
    console.print(
        f"Core against that of {against.name}. MFLOP: forward and backward, {options.masked:.0%} of the tokens"
        " predicted. Bytes: float32, and AdamW's two moments. The vocabulary has the embedding, an output matrix"
        " unless it is the embedding, and its bias.",
        style="dim",
    )
