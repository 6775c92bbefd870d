"""Commands in processes of their own without the seconds that importing takes: they are forked.

A server imports once what commands import, and forks for each request; the child runs `python -m
euro_lightning` as the interpreter would. Nothing computes in the server, so no thread is lost in a fork.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

_PREPARED = ("euro_lightning.commands", "euro_lightning.cli", "mlflow", "optuna")


class Server:
    """Runs one command at a time, in a process that starts with the first one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        atexit.register(self.close)

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=self._folder,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
        return self._process

    def run(
        self, arguments: list[str], environment: dict[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, or kills it when its seconds are over.

        A test that is itself broken off here leaves no answer behind that the next one would take for its own.
        """
        process = self._started()
        assert process.stdin and process.stdout
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, name) for name in ("output", "errors")]
            request = {
                "arguments": arguments, "files": list(map(str, files)), "timeout": timeout, "environment": environment,
            }  # fmt: skip
            try:
                print(json.dumps(request), file=process.stdin, flush=True)
                code = json.loads(process.stdout.readline())
            except BaseException:
                self.close()
                raise
            output, errors = (file.read_text(errors="replace") if file.exists() else "" for file in files)
        if code is None:
            raise subprocess.TimeoutExpired(arguments, timeout, output, errors)
        return subprocess.CompletedProcess(arguments, code, output, errors)

    def close(self) -> None:
        """Ends the process and what it runs; the next command starts another."""
        if self._process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                child.kill()
        self._process.kill()
        self._process.wait()
        self._process = None


def become(request: dict[str, Any]) -> None:
    """What a child does: takes the place of a fresh interpreter."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for number, file in enumerate(request["files"], 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["euro_lightning", *request["arguments"]]
    runpy.run_module("euro_lightning", run_name="__main__", alter_sys=True)


def serve() -> dict[str, Any] | None:
    """Forks for each request; returns the request in the child, None at the end."""
    for name in _PREPARED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    answers = os.fdopen(os.dup(1), "w")
    for line in iter(sys.stdin.readline, ""):
        request: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            return request
        print(json.dumps(ended(child, request["timeout"])), file=answers, flush=True)
    return None


def ended(child: int, timeout: float) -> int | None:
    """The exit code of a child, negative for a signal; None if it had to be killed."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    request = serve()
    if request is not None:
        become(request)
