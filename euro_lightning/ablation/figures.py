"""The report's figures: settings with their intervals, curves, effects by source, a search."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from euro_lightning.ablation.evidence import Evidence, Objective
from euro_lightning.ablation.statistics import Difference, Mean
from euro_lightning.files import atomic_path

BLUE, GREY, RED = "#2b6cb0", "#8a949e", "#c53030"


@contextlib.contextmanager
def _drawn(path: Path, width: float, height: float, columns: int = 1) -> Iterator[Any]:
    """Yields the axes of a figure that is written when the block ends."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, columns, figsize=(width, height), dpi=150, layout="constrained")
    for one in np.atleast_1d(axes):
        one.spines[["top", "right"]].set_visible(False)
    try:
        yield axes
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format="png")
    finally:
        pyplot.close(figure)


def _name_rows(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [name if len(name) <= 32 else f"{name[:31]}…" for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)


def draw_settings(
    path: Path,
    objective: Objective,
    values: Mapping[str, Mapping[int, float]],
    means: Mapping[str, Mean],
    differences: Mapping[str, Difference],
) -> None:
    """Every setting's seeds and mean on the left, its difference to the control on the right."""
    with _drawn(path, 9, 1.4 + 0.42 * len(values), 2) as (left, right):
        for row, (name, own) in enumerate(values.items()):
            left.plot(list(own.values()), [row] * len(own), "o", color=GREY, markersize=4, zorder=1)
            mean = means[name]
            left.errorbar(mean.value, row, xerr=np.nan_to_num(mean.half_width), fmt="D", color="black",
                          capsize=4, markersize=6)  # fmt: skip
            if name in differences:
                found = differences[name]
                sign = -1 if objective.minimize else 1
                color = GREY if not found.real else BLUE if found.mean.value > 0 else RED
                right.plot([sign * gain for gain in found.gains], [row] * len(found.gains), "o", color=GREY,
                           markersize=4, zorder=1)  # fmt: skip
                right.errorbar(sign * found.mean.value, row, xerr=np.nan_to_num(found.mean.half_width), fmt="D",
                               color=color, capsize=4, markersize=6)  # fmt: skip
        right.axvline(0, color="black", linewidth=0.8)
        _name_rows(left, list(values))
        _name_rows(right, list(values))
        right.tick_params(labelleft=False)
        left.set_xlabel(objective.metric, fontsize=9)
        right.set_xlabel(
            f"difference to the control ({'less' if objective.minimize else 'more'} is better)", fontsize=9
        )


def draw_curves(path: Path, evidence: Evidence) -> None:
    """Validation loss against tokens: a thick line for a setting's mean, a thin one for each seed."""
    with _drawn(path, 7.5, 4) as axes:
        for number, setting in enumerate(evidence.settings):
            color = f"C{number % 10}"
            curves = [dict(point.curve) for point in evidence.of(setting) if point.curve]
            for curve in curves:
                axes.plot(list(curve), list(curve.values()), color=color, linewidth=0.7, alpha=0.5)
            shared = sorted(set.intersection(*map(set, curves))) if curves else []
            means = [np.mean([curve[tokens] for curve in curves]) for tokens in shared]
            axes.plot(shared, means, color=color, linewidth=2, marker="o", markersize=3, label=setting)
        axes.set_xlabel("tokens")
        axes.set_ylabel("validation loss during training")
        axes.xaxis.set_major_formatter(lambda value, _: _short(value))
        axes.legend(fontsize=8, frameon=False)


def _short(value: float) -> str:
    for size, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{name}"
    return f"{value:g}"


def draw_sources(
    path: Path, sources: Sequence[str], effects: Mapping[str, Mapping[str, Difference]], minimize: bool
) -> None:
    """A heat map of the differences to the control: a row for each setting, a column for each source."""
    sign = -1 if minimize else 1
    gains = np.array(
        [[own[s].mean.value if s in own else np.nan for s in sources] for own in effects.values()]
    )
    largest = float(np.nanmax(np.abs(gains))) or 1.0
    with _drawn(path, 2.2 + 0.56 * len(sources), 1.5 + 0.42 * len(effects)) as axes:
        image = axes.imshow(gains, cmap="RdBu", vmin=-largest, vmax=largest, aspect="auto")
        for row, own in enumerate(effects.values()):
            for column, source in enumerate(sources):
                if source in own:
                    found = own[source]
                    dark = abs(found.mean.value) > 0.6 * largest
                    axes.text(column, row, f"{sign * found.mean.value:+.2f}{'*' if found.real else ''}",
                              ha="center", va="center", fontsize=7, color="white" if dark else "black")  # fmt: skip
        axes.set_xticks(range(len(sources)), sources, fontsize=8)
        _name_rows(axes, list(effects))
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        bar = axes.figure.colorbar(image, ax=axes, shrink=0.9, label="gain (blue is better)")
        bar.outline.set_visible(False)


def draw_search(path: Path, evidence: Evidence) -> None:
    """The main objective against each parameter that was searched."""
    objective = evidence.objectives[0]
    points = [p for p in evidence.complete if objective.metric in p.metrics]
    names = list(dict.fromkeys(name for point in points for name in point.values))
    with _drawn(path, 4 * len(names), 3.6, len(names)) as axes:
        values = [point.metrics[objective.metric] for point in points]
        for one, name in zip(np.atleast_1d(axes), names, strict=True):
            places = [point.values.get(name) for point in points]
            numeric = all(isinstance(place, int | float) for place in places)
            shown = one.scatter(
                places if numeric else [str(place) for place in places],
                values,
                c=[point.number for point in points],
                cmap="viridis",
                s=24,
            )
            one.set_xlabel(name)
            if name in evidence.log_scaled:
                one.set_xscale("log")
        first = np.atleast_1d(axes)[0]
        first.set_ylabel(objective.metric, fontsize=9)
        first.figure.colorbar(shown, ax=np.atleast_1d(axes).tolist(), label="trial")
