"""The last step of every token store: tokenizer, counts, and the manifest with all checksums."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from euro_lightning.data.documents import SPLITS
from euro_lightning.data.store import COUNTS, MANIFEST, TOKENIZER, VERSION
from euro_lightning.data.tokenizer import Tokenizer
from euro_lightning.files import hash_file, write_json


def finish_store(
    folder: Path,
    tokenizer: Tokenizer,
    counts: Mapping[str, Any],
    sources: Mapping[str, Any],
    origin: Mapping[str, Any],
    known: Mapping[str, str] | None = None,
) -> None:
    """Turns a folder of data sets into a store.

    Args:
        folder: holds SPLIT/SOURCE/ data sets.
        tokenizer: what they are tokenised with.
        counts: how often each token occurs in the training split, int64 [vocabulary] by source.
        sources: kind and counts of each source.
        origin: what the store was made from.
        known: checksums that need not be computed again, by path in the store.
    """
    from safetensors.numpy import save_file

    tokenizer.save(folder / TOKENIZER)
    save_file(dict(counts), folder / COUNTS)
    files = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            name = file.relative_to(folder).as_posix()
            checksum = (known or {}).get(name) or hash_file(file)
            files[name] = {"bytes": file.stat().st_size, "sha256": checksum}
    manifest = {
        "version": VERSION,
        **origin,
        "tokenizer_hash": tokenizer.content_hash,
        "vocabulary": tokenizer.vocabulary,
        "parallel_separator": tokenizer.parallel_sep,
        "splits": list(SPLITS),
        "sources": dict(sources),
        "files": files,
    }
    write_json(folder / MANIFEST, manifest)
