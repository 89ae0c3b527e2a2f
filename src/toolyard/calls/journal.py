"""`Journal`: the sink that keeps one row of each call, and the events of calls, approvals and sources.

Both are stored in tables next to the sessions, visible to all processes that share the store, or in memory without a
store. Arguments and results are in the session's history, not here.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from toolyard.calls.call_event import CallEvent
from toolyard.calls.call_log import MICROS, CallFilter as CallFilter, CallRow as CallRow, LogPage, LogPosition
from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.model.call import Mode
from toolyard.model.errors import Held
from toolyard.model.tool import Tool
from toolyard.sessions.session import Session
from toolyard.sessions.store.base import Key, LogRow

SCANNED = 10_000
"""Maximum rows that are examined for one page."""
KEPT_EVENTS = 10_000
"""Number of events that are kept for reading again."""
_LONGEST, _DAY = 512, 86_400

new_call_number = itertools.count(secrets.randbits(62)).__next__
"""Returns a number for a call. Counts up from a random start, so that processes do not collide."""


class CallLogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the call log is kept."""

    max_rows: Annotated[int, Meta(ge=1, description="Number of calls to keep; the oldest are removed first.")] = 100_000
    days: Annotated[float, Meta(gt=0, le=36_500, description="Days to keep a call.")] = 30.0


class BegunCall(msgspec.Struct, frozen=True, gc=False):
    """A running call. Converted to data only when read, since one is created for every call."""

    number: int
    time: float
    tool: Tool
    mode: Mode
    key: Key

    def to_dict(self) -> dict[str, Any]:
        """As `CallRow.to_dict`, with the fields known so far."""
        tool, session_id, owner = self.tool, clean_text(self.key.session_id), clean_text(self.key.owner)
        shown = CallRow(self.number, self.time, 0.0, tool.qualified_name, self.mode, session_id, owner).to_dict()
        del shown["duration_ms"]
        return {**shown, "effects": tool.effects.value}


EventData = CallRow | BegunCall | dict[str, Any] | bytes
"""The data of an event; bytes are encoded JSON."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event. Ids increase; no event ever appears with a lower id than one that was already readable."""

    id: int
    kind: str
    """For example `call.ended`."""
    owner: str
    """Id of the key that the event belongs to; empty if none."""
    namespace: str
    about: EventData

    def to_json(self) -> bytes:
        """The event's data as JSON."""
        return encode_event_data(self.about)


def encode_event_data(about: EventData) -> bytes:
    """Encode an event's data as JSON."""
    if isinstance(about, bytes):
        return about
    return msgspec.json.encode(about if isinstance(about, dict) else about.to_dict())


def clean_text(text: str) -> str:
    """A caller's text, shortened and without NUL and lone surrogates, so that any store accepts it."""
    cut = text[:_LONGEST]
    if cut.isascii() and "\0" not in cut:
        return cut
    return cut.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


