"""The path of every call, whichever interface it comes from; the steps run in the order in which they appear here.

    turn -> bind -> scope -> policy -> fault -> gate -> run -> check -> record -> trace

A batch waits for the turn of its session and always gives it back; each of its calls then goes through the other
steps. A flow is a generator that never waits itself: it yields what to wait for, and its driver (`drive`, `adrive`)
waits in a thread or a task. It runs a tool's function inline unless that blocks and must not: on an event loop, or
under a deadline.
A call that fails is a result. Only bugs, invalid batches, session and store errors, cancellation and interrupts raise.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Sequence
from functools import partial
from threading import get_ident
from types import CoroutineType
from typing import Any, TypeVar

from msgspec.structs import astuple

from toolyard.calls.approval_flow import NeededApproval, require_approval, settle_claim
from toolyard.calls.attempts import answer_flow
from toolyard.calls.batch import (
    Batch,
    CallRequest,
    bind_offered,
    bind_within,
    check_calls,
    check_known,
    find_joined,
    find_recorded,
    notify_safely,
)
from toolyard.calls.budgets import count_calls
from toolyard.calls.call_path import CallPath, CallPlan, CallPlans, ScopedPlans
from toolyard.calls.invocation import Invocation
from toolyard.calls.policy import Policy
from toolyard.calls.recording import announce_call, commit_entry, stamp_entry, stop_call, store_entry
from toolyard.calls.result import check_writable, failure_result, make_result
from toolyard.calls.tracer import CallTrace
from toolyard.calls.waits import (
    Flow,
    TakeTurn,
    Wait,
    await_coroutine,
    call_engine,
    check_thread,
    leave_turn,
    offload,
    pause,
    run_in_thread,
)
from toolyard.loop.threads import loop_runs_here
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import CallError, Held, NoEngine, Unavailable, UnknownToolError
from toolyard.registry.bind import Bound, TooSlowForLoop, bind
from toolyard.registry.function_call import current_simulation
from toolyard.sessions.session import EnteredTurn, Session
from toolyard.sessions.sessions import Sessions, full_error

T = TypeVar("T")
Answering = Coroutine[Any, Any, list[ToolResult]]

_CONDITIONS = CallRequest.__struct_fields__.index("calls")
"""Number of leading fields that a request shares with its batch, in the same order."""
_HELD_SECONDS = 0.005
"""How long a batch may run on an event loop before it lets other tasks run."""


def run_batch(path: CallPath, session: Session, calls: Sequence[ToolCall], batch: Batch) -> list[ToolResult]:
    """Take the session's turn and answer the calls from this thread."""
    results: list[ToolResult] = []
    return drive(batch_flow(path, session, calls, batch, results), results)


def arun_batch(path: CallPath, session: Session, calls: Sequence[ToolCall], batch: Batch) -> Answering:
    """`run_batch` for a task, which awaits it."""
    results: list[ToolResult] = []
    if session.is_recorded:
        return adrive(batch_flow(path, session, calls, batch, results), results)
    # Calls without a session need no turn, and usually no checks: no timeout, and a first call without an id.
    if batch.timeout is not None or type(calls[0]) is not ToolCall or calls[0].call_id is not None:
        check_calls(calls, batch.timeout)
    return adrive(_answer_calls(path, session, calls, batch, results), results)


def arun_request(path: CallPath, session: Session, request: CallRequest) -> Answering:
    """`arun_batch` for a remote caller, under the conditions of its request."""
    # Positional: with this many keyword arguments, creating the struct would take ten times as long.
    batch = Batch(*astuple(request)[:_CONDITIONS])
    batch.replay = request.replay and request.mode == "execute" and request.session_id is not None
    batch.on_loop = True
    return arun_batch(path, session, request.calls, batch)


