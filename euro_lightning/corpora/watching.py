"""A progress bar for whoever waits: documents, megabytes of text a second, tokens, time left."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from euro_lightning.corpora.progress import Amounts, add_up
from euro_lightning.corpora.work import Work

_LINE_EVERY = 10.0
"""Seconds between two lines where there is no terminal to draw a bar on."""


class _Left(ProgressColumn):
    """Time left, from the share that this start has done."""

    def render(self, task: Task) -> Text:
        return Text(str(task.fields["left"]), style="cyan")


def _told(amounts: Amounts, rate: float) -> str:
    parts = [f"{amounts.documents:,} documents"] if amounts.documents else []
    if rate:
        parts.append(f"{rate / 1e6:.1f} MB/s")
    if amounts.tokens:
        parts.append(f"{amounts.tokens:,} tokens")
    return ", ".join(parts)


def _left(share: float, first: float, seconds: float) -> str:
    if share <= first or seconds < 1 or share >= 1:
        return ""
    left = round((1 - share) / (share - first) * seconds)
    return f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d} left"


@contextmanager
def watched(work: Work, stage: str, tasks: int) -> Iterator[None]:
    """Shows how far a stage is while the block runs."""
    console = Console(file=sys.stderr)
    weights = [shard.size for shard in work.shards] if tasks == len(work.shards) else [1] * tasks
    stop = threading.Event()
    columns = (
        TextColumn("{task.description:>10}"), BarColumn(30), TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[told]}"), TimeElapsedColumn(), _Left(),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(stage, total=1.0, told="", left="")
        before, begin, told = add_up(work.path, stage, weights), time.monotonic(), time.monotonic()

        def show() -> None:
            seconds = time.monotonic() - begin
            amounts = add_up(work.path, stage, weights)
            rate = (amounts.bytes - before.bytes) / max(seconds, 1e-3)
            text, left = _told(amounts, rate), _left(amounts.share, before.share, seconds)
            bar.update(task, completed=amounts.share, told=text, left=left)
            nonlocal told
            if not console.is_terminal and time.monotonic() - told > _LINE_EVERY:
                told = time.monotonic()
                print(
                    f"{stage}: {amounts.share:.0%}, {text}{', ' if left else ''}{left}",
                    file=sys.stderr,
                    flush=True,
                )

        def watch() -> None:
            while not stop.wait(0.5):
                show()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
            stop.set()
            thread.join()
            show()
        finally:
            stop.set()
            thread.join()
