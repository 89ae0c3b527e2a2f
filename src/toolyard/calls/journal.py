"""`Journal`: the sink that keeps one row of each call, and the events of calls, approvals and sources.

Both are in the tables beside the sessions, where all processes that share the store see them, or in memory where there
are none. What was sent and what came back is in the session's history, not here.
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
"""Rows that are looked at for one page."""
KEPT_EVENTS = 10_000
"""Events that can be read again."""
_LONGEST, _DAY = 512, 86_400

new_call_number = itertools.count(secrets.randbits(62)).__next__
"""A number for a call that no other has, in whatever process: counted from a random one."""


class CallLogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the call log is kept."""

    max_rows: Annotated[int, Meta(ge=1, description="Number of calls to keep; the oldest are removed first.")] = 100_000
    days: Annotated[float, Meta(gt=0, le=36_500, description="Days to keep a call.")] = 30.0


class BegunCall(msgspec.Struct, frozen=True, gc=False):
    """A call that is under way; described only when it is read, since this is on the way of every call."""

    number: int
    time: float
    tool: Tool
    mode: Mode
    key: Key

    def to_dict(self) -> dict[str, Any]:
        """As `CallRow`, as far as it is known yet."""
        tool, session_id, owner = self.tool, clean_text(self.key.session_id), clean_text(self.key.owner)
        shown = CallRow(self.number, self.time, 0.0, tool.qualified_name, self.mode, session_id, owner).to_dict()
        del shown["duration_ms"]
        return {**shown, "effects": tool.effects.value}


About = CallRow | BegunCall | dict[str, Any] | bytes
"""What is known of something that happened; bytes are JSON."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """One thing that happened. Ids grow, and nothing ever appears before what was read already."""

    id: int
    kind: str
    """Such as `call.ended`."""
    owner: str
    """Id of the key that it belongs to; empty if none."""
    namespace: str
    about: About

    def to_json(self) -> bytes:
        """What is known of it."""
        return write_about(self.about)


def write_about(about: About) -> bytes:
    """As JSON."""
    if isinstance(about, bytes):
        return about
    return msgspec.json.encode(about if isinstance(about, dict) else about.to_dict())


def clean_text(text: str) -> str:
    """What a caller wrote, fit for every store and of bounded length."""
    cut = text[:_LONGEST]
    if cut.isascii() and "\0" not in cut:
        return cut
    return cut.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


class Journal(ABC):
    """A sink of the tracer: the row of a call that is recorded is in the transaction of its entry, and so is its event.

    Takes rows and events from many threads, never waiting for a store.
    """

    name = "journal"
    epoch: str
    """Ids of events of another epoch say nothing here: what they counted is gone."""
    is_followed = True
    """False as long as no reader has an event's id to continue from, so that those of calls need not be kept."""

    def __init__(self, options: CallLogOptions) -> None:
        self._options = options

    @abstractmethod
    def add(self, row: CallRow) -> None:
        """Keep a row, and tell of it."""

    @abstractmethod
    def tell(self, kind: str, owner: str, namespace: str, about: About) -> None:
        """It has happened."""

    @abstractmethod
    def get(self, number: int) -> CallRow | None:
        """One call."""

    @abstractmethod
    def _find_rows(self, wanted: CallFilter, since: int, before: LogPosition, most: int) -> LogPage:
        """The first so many of `SCANNED` rows that fit, and where these end; None if there are fewer."""

    @abstractmethod
    def read_events(self, after: int) -> tuple[list[Event], bool]:
        """Some of what came after that id, oldest first; False if some of it is not kept any more."""

    @abstractmethod
    def read_recent_events(self) -> list[Event]:
        """All that are kept, oldest first."""

    def begin(self, number: int, tool: Tool, session: Session, mode: Mode) -> None:
        """A call of a tool that is known has begun."""
        key = session.key
        self.tell("call.begun", key.owner, tool.namespace, BegunCall(number, time.time(), tool, mode, key))

    def write_rows(self, event: CallEvent) -> tuple[LogRow, ...] | None:
        """What to write with the entry of the call, in place of `emit`; None if there is no store."""
        return None

    def emit(self, event: CallEvent) -> None:
        """Keep what no entry carries: calls outside of stored sessions, simulations, and what was cut off."""
        self.add(make_row(event))

    def close(self) -> None:  # noqa: B027 - the rows are the store's
        """See `Sink`."""

    def list_calls(self, wanted: CallFilter, limit: int, before: LogPosition | None = None) -> LogPage:
        """A page of the calls that fit, found by looking at `SCANNED` rows at most."""
        since = max(self._find_oldest(), int((wanted.since or 0.0) * MICROS))
        wanted = wanted.map_texts(clean_text)
        end = LogPosition(2**63 - 1 if wanted.until is None else int(wanted.until * MICROS), -1)
        found = self._find_rows(wanted, since, end if before is None else min(before, end), limit + 1)
        return found if len(found.rows) <= limit else LogPage(found.rows[:limit], found.rows[limit - 1].place)

    def _find_oldest(self) -> int:
        return int((time.time() - self._options.days * _DAY) * MICROS)


def make_row(event: CallEvent) -> CallRow:
    """What is kept of an event."""
    # By place, as there: this is on the way of every call.
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
    """The event of a call that is over: its kind, owner, namespace, and what is known of it."""
    kind = "call.held" if row.code == Held.code else "call.ended"
    return kind, row.owner, row.tool.partition(TOOL_NAMESPACE_SEP)[0], row


class MemoryJournal(Journal):
    """The last calls of this process, and its last events, of calls from when they were first read."""

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
            self.tell(*describe_row(row))

    def tell(self, kind: str, owner: str, namespace: str, about: About) -> None:
        """See `Journal`."""
        with self._lock:
            self._count += 1
            self._events.append(Event(self._count, kind, owner, namespace, about))

    def get(self, number: int) -> CallRow | None:
        """See `Journal`."""
        return next((row for row in self._rows.copy() if row.number == number), None)

    def _find_rows(self, wanted: CallFilter, since: int, before: LogPosition, most: int) -> LogPage:
        # A copy, in one step: others add meanwhile.
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
