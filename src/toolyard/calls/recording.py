"""Recording a call: its intent before it runs, and its entry afterwards, also of a call that was stopped.

An entry goes into the store first, if there is one, then into the history.
"""

from __future__ import annotations

import logging

from toolyard.calls.approval_flow import settle_claim
from toolyard.calls.batch import Batch
from toolyard.calls.call_path import CallPath
from toolyard.calls.invocation import Invocation
from toolyard.calls.tracer import CallTrace
from toolyard.calls.waits import Flow, write_store
from toolyard.model.call import ToolResult
from toolyard.model.errors import SessionError
from toolyard.sessions.history import call_text, interrupted
from toolyard.sessions.session import Session
from toolyard.sessions.state import Changes

_log = logging.getLogger("toolyard.calls.flow")  # filters of users may name it

_CANCELLED = "the call was cancelled before it was answered"
_NO_CHANGES: Changes = {}


def announce_call(path: CallPath, session: Session, invocation: Invocation, trace: CallTrace | None) -> Flow:
    """Store the intent before a call that may change something begins, so that a crash does not hide it."""
    text = call_text(invocation.call, invocation.bound.sent)
    cancelled = yield write_store(path.sessions, path.sessions.intent(session, text))
    invocation.announced = True
    if trace is not None:
        trace.end_step("policy")
    if cancelled is not None:
        raise cancelled


def stamp_entry(path: CallPath, batch: Batch, entry: bytes) -> tuple[bytes, float, float]:
    """An entry with its time and the duration of its call."""
    at = path.clock()
    return entry, at, at - batch.begun


def commit_entry(
    path: CallPath,
    session: Session,
    stamped: tuple[bytes, float, float],
    changes: Changes,
    invocation: Invocation | None,
) -> None:
    """Append an entry to the history in memory. For a durable session, the store must have it already."""
    if not session.is_recorded:
        return
    entry, at, took = stamped
    session.commit(entry, changes, at, took)
    if session.room < 0:
        path.sessions.quota.measure(session)
    if path.counting and session.counts is not None and invocation is not None and invocation.begun:
        name = invocation.tool.qualified_name
        session.counts[name] = session.counts.get(name, 0) + 1


def store_entry(
    path: CallPath,
    batch: Batch,
    session: Session,
    answered: tuple[ToolResult, bytes, Changes],
    invocation: Invocation | None,
    trace: CallTrace | None,
) -> Flow:
    """Write an entry to the store, then to the history; returns a cancellation received in the meantime, else None."""
    result, entry, changes = answered
    stamped = stamp_entry(path, batch, entry)
    write = path.sessions.addition(session, entry, changes, *stamped[1:])
    if trace is not None:
        write = trace.add_rows(write, invocation, result)
    try:
        cancelled = yield write_store(path.sessions, write)
    except BaseException as error:
        _cut_trace(trace, invocation)
        if batch.claim is not None and not isinstance(error, GeneratorExit):
            yield from settle_claim(path, batch, session, None)
        raise
    commit_entry(path, session, stamped, changes, invocation)
    return cancelled


def _interruption(batch: Batch, invocation: Invocation) -> bytes:
    """The entry of a call whose driver was stopped after it began."""
    batch.leave_behind(invocation)
    return interrupted(call_text(invocation.call, invocation.bound.sent), _CANCELLED)


def stop_call(
    path: CallPath,
    batch: Batch,
    session: Session,
    invocation: Invocation | None,
    trace: CallTrace | None,
    error: BaseException,
) -> Flow:
    """Record a call that is cancelled or interrupted: an entry if it began, else the withdrawal of its intent."""
    if isinstance(error, GeneratorExit):
        _close_call(path, batch, session, invocation, trace)
        return
    begun = invocation is not None and invocation.begun
    if batch.claim is not None:
        yield from settle_claim(path, batch, session, None, begun=begun)
    if invocation is None or not begun:
        _cut_trace(trace, invocation)
        if invocation is not None and invocation.announced and not session.is_over:
            yield write_store(path.sessions, path.sessions.withdrawal(session))
        return
    stamped = stamp_entry(path, batch, _interruption(batch, invocation))
    try:
        if session.durable and not session.is_over:
            yield write_store(path.sessions, path.sessions.addition(session, stamped[0], _NO_CHANGES, *stamped[1:]))
        commit_entry(path, session, stamped, _NO_CHANGES, invocation)
    except SessionError as error:
        # Do not replace the cancellation with the store's error; the store has the intent already.
        _log.warning("session %s: a cancelled call could not be recorded: %s", session.key.session_id, error)
    _cut_trace(trace, invocation)


def _close_call(
    path: CallPath, batch: Batch, session: Session, invocation: Invocation | None, trace: CallTrace | None
) -> None:
    """Clean up after the flow was closed, when it can no longer wait. A store still has the intent of a begun call."""
    if invocation is not None and invocation.begun:
        entry = _interruption(batch, invocation)
        if not session.durable:
            commit_entry(path, session, stamp_entry(path, batch, entry), _NO_CHANGES, invocation)
    _cut_trace(trace, invocation)


def _cut_trace(trace: CallTrace | None, invocation: Invocation | None) -> None:
    """End the trace of a call that has no result."""
    if trace is not None:
        trace.cut(invocation)
