"""`Service`: everything a handler may need, put together once at start, and what goes on beside the requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from toolyard.app.hiding import cleaned
from toolyard.app.toolyard import Toolyard
from toolyard.engines.script_level import weakest_level
from toolyard.model.errors import ToolyardError
from toolyard.model.report import LoadReport
from toolyard.serving.kept import Kept
from toolyard.serving.large import Larges
from toolyard.serving.limits import Admission
from toolyard.serving.names import Names
from toolyard.serving.quota import SessionQuota
from toolyard.serving.request import Room
from toolyard.serving.response import Response

if TYPE_CHECKING:
    from toolyard.app.server_block import ServerBlock
    from toolyard.serving.keys import KeyRing
    from toolyard.serving.metrics import Metrics
    from toolyard.serving.once import Once
    from toolyard.serving.registration import Registrations
    from toolyard.sessions.records import Records

_LOOK = 0.2
"""Seconds between two looks at what other processes changed."""
_RELOAD = "reload"
_READS = 8
_LARGE_BODIES = 16
_PAUSE = 1.0
_log = logging.getLogger(__name__)


class Service:
    """The yard and what stands around it on a server."""

    registrations: Registrations
    documents: dict[bool, Response]
    """The OpenAPI document, by whether requests need a key."""

    def __init__(
        self,
        yard: Toolyard,
        block: ServerBlock,
        *,
        records: Records,
        once: Once,
        admission: Admission,
        keys: KeyRing | None = None,
        metrics: Metrics | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        from toolyard.serving.mcp.face import Face
        from toolyard.serving.registration import Registrations

        self.yard = yard
        self.block = block
        self.records = records
        self.once = once
        self.admission = admission
        self.keys = keys
        self.metrics = metrics
        self.secrets = tuple(secrets)
        self.reads = Admission(_READS, block.max_waiting)
        """Places for reading what costs much; apart from those in which tools run."""
        self.room = Room(_LARGE_BODIES * block.max_body_bytes)
        self.larges = Larges()
        self.quota = SessionQuota(yard.tool_engine.sessions, block.sessions_per_key)
        self.kept = Kept()
        """Answers about the catalog, as long as it stays what it is."""
        self.registrations = Registrations(yard.tool_registry, records)
        self._names = Names(yard.tool_registry.snapshot, yard.domains)
        self._sandbox: tuple[object, str] = (None, "")
        self.mcp = Face(self)
        """The same tools for MCP clients."""
        self._tasks: list[asyncio.Task[None]] = []
        self._reloads = 0
        self.failing: dict[str, str] = {}
        """What goes on beside the requests and does not work at the moment, with the kind of its error."""
        # Whoever calls from outside is told what was meant for them, and no more.
        yard.tool_engine.discreet = True

    @property
    def names(self) -> Names:
        """The wire names of the registry as it now is."""
        snapshot = self.yard.tool_registry.snapshot
        if self._names.snapshot is not snapshot:
            self._names = Names(snapshot, self.yard.domains)
        return self._names

    @property
    def sandbox(self) -> str:
        """What holds scripts here: the weakest level in force, `inprocess` for nothing; `none` if there are none."""
        snapshot = self.yard.tool_registry.snapshot
        if self._sandbox[0] is not snapshot:
            self._sandbox = (snapshot, weakest_level(snapshot.tools))
        return self._sandbox[1]

    @property
    def report(self) -> LoadReport:
        """What every source gave, without the secrets that may be in it."""
        return cleaned(self.yard.tool_registry.report, self.secrets)

    async def start(self) -> None:
        """Load what was registered, and begin to look after what others change."""
        await self.registrations.start()
        if self.keys is not None:
            await asyncio.to_thread(self.keys.load)
        self._reloads = await self.records.aversion(_RELOAD)
        work: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {"answers": self.once.tend, "mcp": self.mcp.tend}
        if self.records.shared:
            work["other processes"] = self._look_around
        if self.keys is not None:
            work["keys"] = self.keys.watch
        if self.metrics is not None:
            work["metrics"] = self.metrics.run
        self._tasks = [asyncio.create_task(self._kept_up(name, each)) for name, each in work.items()]

    async def stop(self) -> None:
        """End what goes on beside the requests."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.once.close()

    async def reload(self) -> None:
        """Load every source again, and have the other processes do so too."""
        await asyncio.to_thread(self.yard.tool_registry.refresh)
        if self.records.shared:
            await self.records.aput(_RELOAD, "", "last", str(time.time()).encode())
            self._reloads = await self.records.aversion(_RELOAD)

    async def _kept_up(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Work that must not end while the server runs: whatever stops it is logged, and it begins again."""
        while True:
            try:
                await work()
                return
            except Exception as error:  # noqa: BLE001 - nobody awaits this task; silence would be the worst of all
                self.failing[name] = type(error).__name__
                _log.error("%s: failed with %s: %s; it goes on", name, type(error).__name__, error)
            await asyncio.sleep(_PAUSE)

    async def _look_around(self) -> None:
        from toolyard.serving.registration import KIND

        failing = False
        while True:
            await asyncio.sleep(_LOOK)
            try:
                await self.registrations.catch_up(await self.records.aversion(KIND))
                reloads = await self.records.aversion(_RELOAD)
                if reloads != self._reloads:
                    self._reloads = reloads
                    await asyncio.to_thread(self.yard.tool_registry.refresh)
                failing = False
                self.failing.pop("other processes", None)
            except ToolyardError as error:
                if not failing:
                    _log.warning("what other processes changed could not be taken over: %s", error)
                failing = True
                self.failing["other processes"] = type(error).__name__
