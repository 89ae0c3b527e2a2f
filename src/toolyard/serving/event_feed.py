"""`EventFeed`: what happens, for everybody who watches here. Who watches reads from one list, at their own pace.

There is no queue for a reader: one that is slow, or comes back after a while, goes on where it was, and if that is no
longer in the list it is told so. A few times a second the list is filled from the log of events, which other processes
write to as well.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar

import msgspec

from toolyard.app.toolyard import Toolyard
from toolyard.calls.approval import Approval
from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.model.errors import SessionError
from toolyard.model.report import SourceReport
from toolyard.serving.identity import Principal
from toolyard.serving.sse import write_event
from toolyard.sessions.event_log import KEPT, Event, open_event_log

_T = TypeVar("_T")

_LOOK = 0.2
_CHUNK = 200
"""Events that are written to a reader in one go."""
_TURNED = {"ok": "source.recovered", "stale": "source.died", "failed": "source.died"}


class SourceChange(msgspec.Struct, frozen=True):
    """What became of a source."""

    report: SourceReport

    def to_dict(self) -> dict[str, Any]:
        """Its name and state; why is in the report, for admins."""
        return {"source": self.report.source, "state": self.report.state, "loaded": self.report.loaded}


class ApprovalChange(msgspec.Struct, frozen=True):
    """What became of an approval."""

    approval: Approval

    def to_dict(self) -> dict[str, Any]:
        """Enough to look it up."""
        one = self.approval
        return {"id": one.id, "state": one.state, "tool": one.tool, "session_id": one.session_id, "key": one.owner}


class EventFeed:
    """The events of a yard, the latest of them at hand."""

    def __init__(self, yard: Toolyard) -> None:
        engine = yard.tool_engine
        self._registry = yard.tool_registry
        self._sessions = engine.sessions
        self.log = engine.journal.events if engine.journal is not None else open_event_log(engine.sessions.store)
        self._events: list[Event] = []
        self._ids: list[int] = []
        self._floor = 0
        """All that came after this place is in the list."""
        self._waiters: set[asyncio.Future[None]] = set()
        self._chunks: dict[tuple[object, int], tuple[bytes, int]] = {}
        self._sources: dict[str, SourceReport] = {}
        self._snapshot: object = None
        self.readers = 0
        engine.approvals.listeners.append(self._tell_approval)

    async def tend(self, failing: MutableMapping[str, str], name: str) -> None:
        """Look for what has happened, for ever; what does not work stands in `failing`."""
        while True:
            await asyncio.sleep(_LOOK)
            self._notice_sources()
            if not self.readers:
                continue
            try:
                while (found := await self._beside(lambda: self.log.read(self.newest)))[0]:
                    self._take(*found)
                failing.pop(name, None)
            except SessionError as error:
                failing[name] = type(error).__name__

    @property
    def newest(self) -> int:
        """The id of the last event that is at hand."""
        return self._ids[-1] if self._ids else 0

    async def join(self) -> None:
        """Somebody begins to read; whoever is the first has the list filled."""
        self.readers += 1
        if self.readers == 1:
            recent = await self._beside(self.log.read_recent)
            self._take(recent, follows=False)
            if len(recent) < KEPT:
                # Nothing was ever thrown away.
                self._floor = 0

    def leave(self) -> None:
        """They are gone."""
        self.readers -= 1

    def find_place(self, event_id: str | None) -> int | None:
        """Where to go on after an event that a reader names; None if that cannot be told any more."""
        if event_id is None:
            return self.newest
        epoch, _, number = event_id.partition("-")
        if epoch != self.log.epoch or not (number.isascii() and number.isdigit() and len(number) < 20):
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
            begin = bisect_right(self._ids, place)
            events = self._events[begin : begin + _CHUNK]
            shown = [self._write(event) for event in events if sees_event(principal, event)]
            chunk = self._chunks[slot, place] = (b"".join(shown), events[-1].id if events else place)
        return chunk

    def write_id(self, place: int) -> str:
        """A place as readers name it."""
        return f"{self.log.epoch}-{place}"

    async def wait(self, seconds: float) -> None:
        """Until there is something new, or so long."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=seconds)
        finally:
            self._waiters.discard(waiter)

    def wake(self) -> None:
        """Have everybody look again."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _take(self, fresh: list[Event], follows: bool) -> None:
        if not follows:
            # What was here and what comes now do not meet: a reader in between has missed something.
            self._events, self._ids = [], []
            self._floor = fresh[0].id - 1 if fresh else 0
        self._events += fresh
        self._ids += [event.id for event in fresh]
        if len(self._ids) > KEPT + _CHUNK:
            self._floor = self._ids[-KEPT - 1]
            del self._events[:-KEPT], self._ids[:-KEPT]
        self._chunks = {}
        self.wake()

    def _write(self, event: Event) -> bytes:
        return write_event(event.to_json(), kind=event.kind, id=self.write_id(event.id))

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
            self.log.put(kind, "", "", SourceChange(source))

    def _tell_approval(self, approval: Approval) -> None:
        namespace = approval.tool.partition(TOOL_NAMESPACE_SEP)[0]
        self.log.put(f"approval.{approval.state}", approval.owner or "", namespace, ApprovalChange(approval))

    async def _beside(self, work: Callable[[], _T]) -> _T:
        if self.log.inline:
            return work()
        value, cancelled = await self._sessions.in_thread(work)
        if cancelled is not None:
            raise cancelled
        return value


def sees_event(principal: Principal, event: Event) -> bool:
    """Admins see everything, keys what is theirs, and approvers what they may have to decide on."""
    scopes = principal.scopes
    if scopes.everywhere("admin") or (event.owner and event.owner == principal.owner):
        return True
    return event.kind.startswith("approval.") and scopes.allows("approve", event.namespace)
