"""Sentence vectors of a text file, and the likeliest words for a mask."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from lightning.pytorch import Trainer
from rich.console import Console
from rich.table import Table

from euro_lightning.data.datamodule import TextDataModule
from euro_lightning.errors import DataError
from euro_lightning.files import atomic_path
from euro_lightning.objective.mlm import MaskedLanguageModel

MASK = "<mask>"
"""What stands for the mask token in a line of text."""


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that are not empty.

    Raises:
        DataError: not UTF-8, or no text at all.
    """
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start})") from None
    if not lines:
        raise DataError(f"{path} has no line with text")
    return lines


def predict_file(
    trainer: Trainer,
    model: MaskedLanguageModel,
    data: TextDataModule,
    checkpoint: Path,
    source: Path,
    output: Path | None,
) -> None:
    """Runs the encoder over the lines of a file.

    Args:
        trainer: one process.
        model: the module that the checkpoint belongs to.
        data: its data module.
        checkpoint: the weights.
        source: text, one item a line.
        output: parquet file for the columns text and vector (mean over the tokens, float32); None
            shows the likeliest words for each `<mask>` instead.
    """
    lines = read_lines(source)
    if output is None and not any(MASK in line for line in lines):
        raise DataError(f"{source} has no {MASK} to fill")
    data.texts = lines
    data.mask_literal = MASK if output is None else None
    batches: Any = trainer.predict(model, datamodule=data, ckpt_path=checkpoint, weights_only=True)
    if output is None:
        _show([row for batch in batches for row in batch], lines, data)
        return
    vectors = np.concatenate([batch.float().cpu().numpy() for batch in batches])
    width = vectors.shape[1]
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), width)
    with atomic_path(output) as temporary:
        pq.write_table(pa.table({"text": lines, "vector": column}), temporary)
    print(f"{len(lines):,} vectors of width {width} in {output}")


def _show(rows: list[tuple[int, list[tuple[int, float]]]], lines: list[str], data: TextDataModule) -> None:
    table = Table("line", "text", "likeliest words")
    for line, best in rows:
        words = "  ".join(f"{data.tokenizer.token_string(token)!r} {share:.1%}" for token, share in best)
        table.add_row(str(line + 1), lines[line], words)
    Console().print(table)
