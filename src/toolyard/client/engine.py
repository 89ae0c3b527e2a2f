"""`RemoteToolEngine`: sessions and calls on a server, with the interface of an in-process engine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, Unpack

import msgspec

from toolyard.calls.batch import Listener, check_calls, check_timeout
from toolyard.client.calls import RemoteApprovals, RemoteJournal
from toolyard.client.registry import RemoteToolRegistry
from toolyard.client.wire import API, REQUEST_SECONDS, ListBudget, WireOptions, quote_segment
from toolyard.dialects.wire_names import read_wire_call
from toolyard.loop.home import home_loop
from toolyard.model.bases import Closing
from toolyard.model.call import Mode, ToolCall, ToolResult
from toolyard.model.errors import (
    CallError,
    ConfigError,
    DefinitionError,
    SessionError,
    ToolyardError,
    UnknownSessionError,
)
from toolyard.registry.bind import find_overloads
from toolyard.registry.function_call import current_simulation
from toolyard.registry.prepared import json_text, plain_copy, read_arguments
from toolyard.sessions.session import RecordedCall, check_number, check_session_id, check_setup
from toolyard.sessions.state import exact_json, with_setup
from toolyard.sessions.world_diff import WorldDiff

MAX_CALLS = 1000
"""Calls per batch: the server answers a batch in one turn of the session, and other callers wait for it."""
LONGEST_TIMEOUT = 86_400.0
UNTIMED_CALL_SECONDS = 600.0
"""Seconds to wait for a call without a timeout; the server's own limit is much shorter."""

T = TypeVar("T")

_HISTORY_PAGE = 1000

_NO_CONTEXT: Mapping[str, Any] = {}


class _HistoryPage(msgspec.Struct):
    entries: list[RecordedCall]
    next: int | None = None