class Journal(ABC):
    """A sink of the tracer. Row and event of a recorded call are written in the transaction of its session entry.

    Rows and events may be added from any thread; adding never waits for a store.
    """

    name = "journal"
    epoch: str
    """Event ids are comparable only within one epoch."""
    is_followed = True
    """False until events are first read, so that events of calls need not be kept before."""

    def __init__(self, options: CallLogOptions) -> None:
        self._options = options

    @abstractmethod
    def add(self, row: CallRow) -> None:
        """Store a row and add its event."""

    @abstractmethod
    def add_event(self, kind: str, owner: str, namespace: str, about: EventData) -> None:
        """Add an event."""

    @abstractmethod
    def get(self, number: int) -> CallRow | None:
        """The row of a call; None if it is not kept."""

    @abstractmethod
    def _find_rows(self, wanted: CallFilter, since: int, before: LogPosition, most: int) -> LogPage:
        """At most `most` matching rows among the next `SCANNED`.

        If fewer match, `next` is the position where the scan stopped, or None at the end of the log.
        """

    @abstractmethod
    def read_events(self, after: int) -> tuple[list[Event], bool]:
        """Some of the events after that id, oldest first; False if some of those are no longer kept."""

    @abstractmethod
    def read_recent_events(self) -> list[Event]:
        """All kept events, oldest first."""

    def begin(self, number: int, tool: Tool, session: Session, mode: Mode) -> None:
        """Add the event of a call that begins; its tool is known."""
        key = session.key
        self.add_event("call.begun", key.owner, tool.namespace, BegunCall(number, time.time(), tool, mode, key))

    def write_rows(self, event: CallEvent) -> tuple[LogRow, ...] | None:
        """The rows to write with the call's session entry, instead of `emit`; None if there is no store."""
        return None

    def emit(self, event: CallEvent) -> None:
        """Store a call that no stored entry carries: without a stored session, simulated, or cancelled."""
        self.add(make_row(event))

    def close(self) -> None:  # noqa: B027 - the rows are the store's
        """See `Sink`."""

    def list_calls(self, wanted: CallFilter, limit: int, before: LogPosition | None = None) -> LogPage:
        """A page of the matching calls; examines at most `SCANNED` rows."""
        since = max(self._find_oldest(), int((wanted.since or 0.0) * MICROS))
        wanted = wanted.map_texts(clean_text)
        end = LogPosition(2**63 - 1 if wanted.until is None else int(wanted.until * MICROS), -1)
        found = self._find_rows(wanted, since, end if before is None else min(before, end), limit + 1)
        return found if len(found.rows) <= limit else LogPage(found.rows[:limit], found.rows[limit - 1].place)

    def _find_oldest(self) -> int:
        return int((time.time() - self._options.days * _DAY) * MICROS)


def make_row(event: CallEvent) -> CallRow:
    """The row for an event."""
    # Positional arguments, for speed: this runs for every call.
    return CallRow(
        event.number or 0,
        event.time,
        event.latency,
        event.name if event.definition_hash is not None else clean_text(event.name),
        event.mode,
        clean_text(event.session_id),
        "" if event.owner is None else clean_text(event.owner),
        event.code,
        event.effect,
        event.effects,
        event.definition_hash,
        event.approval,
        event.argument_bytes,
        event.result_bytes,
        None if event.call_id is None else clean_text(event.call_id),
        event.request_id,
        event.seq if event.mode == "execute" and event.session_id and event.code != Held.code else None,
        event.steps,
    )


def describe_row(row: CallRow) -> tuple[str, str, str, CallRow]:
    """The event of a finished call: kind, owner, namespace and data."""
    kind = "call.held" if row.code == Held.code else "call.ended"
    return kind, row.owner, row.tool.partition(TOOL_NAMESPACE_SEP)[0], row


class MemoryJournal(Journal):
    """Keeps the last calls and events of this process; events of calls only once events were first read."""

    is_followed = False

    def __init__(self, options: CallLogOptions) -> None:
        super().__init__(options)
        self.epoch = secrets.token_hex(4)
        self._rows: deque[CallRow] = deque(maxlen=options.max_rows)
        self._events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._count = 0
        self._lock = threading.Lock()

    def add(self, row: CallRow) -> None:
        """See `Journal`."""
        self._rows.append(row)
        if self.is_followed:
            self.add_event(*describe_row(row))

    def add_event(self, kind: str, owner: str, namespace: str, about: EventData) -> None:
        """See `Journal`."""
        with self._lock:
            self._count += 1
            self._events.append(Event(self._count, kind, owner, namespace, about))

    def get(self, number: int) -> CallRow | None:
        """See `Journal`."""
        return next((row for row in self._rows.copy() if row.number == number), None)

    def _find_rows(self, wanted: CallFilter, since: int, before: LogPosition, most: int) -> LogPage:
        # Copy atomically, since other threads add rows.
        rows = (row for row in reversed(self._rows.copy()) if (since,) <= row.place < before)
        fits, found = wanted.matcher(), list[CallRow]()
        for number, row in enumerate(rows, 1):
            if fits(row):
                found.append(row)
            if number == SCANNED or len(found) == most:
                return LogPage(found, row.place)
        return LogPage(found, None)

    def read_events(self, after: int) -> tuple[list[Event], bool]:
        """See `Journal`."""
        with self._lock:
            fresh = min(self._count - after, len(self._events))
            return [self._events[-place] for place in range(fresh, 0, -1)], fresh == self._count - after

    def read_recent_events(self) -> list[Event]:
        """See `Journal`."""
        with self._lock:
            self.is_followed = True
            return list(self._events)
