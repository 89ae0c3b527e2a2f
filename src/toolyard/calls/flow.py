"""The one path of a call, in the order in which it is written here.

    bind -> scope -> policy -> fault -> gate -> run -> check -> record -> trace

A flow never waits by itself: it yields what is to be waited for, and whoever drives it does that in a thread or in a
task. It raises nothing but bugs and what stops its driver. Every face of the house comes by here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from types import CoroutineType

from toolyard.calls.batch import Batch
from toolyard.calls.deadline import (
    begin_again,
    call_engine,
    check_thread,
    gate_full,
    keep_arguments,
    leave_gates,
    retry_pause,
)
from toolyard.calls.drive import AnswerInThread, AskApproval, AwaitAnswer, EnterGate, Flow, Pause, WriteStore
from toolyard.calls.failure import check_writable, failure_result
from toolyard.calls.fault_effects import alter_answer, answer_instead, check_time, own_failure_first, wait_for_fault
from toolyard.calls.faults import FaultPlan
from toolyard.calls.invocation import Answerer, Invocation
from toolyard.calls.plan import CallPath, CallPlan, CallPlans
from toolyard.calls.policy import Policy
from toolyard.calls.request import bind_within, check_known
from toolyard.calls.result import make_result
from toolyard.calls.tracer import CallTrace
from toolyard.model.call import ToolCall
from toolyard.model.errors import CallError, SessionError, Unavailable
from toolyard.registry.bind import Bound, bind
from toolyard.sessions.gate import Gate
from toolyard.sessions.history import call_text, interrupted, read_entry
from toolyard.sessions.session import Session
from toolyard.sessions.state import Changes
from toolyard.sessions.store import Write

_log = logging.getLogger(__name__)

_CANCELLED = "the call was cancelled before it was answered"
_NO_CHANGES: Changes = {}


def call_flow(path: CallPath, plans: CallPlans, batch: Batch, session: Session, call: ToolCall) -> Flow:
    """Answer one call in a session whose turn the batch has; a failure is a result too."""
    invocation, announced, cancelled, batch.bound = None, False, None, None
    trace = None if path.tracer is None else CallTrace(path.tracer, session, call, batch.mode)
    try:
        bound = batch.bound = _bind_call(plans, batch, call)
        plan = _plan_call(plans, batch, bound, trace)
        if path.policy is not None:
            ask = _check_policy(path, path.policy, batch, session, bound)
            if ask is not None:
                yield AskApproval(path.approver_threads, ask)
        invocation = _make_invocation(plan, batch, session, call, bound)
        if session.durable and plan.announces and not session.over:
            cancelled = yield WriteStore(path.recorder, path.recorder.intent(session, call_text(call, bound.sent)))
            announced = True
            if cancelled is not None:
                raise cancelled
        if plan.is_limited:
            value = yield from answer_flow(plan.engine, invocation, plan.faults, on_loop=batch.on_loop)
        elif plan.blocks and (batch.on_loop or invocation.deadline is not None):
            value = yield AnswerInThread(plan.engine, invocation)
        else:
            invocation.begun = True
            value = call_engine(plan.engine, invocation) if plan.function is None else plan.function(bound.arguments)
        if type(value) is CoroutineType:
            value = yield AwaitAnswer(value, invocation)
        result, entry, changes = make_result(plan, invocation, value)
    except CallError as error:
        result, entry = failure_result(call, batch.bound, invocation, error, path.redactor, discreet=path.discreet)
        changes = _NO_CHANGES
    except GeneratorExit:
        _desert_call(path, batch, session, invocation, trace)
        raise
    except BaseException:
        yield from _stop_call(path, batch, session, invocation, trace, announced=announced)
        raise
    if invocation is not None and invocation.left_behind is not None:
        batch.leave_behind(invocation)
    if session.durable and not session.over:
        cancelled = yield from _store_entry(path, invocation, path.recorder.addition(session, entry, changes), trace)
    if changes or path.recorder.counting:
        path.recorder.commit(session, entry, changes, invocation)
    elif session.kept:
        session.history.append(entry)
    if trace is not None:
        trace.end(invocation, result)
    if cancelled is not None:
        raise cancelled
    return result


def _store_entry(path: CallPath, invocation: Invocation | None, write: Write, trace: CallTrace | None) -> Flow:
    try:
        return (yield WriteStore(path.recorder, write))
    except BaseException:
        _cut_trace(trace, invocation)
        raise


def _bind_call(plans: CallPlans, batch: Batch, call: ToolCall) -> Bound:
    if batch.left_behind is not None and not batch.left_behind.done():
        raise Unavailable(
            "an earlier call of this session is still running past its deadline, so this one was not begun",
            hint="send it again later, or use another session",
        )
    if call.call_id is not None:
        check_writable(call.call_id)
    if batch.scope is None:
        return bind(plans.snapshot, call)
    return bind_within(plans.snapshot, batch.mode, call, batch.scope)


def _plan_call(plans: CallPlans, batch: Batch, bound: Bound, trace: CallTrace | None) -> CallPlan:
    if trace is not None:
        trace.begin(bound.tool, bound, plans.snapshot.generation)
    if batch.definitions is not None:
        check_known(bound.tool, batch.definitions)
    plan = plans.get(bound.prepared) or plans.add(bound.prepared)
    if plan.is_async and not batch.on_loop:
        # Before there is a coroutine that could not be awaited.
        check_thread(f"a{batch.mode}")
    return plan


def _check_policy(
    path: CallPath, policy: Policy, batch: Batch, session: Session, bound: Bound
) -> Callable[[], None] | None:
    """Raise `Denied` unless the call may run; what is left to do where somebody may have to be asked."""
    counts = path.recorder.counts(session, path.registry.snapshot) if path.recorder.counting else {}
    check = partial(policy.check, bound.tool, session_id=session.key.session_id, arguments=bound.arguments)
    if path.asks:
        return partial(check, counts=counts, mode=batch.mode)
    check(counts=counts, mode=batch.mode)
    return None


def _make_invocation(plan: CallPlan, batch: Batch, session: Session, call: ToolCall, bound: Bound) -> Invocation:
    if batch.timeout is None and batch.at_most is None:
        timeout = plan.timeout
    else:
        timeout = plan.time_limit(batch.timeout, batch.at_most)
    return Invocation(
        plan.tool,
        bound.arguments,
        call,
        batch.mode,
        None if timeout is None else time.monotonic() + timeout,
        1,
        plan.engine.name,
        bound,
        session,
        batch.context,
        batch.trace,
        None if batch.notify is None else partial(batch.notify, call),
        held=plan.held,
    )


def answer_flow(engine: Answerer, invocation: Invocation, faults: FaultPlan | None, *, on_loop: bool) -> Flow:
    """Have an engine answer, with what goes wrong on purpose, its limits and its retries; raises `CallError`."""
    fault = None
    if faults is not None:
        fault = faults.decide(invocation.tool.qualified_name, invocation.session, invocation.mode)
    if fault is None:
        return (yield from _tries_flow(engine, invocation, on_loop))
    wait, late = wait_for_fault(fault, invocation)
    if wait:
        yield Pause(wait)
    check_time(invocation, late)
    if fault.instead:
        return answer_instead(fault, invocation)
    with own_failure_first(invocation):
        value = yield from _tries_flow(engine, invocation, on_loop)
    return alter_answer(fault, invocation, value, engine.settings.max_result_bytes)


def _tries_flow(engine: Answerer, invocation: Invocation, on_loop: bool) -> Flow:
    """Through the engine's gates, and as often as its settings allow."""
    gates, arguments = engine.gates.of(invocation.tool.qualified_name), keep_arguments(engine, invocation)
    while True:
        inside: list[Gate] = []
        try:
            for gate in gates:
                if not (yield EnterGate(gate, invocation.deadline)):
                    raise gate_full(invocation)
                inside.append(gate)
            if engine.blocks(invocation.tool) and (on_loop or invocation.deadline is not None):
                value = yield AnswerInThread(engine, invocation)
            else:
                invocation.begun = True
                value = call_engine(engine, invocation)
            if type(value) is CoroutineType:
                value = yield AwaitAnswer(value, invocation)
            return value
        except CallError as error:
            pause = retry_pause(engine, invocation, error)
            if pause is None:
                raise
        finally:
            leave_gates(inside, invocation)
        yield Pause(pause)
        begin_again(invocation, arguments)