def batch_flow(
    path: CallPath, session: Session, calls: Sequence[ToolCall], batch: Batch, results: list[ToolResult]
) -> Flow:
    """Take the turn, answer the calls in order, give it back."""
    if session.is_full and batch.mode == "execute":
        path.sessions.quota.check(session)
    check_calls(calls, batch.timeout, batch.notify)
    take, turn, closed = None, None, False
    gate, sessions = session.gate, path.sessions
    if session.durable or session.is_over or gate.line:
        take = _take_turn(path, session, calls, batch)
    else:
        try:
            # As in `Gate.enter_at_once`: no interrupt can occur between this statement and the `try` below.
            del gate.free[-1]
        except IndexError:
            take = _take_turn(path, session, calls, batch)
    try:
        if take is not None:
            yield take
            # Other callers, also in other processes, may have added entries while this one waited.
            session.turn_since = len(session.history)
        session.taken = True
        if batch.on_loop:
            turn = EnteredTurn(gate)
            turn.enter()
        else:
            session.holder = get_ident()
        yield from _answer_calls(path, session, calls, batch, results)
    except GeneratorExit:
        closed = True
        raise
    finally:
        if take is None or take.taken:
            try:
                session.turn_since = len(session.history)
                if turn is not None:
                    turn.is_over = True
                if batch.left_behind is not None or closed:
                    _give_turn_back(sessions, session, batch)
                elif session.durable and batch.on_loop:
                    yield leave_turn(sessions, session)
                else:
                    sessions.leave(session)
            except BaseException:
                # An interrupt may occur at any point above; give the turn back unless that has happened.
                if session.taken and batch.holder is None:
                    sessions.leave_off_loop(session)
                raise


def _give_turn_back(sessions: Sessions, session: Session, batch: Batch) -> None:
    left = batch.holder
    if left is not None:
        # This thread is no longer inside the session, so it may wait for the next turn like any other.
        session.holder = None
        left.add_done_callback(lambda _ended: sessions.leave_off_loop(session))
    else:
        sessions.leave_off_loop(session)


def _answer_calls(
    path: CallPath, session: Session, calls: Sequence[ToolCall], batch: Batch, results: list[ToolResult]
) -> Flow:
    current = path.plans[batch.mode, path.registry.snapshot]
    plans: CallPlans | ScopedPlans = current
    if batch.mode == "simulate":
        # A caller who may not also execute the tools gets less run.
        if current_simulation() is False:
            plans = current.restricted
        elif batch.scope is not None:
            plans = ScopedPlans(current, batch.scope)
        if session.is_recorded:
            if path.counting:
                count_calls(session, plans.snapshot)
            session = session.draft()
    since = time.monotonic() if batch.on_loop and len(calls) > 1 else None
    for call in calls:
        if since is not None and time.monotonic() - since > _HELD_SECONDS:
            yield pause(0)
            since = time.monotonic()
        result = None if batch.waits_since is None else find_joined(session, batch, call)
        if result is None and (batch.replay or session.replays):
            result = find_recorded(session, call)
        if result is None:
            result = yield from call_flow(path, plans, batch, session, call)
        results.append(result)


def _take_turn(path: CallPath, session: Session, calls: Sequence[ToolCall], batch: Batch) -> TakeTurn:
    """The wait for the turn; it lasts at most as long as one call of the batch may take."""
    timeout = path.root.settings.timeout if batch.timeout is None else batch.timeout
    if timeout is None:
        timeout = _longest_timeout(path, calls)
    if batch.at_most is not None:
        timeout = batch.at_most if timeout is None else min(timeout, batch.at_most)
    until = None if timeout is None else time.monotonic() + timeout
    if session.gate.busy and batch.mode == "execute":
        batch.waits_since = session.turn_since
    return TakeTurn(path.sessions, session, until, f"a{batch.mode}")


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


