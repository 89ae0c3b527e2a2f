"""Who descends from this process, and how to end it."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

KILL = 9
"""SIGKILL, without the module that would say so, which is slow to import."""
_SECONDS = 2.0


class suppress:  # noqa: N801 - it is the one of `contextlib`, which is slow to import
    """Go on after errors of these kinds."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, self._kinds)


def end_group(pid: int) -> None:
    """Everybody in a process group; the kernel lets nobody fork away from that."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, KILL)


def sweep(known: Collection[int]) -> bool:
    """End every child of this process but the `known`, and what they leave behind; False if there is no end to it.

    Needs `kernel.adopt_orphans`: then whoever got out of a group by losing its parent is found here.
    """
    end = time.monotonic() + _SECONDS
    while strangers := [pid for pid in _children() if pid not in known]:
        for pid in strangers:
            end_group(pid)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, KILL)
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
