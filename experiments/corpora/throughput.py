"""Preparing a corpus against tokenising it with datasets.map: the same tokenizer, files and processes.

    python experiments/corpora/throughput.py --processes 2 'corpus/text_*.parquet'

Both read the same parquet files, tokenise whole documents with an end-of-text token and write Arrow
files; ours also assigns splits, counts tokens and computes checksums. They take turns; medians count.
"""

import argparse
import glob
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from euro_lightning.corpora.building import build, recipe_from
from euro_lightning.data.tokenizer import Tokenizer, TokenizerConfig, load_tokenizer, train_tokenizer


def ours(files: list[str], tokenizer: Path, processes: int, folder: Path) -> None:
    """prepare, with nothing filtered."""
    sources = {Path(file).stem: {"path": file, "lang": "en"} for file in files}
    tree = {
        "store": str(folder / "store"), "sources": sources, "tokenizer": {"path": str(tokenizer)}, "workers": processes,
    }  # fmt: skip
    build(recipe_from(tree))


class Encode:
    """What datasets.map calls: texts to tokens, with the same library call as ours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.loaded: Tokenizer | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "loaded": None}

    def __call__(self, batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        self.loaded = self.loaded or load_tokenizer(self.path)
        end = [self.loaded.eos]
        return {"tokens": [ids + end for ids in self.loaded.encode_batch(batch["text"])]}


def theirs(files: list[str], tokenizer: Path, processes: int, folder: Path) -> None:
    """datasets.map in batches, without its cache."""
    import datasets

    datasets.disable_progress_bars()
    loaded = datasets.load_dataset(
        "parquet", data_files=files, split="train", cache_dir=str(folder / "cache")
    )
    tokenised = loaded.map(
        Encode(tokenizer),
        batched=True,
        batch_size=512,
        num_proc=processes,
        remove_columns=loaded.column_names,
    )
    tokenised.save_to_disk(str(folder / "data"))


def main() -> None:
    """Prints seconds, MB/s and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--vocabulary", type=int, default=32_768)
    given = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import pyarrow.parquet as parquet

    files = sorted(glob.glob(given.files))
    texts = [
        text for file in files for text in parquet.read_table(file, columns=["text"])["text"].to_pylist()
    ]
    size = sum(len(text.encode()) for text in texts)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        config = TokenizerConfig(vocabulary=given.vocabulary)
        train_tokenizer([text[:1000] for text in texts], config).save(root / "tokenizer.json")
        times: dict[str, list[float]] = {"prepare": [], "datasets.map": []}
        for _ in range(given.turns):
            for name, way in (("prepare", ours), ("datasets.map", theirs)):
                folder = root / name
                folder.mkdir()
                begin = time.perf_counter()
                way(files, root / "tokenizer.json", given.processes, folder)
                times[name].append(time.perf_counter() - begin)
                shutil.rmtree(folder)
    for name, seconds in times.items():
        median = statistics.median(seconds)
        spread = f"({min(seconds):.1f} to {max(seconds):.1f} s)"
        print(f"{name:>12}  {median:6.1f} s  {size / median / 1e6:5.1f} MB/s  {spread}")
    ratio = statistics.median(times["datasets.map"]) / statistics.median(times["prepare"])
    print(f"prepare has {ratio:.2f} times the throughput of datasets.map")


if __name__ == "__main__":
    main()
