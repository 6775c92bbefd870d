"""Runs a command that must not outlive the process that wants it: python guard.py GRACE COMMAND...

A driver may be killed at any moment, and its trial, with all processes of that trial on this machine, must go with
it. So the guard stands between them: its standard input is a pipe whose other end only the driver holds. When that
end closes, or when the command ends, the guard ends everything below itself: SIGTERM, and after GRACE seconds
SIGKILL. Processes that lose their parent become the guard's children (Linux: prctl(2), PR_SET_CHILD_SUBREAPER), so
that workers in sessions of their own, as torchrun's, are found, too; and the command gets SIGKILL should the guard
itself be killed. It imports the standard library only and starts in a few hundredths of a second.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_PDEATHSIG, _SUBREAPER = 1, 36


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _parents() -> dict[int, int]:
    """The parent of each process."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            found[int(file.parent.name)] = int(file.read_text().rpartition(")")[2].split()[1])
    return found


def descendants() -> list[int]:
    """All processes below this one, nearest first."""
    parents, below = _parents(), [os.getpid()]
    for process in below:
        below += [child for child, parent in parents.items() if parent == process]
    return below[1:]


def _send(number: int) -> list[int]:
    below = descendants()
    for process in below:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)
    return below


def _end(grace: float) -> None:
    """Ends everything below; the dead are collected, since there is nobody else to do so."""
    deadline = time.monotonic() + grace
    _send(signal.SIGTERM)
    while descendants():
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if time.monotonic() > deadline:
            _send(signal.SIGKILL)
        time.sleep(0.02)


def main(grace: float, command: list[str]) -> int:
    """Runs the command; returns its exit code, or 128 and the number of the signal that ended it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _prctl(_SUBREAPER, 1)

    def prepare() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        _prctl(_PDEATHSIG, signal.SIGKILL)

    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=prepare)
    except OSError as error:
        print(f"error: {command[0]} cannot be run ({error.strerror})", file=sys.stderr)
        return 127
    while child.poll() is None:
        if select.select([0], [], [], 0.05)[0] and not os.read(0, 1):
            break
    code = child.poll()
    _end(grace if code is None else 0.0)
    if code is None:
        code = -signal.SIGTERM
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
