"""The mixture of an experiment as a table: tokens and epochs of each source, phase by phase."""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from euro_lightning.cli import build, quiet, read_settings, show_help
from euro_lightning.data.datamodule import TextDataModule
from euro_lightning.data.mixture import Share, normalise
from euro_lightning.data.store import TokenStore
from euro_lightning.errors import ConfigError
from euro_lightning.files import atomic_path

MOST_EPOCHS = 4
"""Repeating text up to four times is nearly as good as new text (Muennighoff et al.: Scaling
data-constrained language models, 2023)."""


@dataclass(frozen=True)
class Row:
    """A source in a phase."""

    phase: str
    source: str
    share: float
    tokens: int
    """Tokens that the phase takes of it."""
    available: int
    """Tokens of its training split, of the quality asked for."""
    quality: tuple[int, ...]

    @property
    def epochs(self) -> float:
        return self.tokens / self.available if self.available else float("inf")


def available_tokens(store: TokenStore, source: str, share: Share) -> int:
    """Training tokens of a source, of the quality buckets that a share draws from."""
    if not share.quality:
        return store.training_tokens[source]
    documents = store.documents(source, "train")
    chosen = np.flatnonzero(np.isin(documents.quality, share.quality))
    return int(documents.lengths(chosen).sum()) if len(chosen) else 0


def mixture_rows(data: TextDataModule) -> list[Row]:
    """All sources of all phases, once the data module is set up."""
    total = {name: tokens for name, _, _, tokens in data.timeline}
    return [
        Row(
            phase=name,
            source=source,
            share=share.share,
            tokens=round(share.share * total[name]),
            available=available_tokens(data.store, source, share),
            quality=share.quality,
        )
        for name, phase in data.timeline.phases.items()
        for source, share in normalise(phase.mixture).items()
    ]


def mixture(words: list[str]) -> None:
    """Prints the table; --figure FILE draws it."""
    quiet()
    if any(word in ("-h", "--help") for word in words):
        print("usage: python -m euro_lightning mixture -c FILE [--figure FILE.png] [--key value]...\n")
        show_help()
        return
    words, figure = _figure(words)
    tree, _ = read_settings("fit", words)
    data = build(tree).datamodule
    data.prepare_data()
    data.setup("mixture")
    rows = mixture_rows(data)
    _print(rows)
    for row in rows:
        if row.epochs > MOST_EPOCHS:
            print(
                f"warning: data.phases.{row.phase}.mixture.{row.source} is read {row.epochs:.1f} times;"
                f" above {MOST_EPOCHS} repetition begins to cost",
                file=sys.stderr,
            )
    if figure is not None:
        draw(rows, figure)
        print(f"figure {figure}")


def _figure(words: list[str]) -> tuple[list[str], Path | None]:
    if "--figure" not in words:
        return words, None
    place = words.index("--figure")
    if place + 1 == len(words) or words[place + 1].startswith("-"):
        raise ConfigError("--figure needs a file to draw to, such as mixture.png")
    path = Path(words[place + 1])
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"--figure {path}: the name must end in .png, .svg or .pdf")
    return words[:place] + words[place + 2 :], path


def _print(rows: list[Row]) -> None:
    table = Table()
    for heading in ("phase", "source", "share", "tokens", "available", "epochs", "quality"):
        table.add_column(heading, justify="left" if heading in ("phase", "source") else "right")
    before = ""
    for row in rows:
        if before and row.phase != before:
            table.add_section()
        table.add_row(
            row.phase if row.phase != before else "", row.source, f"{row.share:.2%}", f"{row.tokens:,}",
            f"{row.available:,}", f"{row.epochs:.2f}", ", ".join(map(str, row.quality)) or "all",
        )  # fmt: skip
        before = row.phase
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def draw(rows: list[Row], path: Path) -> None:
    """Bars of the shares, one group of bars for each source, one colour for each phase."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    phases = list(dict.fromkeys(row.phase for row in rows))
    sources = list(dict.fromkeys(row.source for row in rows))
    shares = {(row.phase, row.source): row for row in rows}
    figure, axes = pyplot.subplots(
        figsize=(7, 0.6 + 0.24 * len(sources) * max(1.0, 0.7 * len(phases))), dpi=130
    )
    height = 0.8 / len(phases)
    for number, phase in enumerate(phases):
        own = [shares.get((phase, source)) for source in sources]
        places = [place + number * height for place in range(len(sources))]
        axes.barh(places, [100 * row.share if row else 0.0 for row in own], height, label=phase)
        for place, row in zip(places, own, strict=True):
            if row is not None:
                axes.text(100 * row.share, place, f" {row.epochs:.2g} epochs", va="center", fontsize=6)
    axes.set_yticks([place + 0.4 - height / 2 for place in range(len(sources))], sources, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("share of the phase's tokens, %")
    axes.margins(x=0.12)
    axes.legend(fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:])
    pyplot.close(figure)
