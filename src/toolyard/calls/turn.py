"""The turn that a batch takes in its session: in line, alone, in order, and given back whatever happens."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from threading import get_ident

from toolyard.calls.batch import Batch, InflightCalls, check_calls, check_timeout, find_recorded
from toolyard.calls.drive import Flow, LeaveTurn, Pause, TakeTurn, adrive, drive
from toolyard.calls.flow import call_flow
from toolyard.calls.plan import CallPath, CallPlans
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import NoEngine
from toolyard.sessions.session import Session, Stay
from toolyard.sessions.sessions import Sessions

_HELD_SECONDS = 0.005
"""How long a batch keeps the loop: a thousand quick calls must not keep everybody else waiting."""


def run_batch(path: CallPath, session: Session, calls: Sequence[ToolCall], batch: Batch) -> list[ToolResult]:
    """Take the session's turn and answer the calls from this thread."""
    results: list[ToolResult] = []
    return drive(batch_flow(path, session, calls, batch, results), results)


async def arun_batch(path: CallPath, session: Session, calls: Sequence[ToolCall], batch: Batch) -> list[ToolResult]:
    """`run_batch` for a task."""
    results: list[ToolResult] = []
    return await adrive(batch_flow(path, session, calls, batch, results), results)


def batch_flow(
    path: CallPath, session: Session, calls: Sequence[ToolCall], batch: Batch, results: list[ToolResult]
) -> Flow:
    """Take the turn, answer the calls in order, give it back."""
    inflight, take, stay, deserted = _check_batch(session, calls, batch), None, None, False
    gate, sessions = session.gate, path.sessions
    try:
        if session.durable or session.over or gate.line:
            take = _take_turn(path, session, calls, batch)
        else:
            try:
                # As in `Gate.enter_at_once`: no interrupt comes between taking the place and the `try` below.
                del gate.free[-1]
            except IndexError:
                take = _take_turn(path, session, calls, batch)
        try:
            if take is not None:
                yield take
            session.taken = True
            if batch.on_loop:
                stay = Stay(gate)
                stay.enter()
            else:
                session.holder = get_ident()
            yield from _answer_calls(path, session, calls, batch, inflight, results)
        except GeneratorExit:
            deserted = True
            raise
        finally:
            if take is None or take.taken:
                try:
                    if stay is not None:
                        stay.over = True
                    if batch.left_behind is not None or deserted:
                        _give_back(sessions, session, batch)
                    elif session.durable and batch.on_loop:
                        yield LeaveTurn(sessions, session)
                    else:
                        sessions.leave(session)
                except BaseException:
                    # An interrupt, wherever it came: the turn is given back all the same.
                    if session.taken and batch.holder is None:
                        sessions.leave_off_loop(session)
                    raise
    finally:
        if inflight is not None:
            inflight.over()


def _give_back(sessions: Sessions, session: Session, batch: Batch) -> None:
    left = batch.holder
    if left is not None:
        # Nobody's turn to take from inside any more: this thread may wait for it like any other.
        session.holder = None
        left.add_done_callback(partial(_leave_later, sessions, session))
    else:
        sessions.leave_off_loop(session)


def _check_batch(session: Session, calls: Sequence[ToolCall], batch: Batch) -> InflightCalls | None:
    """Refuse what is no batch; the calls that others may send again meanwhile, if there are any."""
    if batch.timeout is not None:
        check_timeout(batch.timeout)
    identified = check_calls(calls)
    return InflightCalls(session, calls) if identified and batch.mode == "execute" and session.kept else None


def _answer_calls(
    path: CallPath,
    session: Session,
    calls: Sequence[ToolCall],
    batch: Batch,
    inflight: InflightCalls | None,
    results: list[ToolResult],
) -> Flow:
    plans: CallPlans = path.plans(batch.mode)
    if batch.mode == "simulate":
        path.recorder.counts(session, plans.snapshot)
        session = session.draft()
    since = time.monotonic() if batch.on_loop and len(calls) > 1 else None
    for call in calls:
        if since is not None and time.monotonic() - since > _HELD_SECONDS:
            yield Pause(0)
            since = time.monotonic()
        result = None if inflight is None else inflight.answered(call)
        if result is None and batch.replay:
            result = find_recorded(session, call)
        if result is None:
            try:
                result = yield from call_flow(path, plans, batch, session, call)
            except BaseException:
                if inflight is not None and batch.cut_off is not None:
                    # It may have taken effect: whoever sent it again must not run it again unasked.
                    inflight.landed(*batch.cut_off)
                raise
        if inflight is not None:
            inflight.landed(call, result)
        results.append(result)


def _leave_later(sessions: Sessions, session: Session, _ended: object) -> None:
    sessions.leave_off_loop(session)


def _take_turn(path: CallPath, session: Session, calls: Sequence[ToolCall], batch: Batch) -> TakeTurn:
    return TakeTurn(path.sessions, session, _turn_deadline(path, calls, batch), f"a{batch.mode}")


def _turn_deadline(path: CallPath, calls: Sequence[ToolCall], batch: Batch) -> float | None:
    """How long to wait for the turn: as long as a call of the batch may take."""
    timeout = path.root.settings.timeout if batch.timeout is None else batch.timeout
    if timeout is None:
        timeout = _longest_timeout(path, calls)
    if batch.at_most is not None:
        timeout = batch.at_most if timeout is None else min(timeout, batch.at_most)
    return None if timeout is None else time.monotonic() + timeout


def _longest_timeout(path: CallPath, calls: Sequence[ToolCall]) -> float | None:
    """The longest time limit of the engines that will answer; None if one of them has none."""
    longest = None
    for call in calls:
        for tool in path.registry.snapshot.get(call.name)[:1]:
            try:
                timeout = path.root.route(tool).settings.timeout
            except NoEngine:
                continue
            if timeout is None:
                return None
            longest = timeout if longest is None else max(longest, timeout)
    return longest
