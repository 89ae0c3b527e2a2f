"""`LoadedCatalog`: reloads the sources of a service on request, and follows reloads and registrations of its other
processes.
"""

from __future__ import annotations

import asyncio
import time

from toolyard.app.toolyard import Toolyard
from toolyard.engines.script_runner import weakest_level
from toolyard.serving.registrations import KIND, Registrations
from toolyard.sessions.records import Records

_RELOAD = "reload"


class LoadedCatalog:
    """The sources of one yard, kept up to date with the other processes of the service."""

    def __init__(self, yard: Toolyard, records: Records, registrations: Registrations) -> None:
        self.registry = yard.tool_registry
        self._records = records
        self._registrations = registrations
        self._sandbox: tuple[object, str] = (None, "")
        self._reloads = 0

    @property
    def sandbox(self) -> str:
        """The weakest sandbox level of any script tool; `inprocess` means no sandbox, `none` no script tools."""
        snapshot = self.registry.snapshot
        if self._sandbox[0] is not snapshot:
            self._sandbox = (snapshot, weakest_level(snapshot.tools))
        return self._sandbox[1]

    async def start(self) -> None:
        """Load the registered tools, and note the current reload version."""
        await self._registrations.start()
        self._reloads = await self._records.aversion(_RELOAD)

    async def reload(self) -> None:
        """Reload all sources, and signal the other processes to do so too."""
        await asyncio.to_thread(self.registry.refresh)
        if self._records.shared:
            await self._records.aput(_RELOAD, "", "last", str(time.time()).encode())
            self._reloads = await self._records.aversion(_RELOAD)

    async def follow_others(self) -> None:
        """Apply registrations and reloads of other processes."""
        await self._registrations.catch_up(await self._records.aversion(KIND))
        reloads = await self._records.aversion(_RELOAD)
        if reloads != self._reloads:
            self._reloads = reloads
            await asyncio.to_thread(self.registry.refresh)
