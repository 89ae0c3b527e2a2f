"""`GET /v1/events`: a live stream of events. A key sees its own events; one with `*:admin` sees all.

`EventFeed` has the latest events, from the journal that all processes of the service write to. Readers have no queues:
all read from one list, each at its own pace. A slow or returning reader continues at the last event it has seen, and
can tell when events after that one are no longer in the list.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from contextlib import suppress

from starlette.requests import Request
from starlette.types import Send

from toolyard.app.toolyard import Toolyard
from toolyard.calls.approval import Approval
from toolyard.calls.journal import KEPT_EVENTS, CallLogOptions, Event
from toolyard.calls.sql_journal import open_journal
from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.model.report import SourceReport
from toolyard.serving.identity import Principal
from toolyard.serving.query import QueryParameter, query_str
from toolyard.serving.routing import caller_of, operation
from toolyard.serving.streams import (
    HEARTBEAT_SECONDS,
    RETRY_MS,
    STREAM_HEADERS,
    Subscriber,
    Subscribers,
    no_op,
    watch_disconnect,
    write_event,
)

_EXPIRY_SECONDS = 60.0
_CHUNK_EVENTS = 200
"""The most events written to a reader at once."""


class EventFeed:
    """The latest events of a yard, in memory while there are readers."""

    def __init__(self, yard: Toolyard) -> None:
        engine = yard.tool_engine
        self._registry = yard.tool_registry
        self._sessions = engine.sessions
        self.journal = engine.journal or open_journal(engine.sessions.store, CallLogOptions())
        self._events: list[Event] = []
        self._floor = 0
        """The list has every event whose id is above this one."""
        self._news = asyncio.Event()
        """Set when there are new events, and then replaced."""
        self._chunks: dict[tuple[object, int], tuple[bytes, int]] = {}
        self._sources: dict[str, SourceReport] = {}
        self._snapshot: object = None
        self.readers = 0
        self._is_current = False
        self._approvals = engine.approvals
        self._next_expiry = 0.0
        """When to check for expired approvals, by the monotonic clock."""
        self._filling = asyncio.Lock()
        engine.approvals.listeners.append(self._record_approval)

    async def poll(self) -> None:
        """Record changed sources and expired approvals as events, and read new events from the journal."""
        self._record_source_changes()
        await self._settle_approvals()
        await self._fill_list()

    async def _settle_approvals(self) -> None:
        now = time.monotonic()
        if now >= self._next_expiry:
            # Set first: `_record_approval` may bring it forward for a call that is held in the meantime.
            self._next_expiry = now + _EXPIRY_SECONDS
            seconds = await self._sessions.in_thread(self._approvals.settle_expired)
            self._next_expiry = min(self._next_expiry, time.monotonic() + seconds)

    async def _fill_list(self) -> None:
        # One at a time, or the events of two readings could be out of order.
        async with self._filling:
            while self._is_current:
                found = await self._sessions.off_loop(lambda: self.journal.read_events(self.newest))
                if not found[0]:
                    break
                self._append(*found)

    @property
    def newest(self) -> int:
        """The id of the last event in the list, 0 if it is empty."""
        return self._events[-1].id if self._events else 0

    async def join(self) -> None:
        """Add a reader; the first one fills the list."""
        self.readers += 1
        async with self._filling:
            if not self._is_current:
                recent = await self._sessions.off_loop(self.journal.read_recent_events)
                self._append(recent, follows=False)
                self._is_current = True
                if len(recent) < KEPT_EVENTS:
                    # The journal has dropped no event yet, so the list is complete.
                    self._floor = 0
        # The reader may have seen, on another process, events newer than this process has read.
        await self._fill_list()

    def leave(self) -> None:
        """Remove a reader; without readers, the journal is not read."""
        self.readers -= 1
        self._is_current = self._is_current and self.readers > 0

    def find_place(self, event_id: str | None) -> int | None:
        """Return the place after which to continue, given `Last-Event-ID`; None if events in between may be lost."""
        if event_id is None:
            return self.newest
        epoch, _, number = event_id.partition("-")
        if epoch != self.journal.epoch or not (number.isascii() and number.isdigit() and len(number) < 20):
            return None
        return int(number) if self.is_available(int(number)) else None

    def is_available(self, place: int) -> bool:
        """False if the event after that place is no longer in the list, or the place is in the future."""
        return self._floor <= place <= self.newest

    def read_chunk(self, principal: Principal, place: int) -> tuple[bytes, int]:
        """Return the encoded events after `place` that the principal may see, and the place they reach to.

        Cached for all readers with the same place and rights.
        """
        slot = (principal.scopes, principal.owner)
        chunk = self._chunks.get((slot, place))
        if chunk is None:
            begin = bisect_right(self._events, place, key=lambda event: event.id)
            events = self._events[begin : begin + _CHUNK_EVENTS]
            shown = [
                write_event(event.to_json(), kind=event.kind, id=self.write_id(event.id))
                for event in events
                if sees_event(principal, event)
            ]
            chunk = self._chunks[slot, place] = (b"".join(shown), events[-1].id if events else place)
        return chunk

    def write_id(self, place: int) -> str:
        """Return the event id that readers get for a place."""
        return f"{self.journal.epoch}-{place}"

    async def wait(self, seconds: float) -> None:
        """Wait until there are new events, for at most that long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    def wake(self) -> None:
        """Wake every waiting reader."""
        self._news.set()
        self._news = asyncio.Event()

    def _append(self, fresh: list[Event], follows: bool) -> None:
        if not follows:
            # There may be a gap between the old events and these; a reader in it has missed some.
            self._events = []
            self._floor = fresh[0].id - 1 if fresh else 0
        self._events += fresh
        if len(self._events) > KEPT_EVENTS + _CHUNK_EVENTS:
            self._floor = self._events[-KEPT_EVENTS - 1].id
            del self._events[:-KEPT_EVENTS]
        self._chunks = {}
        self.wake()

    def _record_source_changes(self) -> None:
        snapshot = self._registry.snapshot
        if snapshot is self._snapshot:
            return
        is_first, before, self._snapshot = self._snapshot is None, self._sources, snapshot
        self._sources = {source.source: source for source in snapshot.report.sources}
        for name, source in self._sources.items():
            known = before.get(name)
            if is_first or known == source:
                continue
            kind = "source.recovered" if source.available else "source.died"
            if known is None or (known.state, known.available) == (source.state, source.available):
                kind = "source.changed"
            # The reason is in the report, which only admins may read.
            self.journal.add_event(kind, "", "", {"source": name, "state": source.state, "loaded": source.loaded})

    def _record_approval(self, approval: Approval) -> None:
        owner, namespace = approval.owner, approval.tool.partition(TOOL_NAMESPACE_SEP)[0]
        about = {"id": approval.id, "state": approval.state, "tool": approval.tool}
        about |= {"session_id": approval.session_id, "key": owner}
        self.journal.add_event(f"approval.{approval.state}", owner or "", namespace, about)
        if approval.state == "pending":
            self._next_expiry = min(self._next_expiry, time.monotonic() + approval.expires - approval.created)


