"""`Journal`: the sink that keeps one row of each call, and tells of calls as they begin and end, for those who look."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from toolyard.calls.sinks import CallEvent
from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.model.call import Mode
from toolyard.model.errors import Held
from toolyard.model.tool import Tool
from toolyard.sessions.call_log import CallLog, CallRow, clean_text
from toolyard.sessions.event_log import EventLog
from toolyard.sessions.session import Session
from toolyard.sessions.store.base import Key, LogRow


class BegunCall(msgspec.Struct, frozen=True):
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


class Journal:
    """A `StoredSink`: the row of a call that is recorded is in the transaction of its entry, and so is its event."""

    name = "journal"

    def __init__(self, log: CallLog, events: EventLog) -> None:
        self.log = log
        self.events = events

    def begin(self, number: int, tool: Tool, session: Session, mode: Mode) -> None:
        """See `StoredSink`."""
        key = session.key
        self.events.put("call.begun", key.owner, tool.namespace, BegunCall(number, time.time(), tool, mode, key))

    def write_rows(self, event: CallEvent) -> tuple[LogRow, ...] | None:
        """See `StoredSink`."""
        row = make_row(event)
        rows = (self.log.write_row(row), self.events.write_row(*_describe(row)))
        return None if None in rows else tuple(each for each in rows if each is not None)

    def emit(self, event: CallEvent) -> None:
        """Keep what no entry carries: calls outside of stored sessions, simulations, and what was cut off."""
        row = make_row(event)
        self.log.add(row)
        self.events.put(*_describe(row))

    def close(self) -> None:
        """Nothing: the rows are the store's."""


def _describe(row: CallRow) -> tuple[str, str, str, CallRow]:
    kind = "call.held" if row.code == Held.code else "call.ended"
    return kind, row.owner, row.tool.partition(TOOL_NAMESPACE_SEP)[0], row


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
    )
