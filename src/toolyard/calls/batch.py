"""`Batch`: the calls one caller hands in together, answered in order in one turn of the session."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from toolyard.calls.answer import Answerer
from toolyard.calls.events import Mode
from toolyard.calls.flights import Flights
from toolyard.calls.replay import replayed
from toolyard.calls.request import CallRequest, Listener, Scope
from toolyard.calls.settings import Settings
from toolyard.loop.threads import Threads
from toolyard.model.call import ToolCall, ToolResult
from toolyard.model.errors import DefinitionError, NoEngine, SyncInAsyncError
from toolyard.model.tool import Tool
from toolyard.registry.bind import Bound
from toolyard.registry.snapshot import Snapshot
from toolyard.sessions.history import History
from toolyard.sessions.session import Session, Stay
from toolyard.sessions.state import State
from toolyard.sessions.store import Key

if TYPE_CHECKING:
    from toolyard.calls.invoke import CallPath


_NOTHING: Mapping[str, Any] = {}
_HELD_SECONDS = 0.005
_LONGEST = 1e8
"""Seconds: about three years, more than any clock of the system takes."""


class Root(Protocol):
    """The engine that was called; it chooses who answers each tool."""

    settings: Settings
    threads: Threads

    def route(self, tool: Tool) -> Answerer:
        """The engine for a tool; raises `NoEngine` if there is none."""


class Batch:
    """What the calls share."""

    __slots__ = (
        "abandoned",
        "at_most",
        "bound",
        "calls",
        "context",
        "cut_off",
        "definitions",
        "left_behind",
        "mode",
        "notify",
        "replay",
        "root",
        "scope",
        "session",
        "snapshot",
        "timeout",
        "trace",
    )

    root: Root
    snapshot: Snapshot
    """The registry as the batch found it; a change meanwhile is for the next one."""

    def __init__(
        self,
        session: Session,
        calls: Sequence[ToolCall],
        mode: Mode,
        timeout: float | None,
        context: Mapping[str, Any],
        trace: Mapping[str, Any] = _NOTHING,
        definitions: frozenset[str] | None = None,
        scope: Scope | None = None,
        replay: bool = False,
    ) -> None:
        self.session = session
        self.calls = calls
        self.mode = mode
        self.timeout = timeout
        self.context = context
        self.trace = trace
        self.definitions = definitions
        self.scope = scope
        self.replay = replay
        self.abandoned: list[Future[Any]] | None = None
        self.notify: Listener | None = None
        self.at_most: float | None = None
        self.cut_off: tuple[ToolCall, ToolResult] | None = None
        """The call that was under way when the batch was stopped, and what is known of it."""
        self.left_behind: Future[Any] | None = None
        """Work of one of the calls that goes on although nobody waits for it, and that the session must wait for."""
        self.bound: Bound | None = None
        """The call that is being made, as far as it is bound."""

    def obey(self, request: CallRequest) -> None:
        """Take over the conditions that only somebody on the other side of a wire makes."""
        self.abandoned, self.notify, self.at_most = request.abandoned, request.notify, request.at_most

    def within(self, timeout: float | None) -> float | None:
        """A time limit, or the most there may be."""
        if self.at_most is None:
            return timeout
        return self.at_most if timeout is None else min(timeout, self.at_most)


def run_batch(path: CallPath, root: Root, batch: Batch) -> list[ToolResult]:
    """Take the session's turn and answer the calls from this thread."""
    session, sessions, calls = batch.session, path.sessions, batch.calls
    check_calls(calls)
    check_timeout(batch.timeout)
    check_thread(batch.mode)
    flights = _flights(batch)
    try:
        sessions.enter(session, _until(path, root, batch), twin=f"a{batch.mode}")
        try:
            batch.root, batch.snapshot = root, path.registry.snapshot
            if batch.mode == "simulate":
                path.recorder.counts(session, batch.snapshot)
                batch.session = session.draft()
            if flights is None:
                return [path.invoke(batch, call) for call in calls]
            results = []
            for call in calls:
                result = flights.answered(call) or path.invoke(batch, call)
                flights.landed(call, result)
                results.append(result)
            return results
        except BaseException:
            _tell_who_joined(flights, batch)
            raise
        finally:
            left = None
            try:
                left = _held_by(batch)
                if left is None:
                    sessions.leave(session)
            except BaseException:
                # An interrupt, wherever it came: the turn is given back all the same.
                if left is None and session.taken:
                    sessions.leave(session)
                raise
            if left is not None:
                # Nobody's turn to take from inside any more: this thread may wait for it like any other.
                session.holder = None
                left.add_done_callback(lambda _: sessions.leave_off_loop(session))
    finally:
        if flights is not None:
            flights.over()


