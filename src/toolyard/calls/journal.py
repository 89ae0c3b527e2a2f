"""`Journal`: the sink that keeps one row of each call, and the events of calls, approvals and sources.

`CallRow` is such a row, and `CallFilter` selects some of them. All is stored in tables next to the sessions, visible to
all processes that share the store, or in memory without a store. Arguments and results are in the session's history,
not here.
"""

from __future__ import annotations

import itertools
import re
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from toolyard.calls.sinks import CallEvent
from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.model.call import Mode
from toolyard.model.errors import Effect, Held
from toolyard.model.names import glob_matcher
from toolyard.model.tool import Tool
from toolyard.sessions.session import Session
from toolyard.sessions.store.base import Key, LogRow

MICROS = 1_000_000
"""Microseconds per second, the unit of positions."""


class LogPosition(NamedTuple):
    """A position in the log: when a call ended, in microseconds since the epoch, and its number."""

    at: int
    number: int


class CallRow(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One finished call."""

    number: int
    time: float
    """Seconds since the epoch when it began."""
    duration: float
    """Seconds, without the wait for the turn and the write to the store."""
    tool: str
    """Qualified name; the caller's spelling if no such tool exists."""
    mode: Mode
    session_id: str = ""
    """Empty for a call without a session."""
    owner: str = ""
    """Id of the caller's key; empty if none."""
    code: str | None = None
    """Error code; None for success."""
    effect: Effect | None = None
    """Of a failed call: whether it may have taken effect."""
    effects: str | None = None
    """What the tool does: read, write or unknown."""
    definition_hash: str | None = None
    approval: str | None = None
    argument_bytes: int | None = None
    result_bytes: int | None = None
    call_id: str | None = None
    request_id: str | None = None
    seq: int | None = None
    """Number of its entry in the history of the session."""
    steps: tuple[float, ...] = ()
    """Seconds of each of `STEPS` that the call reached."""

    @property
    def id(self) -> str:
        """The public id."""
        return write_call_id(self.number)

    @property
    def place(self) -> LogPosition:
        """Its position in the log, by the time it ended."""
        return LogPosition(int((self.time + self.duration) * MICROS), self.number)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for users of the API, without empty fields."""
        began = datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds")
        shown = {"id": self.id, "time": began, "duration_ms": round(self.duration * 1000, 3)}
        rest: dict[str, Any] = msgspec.to_builtins(self)
        for name in _SPELT:
            rest.pop(name, None)
        if self.owner:
            rest["key"] = self.owner
        if self.steps:
            rest["steps_ms"] = {name: round(took * 1000, 3) for name, took in zip(STEPS, self.steps, strict=False)}
        return shown | rest

    @classmethod
    def from_dict(cls, shown: dict[str, Any]) -> CallRow:
        """The inverse of `to_dict`."""
        facts = {name: shown[name] for name in _SHOWN if name in shown}
        began, took = datetime.fromisoformat(shown["time"]).timestamp(), shown["duration_ms"] / 1000
        facts |= {"number": int(shown["id"], 16), "time": began, "duration": took, "owner": shown.get("key", "")}
        # A call that ended early has only the first steps.
        steps = [shown["steps_ms"][name] / 1000 for name in STEPS if name in shown.get("steps_ms", ())]
        return msgspec.convert({**facts, "steps": steps}, cls)


STEPS = ("bind", "policy", "run", "check")
"""The timed steps of a call, in order. Recording is not one: the row is written with the record."""
_SPELT = frozenset({"number", "time", "duration", "owner", "steps"})
_SHOWN = tuple(name for name in CallRow.__struct_fields__ if name not in _SPELT)


def write_call_id(number: int) -> str:
    """The public id for a call's number."""
    return f"{number:016x}"


def read_call_id(text: str) -> int | None:
    """The number of a public id; None if the text is not one."""
    try:
        number = int(text, 16)
    except ValueError:
        return None
    return number if text == write_call_id(number) and 0 <= number < 2**63 else None


QUERY_NAMES = {"session_id": "session", "owner": "key"}
"""The fields of a filter that have another name in queries of the HTTP API."""


class CallFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects calls; a field that is None matches all."""

    tool: str | None = None
    """A glob of qualified names."""
    namespace: str | None = None
    session_id: str | None = None
    owner: str | None = None
    code: str | None = None
    mode: str | None = None
    effect: str | None = None
    effects: str | None = None
    since: float | None = None
    """Seconds since the epoch: calls that ended then or later."""
    until: float | None = None
    """Calls that ended before that."""
    errors: bool = False
    """Only calls that failed."""

    def map_texts(self, change: Callable[[str], str]) -> CallFilter:
        """The same filter with every text in it changed."""
        texts = {name: value for name in self.__struct_fields__ if isinstance(value := getattr(self, name), str)}
        return msgspec.structs.replace(self, **{name: change(value) for name, value in texts.items()})

    def matcher(self) -> Callable[[CallRow], bool]:
        """A function that tells whether a row matches; `since` and `until` are not checked."""
        names = ("session_id", "owner", "code", "mode", "effect", "effects")
        plain = [(name, value) for name in names if (value := getattr(self, name)) is not None]
        named = None if self.tool is None else glob_matcher([self.tool])
        prefix = "" if self.namespace is None else f"{self.namespace}{TOOL_NAMESPACE_SEP}"

        def fits(row: CallRow) -> bool:
            return (
                (row.code is not None or not self.errors)
                and all(getattr(row, name) == value for name, value in plain)
                and row.tool.startswith(prefix)
                and (named is None or bool(named(row.tool)))
            )

        return fits


_SPAN = re.compile(r"([0-9]{1,9})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
TIMES = "2026-01-31, 2026-01-31T08:30 or 2026-01-31T08:30:00+01:00, or how long ago: 15m, 12h, 30d"
"""What `read_time` reads."""


def read_span(text: str) -> float | None:
    """The seconds of a span such as 90s, 15m, 12h, 30d or 8w; None if the text is none."""
    found = _SPAN.fullmatch(text)
    return None if found is None else float(int(found[1]) * _SECONDS[found[2]])


def read_time(text: str, zone: tzinfo | None = None) -> float:
    """The time of `TIMES`, in seconds since the epoch. Without an offset it is in `zone`, by default the local one."""
    span = read_span(text)
    try:
        moment = datetime.fromisoformat(text) if span is None else datetime.fromtimestamp(time.time() - span, UTC)
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time; write {TIMES}") from None


class LogPage(NamedTuple):
    """Rows, newest first, and where the next page begins, if any. A page may be short, or empty, though more follow."""

    rows: list[CallRow]
    next: LogPosition | None


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
