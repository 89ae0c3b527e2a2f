"""`Journal`: the sink that keeps one row of each call, and tells what happens: to calls, approvals and sources.

Both are in the tables beside the sessions, where all processes that share the store see them, or in memory where there
are none. What was sent and what came back is in the session's history, not here.
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
from datetime import UTC, datetime
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
from toolyard.sessions.store import tables
from toolyard.sessions.store.base import Condition, Key, LogRow, Run
from toolyard.sessions.store.sql import LogTrimmer, SessionStore

SCANNED = 10_000
"""Rows that are looked at for one page."""
KEPT_EVENTS = 10_000
"""Events that can be read again."""
_EVENTS_AT_ONCE = 1000
_LONGEST, _MICROS, _DAY = 512, 1_000_000, 86_400
_SIGN = re.compile(r"([*?[])")

new_call_number = itertools.count(secrets.randbits(62)).__next__
"""A number for a call that no other has, in whatever process: counted from a random one."""


class CallLogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the call log is kept."""

    max_rows: Annotated[int, Meta(ge=1, description="Number of calls to keep; the oldest are removed first.")] = 100_000
    days: Annotated[float, Meta(gt=0, le=36_500, description="Days to keep a call.")] = 30.0


class LogPosition(NamedTuple):
    """A place in the log, between two rows."""

    at: int
    number: int