async def arun_batch(path: CallPath, root: Root, batch: Batch) -> list[ToolResult]:
    """`run_batch` for a task."""
    session, sessions = batch.session, path.sessions
    check_calls(batch.calls)
    check_timeout(batch.timeout)
    flights = _flights(batch)
    try:
        await sessions.aenter(session, _until(path, root, batch))
        stay = Stay(session.gate)
        stay.enter()
        try:
            batch.root, batch.snapshot = root, path.registry.snapshot
            if batch.mode == "simulate":
                path.recorder.counts(session, batch.snapshot)
                batch.session = session.draft()
            results, turn = [], _Turn()
            for call in batch.calls:
                await turn.give_way()
                result = None if flights is None else flights.answered(call)
                if result is None and batch.replay:
                    result = replayed(batch.session, call)
                if result is None:
                    result = await path.ainvoke(batch, call)
                if flights is not None:
                    flights.landed(call, result)
                results.append(result)
            return results
        except BaseException:
            _tell_who_joined(flights, batch)
            raise
        finally:
            stay.over = True
            left = _held_by(batch)
            if left is None:
                await sessions.aleave(session)
            else:
                left.add_done_callback(lambda _: sessions.leave_off_loop(session))
    finally:
        if flights is not None:
            flights.over()


async def arun_alone(path: CallPath, root: Root, request: CallRequest) -> list[ToolResult]:
    """Answer calls that belong to no session. Nobody else can be in theirs, so there is no turn to take."""
    check_calls(request.calls)
    check_timeout(request.timeout)
    if len(request.calls) == 1:
        session = session_alone(request.owner or "", request.mode)
    else:
        session = Session(Key(request.owner or "", ""), History(), State())
        session.drafted = request.mode == "simulate"
    batch = Batch(
        session,
        request.calls,
        request.mode,
        request.timeout,
        request.context,
        request.trace,
        request.definitions,
        request.scope,
    )
    batch.root, batch.snapshot = root, path.registry.snapshot
    batch.obey(request)
    if len(request.calls) == 1:
        return [await path.ainvoke(batch, request.calls[0])]
    results, turn = [], _Turn()
    for call in request.calls:
        await turn.give_way()
        results.append(await path.ainvoke(batch, call))
    return results


class _Turn:
    """How long this task has had the loop: a thousand quick calls must not keep everybody else waiting."""

    __slots__ = ("since",)

    def __init__(self) -> None:
        self.since = time.monotonic()

    async def give_way(self) -> None:
        """Let others run, if it is time."""
        if time.monotonic() - self.since > _HELD_SECONDS:
            import asyncio

            await asyncio.sleep(0)
            self.since = time.monotonic()


@lru_cache(maxsize=1024)
def session_alone(owner: str, mode: Mode) -> Session:
    """For one call by itself the same object will do each time: nothing is ever written down in it."""
    session = Session(Key(owner, ""), History(), State())
    session.drafted = mode == "simulate"
    session.kept = False
    session.history.append = _forget
    return session


def _forget(entry: bytes) -> None:
    """Stands in for writing down what nobody will read."""


def check_thread(mode: Mode) -> None:
    """Refuse to wait on the home loop or that of links, where what is waited for may have to run."""
    # Where it was never imported, or is being imported at this moment, it does not run.
    home = sys.modules.get("toolyard.loop.home")
    for loop, name in (("home_loop", "home loop"), ("link_loop", "loop of links")):
        found = getattr(home, loop, None)
        if found is not None and found.is_here():
            raise SyncInAsyncError(f"this is the {name}, which must not wait; await a{mode} instead")


def check_calls(calls: Sequence[ToolCall]) -> None:
    """What no model can get wrong, only the program around it."""
    for call in calls:
        if not isinstance(call, ToolCall):
            raise DefinitionError(
                f"a batch is a list of ToolCall, not of {type(call).__name__}; see ToolCall.from_dict"
            )
        if not isinstance(call.name, str) or not isinstance(call.call_id, str | None):
            raise DefinitionError(f"name and call_id of a ToolCall are text, not {call.name!r} and {call.call_id!r}")


def _tell_who_joined(flights: Flights | None, batch: Batch) -> None:
    """A call that was cut off may have taken effect: whoever sent it again must not run it again unasked."""
    if flights is not None and batch.cut_off is not None:
        flights.landed(*batch.cut_off)


def _flights(batch: Batch) -> Flights | None:
    if batch.mode != "execute":
        return None
    for call in batch.calls:
        if call.call_id is not None:
            return Flights(batch.session, batch.calls)
    return None


def _until(path: CallPath, root: Root, batch: Batch) -> float | None:
    """How long to wait for the turn: as long as a call of the batch may take."""
    timeout = root.settings.timeout if batch.timeout is None else batch.timeout
    if timeout is None:
        timeout = _longest(path, root, batch.calls)
    timeout = batch.within(timeout)
    return None if timeout is None else time.monotonic() + timeout


def _longest(path: CallPath, root: Root, calls: Sequence[ToolCall]) -> float | None:
    """The longest time limit of the engines that will answer; None if one of them has none."""
    longest = None
    for call in calls:
        for tool in path.registry.snapshot.get(call.name)[:1]:
            try:
                timeout = root.route(tool).settings.timeout
            except NoEngine:
                continue
            if timeout is None:
                return None
            longest = timeout if longest is None else max(longest, timeout)
    return longest


def _held_by(batch: Batch) -> Future[Any] | None:
    """What the session must wait for before anybody else may have it."""
    left = batch.left_behind
    return None if left is None or left.done() else left


def check_timeout(timeout: float | None) -> None:
    """Refuse a time limit that is none; the program's mistake, like those of `check_calls`."""
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= _LONGEST:
        raise DefinitionError(f"timeout must be a number of seconds above 0 and not over {_LONGEST:g}, not {timeout!r}")
