"""What happens, as it happens: `GET /v1/events`. A key is told of what is its own, one with `*:admin` of everything.

There is no queue for a reader: all read from one list, at their own pace. One that is slow, or comes back after a
while, goes on where it was, and if that is no longer in the list it is told so. A few times a second the list is filled
from the journal, which other processes write to as well.
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
from toolyard.calls.journal import KEPT_EVENTS, CallLogOptions, Event, open_journal
from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.model.report import SourceReport
from toolyard.serving.identity import Principal
from toolyard.serving.routing import QueryParameter, caller_of, operation, query_str
from toolyard.serving.streams import (
    BEAT,
    HEAD,
    RETRY_MS,
    Subscriber,
    Subscribers,
    nothing,
    watch_disconnect,
    write_event,
)

_EXPIRY_LOOK = 60.0
_CHUNK = 200
"""Events that are written to a reader in one go."""
_TURNED = {"ok": "source.recovered", "stale": "source.died", "failed": "source.died"}
_AFTER = QueryParameter(
    "after", {"type": "string", "maxLength": 64}, "Id of the last event received, in place of `Last-Event-ID`."
)
_MISSED = b'{"message":"some events are no longer here; GET /v1/calls and GET /v1/approvals have what became of them"}'


class EventFeed:
    """The events of a yard, the latest of them at hand."""

    def __init__(self, yard: Toolyard) -> None:
        engine = yard.tool_engine
        self._registry = yard.tool_registry
        self._sessions = engine.sessions
        self.journal = engine.journal or open_journal(engine.sessions.store, CallLogOptions())
        self._events: list[Event] = []
        self._floor = 0
        """All that came after this place is in the list."""
        self._news = asyncio.Event()
        """Set when there is something new, and then replaced."""
        self._chunks: dict[tuple[object, int], tuple[bytes, int]] = {}
        self._sources: dict[str, SourceReport] = {}
        self._snapshot: object = None
        self.readers = 0
        self._is_current = False
        self._approvals = engine.approvals
        self._next_expiry = 0.0
        """When to look, by the monotonic clock, for approvals that have expired."""
        self._filling = asyncio.Lock()
        engine.approvals.listeners.append(self._tell_approval)

    async def look_around(self) -> None:
        """Look for what has happened."""
        self._notice_sources()
        await self._settle_approvals()
        await self._fill_list()

    async def _settle_approvals(self) -> None:
        now = time.monotonic()
        if now >= self._next_expiry:
            # First, so that one that is held meanwhile is looked at in time.
            self._next_expiry = now + _EXPIRY_LOOK
            seconds = await self._sessions.in_thread(self._approvals.settle_expired)
            self._next_expiry = min(self._next_expiry, time.monotonic() + seconds)

    async def _fill_list(self) -> None:
        # One at a time: what two have read would not be in order.
        async with self._filling:
            while self._is_current:
                found = await self._sessions.off_loop(lambda: self.journal.read_events(self.newest))
                if not found[0]:
                    break
                self._take(*found)

    @property
    def newest(self) -> int:
        """The id of the last event that is at hand."""
        return self._events[-1].id if self._events else 0

    async def join(self) -> None:
        """Somebody begins to read; whoever is the first has the list filled."""
        self.readers += 1
        async with self._filling:
            if not self._is_current:
                recent = await self._sessions.off_loop(self.journal.read_recent_events)
                self._take(recent, follows=False)
                self._is_current = True
                if len(recent) < KEPT_EVENTS:
                    # Nothing was ever thrown away.
                    self._floor = 0
        # What they have read elsewhere may be newer than the last look of this process.
        await self._fill_list()

    def leave(self) -> None:
        """They are gone; nothing is read for nobody."""
        self.readers -= 1
        self._is_current = self._is_current and self.readers > 0

    def find_place(self, event_id: str | None) -> int | None:
        """Where to go on after an event that a reader names; None if that cannot be told any more."""
        if event_id is None:
            return self.newest
        epoch, _, number = event_id.partition("-")
        if epoch != self.journal.epoch or not (number.isascii() and number.isdigit() and len(number) < 20):
            return None
        return int(number) if self.is_at_hand(int(number)) else None

    def is_at_hand(self, place: int) -> bool:
        """False if what came directly after that place is not in the list any more, or was never there."""
        return self._floor <= place <= self.newest

    def take(self, principal: Principal, place: int) -> tuple[bytes, int]:
        """What they may see after a place, written, and how far that reaches. Made once for all who ask the same."""
        slot = (principal.scopes, principal.owner)
        chunk = self._chunks.get((slot, place))
        if chunk is None:
            begin = bisect_right(self._events, place, key=lambda event: event.id)
            events = self._events[begin : begin + _CHUNK]
            shown = [
                write_event(event.to_json(), kind=event.kind, id=self.write_id(event.id))
                for event in events
                if sees_event(principal, event)
            ]
            chunk = self._chunks[slot, place] = (b"".join(shown), events[-1].id if events else place)
        return chunk

    def write_id(self, place: int) -> str:
        """A place as readers name it."""
        return f"{self.journal.epoch}-{place}"

    async def wait(self, seconds: float) -> None:
        """Until there is something new, or so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    def wake(self) -> None:
        """Have everybody look again."""
        self._news.set()
        self._news = asyncio.Event()

    def _take(self, fresh: list[Event], follows: bool) -> None:
        if not follows:
            # What was here and what comes now do not meet: a reader in between has missed something.
            self._events = []
            self._floor = fresh[0].id - 1 if fresh else 0
        self._events += fresh
        if len(self._events) > KEPT_EVENTS + _CHUNK:
            self._floor = self._events[-KEPT_EVENTS - 1].id
            del self._events[:-KEPT_EVENTS]
        self._chunks = {}
        self.wake()

    def _notice_sources(self) -> None:
        snapshot = self._registry.snapshot
        if snapshot is self._snapshot:
            return
        begun, before, self._snapshot = self._snapshot is not None, self._sources, snapshot
        self._sources = {source.source: source for source in snapshot.report.sources}
        for name, source in self._sources.items():
            known = before.get(name)
            if not begun or known == source:
                continue
            kind = "source.changed" if known is None or known.state == source.state else _TURNED[source.state]
            # Why is in the report, for admins.
            self.journal.tell(kind, "", "", {"source": name, "state": source.state, "loaded": source.loaded})

    def _tell_approval(self, approval: Approval) -> None:
        owner, namespace = approval.owner, approval.tool.partition(TOOL_NAMESPACE_SEP)[0]
        about = {"id": approval.id, "state": approval.state, "tool": approval.tool}
        about |= {"session_id": approval.session_id, "key": owner}
        self.journal.tell(f"approval.{approval.state}", owner or "", namespace, about)
        if approval.state == "pending":
            self._next_expiry = min(self._next_expiry, time.monotonic() + approval.expires - approval.created)


