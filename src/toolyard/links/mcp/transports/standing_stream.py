"""`StandingStream`: what a server of the old protocol says unasked, on a stream opened again whenever it ends."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

from toolyard.links.mcp.transports.event_stream import Event, EventReader
from toolyard.links.mcp.transports.web import Web
from toolyard.loop.backoff import backoff_delay
from toolyard.model.errors import CallError, Unavailable

if TYPE_CHECKING:
    from toolyard.links.mcp.peer import Peer

_SUCCESS = 200
_NOT_FOUND = 404
_SERVER_FAULT = 500
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 30.0
_log = logging.getLogger("toolyard.mcp")


class StandingOwner(Protocol):
    """The wire whose stream it is."""

    def headers(self) -> tuple[tuple[str, str], ...]:
        """What every request says."""

    def ended(self, fault: CallError) -> None:
        """The server is not there any more, or does not know us."""

    def event(self, event: Event, request: None) -> object:
        """One event of the stream."""


class StandingStream:
    """One stream at a time."""

    def __init__(self, web: Web, url: str, peer: Peer, wire: StandingOwner) -> None:
        self._web = web
        self._url = url
        self._peer = peer
        self._wire = wire
        self._reader = EventReader(peer.limits.max_message_bytes)
        self._was_open = False

    async def keep(self) -> None:
        """Until the connection ends, or the server says that it has no such stream."""
        failures = 0
        while True:
            try:
                status = await self._once()
            except Unavailable as error:
                if error.info.effect == "none" and failures:
                    self._wire.ended(error)
                    return
                status = 0
            except CallError:
                status = 0
            except Exception as error:  # noqa: BLE001 - a mistake of ours must not leave us deaf: begin anew
                _log.warning("reading the stream of %s failed unexpectedly", self._peer.name, exc_info=True)
                self._wire.ended(Unavailable(f"the stream of {self._peer.name} failed: {type(error).__name__}"))
                return
            if status == _NOT_FOUND:
                self._wire.ended(Unavailable(f"{self._peer.name} has forgotten our session"))
                return
            if status not in (0, _SUCCESS) and status < _SERVER_FAULT:
                return  # it has no such stream
            failures = 0 if status == _SUCCESS else failures + 1
            asked = self._reader.retry
            pause = backoff_delay(failures + 1, _FIRST_PAUSE) if asked is None else asked
            await asyncio.sleep(min(max(pause, 0.05), _LONGEST_PAUSE))

    async def _once(self) -> int:
        """Read one stream to its end; its status."""
        headers = self._wire.headers()
        last, retry = self._reader.last_id, self._reader.retry
        if last:
            headers = (*headers, ("last-event-id", last))
        async with self._web.client.astream(self._web.outgoing("GET", self._url, headers)) as flow:
            if flow.status != _SUCCESS or not flow.header("content-type").startswith("text/event-stream"):
                return flow.status if flow.status != _SUCCESS else 405
            # What was read of the last stream's unfinished event does not belong to this one.
            self._reader = EventReader(self._peer.limits.max_message_bytes)
            self._reader.last_id, self._reader.retry = last, retry
            if self._was_open and not last:
                self._peer.changed()  # what was said meanwhile nobody heard
            self._was_open = True
            async with aclosing(flow.chunks()) as chunks:
                async for chunk in chunks:
                    for event in self._reader.feed(chunk):
                        self._wire.event(event, None)
                    if pause := self._peer.pace.pause():
                        await asyncio.sleep(pause)
        return _SUCCESS
