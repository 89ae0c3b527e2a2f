"""`BackgroundTasks`: what goes on beside the requests, as long as a server runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, MutableMapping
from typing import Any

Work = Callable[[], Coroutine[Any, Any, None]]

_PAUSE = 1.0
_log = logging.getLogger(__name__)


class BackgroundTasks:
    """Work that must not end: whatever stops it is logged, stands in `failing`, and it begins again."""

    def __init__(self, work: Mapping[str, Work], failing: MutableMapping[str, str]) -> None:
        self._work = dict(work)
        self._failing = failing
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, on the running loop."""
        self._tasks = [asyncio.create_task(self._keep_up(name, work)) for name, work in self._work.items()]

    async def stop(self) -> None:
        """End all of it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep_up(self, name: str, work: Work) -> None:
        while True:
            try:
                await work()
                return
            except Exception as error:  # noqa: BLE001 - nobody awaits this task; silence would be the worst of all
                self._failing[name] = type(error).__name__
                _log.error("%s: failed with %s: %s; it goes on", name, type(error).__name__, error)
            await asyncio.sleep(_PAUSE)