class CallRow(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One call that is over."""

    number: int
    time: float
    """Seconds since the epoch when it began."""
    duration: float
    """Seconds it took, waiting for its turn and for the store not included."""
    tool: str
    """Qualified name; what the caller wrote, if no tool has it."""
    mode: Mode
    session_id: str = ""
    """Empty for a call by itself."""
    owner: str = ""
    """The key that made it; empty where there are none."""
    code: str | None = None
    """Error code; None for success."""
    effect: Effect | None = None
    """Of a failed call: whether the world may have changed all the same."""
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
    """Seconds of each of `STEPS` that it came to."""

    @property
    def id(self) -> str:
        """Its name for others."""
        return write_call_id(self.number)

    @property
    def place(self) -> LogPosition:
        """Where it stands in the log: by when it ended."""
        return LogPosition(int((self.time + self.duration) * _MICROS), self.number)

    def to_dict(self) -> dict[str, Any]:
        """As programs see it, without what there is not."""
        shown = {key: getattr(self, key) for key in _SHOWN}
        began = datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds")
        rest = {key: value for key, value in shown.items() if value not in (None, "")}
        if self.owner:
            rest["key"] = self.owner
        if self.steps:
            rest["steps_ms"] = {name: round(took * 1000, 3) for name, took in zip(STEPS, self.steps, strict=False)}
        return {"id": self.id, "time": began, "duration_ms": round(self.duration * 1000, 3), **rest}

    @classmethod
    def from_dict(cls, shown: dict[str, Any]) -> CallRow:
        """The inverse of `to_dict`."""
        facts = {name: shown[name] for name in _SHOWN if name in shown}
        began, took = datetime.fromisoformat(shown["time"]).timestamp(), shown["duration_ms"] / 1000
        facts |= {"number": int(shown["id"], 16), "time": began, "duration": took, "owner": shown.get("key", "")}
        # A call that ended early has the first of them.
        steps = [shown["steps_ms"][name] / 1000 for name in STEPS if name in shown.get("steps_ms", ())]
        return msgspec.convert({**facts, "steps": steps}, cls)


STEPS = ("bind", "policy", "run", "check")
"""Of a call, in this order. What it takes to record it is not known before it is recorded."""
_SPELT = frozenset({"number", "time", "duration", "owner", "steps"})
_SHOWN = tuple(name for name in CallRow.__struct_fields__ if name not in _SPELT)


class BegunCall(msgspec.Struct, frozen=True, gc=False):
    """A call that is under way; described only if somebody reads it, since this is on the way of every call."""

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
    """Whose it is: the key's; empty for nobody's."""
    namespace: str
    about: About

    def to_json(self) -> bytes:
        """What is known of it."""
        return _write_about(self.about)


def _write_about(about: About) -> bytes:
    if isinstance(about, bytes):
        return about
    return msgspec.json.encode(about if isinstance(about, dict) else about.to_dict())


def write_call_id(number: int) -> str:
    """A call's number for others."""
    return f"{number:016x}"


def read_call_id(text: str) -> int | None:
    """The number; None if it is no such text."""
    try:
        number = int(text, 16)
    except ValueError:
        return None
    return number if text == write_call_id(number) and 0 <= number < 2**63 else None


def clean_text(text: str) -> str:
    """What a caller wrote, fit for every store and of bounded length."""
    cut = text[:_LONGEST]
    if cut.isascii() and "\0" not in cut:
        return cut
    return cut.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


class CallFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls are asked for; None for whichever."""

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

    def write_conditions(self) -> tuple[list[Condition], list[Condition]]:
        """For a store: one at most that an index answers, the one likely to leave fewest rows; and the others.

        Of a glob they have its beginning, up to the first sign, which is all of `hr::*`.
        """
        start, sign, *_ = (*_SIGN.split(self.tool or "", 1), "")
        indexed = _equal(session=self.session_id, tool=None if sign else self.tool, code=self.code, owner=self.owner)
        indexed += [("code IS NOT NULL", ())] if self.errors else []
        others = _equal(mode=self.mode, effect=self.effect, effects=self.effects)
        starts = ("" if self.namespace is None else self.namespace + TOOL_NAMESPACE_SEP, start if sign else "")
        others += [("substr(tool, 1, ?) = ?", (len(text), text)) for text in map(clean_text, starts) if text]
        # Of two indexes a store might take the one that leaves more; an expression has none.
        others += [(sql.replace(" ", " || '' ", 1), values) for sql, values in indexed[1:]]
        return indexed[:1], others

    def matcher(self) -> Callable[[CallRow], bool]:
        """Whether a row is asked for; when it ended is not looked at."""
        plain = [(name, getattr(self, name)) for name in ("session_id", "owner", "code", "mode", "effect", "effects")]
        plain = [(name, clean_text(value)) for name, value in plain if value is not None]
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


def _equal(**wanted: str | None) -> list[Condition]:
    return [(f"{name} = ?", (clean_text(value),)) for name, value in wanted.items() if value is not None]


class LogPage(NamedTuple):
    """Rows, newest first, and where to go on; a page may be short, or empty, although others come after it."""

    rows: list[CallRow]
    next: LogPosition | None


class Journal(ABC):
    """A sink of the tracer: the row of a call that is recorded is in the transaction of its entry, and so is its event.

    Takes rows and events from many threads, never waiting for a store.
    """

    name = "journal"
    epoch: str
    """Ids of events of another epoch say nothing here: what they counted is gone."""
    is_followed = True
    """False as long as nobody has an event's id to read on from, so that those of calls need not be told."""

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
        since = max(self._find_oldest(), int((wanted.since or 0.0) * _MICROS))
        end = LogPosition(2**63 - 1 if wanted.until is None else int(wanted.until * _MICROS), -1)
        found = self._find_rows(wanted, since, end if before is None else min(before, end), limit + 1)
        return found if len(found.rows) <= limit else LogPage(found.rows[:limit], found.rows[limit - 1].place)

    def _find_oldest(self) -> int:
        return int((time.time() - self._options.days * _DAY) * _MICROS)


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


def _describe_row(row: CallRow) -> tuple[str, str, str, CallRow]:
    kind = "call.held" if row.code == Held.code else "call.ended"
    return kind, row.owner, row.tool.partition(TOOL_NAMESPACE_SEP)[0], row


class MemoryJournal(Journal):
    """The last calls of this process, and its last events, of calls from when somebody first began to read them."""

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
            self.tell(*_describe_row(row))

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


class SqlJournal(Journal):
    """The calls, and the last events, of all processes that share a store; they go along with others' transactions."""

    epoch = "s"

    def __init__(self, store: SessionStore, options: CallLogOptions) -> None:
        super().__init__(options)
        self._store = store
        self._trimmers = {
            "calls": LogTrimmer(store, "calls", options.max_rows, self._find_oldest),
            "events": LogTrimmer(store, "events", KEPT_EVENTS),
        }

    def add(self, row: CallRow) -> None:
        """See `Journal`."""
        for each in self._write_row(row):
            self._store.add_lazily(each)

    def tell(self, kind: str, owner: str, namespace: str, about: About) -> None:
        """See `Journal`."""
        self._store.add_lazily(self._write_event(kind, owner, namespace, about))

    def write_rows(self, event: CallEvent) -> tuple[LogRow, ...]:
        """See `Journal`."""
        return self._write_row(make_row(event))

    def _write_row(self, row: CallRow) -> tuple[LogRow, LogRow]:
        self._trimmers["calls"].count()
        columns = (row.owner, row.session_id, row.tool, row.mode, row.code, row.effect, row.effects)
        rest = (row.time, row.duration, row.definition_hash, row.approval, row.argument_bytes, row.result_bytes)
        data = msgspec.msgpack.encode((*rest, row.call_id, row.request_id, row.seq, row.steps))
        return LogRow("calls", (*row.place, *columns, data)), self._write_event(*_describe_row(row))

    def _write_event(self, kind: str, owner: str, namespace: str, about: About) -> LogRow:
        self._trimmers["events"].count()
        return LogRow("events", (new_call_number(), kind, clean_text(owner), namespace, _write_about(about)))

    def get(self, number: int) -> CallRow | None:
        """See `Journal`."""
        rows = self._store.read(lambda run: tables.list_calls(run, [("id = ?", (number,))], 1))
        return _read_row(rows[0]) if rows else None

    def _find_rows(self, wanted: CallFilter, since: int, before: LogPosition, most: int) -> LogPage:
        indexed, rest = wanted.write_conditions()
        glob = wanted.tool if _SIGN.search((wanted.tool or "").removesuffix("*")) else None

        scan: list[Condition] = [("(at, id) < (?, ?)", before), *indexed, ("at >= ?", (since,))]

        def read(run: Run) -> tuple[LogPosition | None, list[Any]]:
            if not rest and glob is None:
                return None, tables.list_calls(run, scan, most)
            last = tables.list_calls(run, scan, 1, skipped=SCANNED - 1, columns="at, id")
            end = LogPosition(*last[0]) if last else None
            # By time as well, since SQLite does not seek by both.
            within = scan if end is None else [*scan[:-1], ("at >= ?", end[:1]), ("(at, id) >= (?, ?)", end)]
            return end, tables.list_calls(run, [*within, *rest], most if glob is None else SCANNED)

        end, rows = self._store.read(read)
        fits = glob_matcher([glob or "*"])
        fitting = [row for row in rows if fits(row[tables.TOOL_AT])]
        return LogPage(list(map(_read_row, fitting[:most])), end)

    def read_events(self, after: int) -> tuple[list[Event], bool]:
        """See `Journal`."""
        most, settled = _EVENTS_AT_ONCE, self._store.settled
        rows, first = self._store.read(lambda run: tables.list_events(run, after, most, settled))
        # Where nothing was read yet, ids need not begin with 1; but whatever was trimmed left as many as are kept.
        whole = not after and len(rows) < min(KEPT_EVENTS, most)
        return list(map(_read_event, rows)), whole or first is None or first <= after + 1

    def read_recent_events(self) -> list[Event]:
        """See `Journal`."""
        settled = self._store.settled
        rows = self._store.read(lambda run: tables.list_recent_events(run, KEPT_EVENTS, settled))
        return list(map(_read_event, rows))


def _read_row(row: Any) -> CallRow:
    _, number, owner, session_id, tool, mode, code, effect, effects, data = row
    # Rows of earlier versions end before their steps.
    began, took, *rest = (*msgspec.msgpack.decode(bytes(data)), ())[:10]
    told = (*rest[:7], tuple(rest[7]))
    return CallRow(int(number), began, took, tool, mode, session_id, owner, code, effect, effects, *told)


def _read_event(row: Any) -> Event:
    number, kind, owner, namespace, data = row
    return Event(int(number), kind, owner, namespace, bytes(data))


def open_journal(store: SessionStore | None, options: CallLogOptions) -> Journal:
    """The journal beside these sessions: in the same database, or in memory if there is none."""
    return MemoryJournal(options) if store is None else SqlJournal(store, options)
