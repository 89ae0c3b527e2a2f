"""The call log: `CallRow`, the row of one call; `CallFilter`, which selects rows; and pages of rows.

A `Journal` stores the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.model.call import Mode
from toolyard.model.errors import Effect
from toolyard.model.names import glob_matcher

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


class LogPage(NamedTuple):
    """Rows, newest first, and where the next page begins, if any. A page may be short, or empty, though more follow."""

    rows: list[CallRow]
    next: LogPosition | None