def _interruption(batch: Batch, invocation: Invocation) -> bytes:
    """The entry of a call that was begun when its driver was stopped."""
    batch.leave_behind(invocation)
    entry = interrupted(call_text(invocation.call, invocation.bound.sent), _CANCELLED)
    batch.cut_off = (invocation.call, read_entry(entry).tool_output)
    return entry


def _stop_call(
    path: CallPath,
    batch: Batch,
    session: Session,
    invocation: Invocation | None,
    trace: CallTrace | None,
    *,
    announced: bool,
) -> Flow:
    """Record what is known of a call that is being cancelled or interrupted."""
    if invocation is None or not invocation.begun:
        _cut_trace(trace, invocation)
        if announced and not session.over:
            yield WriteStore(path.recorder, path.recorder.withdrawal(session))
        return
    entry = _interruption(batch, invocation)
    try:
        if session.durable and not session.over:
            yield WriteStore(path.recorder, path.recorder.addition(session, entry, _NO_CHANGES))
        path.recorder.commit(session, entry, _NO_CHANGES, invocation)
    except SessionError as error:
        # A store that fails now must not take the place of what stops the caller; the intent is in it already.
        _log.warning("session %s: a cancelled call could not be recorded: %s", session.key.session_id, error)
    _cut_trace(trace, invocation)


def _desert_call(
    path: CallPath, batch: Batch, session: Session, invocation: Invocation | None, trace: CallTrace | None
) -> None:
    """Whoever drove the flow is gone, and nothing can be waited for: a store finds out by the intent it has."""
    if invocation is not None and invocation.begun:
        entry = _interruption(batch, invocation)
        if not session.durable:
            path.recorder.commit(session, entry, _NO_CHANGES, invocation)
    _cut_trace(trace, invocation)


def _cut_trace(trace: CallTrace | None, invocation: Invocation | None) -> None:
    """No result came of the call; whoever listens must hear of its end all the same."""
    if trace is not None:
        trace.cut(invocation)
