"""Processes of ours and whatever they start: none is left when it is closed, or when this process ends."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import time
from contextlib import suppress

from toolyard.loop.forking import leave

_AT_EXIT = 0.5
"""Seconds between asking and forcing when the interpreter ends."""
_LEFT_OVER = 0.3
_STEP = 0.02

_CHILDREN: set[Child] = set()


class Child:
    """One process, first of its own group."""

    def __init__(self, transport: asyncio.SubprocessTransport) -> None:
        self.transport = transport
        self.pid = transport.get_pid()
        self.exited = asyncio.Event()

    async def end(self, seconds: float) -> None:
        """Wait for it to end by itself, then ask, then force; at last whoever is left of its group."""
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                self.signal(number)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.exited.wait()
                break
        if self.signal(signal.SIGTERM):
            end = time.monotonic() + _LEFT_OVER
            while self.signal(0) and time.monotonic() < end:  # noqa: ASYNC110 - nobody tells when a group is empty
                await asyncio.sleep(_STEP)
            self.signal(signal.SIGKILL)
        self.transport.close()

    def signal(self, number: int) -> bool:
        """Send a signal to the whole group; False if nobody is there."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def abandon() -> None:
    """In the child of a fork none of them is ours; our ends of their pipes are closed, so that they hear an end."""
    for child in _CHILDREN:
        leave(child)
        for number in range(3):
            pipe = child.transport.get_pipe_transport(number)
            file = None if pipe is None else pipe.get_extra_info("pipe")
            if file is not None:
                with suppress(OSError):
                    file.close()
    _CHILDREN.clear()
    atexit.unregister(_end_all)


def remember(child: Child) -> None:
    """It is to end with this process."""
    if not _CHILDREN:
        atexit.register(_end_all)
    _CHILDREN.add(child)


def forget(child: Child) -> None:
    """It has ended."""
    _CHILDREN.discard(child)
    if not _CHILDREN:
        atexit.unregister(_end_all)


def _end_all() -> None:
    mine = list(_CHILDREN)
    for child in mine:
        child.signal(signal.SIGTERM)
    end = time.monotonic() + _AT_EXIT
    while time.monotonic() < end and any(child.signal(0) for child in mine):
        time.sleep(_STEP)
    for child in mine:
        child.signal(signal.SIGKILL)


os.register_at_fork(after_in_child=abandon)
