"""How often an engine is asked, and after what: through its gates, with its retries, with faults made on purpose."""

from __future__ import annotations

from types import CoroutineType

import msgspec

from toolyard.calls.deadline import call_engine
from toolyard.calls.drive import Flow, await_answer, enter_gate, pause, run_in_thread
from toolyard.calls.fault_effects import alter_answer, answer_instead, check_time, own_failure_first, wait_for_fault
from toolyard.calls.faults import FaultPlan
from toolyard.calls.invocation import Invocation
from toolyard.calls.plan import Answerer
from toolyard.loop.pacing import backoff_delay
from toolyard.model.errors import CallError, Unavailable
from toolyard.model.tool import Effects
from toolyard.sessions.gate import Gate

_LONGEST_PAUSE = 60.0
"""Seconds that a call without a deadline is kept waiting for another try; a service may ask for a day."""


def answer_flow(engine: Answerer, invocation: Invocation, faults: FaultPlan | None, *, on_loop: bool) -> Flow:
    """Have an engine answer, with what goes wrong on purpose, its limits and its retries; raises `CallError`."""
    fault = None
    if faults is not None:
        fault = faults.decide(invocation.tool.qualified_name, invocation.session, invocation.mode)
    if fault is None:
        return (yield from _tries_flow(engine, invocation, on_loop))
    wait, late = wait_for_fault(fault, invocation)
    if wait:
        yield pause(wait)
    check_time(invocation, late)
    if fault.instead:
        return answer_instead(fault, invocation)
    with own_failure_first(invocation):
        value = yield from _tries_flow(engine, invocation, on_loop)
    return alter_answer(fault, invocation, value, engine.settings.max_result_bytes)


def _tries_flow(engine: Answerer, invocation: Invocation, on_loop: bool) -> Flow:
    """Through the engine's gates, and as often as its settings allow."""
    gates, arguments = engine.gates.of(invocation.tool.qualified_name), _keep_arguments(engine, invocation)
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
                value = yield await_answer(value, invocation)
            return value
        except CallError as error:
            seconds = _retry_pause(engine, invocation, error)
            if seconds is None:
                raise
        finally:
            _leave_gates(inside, invocation)
        yield pause(seconds)
        _begin_again(invocation, arguments)


def _retry_pause(engine: Answerer, invocation: Invocation, error: CallError) -> float | None:
    """Seconds to wait before another try; None if there must not be one."""
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


def _keep_arguments(engine: Answerer, invocation: Invocation) -> bytes:
    """The arguments as they are now: a try may change its own, and the next must not see that."""
    return msgspec.json.encode(invocation.arguments) if engine.settings.retries else b""


def _begin_again(invocation: Invocation, arguments: bytes) -> None:
    """Make ready for another try."""
    invocation.attempt += 1
    invocation.arguments = msgspec.json.decode(arguments)
    invocation.kept = None


def _leave_gates(gates: list[Gate], invocation: Invocation) -> None:
    """Give back the places that one try had; a call that is left behind keeps them until it ends."""
    left = invocation.left_behind
    if left is None:
        _leave_all(gates)
    else:
        left.add_done_callback(lambda _: _leave_all(gates))


def _gate_full(invocation: Invocation) -> Unavailable:
    """What is said of a call for which there was no place in time."""
    return Unavailable(
        f"{invocation.tool.qualified_name} waited past its deadline: as many calls as allowed are running",
        hint="try again later, or raise max_concurrent_calls",
    )


def _leave_all(gates: list[Gate]) -> None:
    for gate in reversed(gates):
        gate.leave()