class RemoteToolEngine(Closing):
    """Executes calls in sessions on a server: `RemoteToolEngine("http://127.0.0.1:8000")`.

    Takes a URL, or a `RemoteToolRegistry` whose connections it shares and does not close. The options are those of the
    registry, except for `timeout`: seconds for each call, as with any engine, None for the server's own limit.
    `request_timeout` applies to all other requests, and is added to the time allowed for calls.

    Calls are sent with the hashes of the definitions known here. If a tool has changed on the server, it is not called,
    and the result is an error with the code `catalog.stale`, until `tool_registry.refresh()`.

    Differences from an in-process engine: sessions belong to the API key, so there is no `owner`; a call whose
    `call_id` was answered before in the session returns the same result without running again; a cancelled `aexecute`
    stops waiting, but the server continues and records the calls. If the server cannot be reached, the results are
    errors (`tool.unavailable`, `tool.timeout`) whose `effect` says whether the calls may have run.
    """

    type_name: ClassVar[str] = "remote"

    def __init__(
        self,
        server: str | RemoteToolRegistry,
        *,
        name: str | None = None,
        timeout: float | None = None,
        request_timeout: float | None = None,
        load: bool = True,
        **options: Unpack[WireOptions],
    ) -> None:
        check_timeout(timeout)
        check_timeout(request_timeout)
        self._owns = not isinstance(server, RemoteToolRegistry)
        if not isinstance(server, RemoteToolRegistry):
            limit = REQUEST_SECONDS if request_timeout is None else request_timeout
            self.tool_registry = RemoteToolRegistry(server, timeout=limit, load=load, **options)
        elif options:
            raise TypeError(f"{sorted(options)[0]} is an option of the registry; give it there")
        else:
            self.tool_registry = server
        self.name = self.type_name if name is None else name
        self.timeout = timeout
        self._wire = self.tool_registry.wire.with_timeout(request_timeout)

    @property
    def journal(self) -> RemoteJournal:
        """The server's log of calls and stream of events: `calls`, `events`, and their async twins."""
        return RemoteJournal(self._wire)

    @property
    def approvals(self) -> RemoteApprovals:
        """The calls that an `ask` rule holds on the server: `list`, `get`, `approve`, `deny`, and their async twins."""
        return RemoteApprovals(self._wire)

    @classmethod
    async def aopen(
        cls,
        url: str,
        *,
        name: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - a limit for each call, not for this
        request_timeout: float | None = None,
        **options: Unpack[WireOptions],
    ) -> Self:
        """Create an engine and read the server's catalog, for async code; options are those of the class."""
        engine = cls(url, name=name, timeout=timeout, request_timeout=request_timeout, load=False, **options)
        await engine.tool_registry.aload()
        return engine

    async def asetup(
        self,
        session_id: str,
        *args: Any,
        initial_state: dict[str, Any] | None = None,
        fork_of: str | None = None,
        at: int | None = None,
        owner: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Open a session: empty, with the `get_session_state` of another, or as a fork of one on the server.

        A fork has all entries of `fork_of`, or its first `at`. All other arguments are stored with the session. Raises
        `SessionExistsError` (a ValueError) if the id is taken. If cancelled, it leaves no session behind.
        """
        _check_owner(owner)
        if args or kwargs:
            if fork_of is not None:
                raise SessionError("a fork on a server inherits the arguments of setup, and takes no others")
            initial_state = with_setup(initial_state, args, kwargs)
        check_setup(session_id, initial_state, fork_of, at)
        path = f"/{API}/sessions" if fork_of is None else _session_path(fork_of, "/fork")
        body: dict[str, Any] = {"session_id": session_id} | ({} if at is None else {"at": at})
        if initial_state is not None:
            body["initial_state"] = _encode_raw(initial_state, "initial_state", SessionError)
        # A cancelled request may have arrived, so wait for the response to know whether there is a session to undo.
        request = asyncio.ensure_future(self._wire.ask("POST", path, body=body))
        try:
            await asyncio.shield(request)
        except DefinitionError as error:
            raise SessionError(str(error)) from None
        except asyncio.CancelledError:
            await asyncio.wait([request])
            if not request.cancelled() and request.exception() is None:
                await self.ateardown(session_id)
            raise

    setup = home_loop.sync_twin(asetup)

    async def aexecute(
        self,
        session_id: str,
        tool_calls: Sequence[ToolCall],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a limit for each call, not for the whole
        owner: str | None = None,
        context: Mapping[str, Any] = _NO_CONTEXT,
        notify: Listener | None = None,
    ) -> list[ToolResult]:
        """Run the calls in order and append each, with its result, to the session.

        `timeout` applies to each call and overrides the engine's own. `context` must be JSON. If cancelled, it stops
        waiting, but the server continues and records the calls. `notify` is refused.
        """
        if notify is not None:
            raise ConfigError("this server's HTTP API sends no progress; MCPToolEngine receives it from its /mcp")
        mode: Mode = "execute" if current_simulation() is None else "simulate"
        return await self._send_calls(mode, session_id, tool_calls, timeout, owner, context)

    execute = home_loop.sync_twin(aexecute)

    async def asimulate(
        self,
        session_id: str,
        tool_calls: Sequence[ToolCall],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a limit for each call, not for the whole
        owner: str | None = None,
        context: Mapping[str, Any] = _NO_CONTEXT,
    ) -> list[ToolResult]:
        """Answer the calls as `execute` would, and leave the session unchanged."""
        return await self._send_calls("simulate", session_id, tool_calls, timeout, owner, context)

    simulate = home_loop.sync_twin(asimulate)

    async def ateardown(self, session_id: str, *, owner: str | None = None) -> None:
        """End a session, if it exists."""
        _check_owner(owner)
        if _is_valid_id(session_id):
            await self._wire.ask("DELETE", _session_path(session_id))

    teardown = home_loop.sync_twin(ateardown)

    async def aget_session_state(self, session_id: str, *, owner: str | None = None) -> dict[str, Any] | None:
        """`tool_executions` and each engine's state; None if there is no such session."""
        try:
            body = await self._wire.ask("GET", _session_path(session_id, "/state", owner))
        except UnknownSessionError:
            return None
        return self._read_field(body, "state", dict)

    get_session_state = home_loop.sync_twin(aget_session_state)

    async def aget_session_history(
        self, session_id: str, *, after: int = 0, limit: int | None = None, owner: str | None = None
    ) -> list[RecordedCall]:
        """Every call with its result, when it was recorded, and how long it took; starting after entry `after`."""
        path = _session_path(session_id, "/history", owner)
        check_number("after", after)
        left = sys.maxsize if limit is None else check_number("limit", limit)
        found: list[RecordedCall] = []
        position: int | None = after
        budget = ListBudget()
        while position is not None and len(found) < left:
            query = (("after", str(position)), ("limit", str(min(_HISTORY_PAGE, left - len(found)))))
            body = await self._wire.ask("GET", path, query=query, budget=budget)
            page = self._wire.read(body, _HistoryPage, "something other than a page of a history")
            found += page.entries
            if page.next is not None and (page.next <= position or not page.entries):
                raise self._wire.make_garbled_error("a history whose pages have no end")
            position = page.next
        return found

    get_session_history = home_loop.sync_twin(aget_session_history)

    async def astate_hash(self, session_id: str, *, owner: str | None = None) -> str:
        """A hash that is equal for sessions with equal histories, whatever their ids and forks."""
        body = await self._wire.ask("GET", _session_path(session_id, owner=owner))
        return self._read_field(body, "state_hash", str)

    state_hash = home_loop.sync_twin(astate_hash)

    async def aworld_hash(self, session_id: str, *, at: int | None = None, owner: str | None = None) -> str:
        """A hash that is equal for equal worlds: the engines' state in the session, or its state after entry `at`."""
        body = await self._wire.ask("GET", _session_path(session_id, "/world", owner), query=_entry_query(at=at))
        return self._read_field(body, "world_hash", str)

    world_hash = home_loop.sync_twin(aworld_hash)

    async def aworld_diff(
        self,
        session_id: str,
        other_id: str | None = None,
        *,
        at_a: int | None = None,
        at_b: int | None = None,
        owner: str | None = None,
    ) -> WorldDiff:
        """What was added, removed and changed between the worlds of two sessions, or two entries of one."""
        path, query = _session_path(session_id, "/diff", owner), _entry_query(at_a=at_a, at_b=at_b)
        if other_id is not None:
            _session_path(other_id)
            query = (("other", other_id), *query)
        body = await self._wire.ask("GET", path, query=query)
        self._read_field(body, "changes", list)  # else a response without it would mean equal worlds
        return self._wire.read(body, WorldDiff, "something other than a comparison of worlds")

    world_diff = home_loop.sync_twin(aworld_diff)

    def close(self) -> None:
        """Close the connections, unless they belong to a registry that was passed in; sessions stay on the server."""
        if self._owns:
            self.tool_registry.close()

    async def aclose(self) -> None:
        """`close` for async code."""
        if self._owns:
            await self.tool_registry.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._wire.url!r}, name={self.name!r}, tools={len(self.tool_registry)})"

    def _read_field(self, body: Any, name: str, kind: type[T]) -> T:
        value = body.get(name) if isinstance(body, dict) else None
        if not isinstance(value, kind):
            raise self._wire.make_garbled_error(f"something without {name!r}")
        return value

    async def _send_calls(
        self,
        mode: Mode,
        session_id: str,
        tool_calls: Sequence[ToolCall],
        timeout: float | None,  # noqa: ASYNC109 - a limit for each call, not for the whole
        owner: str | None,
        context: Mapping[str, Any],
    ) -> list[ToolResult]:
        _check_owner(owner)
        check_calls(tool_calls, timeout)
        if len(tool_calls) > MAX_CALLS:
            raise DefinitionError(f"{len(tool_calls):,} calls in one batch; a server takes at most {MAX_CALLS:,}")
        tool_calls = [read_wire_call(self.tool_registry.snapshot, call) for call in tool_calls]
        seconds = self.timeout if timeout is None else timeout
        results = [self._refuse_call(call) for call in tool_calls]
        sent = [call for call, result in zip(tool_calls, results, strict=True) if result is None]
        if not sent:
            # Nothing to run, but a missing session must still raise.
            await self._wire.ask("GET", _session_path(session_id))
            return [result for result in results if result is not None]
        body: dict[str, Any] = {"calls": [_write_call(call) for call in sent]}
        definitions = self.tool_registry.definitions(call.name for call in sent)
        if definitions is not None:
            body["definitions"] = definitions
        if seconds is not None:
            body["timeout"] = min(float(seconds), LONGEST_TIMEOUT)
        if context:
            body["context"] = _encode_raw(dict(context), "context", ConfigError)
        wait = self._wire.timeout + len(sent) * (UNTIMED_CALL_SECONDS if seconds is None else seconds)
        try:
            answer = await self._wire.ask("POST", _session_path(session_id, f"/{mode}"), body=body, timeout=wait)
            answered = iter(self._wire.read_results(answer, len(sent)))
        except CallError as error:
            # A network failure becomes the result of each call, with what is known of its effect.
            answered = iter([ToolResult.failed(call, error.info) for call in sent])
        return [next(answered) if result is None else result for result in results]

    def _refuse_call(self, call: ToolCall) -> ToolResult | None:
        """An error result for a call that cannot be sent; None if it can."""
        try:
            if not call.name:
                find_overloads(self.tool_registry.snapshot, call.name)
            # Leave text from a provider to the server, which parses or refuses it and records that.
            if not isinstance(call.arguments, str):
                arguments = read_arguments(call.arguments)
                plain_copy(arguments, json_text(arguments))
        except CallError as error:
            return ToolResult.failed(call, error.info)
        return None


