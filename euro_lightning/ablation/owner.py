"""Who runs a trial, and whether that driver still lives."""

import contextlib
import os
import socket
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

SILENCE = 120.0
"""Seconds without a sign of life after which a driver of another machine counts as gone."""

BEAT = 10.0
"""Seconds between a driver's signs of life."""


def this_machine() -> str:
    """A name of the running system that a restart or another container does not have."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return "/".join(parts)


@dataclass(frozen=True)
class Owner:
    """A driver: a process of a machine."""

    id: str
    machine: str
    pid: int
    born: float
    """When the process started, for a number may be given again."""

    @staticmethod
    def me() -> "Owner":
        """This process."""
        pid = os.getpid()
        return Owner(uuid.uuid4().hex[:12], this_machine(), pid, psutil.Process(pid).create_time())

    def sign(self, count: int) -> dict[str, Any]:
        """What it writes to say that it lives."""
        return {**asdict(self), "beat": count}


class Watch:
    """Tells living drivers from dead ones by their signs of life.

    A process of this machine is looked up, so that its trials are taken over at once. One of another machine is
    dead when its sign has not changed for `silence` seconds of this process's own clock: clocks of machines differ.
    """

    def __init__(self, silence: float = SILENCE) -> None:
        self.silence = silence
        self._machine = this_machine()
        self._seen: dict[str, tuple[int, float]] = {}

    def alive(self, sign: Mapping[str, Any] | None) -> bool:
        """Whether the driver of a sign lives, as far as one can tell."""
        if sign is None:
            return False
        if sign["machine"] == self._machine:
            try:
                return bool(abs(psutil.Process(sign["pid"]).create_time() - sign["born"]) < 1.0)
            except psutil.NoSuchProcess:
                return False
        beat, since = self._seen.get(sign["id"], (None, 0.0))
        if beat != sign["beat"]:
            since = time.monotonic()
            self._seen[sign["id"]] = (sign["beat"], since)
        return time.monotonic() - since < self.silence
