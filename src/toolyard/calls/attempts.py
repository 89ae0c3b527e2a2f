"""`answer_flow`: calls an engine through its gates, with retries and injected faults."""

from __future__ import annotations

from types import CoroutineType

import msgspec

from toolyard.calls.answerer import Answerer
from toolyard.calls.drive import Flow, await_coroutine, call_engine, enter_gate, pause, run_in_thread
from toolyard.calls.fault_effects import alter_answer, answer_instead, wait_for_fault
from toolyard.calls.faults import FaultPlan
from toolyard.calls.invocation import Invocation
from toolyard.loop.pacing import backoff_delay
from toolyard.model.errors import CallError, CallTimeout, Unavailable
from toolyard.model.tool import Effects
from toolyard.sessions.gate import Gate

_LONGEST_PAUSE = 60.0
"""Maximum seconds before a retry of a call without a deadline; a service may ask for a day."""


def answer_flow(engine: Answerer, invocation: Invocation, faults: FaultPlan | None, *, on_loop: bool) -> Flow:
    """Have an engine answer, with injected faults, gates and retries; raises `CallError`."""
    fault, name = None, invocation.tool.qualified_name
    if faults is not None:
        fault = faults.decide(name, invocation.session, invocation.mode)
    if fault is None:
        return (yield from _tries_flow(engine, invocation, on_loop))
    wait, late = wait_for_fault(fault, invocation)
    if wait:
        yield pause(wait)
    if late:
        raise CallTimeout(f"{name} was kept waiting past its deadline, and was not called", effect="none")
    if fault.replaces_call:
        return answer_instead(fault, invocation)
    try:
        value = yield from _tries_flow(engine, invocation, on_loop)
    except CallError:
        # The tool failed by itself, so the fault that was planned for its answer did not happen.
        if invocation.fault is fault and fault.type != "latency":
            invocation.fault = None
        raise
    return alter_answer(fault, invocation, value, engine.settings.max_result_bytes)


def _tries_flow(engine: Answerer, invocation: Invocation, on_loop: bool) -> Flow:
    """Call the engine through its gates, with as many retries as its settings allow."""
    gates = engine.gates.of(invocation.tool.qualified_name)
    # Keep a copy: the tool may change its arguments, and a retry must not see that.
    arguments = msgspec.json.encode(invocation.arguments) if engine.settings.retries else b""
    while True:
        inside: list[Gate] = []
        try:
            for gate in gates:
                if not (yield enter_gate(gate, invocation.deadline)):
                    raise _gate_full(invocation)
                inside.append(gate)
            if engine.blocks(invocation.tool) and (on_loop or invocation.deadline is not None):
                value = yield run_in_thread(engine, invocation)
            else:
                invocation.begun = True
                value = call_engine(engine, invocation)
            if type(value) is CoroutineType:
                value = yield await_coroutine(value, invocation)
            return value
        except CallError as error:
            seconds = _retry_pause(engine, invocation, error)
            if seconds is None:
                raise
        finally:
            _leave_gates(inside, invocation)
        yield pause(seconds)
        invocation.attempt += 1
        invocation.arguments = msgspec.json.decode(arguments)
        invocation.kept = None


def _retry_pause(engine: Answerer, invocation: Invocation, error: CallError) -> float | None:
    """Seconds to wait before a retry; None if the call must not be retried or the deadline would pass first."""
    settings = engine.settings
    if not error.info.retryable or invocation.attempt > settings.retries or invocation.left_behind is not None:
        return None
    keyed = engine.idempotent and invocation.idempotency_key is not None
    if invocation.tool.effects is not Effects.READ and not keyed:
        return None
    after = error.info.retry_after
    seconds = backoff_delay(invocation.attempt, settings.retry_delay) if after is None else after
    remaining = invocation.remaining
    most = _LONGEST_PAUSE if remaining is None else remaining
    return None if seconds >= most else seconds


def _leave_gates(gates: list[Gate], invocation: Invocation) -> None:
    """Return the places that one attempt took in the gates; abandoned work keeps them until it ends."""
    left = invocation.left_behind
    if left is None:
        _leave_all(gates)
    else:
        left.add_done_callback(lambda _: _leave_all(gates))


def _gate_full(invocation: Invocation) -> Unavailable:
    """The error for a call that got no place in a gate before its deadline."""
    return Unavailable(
        f"{invocation.tool.qualified_name} reached its deadline while waiting: the maximum number of calls is running",
        hint="try again later, or raise max_concurrent_calls",
    )


def _leave_all(gates: list[Gate]) -> None:
    for gate in reversed(gates):
        gate.leave()
