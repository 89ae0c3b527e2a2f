"""Who descends from this process, and how to end it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress

_SECONDS = 2.0


def end_group(pid: int) -> None:
    """Everybody in a process group; the kernel lets nobody fork away from that."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def sweep(known: Collection[int]) -> bool:
    """End every child of this process but the `known`, and what they leave behind; False if there is no end to it.

    Needs `kernel.adopt_orphans`: then whoever got out of a group by losing its parent is found here.
    """
    end = time.monotonic() + _SECONDS
    while strangers := [pid for pid in _children() if pid not in known]:
        for pid in strangers:
            end_group(pid)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in strangers:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > end:
            return False
    return True


def _children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children", "rb") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return [pid for pid in _numbers() if _parent(pid) == me]


def _numbers() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
