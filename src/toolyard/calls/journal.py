"""`Journal`: the sink that keeps one row of each call, for people and programs that look at calls later."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from toolyard.calls.sinks import CallEvent
from toolyard.model.call import Mode
from toolyard.model.errors import Held
from toolyard.model.tool import Tool
from toolyard.sessions.call_log import CallLog, CallLogOptions, CallRow, clean_text
from toolyard.sessions.session import Session
from toolyard.sessions.store.base import LogRow


def read_log_options(given: bool | CallLogOptions | UnsetType, *, serving: bool) -> CallLogOptions | None:
    """How calls are logged, as `tracing.log` says it; None for not at all."""
    if isinstance(given, CallLogOptions):
        return given
    return CallLogOptions() if (serving if given is UNSET else given) else None


class Journal:
    """A `StoredSink`: the row of a call that is recorded is in the transaction of its entry."""

    name = "journal"

    def __init__(self, log: CallLog) -> None:
        self.log = log

    def begin(self, number: int, tool: Tool, session: Session, mode: Mode) -> None:
        """Nothing yet."""

    def write_rows(self, event: CallEvent) -> tuple[LogRow, ...] | None:
        """See `StoredSink`."""
        row = self.log.write_row(make_row(event))
        return None if row is None else (row,)

    def emit(self, event: CallEvent) -> None:
        """Keep what no entry carries: calls outside of stored sessions, simulations, and what was cut off."""
        self.log.add(make_row(event))

    def close(self) -> None:
        """Nothing: the rows are the store's."""


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