def call_flow(path: CallPath, plans: CallPlans | ScopedPlans, batch: Batch, session: Session, call: ToolCall) -> Flow:
    """Answer one call in a session whose turn the batch holds. A `CallError` becomes a failed result."""
    bound, invocation, cancelled, batch.begun = None, None, None, (clock := path.clock)()
    trace = None if path.tracer is None else CallTrace(path.tracer, session, call, batch.mode, batch.request_id)
    try:
        bound = _bind_call(path.policy, plans, batch, session, call, batch.on_loop)
        bound = bound or (yield offload(path.threads, _bind_off_loop, path.policy, plans, batch, session, call))
        if trace is not None:
            trace.begin(bound, plans.snapshot.generation)
        plan = plans.get(bound.prepared)
        if plan is None or batch.definitions is not None or (plan.is_async and not batch.on_loop):
            plan = _plan_call(path.policy, plans, batch, bound)
        if path.policy is not None and (asked := _check_policy(path, path.policy, batch, session, bound)):
            call, plan = yield from require_approval(call_flow, path, plans, batch, session, call, asked, trace)
        invocation = _make_invocation(plan, batch, session, call, bound, trace)
        if session.durable and plan.announces and not session.is_over:
            yield from announce_call(path, session, invocation, trace)
        if plan.is_limited or (plan.blocks and (batch.on_loop or invocation.deadline is not None)):
            value = yield from _answer_elsewhere(plan, batch, invocation)
        else:
            invocation.begun, function = True, plan.function
            value = call_engine(plan.engine, invocation) if function is None else function(bound.arguments)
        if type(value) is CoroutineType:
            value = yield await_coroutine(value, invocation)
        made = make_result(plan, invocation, value if trace is None else trace.take_answer(value), batch.on_loop)
        result, entry, changes = made or (yield offload(path.threads, make_result, plan, invocation, value))
    except CallError as error:
        result, entry, changes = failure_result(call, bound, invocation, error, path)
        if invocation is not None:
            batch.leave_behind(invocation)
        elif type(error) is Held:
            return _end_held(result, trace)
    except BaseException as error:
        yield from stop_call(path, batch, session, invocation, trace, error)
        raise
    if session.durable and not session.is_over:
        cancelled = yield from store_entry(path, batch, session, (result, entry, changes), invocation, trace)
    elif changes or path.counting or (room := session.room - len(entry)) < 0:
        commit_entry(path, session, stamp_entry(path, batch, entry), changes, invocation)
    elif session.is_recorded:
        session.history.keep((entry, at := clock(), at - batch.begun, None))
        session.room = room
    if trace is not None:
        trace.end(invocation, result)
    if batch.claim is not None:
        yield from settle_claim(path, batch, session, result)
    if cancelled is not None:
        raise cancelled
    return result


def _end_held(result: ToolResult, trace: CallTrace | None) -> ToolResult:
    """Return the result of a held call. Its approval is its record; the history gets no entry."""
    if trace is not None:
        trace.end(None, result)
    return result


def _answer_elsewhere(plan: CallPlan, batch: Batch, invocation: Invocation) -> Flow:
    """Have the engine answer under its limits (gates, retries, faults), or in one of its threads."""
    if plan.is_limited:
        return (yield from answer_flow(plan.engine, invocation, plan.faults, on_loop=batch.on_loop))
    return (yield run_in_thread(plan.engine, invocation))


def _bind_off_loop(
    policy: Policy | None, plans: CallPlans | ScopedPlans, batch: Batch, session: Session, call: ToolCall
) -> Bound | None:
    bound = _bind_call(policy, plans, batch, session, call, on_loop=False)
    if bound is not None:
        bound.prepared.make_ready()
    return bound


def _bind_call(
    policy: Policy | None,
    plans: CallPlans | ScopedPlans,
    batch: Batch,
    session: Session,
    call: ToolCall,
    on_loop: bool,
) -> Bound | None:
    """Bind the call; None if, with `on_loop`, that would block the event loop too long and needs a thread."""
    if session.is_full:
        raise Unavailable(str(full_error(session)), retryable=False)
    if batch.left_behind is not None and not batch.left_behind.done():
        raise Unavailable(
            "an earlier call of this session is still running past its deadline, so this one was not begun",
            hint="send it again later, or use another session",
        )
    if call.call_id is not None:
        check_writable(call.call_id)
    try:
        try:
            if batch.scope is None:
                return bind(plans.snapshot, call, (), on_loop)
            return bind_within(plans.snapshot, batch.mode, call, batch.scope, on_loop=on_loop)
        except UnknownToolError as error:
            if policy is None:
                raise
            return bind_offered(plans.snapshot, batch, call, policy, error, on_loop=on_loop)
    except TooSlowForLoop:
        return None


