"""A `call_id` that was answered before in a session: the answer again, and nothing runs."""

from __future__ import annotations

import msgspec

from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import CallConflict, StaleDefinition
from toolyard.sessions.entry import read_entry
from toolyard.sessions.session import Session

_encode = msgspec.json.Encoder(order="sorted").encode


def replayed(session: Session, call: ToolCall) -> ToolResult | None:
    """The recorded answer, a conflict if the id stands for another call, or None if it is new here.

    Only for whoever has the session's turn.
    """
    if call.call_id is None:
        return None
    known, history = session.answered, session.history
    # Whatever was added since, by whichever process, is looked at once.
    for number, text in enumerate(history.since(session.looked_at), session.looked_at):
        entry = read_entry(text)
        # Refused for what came along with it, not for what it asks: with the new catalog it may be sent again.
        if entry.tool_call.call_id is not None and not _was_stale(entry.tool_output):
            known.setdefault(entry.tool_call.call_id, number)
    session.looked_at = len(history)
    place = known.get(call.call_id)
    if place is None:
        return None
    entry = read_entry(next(history.since(place)))
    if _same(entry.tool_call, call):
        return entry.tool_output
    conflict = CallConflict(
        f"call_id {call.call_id!r} was used before in this session, for another call",
        hint="give every call an id of its own; to have it done again, send it with another id",
    )
    return ToolResult.failed(call, conflict.info)


def _was_stale(result: ToolResult) -> bool:
    return result.error_info is not None and result.error_info.code == StaleDefinition.code


def _same(recorded: ToolCall, call: ToolCall) -> bool:
    try:
        return recorded.name == call.name and _text(recorded) == _text(call)
    except (TypeError, ValueError, RecursionError):
        return False  # no JSON, so it cannot be what was recorded


def _text(call: ToolCall) -> bytes:
    # As text, because in Python 1, 1.0 and True are equal.
    return _encode((call.arguments, call.overload))
