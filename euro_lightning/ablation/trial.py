"""One trial: `fit` in processes of its own, in a folder that lets a person run it again."""

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from euro_lightning.callbacks.reports import ANSWER, TRIAL, Trial
from euro_lightning.errors import UserError
from euro_lightning.files import locked, write_json, write_text
from euro_lightning.settings import nested

GRACE = 10.0
"""Seconds that a trial has to end by itself when its driver stops or dies."""

GUARD = Path(__file__).with_name("guard.py")
"""Run as a file, so that it imports nothing of ours."""

OVERRIDES, LOG = "overrides.yaml", "log.txt"


@dataclass(frozen=True)
class Job:
    """A trial's folder and how its fit is started."""

    folder: Path
    base: Sequence[str]
    """Configuration files of the experiment."""
    tracking: Sequence[str]
    """Options that say where curves go."""
    launcher: str

    @property
    def arguments(self) -> list[str]:
        """Of fit."""
        files = [word for path in (*self.base, self.folder / OVERRIDES) for word in ("-c", str(path))]
        place = ["--root", str(self.folder.parent), "--name", self.folder.name, "--resume", "last"]
        return ["fit", *files, *place, *self.tracking]

    def command(self, worker: int) -> list[str]:
        """The launcher with its fields filled in."""
        fields = {"python": sys.executable, "worker": str(worker), "folder": str(self.folder)}
        words: list[str] = []
        for word in shlex.split(self.launcher):
            if word == "{arguments}":
                words += self.arguments
            else:
                words.append(word.format(**fields, arguments=shlex.join(self.arguments)))
        return words

    @property
    def by_hand(self) -> str:
        """The command that runs the same trial again beside the study."""
        files = " ".join(f"-c {shlex.quote(str(path))}" for path in (*self.base, self.folder / OVERRIDES))
        return f"python -m euro_lightning fit {files} --name again-{self.folder.name}"

    def write(self, changes: Mapping[str, Any], trial: Trial | None) -> None:
        """Makes the folder: what the run changes, and of which study it is a trial."""
        self.folder.mkdir(parents=True, exist_ok=True)
        head = f"# All that this run changes. Run it again by hand:\n# {self.by_hand}\n"
        text = yaml.safe_dump(nested(changes), sort_keys=False, allow_unicode=True)
        write_text(self.folder / OVERRIDES, head + text)
        if trial is not None:
            write_json(self.folder / TRIAL, trial._asdict())
        (self.folder / ANSWER).unlink(missing_ok=True)


class Process:
    """A command under a guard that ends it, with all it started, when this process ends."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as file:
            file.write(f"$ {shlex.join(command)}\n".encode())
            file.flush()
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", str(GUARD), str(GRACE), *command],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    def poll(self) -> int | None:
        """The exit code, or None while it runs; 128 and more is a signal."""
        return self._guard.poll()

    def stop(self) -> None:
        """Asks it to end; `wait` returns when it has."""
        assert self._guard.stdin is not None
        with contextlib.suppress(OSError):
            self._guard.stdin.close()

    def wait(self) -> int:
        """Waits for the end."""
        return self._guard.wait()


def is_free(folder: Path) -> bool:
    """Whether no process writes to a run folder: one that lost its driver may need seconds to end."""
    if not folder.is_dir():
        return True
    with locked(folder / ".lock", wait=False) as obtained:
        return obtained


def last_line(log: Path) -> str:
    """What a process said last; its error line where it has one."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, log.stat().st_size - 20_000))
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        raise UserError(f"{log} cannot be read ({error})") from None
    lines = [line.strip() for line in text.rpartition("\n$ ")[2].splitlines()[1:] if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["it said nothing"])[-1][:500]