def sees_event(principal: Principal, event: Event) -> bool:
    """True for admins, for the owner of the event, and, for approval events, for approvers of the namespace."""
    scopes = principal.scopes
    if scopes.allows_everywhere("admin") or (event.owner and event.owner == principal.owner):
        return True
    return event.kind.startswith("approval.") and scopes.allows("approve", event.namespace)


_AFTER = QueryParameter(
    "after", {"type": "string", "maxLength": 64}, "Id of the last event received, in place of `Last-Event-ID`."
)
_MISSED = b'{"message":"some events are no longer kept; GET /v1/calls and GET /v1/approvals show what they were about"}'


class EventRoutes:
    """The operation that streams events."""

    def __init__(self, feed: EventFeed, subscribers: Subscribers) -> None:
        self._feed = feed
        self._subscribers = subscribers

    @operation(
        *("GET /v1/events", "Stream events of calls, approvals and sources"),
        answers={200: "text/event-stream"},
        query=(_AFTER,),
        streams=True,
    )
    async def open_stream(self, request: Request, send: Send) -> None:
        """Open until the client disconnects, its key expires or is revoked, or the server stops.

        Events are not queued per client: a slow or late client receives `events.missed`.
        """
        feed, caller, over = self._feed, caller_of(request), [False]

        def end() -> None:
            over[0] = True
            feed.wake()

        subscriber = Subscriber(caller.principal.owner or "", no_op, end)
        self._subscribers.join(subscriber)
        try:
            await feed.join()
            async with watch_disconnect(request.receive, end):
                await send({"type": "http.response.start", "status": 200, "headers": list(STREAM_HEADERS)})
                last = caller.headers.get(b"last-event-id")
                place = feed.find_place(query_str(request, "after") if last is None else last.decode("latin-1"))
                await self._send_events(request, send, place, over)
                await send({"type": "http.response.body", "body": b""})
        finally:
            feed.leave()
            self._subscribers.leave(subscriber)

    async def _send_events(self, request: Request, send: Send, place: int | None, over: list[bool]) -> None:
        feed, principal = self._feed, caller_of(request).principal
        body = write_event(retry=RETRY_MS)
        while not over[0]:
            if place is None or not feed.is_available(place):
                # Continue with the newest: sending the rest would hide the gap.
                place = feed.newest
                body += write_event(_MISSED, kind="events.missed", id=feed.write_id(place))
            chunk, place = feed.read_chunk(principal, place)
            # Send the id without an event, so that a client that reconnects does not get `events.missed` because of
            # events it may not see.
            body += chunk or (write_event(id=feed.write_id(place)) if body else b"")
            if body:
                await send({"type": "http.response.body", "body": body, "more_body": True})
            body = b""
            # Not after an end or an event that came while the body was sent: nothing would wake the stream again.
            if feed.newest == place and not over[0]:
                await feed.wait(HEARTBEAT_SECONDS)
                body = b"" if over[0] or feed.newest > place else write_event(id=feed.write_id(place))
