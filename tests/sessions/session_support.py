"""Shared by the tests of sessions: a manual clock, and completed calls as the call path creates them."""

import time

from toolyard.model.call import ToolCall, ToolResult
from toolyard.sessions.history import any_call_text, entry_text, result_text

SOON = 10


def entry(number=1):
    call = ToolCall("n::a", {"x": number})
    return entry_text(any_call_text(call), result_text(ToolResult(None, "n::a", number), b"%d" % number))


def add(sessions, session, number=1, changes=None):
    """Add one completed call, as the call path does."""
    sessions.enter(session, time.monotonic() + SOON, twin="aexecute")
    try:
        if session.durable:
            sessions.store.write(sessions.addition(session, entry(number), changes or {}))
        session.commit(entry(number), changes)
    finally:
        sessions.leave(session)


def numbers(sessions, session_id, owner=None):
    state = sessions.state(session_id, owner)
    return None if state is None else [item["tool_call"]["arguments"]["x"] for item in state["tool_executions"]]