def _plan_call(policy: Policy | None, plans: CallPlans | ScopedPlans, batch: Batch, bound: Bound) -> CallPlan:
    if batch.definitions is not None and not (policy and policy.always_denies(bound.tool, batch.keys or ())):
        # A tool that is always denied is never listed, so the caller cannot know its definition: deny, not "stale".
        check_known(bound.tool, batch.definitions)
    plan = plans.get(bound.prepared) or plans.add(bound.prepared)
    if plan.is_async and not batch.on_loop:
        # Check before the coroutine exists, since it could not be awaited here.
        check_thread(f"a{batch.mode}")
    return plan


def _check_policy(
    path: CallPath, policy: Policy, batch: Batch, session: Session, bound: Bound
) -> NeededApproval | None:
    """Raise `Denied` unless the call may run. Returns what to ask if it needs approval first, else None."""
    owner, session_id = session.key.owner, session.key.session_id
    counts: dict[str, int] = {}
    shared: dict[str, int] | None = None
    if path.counting and session.is_alone:
        counts = policy.counts_of(owner)
        shared = counts if batch.mode == "execute" else None
    elif path.counting:
        counts = count_calls(session, path.registry.snapshot)
    # An owner that is the path of this yard's file identifies the yard, not the caller.
    keys = (owner,) if batch.keys is None and owner and owner != path.sessions.yard else batch.keys
    line = policy.check(bound.tool, session_id=session_id, counts=counts, keys=keys, shared=shared)
    return None if line is None else NeededApproval(policy, bound, line, keys, shared)


def _make_invocation(
    plan: CallPlan, batch: Batch, session: Session, call: ToolCall, bound: Bound, trace: CallTrace | None
) -> Invocation:
    if trace is not None:
        trace.end_step("policy")
    timeout = plan.timeout if batch.timeout is None else plan.time_limit(batch.timeout)
    if batch.at_most is not None and (timeout is None or timeout > batch.at_most):
        timeout = batch.at_most
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
        None if batch.notify is None else partial(notify_safely, batch.notify, call),
        plan.held,
    )


def drive(flow: Flow, results: T) -> T:
    """Run a flow in this thread, then return `results`, which the flow fills."""
    for first in flow:
        wait: Wait = first
        try:
            while True:
                try:
                    got = wait.block()
                except BaseException as error:  # noqa: BLE001 - the flow handles it, interrupts included
                    wait = flow.throw(error)
                else:
                    wait = flow.send(got)
        except StopIteration:
            return results
        finally:
            # An interrupt may also occur in this function; closing the flow lets it clean up.
            flow.close()
    return results


async def adrive(flow: Flow, results: T) -> T:
    """Run a flow in this task, then return `results`, which the flow fills."""
    for first in flow:
        wait: Wait = first
        try:
            while True:
                try:
                    got = await wait.suspend()
                except GeneratorExit:
                    raise  # the coroutine is being closed, so nothing can be awaited any more
                except BaseException as error:  # noqa: BLE001 - the flow handles it, cancellation included
                    wait = flow.throw(error)
                else:
                    wait = flow.send(got)
        except StopIteration:
            return results
        finally:
            flow.close()
    return results


def drive_or_await(flow: Flow) -> Any:
    """The return value of a flow; in a thread with a running event loop, a coroutine for it."""
    values: list[Any] = []

    def keep_value() -> Flow:
        values.append((yield from flow))

    async def await_value() -> Any:
        return (await adrive(keep_value(), values))[0]

    return await_value() if loop_runs_here() else drive(keep_value(), values)[0]
