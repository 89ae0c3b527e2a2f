"""`LoadedCatalog`: what the sources of the yard gave, and loading them again in every process of the service."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import MutableMapping, Sequence

from toolyard.app.secrets import clean_report
from toolyard.app.toolyard import Toolyard
from toolyard.engines.scripts.runner import weakest_level
from toolyard.model.errors import ToolyardError
from toolyard.model.report import LoadReport
from toolyard.serving.registered_tools import KIND, Registrations
from toolyard.sessions.records import Records

_RELOAD = "reload"
_LOOK = 0.2
"""Seconds between two looks at what other processes changed."""
_log = logging.getLogger(__name__)


class LoadedCatalog:
    """The sources of one yard, as far as whoever runs the server has to do with them."""

    def __init__(self, yard: Toolyard, records: Records, registrations: Registrations, secrets: Sequence[str]) -> None:
        self.registry = yard.tool_registry
        self._records = records
        self._registrations = registrations
        self._secrets = tuple(secrets)
        self._sandbox: tuple[object, str] = (None, "")
        self._reloads = 0

    @property
    def report(self) -> LoadReport:
        """What every source gave, without the secrets that may be in it."""
        return clean_report(self.registry.report, self._secrets)

    @property
    def sandbox(self) -> str:
        """What holds scripts here: the weakest level in force, `inprocess` for nothing; `none` if there are none."""
        snapshot = self.registry.snapshot
        if self._sandbox[0] is not snapshot:
            self._sandbox = (snapshot, weakest_level(snapshot.tools))
        return self._sandbox[1]

    async def start(self) -> None:
        """Load what was registered, and remember which reload of others was the last."""
        await self._registrations.start()
        self._reloads = await self._records.aversion(_RELOAD)

    async def reload(self) -> None:
        """Load every source again, and have the other processes do so too."""
        await asyncio.to_thread(self.registry.refresh)
        if self._records.shared:
            await self._records.aput(_RELOAD, "", "last", str(time.time()).encode())
            self._reloads = await self._records.aversion(_RELOAD)

    async def follow_others(self, failing: MutableMapping[str, str], name: str) -> None:
        """Take over what other processes register and reload, for ever; what does not work stands in `failing`."""
        while True:
            await asyncio.sleep(_LOOK)
            try:
                await self._registrations.catch_up(await self._records.aversion(KIND))
                reloads = await self._records.aversion(_RELOAD)
                if reloads != self._reloads:
                    self._reloads = reloads
                    await asyncio.to_thread(self.registry.refresh)
                failing.pop(name, None)
            except ToolyardError as error:
                if name not in failing:
                    _log.warning("what other processes changed could not be taken over: %s", error)
                failing[name] = type(error).__name__