def _entry_query(**entries: int | None) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(check_number(name, number))) for name, number in entries.items() if number is not None)


def _write_call(call: ToolCall) -> dict[str, Any]:
    given = call.arguments
    arguments = given if isinstance(given, str) else msgspec.Raw(json_text(read_arguments(given)))
    data: dict[str, Any] = {"name": call.name, "arguments": arguments}
    if call.call_id is not None:
        data["call_id"] = call.call_id
    if call.overload is not None:
        data["overload"] = call.overload
    return data


def _session_path(session_id: str, rest: str = "", owner: str | None = None) -> str:
    _check_owner(owner)
    if not _is_valid_id(session_id):
        raise UnknownSessionError(f"no session is called {session_id!r}; set it up first")
    return f"/{API}/sessions/{quote_segment(session_id)}{rest}"


def _is_valid_id(session_id: str) -> bool:
    """False for ids that every server refuses."""
    try:
        check_session_id(session_id)
    except SessionError:
        return False
    return True


def _check_owner(owner: str | None) -> None:
    if owner is not None:
        raise ConfigError("sessions of a server belong to the API key; use another key in place of owner=...")


def _encode_raw(value: Any, what: str, kind: type[ToolyardError]) -> msgspec.Raw:
    try:
        return msgspec.Raw(exact_json(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise kind(f"{what} is sent to a server, and this is not JSON: {error}") from None