def sees_event(principal: Principal, event: Event) -> bool:
    """Admins see everything, keys what is theirs, and approvers what they may have to decide on."""
    scopes = principal.scopes
    if scopes.everywhere("admin") or (event.owner and event.owner == principal.owner):
        return True
    return event.kind.startswith("approval.") and scopes.allows("approve", event.namespace)


class EventRoutes:
    """The stream of events."""

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
        """Stream events until the client disconnects, its key ends, or the server stops.

        Events are not queued per client: a slow or late client receives `events.missed`.
        """
        feed, caller, over = self._feed, caller_of(request), [False]

        def end() -> None:
            over[0] = True
            feed.wake()

        subscriber = Subscriber(caller.principal.owner or "", nothing, end)
        self._subscribers.join(subscriber)
        try:
            await feed.join()
            async with watch_disconnect(request.receive, end):
                await send({"type": "http.response.start", "status": 200, "headers": list(HEAD)})
                last = caller.headers.get(b"last-event-id")
                place = feed.find_place(query_str(request, "after") if last is None else last.decode("latin-1"))
                await self._tell(request, send, place, over)
                await send({"type": "http.response.body", "body": b""})
        finally:
            feed.leave()
            self._subscribers.leave(subscriber)

    async def _tell(self, request: Request, send: Send, place: int | None, over: list[bool]) -> None:
        feed, principal = self._feed, caller_of(request).principal
        body = write_event(retry=RETRY_MS)
        while not over[0]:
            if place is None or not feed.is_at_hand(place):
                # From here on: what is still at hand would only look complete.
                place = feed.newest
                body += write_event(_MISSED, kind="events.missed", id=feed.write_id(place))
            chunk, reached = feed.take(principal, place)
            # An id alone, so that who comes back later has not to be told that they missed what they may not see.
            body += chunk or (write_event(id=feed.write_id(reached)) if body else b"")
            if body:
                await send({"type": "http.response.body", "body": body, "more_body": True})
            waits, place, body = reached == place, reached, b""
            if waits:
                await feed.wait(BEAT)
                body = b"" if over[0] or feed.newest > place else write_event(id=feed.write_id(place))
