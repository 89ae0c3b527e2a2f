"""`CallLog`: one row a call, newest first; in the tables beside the sessions, or in memory where there are none.

What was sent and what came back is in the session's history, not here.
"""

from __future__ import annotations

import itertools
import secrets
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.model.call import Mode
from toolyard.model.errors import Effect
from toolyard.model.names import glob_matcher
from toolyard.sessions.store.base import LogRow, SessionStore
from toolyard.sessions.store.log_tables import LEADING, SCANNED, CallQuery, get_call
from toolyard.sessions.store.sql import SqlStore
from toolyard.sessions.trimmer import Trimmer

_LONGEST = 512
_MICROS = 1_000_000
_DAY = 86_400
_GLOB = frozenset("*?[")

_numbers = itertools.count(secrets.randbits(62))


def new_call_number() -> int:
    """A number for a call that no other has, in whatever process: counted from a random one."""
    return next(_numbers)


class CallLogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the call log is kept."""

    max_rows: Annotated[int, Meta(ge=1, description="Calls that are kept; the oldest go first.")] = 100_000
    days: Annotated[float, Meta(gt=0, le=36_500, description="Days that a call is kept.")] = 30.0


class CallRow(msgspec.Struct, frozen=True, omit_defaults=True):
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
        key = {"key": self.owner} if self.owner else {}
        return {"id": self.id, "time": began, "duration_ms": round(self.duration * 1000, 3), **rest, **key}


class LogPosition(NamedTuple):
    """A place in the log, between two rows."""

    at: int
    number: int


_COLUMNS = ("owner", "session_id", "tool", "mode", "code", "effect", "effects")
_REST = tuple(name for name in CallRow.__struct_fields__ if name not in ("number", *_COLUMNS))
_SHOWN = tuple(name for name in CallRow.__struct_fields__ if name not in ("number", "time", "duration", "owner"))


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

    def is_exact(self, column: str) -> bool:
        """True if the condition names one value."""
        value = getattr(self, _FIELDS[column])
        return value is not None and (column != "tool" or not _GLOB & set(value))


_FIELDS = {"session": "session_id", "tool": "tool", "code": "code", "owner": "owner"}
_PLAIN = {**_FIELDS, "mode": "mode", "effect": "effect", "effects": "effects"}


class LogPage(NamedTuple):
    """Rows, newest first, and where to go on; a page may be short, or empty, although others come after it."""

    rows: list[CallRow]
    next: LogPosition | None


class CallLog(ABC):
    """Takes rows from many threads, never waiting for a store."""

    @abstractmethod
    def add(self, row: CallRow) -> None:
        """Keep a row."""

    def write_row(self, row: CallRow) -> LogRow | None:
        """The row for a store, to go along with the entry of its call in place of `add`; None if there is no store."""
        return None

    @abstractmethod
    def list(self, wanted: CallFilter, limit: int, before: LogPosition | None = None) -> LogPage:
        """A page of the calls that fit."""

    @abstractmethod
    def get(self, number: int) -> CallRow | None:
        """One call."""


class MemoryCallLog(CallLog):
    """The last calls of this process."""

    def __init__(self, options: CallLogOptions, *, clock: Callable[[], float] = time.time) -> None:
        self._rows: deque[CallRow] = deque(maxlen=options.max_rows)
        self._kept = options.days * _DAY
        self._clock = clock

    def add(self, row: CallRow) -> None:
        """See `CallLog`."""
        self._rows.append(row)

    def list(self, wanted: CallFilter, limit: int, before: LogPosition | None = None) -> LogPage:
        """See `CallLog`."""
        fits, oldest = _matcher(wanted), self._clock() - self._kept
        found: list[CallRow] = []
        seen = 0
        # A copy, in one step: others add meanwhile.
        for row in reversed(self._rows.copy()):
            place = row.place
            if before is not None and place >= before:
                continue
            if len(found) == limit:
                return LogPage(found, found[-1].place)
            if seen == SCANNED:
                return LogPage(found, LogPosition(place.at, place.number + 1))
            seen += 1
            if row.time >= oldest and fits(row):
                found.append(row)
        return LogPage(found, None)

    def get(self, number: int) -> CallRow | None:
        """See `CallLog`."""
        return next((row for row in self._rows.copy() if row.number == number), None)


def _matcher(wanted: CallFilter) -> Callable[[CallRow], bool]:
    plain = [(name, getattr(wanted, name)) for name in _PLAIN.values() if name != "tool"]
    plain = [(name, clean_text(value)) for name, value in plain if value is not None]
    named = None if wanted.tool is None else glob_matcher([wanted.tool])
    prefix = "" if wanted.namespace is None else f"{wanted.namespace}{TOOL_NAMESPACE_SEP}"
    since, until = wanted.since or 0.0, wanted.until or float("inf")

    def fits(row: CallRow) -> bool:
        return (
            since <= row.time + row.duration < until
            and (row.code is not None or not wanted.errors)
            and all(getattr(row, name) == value for name, value in plain)
            and row.tool.startswith(prefix)
            and (named is None or bool(named(row.tool)))
        )

    return fits


class SqlCallLog(CallLog):
    """The calls of all processes that share a store; rows go along with the transactions of others."""

    def __init__(self, store: SqlStore, options: CallLogOptions, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._options = options
        self._clock = clock
        self._trimmer = Trimmer(store, "calls", options.max_rows, self._find_oldest)

    def add(self, row: CallRow) -> None:
        """See `CallLog`."""
        self._store.add_lazily(self.write_row(row))

    def write_row(self, row: CallRow) -> LogRow:
        """See `CallLog`."""
        self._trimmer.count()
        data = msgspec.msgpack.encode([getattr(row, name) for name in _REST])
        return LogRow("calls", (*row.place, *[getattr(row, name) for name in _COLUMNS], data))

    def list(self, wanted: CallFilter, limit: int, before: LogPosition | None = None) -> LogPage:
        """See `CallLog`."""
        oldest = self._clock() - self._options.days * _DAY
        query = _ask(wanted, oldest, before)
        rows, place = self._store.read(lambda run: query.list(run, limit))
        named = None if wanted.tool is None else glob_matcher([wanted.tool])
        # The database may take letters of either case for the same, and knows no brackets.
        found = [row for row in map(_read_row, rows) if named is None or named(row.tool)]
        return LogPage(found, None if place is None else LogPosition(*place))

    def _find_oldest(self) -> int:
        return int((self._clock() - self._options.days * _DAY) * _MICROS)

    def get(self, number: int) -> CallRow | None:
        """See `CallLog`."""
        row = self._store.read(lambda run: get_call(run, number))
        return None if row is None else _read_row(row)


def _ask(wanted: CallFilter, oldest: float, before: LogPosition | None) -> CallQuery:
    query = CallQuery()
    leading = next((column for column in LEADING if wanted.is_exact(column)), None)
    if leading is not None:
        query.narrow(f"{leading} = ?", clean_text(getattr(wanted, _FIELDS[leading])))
    elif wanted.errors:
        query.narrow("code IS NOT NULL")
    query.narrow("at >= ?", int(max(oldest, wanted.since or 0.0) * _MICROS))
    if wanted.until is not None:
        query.narrow("at < ?", int(wanted.until * _MICROS))
    if before is not None:
        query.narrow("(at, id) < (?, ?)", *before)
    for column, name in _PLAIN.items():
        value = getattr(wanted, name)
        if value is None or column == leading:
            continue
        if column == "tool" and not wanted.is_exact("tool"):
            query.restrict("tool LIKE ? ESCAPE '!'", _write_like(value))
        else:
            query.restrict(f"{column} = ?", clean_text(value))
    if wanted.errors and leading is not None:
        query.restrict("code IS NOT NULL")
    if wanted.namespace is not None:
        prefix = clean_text(f"{wanted.namespace}{TOOL_NAMESPACE_SEP}")
        query.restrict("tool >= ? AND tool < ?", prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))
    return query


def _write_like(glob: str) -> str:
    """A pattern for at least what the glob stands for; where brackets begin, anything may follow."""
    plain, bracket, _ = clean_text(glob).partition("[")
    escaped = "".join(f"!{char}" if char in "!%_" else char for char in plain)
    return escaped.replace("*", "%").replace("?", "_") + ("%" if bracket else "")


def _read_row(row: Any) -> CallRow:
    rest = dict(zip(_REST, msgspec.msgpack.decode(bytes(row[9])), strict=False))
    return CallRow(number=int(row[1]), **dict(zip(_COLUMNS, row[2:9], strict=True)), **rest)


def open_call_log(store: SessionStore | None, options: CallLogOptions) -> CallLog:
    """The log beside these sessions: in the same database, or in memory if there is none."""
    return SqlCallLog(store, options) if isinstance(store, SqlStore) else MemoryCallLog(options)
