"""Checkpoints on disk: which there are, what they hold, and their weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from euro_lightning.errors import UserError

PREFIX = "tokens-"


def checkpoint_tokens(path: Path) -> int:
    """The token clock in a checkpoint's name."""
    return int(path.stem.removeprefix(PREFIX))


def list_checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    found = (path for path in folder.glob(f"{PREFIX}*.ckpt") if path.stem.removeprefix(PREFIX).isdigit())
    return sorted(found, key=checkpoint_tokens)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint's content, memory-mapped, without running code from it.

    Raises:
        UserError: not a checkpoint, damaged, or holding more than data.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        reason = str(error).splitlines()[0][:200]
        raise UserError(f"{path} cannot be read as a checkpoint ({reason}); use an earlier one") from None
    if not isinstance(content, dict) or "euro_lightning" not in content:
        raise UserError(f"{path} is not a checkpoint of this program")
    return content


def network_weights(content: Mapping[str, Any]) -> dict[str, Tensor]:
    """The network's state dict in a checkpoint's content, whether it was compiled or not."""
    prefix = "network."
    return {
        key.removeprefix(prefix).replace("_orig_mod.", ""): value
        for key, value in content["state_dict"].items()
        if key.startswith(prefix)
    }


def read_facts(path: Path) -> dict[str, Any]:
    """What a checkpoint remembers besides weights: recipe, tokenizer hash, encoder, tokens."""
    facts: dict[str, Any] = load_checkpoint(path)["euro_lightning"]
    return facts


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run."""
    return (folder / "run.json").is_file()


def find_weights(origin: str, option: str) -> Path:
    """The checkpoint that a user means: a file, or the last one of a run folder.

    Raises:
        UserError: there is none.
    """
    path = Path(origin)
    if path.is_dir():
        checkpoints = list_checkpoints(path / "checkpoints") or list_checkpoints(path)
        if not checkpoints:
            raise UserError(f"{option} {origin}: the folder has no checkpoint")
        return checkpoints[-1]
    if not path.is_file():
        raise UserError(f"{option} {origin}: no such checkpoint, run folder or directory")
    return path


def check_shapes(network: torch.nn.Module, weights: Mapping[str, Tensor], where: str) -> None:
    """Refuses weights of another encoder in one line.

    Raises:
        UserError: names the first tensor that is missing, unexpected or of another shape.
    """
    own = network.state_dict()
    differing = [k for k in own.keys() & weights.keys() if own[k].shape != weights[k].shape]
    if differing:
        key = min(differing)
        was, wanted = tuple(weights[key].shape), tuple(own[key].shape)
        raise UserError(
            f"{where}: weights of another encoder: {key} has shape {was}, this encoder needs {wanted}"
        )
    strange = sorted(own.keys() ^ weights.keys())
    if strange:
        raise UserError(
            f"{where}: weights of another encoder: {strange[0]} is on one side only ({len(strange)} such tensors)"
        )
