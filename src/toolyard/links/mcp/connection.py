"""`Connection`: a server after the handshake, until it is lost: tool calls and pages of the tool list.

`Notices` deliver the server's messages during a call: in other threads, in order, and before the call returns. `Finder`
connects to a server and performs the handshake, and remembers the way that worked.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Literal

import msgspec

from toolyard.dialects.mcp_protocol import LISTEN, LOG_LEVEL
from toolyard.dialects.telemetry import carry_trace, describe_result, describe_tool, measure_request
from toolyard.links.mcp import framing
from toolyard.links.mcp.errors import RequestRefused, SessionLostError, late, status_of, taken, unanswered
from toolyard.links.mcp.framing import Headers, mirrored_headers, modern_headers
from toolyard.links.mcp.handshake import Agreement, ChokedError, Handshake, envelope
from toolyard.links.mcp.peer import Lost, McpReply, McpWire, Peer, Request
from toolyard.links.mcp.sse import SseWire
from toolyard.links.mcp.stdio import StdioWire
from toolyard.links.mcp.streamable import StreamableWire
from toolyard.links.mcp.web import Web
from toolyard.loop.pacing import backoff_delay
from toolyard.loop.threads import Threads
from toolyard.model.bindings import McpServer
from toolyard.model.call import Notice, Notify
from toolyard.model.errors import CallError, Denied, Interrupted, ToolFailed, Unavailable

_FIRST_PAUSE = 0.05
_FIRST_RESUBSCRIBE = 0.25
_LONGEST_PAUSE = 30.0
_LONGEST_WAIT = 1.0
_SERVER_FAULT = 500
_log = logging.getLogger("toolyard.mcp")


class ToolsCall(msgspec.Struct, frozen=True):
    """A tool call and its options."""

    name: str
    arguments: dict[str, Any]
    deadline: float | None = None
    """In the time of `time.monotonic`."""
    notify: Notify | None = None
    """Receives progress and log messages."""
    mirrored: Sequence[tuple[str, str]] = ()
    """Arguments to repeat in headers."""
    reads: bool = False
    """True if the tool is known to change nothing, so a failure has no effect."""
    as_task: bool = False
    """True if the tool only runs as a task, a feature of protocol versions before 2026."""


MOST = 256
"""Maximum number of queued notices for one call."""
PATIENCE = 5.0
"""Maximum seconds that a result is delayed while notices are delivered."""
TELLERS = Threads(32, "toolyard-mcp-notices")
"""Threads that deliver notices."""


class Notices:
    """Delivers notices to one caller in order. If the queue is full, the oldest ones are dropped."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._lock = threading.Lock()
        self._waiting: deque[Notice] = deque(maxlen=MOST)
        self._runner: Future[None] | None = None
        self._is_over = False

    def __call__(self, notice: Notice) -> None:
        """Queue a notice."""
        with self._lock:
            if self._is_over:
                return
            self._waiting.append(notice)
            if self._runner is None or self._runner.done():
                self._runner = TELLERS.submit(self._tell)

    async def told(self, seconds: float) -> None:
        """Wait until all notices are delivered, at most so many seconds; then close."""
        runner = self._runner
        if runner is not None and not runner.done():
            await asyncio.wait({asyncio.wrap_future(runner)}, timeout=max(seconds, 0.0))
        self.close()

    def close(self) -> None:
        """Deliver nothing more."""
        with self._lock:
            self._is_over = True
            self._waiting.clear()
            runner = self._runner
        if runner is not None and not runner.done():
            TELLERS.give_up(runner)

    def _tell(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._runner = None
                    return
                notice = self._waiting.popleft()
            try:
                self._notify(notice)
            except Exception:  # noqa: BLE001 - somebody else's code, and the call goes on
                _log.warning("the progress handler of a call failed", exc_info=True)


class Connection:
    """Sends requests in the form of the protocol version that was agreed on."""

    def __init__(self, wire: McpWire, peer: Peer, agreement: Agreement, capabilities: dict[str, Any]) -> None:
        self.wire = wire
        self.peer = peer
        self.agreement = agreement
        self._envelope = envelope(capabilities, agreement.version) if agreement.modern else {}
        self._listens = False

    async def call(self, call: ToolsCall) -> dict[str, Any]:
        """The raw result of a tool, after input requests of the server were answered and notices delivered."""
        if call.notify is None:
            return await self._call_in_rounds(call, None)
        notices = Notices(call.notify)
        try:
            try:
                result = await self._call_in_rounds(call, notices)
            except CallError:
                await notices.told(_notice_seconds(call.deadline))
                raise
            await notices.told(_notice_seconds(call.deadline))
            return result
        finally:
            notices.close()

    async def _call_in_rounds(self, call: ToolsCall, notify: Notify | None) -> dict[str, Any]:
        headers: Headers = ()
        if self.agreement.modern:
            headers = modern_headers(self.agreement.version, "tools/call", call.name)
            if call.mirrored:
                headers += mirrored_headers(call.mirrored, call.arguments)
        params: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
        if call.as_task and not self.agreement.modern:
            params["task"] = {}
        seconds = None if call.deadline is None else call.deadline - asyncio.get_running_loop().time()
        result = await self._call_once(dict(params), headers, call.deadline, notify)
        for number in range(self.peer.limits.max_rounds):
            if result.get("resultType") != "input_required" or not self.agreement.modern:
                return result
            try:
                async with asyncio.timeout_at(call.deadline):
                    more = await self._answer_round(call.name, result, number)
            except TimeoutError:
                raise late(self.peer.name, seconds) from None
            try:
                result = await self._call_once({**params, **more}, headers, call.deadline, notify)
            except SessionLostError:
                raise Interrupted(f"{self.peer.name} was lost before {call.name} received its input") from None
            except CallError as error:
                raise taken(error) from None  # the server has begun the call in the first round
        if result.get("resultType") != "input_required":
            return result
        raise ToolFailed(f"{call.name} of {self.peer.name} asked for input too many times", effect="unknown")

    async def _answer_round(self, name: str, result: dict[str, Any], number: int) -> dict[str, Any]:
        """The parameters to add in the next round, after handlers answered the server or after a pause."""
        more: dict[str, Any] = {}
        asked = result.get("inputRequests")
        if isinstance(asked, dict) and asked:
            more["inputResponses"] = await self._collect_inputs(name, asked)
        else:
            await asyncio.sleep(backoff_delay(number + 1, _FIRST_PAUSE, _LONGEST_WAIT))
        if isinstance(result.get("requestState"), str):
            more["requestState"] = result["requestState"]
        return more

    async def page(self, cursor: str | None, deadline: float | None) -> McpReply:
        """One page of the tool list."""
        params: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        if self.agreement.modern:
            params["_meta"] = self._envelope
        return await self._send_request("tools/list", params or None, deadline)

    def listen(self) -> None:
        """Ask the server to report changes of its tools; does nothing if already done."""
        if self._listens:
            return
        self._listens = True
        if not self.agreement.modern:
            self.wire.listen()
        elif self.agreement.announces_tools:
            self.peer.start(self._keep_subscription())

    async def aclose(self) -> None:
        """Close the connection."""
        await self.peer.aclose()
        await self.wire.aclose()

    async def _call_once(
        self, params: dict[str, Any], headers: Headers, deadline: float | None, notify: Notify | None
    ) -> dict[str, Any]:
        number = self.peer.number()
        meta = carry_trace(self._envelope)
        if notify is not None:
            meta = {**meta, "progressToken": number}
            if self.agreement.modern:
                meta[LOG_LEVEL] = "info"
        if meta:
            params["_meta"] = meta
        request = Request(number, "tools/call", params, deadline, notify, headers)
        self.peer.calls[number] = notify
        with measure_request("client", "tools/call") as told:
            told |= describe_tool(params["name"])
            try:
                reply = await self.wire.request(request)
                if "task" in params:
                    reply = await self._finish_task(reply, deadline)
            finally:
                del self.peer.calls[number]
            if not isinstance(reply.result, dict):
                raise ToolFailed(f"{self.peer.name} answered with something that is no result of a tool")
            told |= describe_result(reply.result)
        return reply.result

    async def _finish_task(self, reply: McpReply, deadline: float | None) -> McpReply:
        """The result of a task; the server responds to `tasks/result` when it is complete."""
        task = reply.result.get("task") if isinstance(reply.result, dict) else None
        if not isinstance(task, dict) or not isinstance(task.get("taskId"), str):
            return reply
        about = {"taskId": task["taskId"]}
        try:
            return await self._send_request("tasks/result", about, deadline)
        except SessionLostError:
            raise Interrupted(f"{self.peer.name} was lost before its task was done") from None
        except (CallError, asyncio.CancelledError) as error:
            self.peer.start(self._cancel_task(about))
            raise taken(error) if isinstance(error, CallError) else error from None

    async def _cancel_task(self, about: dict[str, Any]) -> None:
        with suppress(CallError):
            await self._send_request("tasks/cancel", about, asyncio.get_running_loop().time() + PATIENCE)

    async def _send_request(self, method: str, params: dict[str, Any] | None, deadline: float | None) -> McpReply:
        headers = modern_headers(self.agreement.version, method) if self.agreement.modern else ()
        request = Request(self.peer.number(), method, params, deadline, None, headers)
        with measure_request("client", method):
            return await self.wire.request(request)

    async def _collect_inputs(self, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        """The handlers' answers to the server's input requests; `Denied` if there is no handler."""
        found: dict[str, Any] = {}
        if len(asked) > self.peer.limits.max_requests:
            raise ToolFailed(f"{name} of {self.peer.name} asks for {len(asked)} inputs at once", effect="unknown")
        for key, entry in asked.items():
            method = entry.get("method") if isinstance(entry, dict) else None
            handler = self.peer.handlers.of(method) if isinstance(method, str) else None
            if handler is None:
                shown = repr(method)[:100] if isinstance(method, str) else "something unknown"
                raise Denied(
                    f"{name} of {self.peer.name} asks for {shown}, which has no handler here",
                    hint="configure a handler for it",
                    effect="unknown",
                )
            params = entry.get("params")
            try:
                found[key] = await self.peer.fulfil(handler, params if isinstance(params, dict) else {})
                framing.response(None, found[key])
            except CallError as error:
                raise taken(error) from None
            except Exception as error:
                raise ToolFailed(f"the handler for {method} failed: {type(error).__name__}") from error
        return found

    async def _keep_subscription(self) -> None:
        """Keep the subscription to tool changes of the new protocol open."""
        params = {"notifications": {"toolsListChanged": True}, "_meta": self._envelope}
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            begun = loop.time()
            try:
                await self._send_request(LISTEN, params, None)
            except (RequestRefused, SessionLostError):
                return
            except CallError as error:
                if 0 < status_of(error) < _SERVER_FAULT:
                    return
            except Exception:  # noqa: BLE001 - a bug here must not end the subscription
                _log.warning("the subscription to %s failed unexpectedly", self.peer.name, exc_info=True)
            failures = 0 if loop.time() - begun > _LONGEST_PAUSE else failures + 1
            await asyncio.sleep(backoff_delay(failures + 1, _FIRST_RESUBSCRIBE, _LONGEST_PAUSE))
            self.peer.changed()  # notifications in between were missed


def _notice_seconds(deadline: float | None) -> float:
    """Seconds to wait for the delivery of notices after the result has arrived."""
    return PATIENCE if deadline is None else min(PATIENCE, (deadline - asyncio.get_running_loop().time()) / 2)


_REFUSALS = frozenset({401, 403})
_SHARE = 0.6
"""The part of the remaining time for one candidate while there are others to try."""

Way = Literal["http", "sse"]


class Candidate(msgspec.Struct, frozen=True):
    """A possible URL of the server, with its transport."""

    way: Way
    url: str


class Finder:
    """Connects to one server; `make_peer` creates a peer for each attempt."""

    def __init__(
        self,
        server: McpServer,
        capabilities: dict[str, Any],
        make_peer: Callable[[], Peer],
        web: Callable[[], Web],
        background: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._server = server
        self._capabilities = capabilities
        self._make_peer = make_peer
        self._web = web
        self._background = background
        self._old_only = False
        self._known: Candidate | None = None

    async def find(self, deadline: float, lost: Callable[[McpWire, CallError], None]) -> Connection:
        """A connection after the handshake; `CallError` if none can be made in time."""
        if self._server.transport == "stdio" or self._server.url is None:
            return await self._process(deadline, lost)
        if self._known is not None:
            try:
                return await self._connect_at(self._known, deadline, lost)
            except CallError as error:
                if not status_of(error) or status_of(error) in _REFUSALS or len(candidates(self._server)) == 1:
                    raise
                self._known = None
        return await self._find_address(deadline, lost)

    async def _process(self, deadline: float, lost: Callable[[McpWire, CallError], None]) -> Connection:
        def make() -> tuple[StdioWire, Peer]:
            peer = self._make_peer()
            wire = StdioWire(self._server, peer, lambda fault: lost(wire, fault))
            return wire, peer

        began_old = self._old_only
        if not began_old:
            wire, peer = make()
            try:
                return await self._agree_over(wire, peer, deadline, old_only=False)
            except ChokedError:
                self._old_only = True
        wire, peer = make()
        try:
            return await self._agree_over(wire, peer, deadline, old_only=True)
        except CallError:
            # The probe may have used up the time, so the next attempt starts without it.
            self._old_only = not began_old
            raise

    async def _find_address(self, deadline: float, lost: Callable[[McpWire, CallError], None]) -> Connection:
        places = candidates(self._server)
        failures: list[CallError] = []
        loop = asyncio.get_running_loop()
        for position, candidate in enumerate(places):
            left = deadline - loop.time()
            end = deadline if position == len(places) - 1 else loop.time() + left * _SHARE
            try:
                found = await self._connect_at(candidate, end, lost)
            except CallError as error:
                status = status_of(error)
                if status in _REFUSALS or isinstance(error, Denied) or (isinstance(error, Unavailable) and not status):
                    raise  # the other candidates on the same server would fail too
                failures.append(error)
                continue
            self._known = candidate
            return found
        # The first candidate is the URL as given, whose error is the most informative.
        raise failures[0]

    async def _connect_at(
        self, candidate: Candidate, deadline: float, lost: Callable[[McpWire, CallError], None]
    ) -> Connection:
        peer = self._make_peer()
        wire: McpWire
        report: Lost = lambda fault: lost(wire, fault)  # noqa: E731 - the wire and this callback refer to each other
        if candidate.way == "http":
            wire = StreamableWire(self._web(), candidate.url, peer, report)
        else:
            wire = SseWire(self._web(), candidate.url, peer, report)
        try:
            return await self._agree_over(wire, peer, deadline, old_only=candidate.way == "sse")
        except ChokedError as error:
            raise error.fault from None
        except SessionLostError:
            raise Unavailable(f"{peer.name} forgets our session at once") from None

    async def _agree_over(self, wire: McpWire, peer: Peer, deadline: float, *, old_only: bool) -> Connection:
        done = False
        try:
            async with asyncio.timeout_at(deadline):
                await wire.open()
                handshake = Handshake(wire, peer, self._capabilities, deadline)
                agreement: Agreement = await (handshake.initialize() if old_only else handshake.agree())
            done = True
        except TimeoutError:
            raise unanswered(peer.name, peer.limits.connect_seconds) from None
        finally:
            if not done:
                self._background(_close_quietly(peer, wire))
        return Connection(wire, peer, agreement, self._capabilities)


def candidates(server: McpServer) -> list[Candidate]:
    """The URLs and transports to try, in order."""
    url = server.url or ""
    if server.transport == "http":
        return [Candidate("http", url)]
    if server.transport == "sse":
        return [Candidate("sse", url)]
    path, mark, query = url.partition("?")
    bare = path.rstrip("/")

    def below(part: str) -> str:
        return f"{bare}{part}{mark}{query}"

    if bare.endswith("/sse"):
        return [Candidate("sse", url), Candidate("http", url)]
    found = [Candidate("http", url)]
    if not bare.endswith("/mcp"):
        found.append(Candidate("http", below("/mcp")))
    found.append(Candidate("sse", url))
    if not bare.endswith("/mcp"):
        found.append(Candidate("sse", below("/sse")))
    return found


async def _close_quietly(peer: Peer, wire: McpWire) -> None:
    await peer.aclose()
    await wire.aclose()
