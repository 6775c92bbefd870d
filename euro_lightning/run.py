"""The folder of a run: its configuration, the state of the code, its checkpoints."""

import contextlib
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from euro_lightning.checkpoint import checkpoint_tokens, list_checkpoints
from euro_lightning.errors import ConfigError, UserError
from euro_lightning.files import locked, read_json, write_json, write_text


@dataclass(frozen=True)
class Run:
    """Where a run lives and what it continues from."""

    path: Path
    checkpoint: Path | None = None
    """The checkpoint to continue from; None starts at the first token."""

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def identity(self) -> str:
        """A name for this run that no other run in the world has."""
        return str(read_json(self.path / "run.json")["id"])


def _numbered(root: Path, name: str) -> list[Path]:
    """The runs of a name, oldest first: name, name-2, name-3, …"""
    pattern = re.compile(re.escape(name) + r"(?:-(\d+))?")
    found = []
    for path in root.glob(f"{name}*"):
        match = pattern.fullmatch(path.name)
        if match and path.is_dir():
            found.append((int(match[1] or 1), path))
    return [path for _, path in sorted(found)]


def find_run(root: Path, name: str, resume: str | None, option: str = "--resume") -> Run:
    """The run that a command means.

    Args:
        root: folder of all runs.
        name: name of the run.
        resume: None for a new run; "last" for the newest run of that name (or a new one when
            there is none yet, so that a job can always be started with the same command); or
            the path of a run folder or of a checkpoint in one.
        option: the option that `resume` came from, for messages.

    Raises:
        UserError: the path is neither.
    """
    if not re.fullmatch(r"[\w][\w.\-]*", name):
        raise ConfigError(f"name {name!r}: use letters, digits, dots, dashes and underscores only")
    existing = _numbered(root, name)
    if resume is None or (resume == "last" and not existing):
        number = int(existing[-1].name.removeprefix(name).lstrip("-") or 1) + 1 if existing else 1
        return Run(root / (name if number == 1 else f"{name}-{number}"))
    if resume == "last":
        return _with_last(existing[-1])
    path = Path(resume)
    if path.is_dir() and (path / "run.json").is_file():
        return _with_last(path)
    if path.is_file() and (path.parent.parent / "run.json").is_file():
        return Run(path.parent.parent, path)
    if not path.exists():
        raise UserError(f"{option} {resume}: no such run or checkpoint (runs of {root}: {_names(root)})")
    raise UserError(f"{option} {resume} is not in a run folder; --init_from takes weights from anywhere")


def _with_last(path: Path) -> Run:
    checkpoints = list_checkpoints(path / "checkpoints")
    return Run(path, checkpoints[-1] if checkpoints else None)


def _names(root: Path) -> str:
    return ", ".join(sorted(p.parent.name for p in root.glob("*/run.json"))[:8]) or "none"


def open_run(run: Run, config: Mapping[str, Any], stack: contextlib.ExitStack) -> dict[str, Any]:
    """Creates or reopens the folder on the first rank and holds its lock until the stack closes.

    Returns:
        The state of the code, see `code_state`.

    Raises:
        UserError: another process is writing to this run.
    """
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    if not stack.enter_context(locked(run.path / ".lock", wait=False)):
        raise UserError(f"another process is writing to {run.path}; wait for it or choose another --name")
    for leftover in run.checkpoints.glob(".*.tmp"):
        leftover.unlink()
    if not (run.path / "run.json").is_file():
        write_json(run.path / "run.json", {"id": uuid.uuid4().hex})
    if run.checkpoint is not None:
        for later in list_checkpoints(run.checkpoints):
            if checkpoint_tokens(later) > checkpoint_tokens(run.checkpoint):
                later.rename(later.with_suffix(".abandoned"))
    write_text(run.path / "config.yaml", yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True))
    code = code_state()
    write_json(run.path / "code.json", code)
    return code


def code_state() -> dict[str, Any]:
    """Commit and cleanliness of the working tree, and the versions that numbers depend on."""
    import importlib.metadata

    packages = ("euro_lightning", "torch", "lightning", "tokenizers", "pyarrow", "numpy")
    return {
        "commit": _git("rev-parse", "HEAD"),
        "changed_files": (_git("status", "--porcelain") or "").splitlines(),
        "python": sys.version.split()[0],
        **{name: importlib.metadata.version(name) for name in packages},
    }


def _git(*arguments: str) -> str | None:
    folder = Path(__file__).parent
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", str(folder), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return result.stdout.strip()
    return None


def rank_of_environment() -> int:
    """This process's global rank as far as the launcher says, before torch.distributed starts."""
    for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0
