"""`Connection`: a server after the handshake, until it is lost: tool calls and the list of tools.

`Notices` delivers the server's messages during a call, in other threads, in order, before the call returns.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Self

import msgspec

from toolyard.dialects.mcp_protocol import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LISTEN,
    LOG_LEVEL,
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION,
    STATELESS,
    TOOLYARD,
)
from toolyard.dialects.telemetry import carry_trace, describe_result, describe_tool, measure_request
from toolyard.links.http.messages import make_timeout_error
from toolyard.links.mcp import framing
from toolyard.links.mcp.errors import RequestRefused, SessionLostError, mark_effect_unknown, status_of
from toolyard.links.mcp.framing import Headers, mirrored_headers, modern_headers
from toolyard.links.mcp.peer import McpReply
from toolyard.links.mcp.wire import McpWire, Request
from toolyard.loop.pacing import backoff_delay
from toolyard.loop.threads import Threads
from toolyard.model.call import Notice, Notify
from toolyard.model.errors import CallError, CallTimeout, Denied, Interrupted, ToolFailed

_FIRST_PAUSE = 0.05
_FIRST_RESUBSCRIBE = 0.25
_LONGEST_PAUSE = 30.0
_HEALTHY_SECONDS = 5.0
"""A stream of notifications that lasted so long did not fail."""
_LONGEST_WAIT = 1.0
_CANCEL_SECONDS = 5.0
_log = logging.getLogger("toolyard.mcp")


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """The protocol version, and what the server says about itself."""

    version: str
    modern: bool
    announces_tools: bool
    """Whether the server sends notifications when its tools change."""
    claims_tools: bool
    """Whether the server says that it has tools."""


def make_meta(capabilities: dict[str, Any], version: str = STATELESS) -> dict[str, Any]:
    """The `_meta` of every request since 2026."""
    return {PROTOCOL_VERSION: version, CLIENT_INFO: TOOLYARD, CLIENT_CAPABILITIES: capabilities}


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


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that a server lists."""

    tools: list[dict[str, Any]]
    """The tools as the server describes them."""
    complete: bool
    """False if there are more tools that were not, or could not be, requested."""
    notes: list[str]
    """Problems with the list."""


class Connection:
    """Sends requests in the form of the protocol version that was agreed on."""

    def __init__(self, wire: McpWire, agreement: Agreement, capabilities: dict[str, Any]) -> None:
        self.wire = wire
        self.peer = wire.peer
        self.agreement = agreement
        self._meta = make_meta(capabilities, agreement.version) if agreement.modern else {}
        self._listens = self._has_subscribed = False
        self._refusals = 0
        """How often in a row the stream of notifications was refused with a 401."""
        self._listen_again = math.inf
        """From when on a request that succeeds has it read again."""

    async def call(self, call: ToolsCall) -> dict[str, Any]:
        """The raw result of a tool, after input requests of the server were answered and notices delivered."""
        if call.notify is None:
            return await self._call_in_rounds(call, None)
        async with Notices(call.notify, call.deadline) as notices:
            return await self._call_in_rounds(call, notices)

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
                raise make_timeout_error(self.peer.name, seconds) from None
            try:
                result = await self._call_once({**params, **more}, headers, call.deadline, notify)
            except SessionLostError:
                raise Interrupted(f"{self.peer.name} was lost before {call.name} received its input") from None
            except CallTimeout:
                # Its own says how much this round had left.
                raise make_timeout_error(self.peer.name, seconds) from None
            except CallError as error:
                raise mark_effect_unknown(error) from None  # the server has begun the call in the first round
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

    async def list_tools(self, deadline: float | None) -> Listing:
        """All tools; none of a server that only has prompts and resources."""
        try:
            return await self._list_pages(deadline)
        except RequestRefused as error:
            if error.number != METHOD_NOT_FOUND or self.agreement.claims_tools:
                raise
            note = "the server has no tools (it does not know tools/list); its prompts and resources are not read"
            return Listing(tools=[], complete=True, notes=[note])

    async def _list_pages(self, deadline: float | None) -> Listing:
        """Request all pages; an endless list is cut off, keeping what was received."""
        limits = self.peer.limits
        tools: list[dict[str, Any]] = []
        notes: list[str] = []
        seen: set[str] = set()
        cursor: str | None = None
        size = strange = 0
        complete = False
        for _ in range(limits.max_pages):
            reply = await self._send_request("tools/list", {} if cursor is None else {"cursor": cursor}, deadline)
            size += reply.size
            page = reply.result.get("tools") if isinstance(reply.result, dict) else None
            if not isinstance(page, list):
                if cursor is None:
                    raise ToolFailed(f"{self.peer.name} answers with no list of tools", effect="none")
                notes.append("a page holds no list of tools; what follows it was not asked for")
                break
            found = [entry for entry in page if isinstance(entry, dict)]
            strange += len(page) - len(found)
            tools += found
            cursor = reply.result.get("nextCursor")
            if cursor is None or cursor == "":
                complete = True
                break
            if not isinstance(cursor, str) or cursor in seen:
                notes.append("the pages lead back to one that was there already; what follows was not asked for")
                break
            seen.add(cursor)
            if len(tools) >= limits.max_tools or size > limits.max_list_bytes:
                break
        else:
            notes.append(f"more than {limits.max_pages:,} pages; what follows was not asked for")
        if len(tools) > limits.max_tools or (not complete and len(tools) >= limits.max_tools):
            notes.append(f"more than {limits.max_tools:,} tools; the others are left out")
            del tools[limits.max_tools :]
            complete = False
        elif size > limits.max_list_bytes:
            notes.append(f"more than {limits.max_list_bytes:,} bytes of tools; what follows was not asked for")
        if strange:
            notes.append(f"{strange} entries are no tools")
        return Listing(tools=tools, complete=complete, notes=notes)

    def listen(self) -> None:
        """Ask the server to report changes of its tools; does nothing if already done."""
        if self._listens:
            return
        self._listens = True
        if self.agreement.modern and self.agreement.announces_tools:
            self.peer.start(self._keep_listening(self._subscribe))
        elif not self.agreement.modern and self.wire.has_notification_stream:
            self.peer.start(self._keep_listening(self.wire.read_notifications))

    async def aclose(self) -> None:
        """Close the connection."""
        await self.wire.aclose()

    async def _call_once(
        self, params: dict[str, Any], headers: Headers, deadline: float | None, notify: Notify | None
    ) -> dict[str, Any]:
        number = self.peer.next_number()
        meta = carry_trace(self._meta)
        if notify is not None:
            meta = {**meta, "progressToken": number}
            if self.agreement.modern:
                meta[LOG_LEVEL] = "info"
        if meta:
            params["_meta"] = meta
        request = Request(number, "tools/call", params, deadline, notify, headers)
        self.peer.calls[number] = notify
        with measure_request("client", "tools/call") as measured:
            measured |= describe_tool(params["name"])
            try:
                reply = await self.wire.request(request)
                if "task" in params:
                    reply = await self._finish_task(reply, deadline)
            finally:
                del self.peer.calls[number]
            if not isinstance(reply.result, dict):
                raise ToolFailed(f"{self.peer.name} answered with something that is no result of a tool")
            measured |= describe_result(reply.result)
        self._note_success()
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
            raise mark_effect_unknown(error) if isinstance(error, CallError) else error from None

    async def _cancel_task(self, about: dict[str, Any]) -> None:
        with suppress(CallError):
            await self._send_request("tasks/cancel", about, asyncio.get_running_loop().time() + _CANCEL_SECONDS)

    async def _send_request(self, method: str, params: dict[str, Any], deadline: float | None) -> McpReply:
        headers: Headers = ()
        if self.agreement.modern:
            headers = modern_headers(self.agreement.version, method)
            params = {**params, "_meta": self._meta}
        request = Request(self.peer.next_number(), method, params or None, deadline, None, headers)
        with measure_request("client", method):
            reply = await self.wire.request(request)
        self._note_success()
        return reply

    async def _collect_inputs(self, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        """The handlers' answers to the server's input requests; `Denied` if there is no handler."""
        found: dict[str, Any] = {}
        if len(asked) > self.peer.limits.max_requests:
            raise ToolFailed(f"{name} of {self.peer.name} asks for {len(asked)} inputs at once", effect="unknown")
        for key, entry in asked.items():
            method = entry.get("method") if isinstance(entry, dict) else None
            handler = self.peer.handlers.find(method) if isinstance(method, str) else None
            if handler is None:
                shown = repr(method)[:100] if isinstance(method, str) else "something unknown"
                raise Denied(
                    f"{name} of {self.peer.name} asks for {shown}, which has no handler here",
                    hint="configure a handler for it",
                    effect="unknown",
                )
            params = entry.get("params")
            try:
                found[key] = await self.peer.run_handler(handler, params if isinstance(params, dict) else {})
                framing.encode_response(None, found[key])
            except CallError as error:
                raise mark_effect_unknown(error) from None
            except Exception as error:
                raise ToolFailed(f"the handler for {method} failed: {type(error).__name__}") from error
        return found

    async def _keep_listening(self, read_notifications: Callable[[], Awaitable[float | None]]) -> None:
        """Read the stream of notifications again whenever it ends, unless the server does not support it.

        After a 401 nothing is sent until a request succeeds: a refused key stays refused, and a login, which nobody is
        asked for here, comes with the next call.
        """
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            begun, pause = loop.time(), None
            try:
                pause = await read_notifications()
            except (RequestRefused, SessionLostError):
                return
            except CallError as error:
                if status_of(error) == HTTPStatus.UNAUTHORIZED:
                    self._wait_for_success()
                if 0 < status_of(error) < 500:
                    return
            except Exception:  # noqa: BLE001 - a bug here must not lose all further notifications
                _log.warning("listening to %s failed unexpectedly", self.peer.name, exc_info=True)
            failures += 1
            if loop.time() - begun > _HEALTHY_SECONDS:
                failures = self._refusals = 0
            pause = backoff_delay(failures + 1, _FIRST_RESUBSCRIBE) if pause is None else pause
            await asyncio.sleep(min(max(pause, 0.05), _LONGEST_PAUSE))

    def _wait_for_success(self) -> None:
        if not self._refusals:
            _log.warning(
                "%s refuses its notifications (401): they are read again once a request succeeds", self.peer.name
            )
        pause = backoff_delay(self._refusals, _FIRST_RESUBSCRIBE, _LONGEST_PAUSE) if self._refusals else 0.0
        self._listens, self._listen_again = False, asyncio.get_running_loop().time() + pause
        self._refusals += 1

    def _note_success(self) -> None:
        if self._refusals and asyncio.get_running_loop().time() >= self._listen_again:
            self.listen()

    async def _subscribe(self) -> None:
        """Read the notifications of a subscription, as in the new protocol, until it ends."""
        if self._has_subscribed:
            self.peer.changed()  # notifications in between were missed
        self._has_subscribed = True
        await self._send_request(LISTEN, {"notifications": {"toolsListChanged": True}}, None)


MAX_QUEUED = 256
"""Maximum number of queued notices for one call."""
LONGEST_DELAY = 5.0
"""Maximum seconds that a result is delayed while notices are delivered."""
_threads = Threads(32, "toolyard-mcp-notices")
"""Threads that deliver notices."""


class Notices:
    """Delivers notices to one caller in order. If the queue is full, the oldest ones are dropped."""

    def __init__(self, notify: Notify, deadline: float | None = None) -> None:
        self._notify = notify
        self._deadline = deadline
        self._lock = threading.Lock()
        self._waiting: deque[Notice] = deque(maxlen=MAX_QUEUED)
        self._runner: Future[None] | None = None
        self._is_over = False

    def __call__(self, notice: Notice) -> None:
        """Queue a notice."""
        with self._lock:
            if self._is_over:
                return
            self._waiting.append(notice)
            if self._runner is None or self._runner.done():
                self._runner = _threads.submit(self._deliver)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait until all notices are delivered, unless the call was cancelled or they take too long; then close."""
        runner = self._runner
        try:
            if runner is not None and not runner.done() and (kind is None or issubclass(kind, CallError)):
                left = math.inf if self._deadline is None else self._deadline - asyncio.get_running_loop().time()
                await asyncio.wait({asyncio.wrap_future(runner)}, timeout=max(min(LONGEST_DELAY, left / 2), 0.0))
        finally:
            # Deliver nothing more.
            with self._lock:
                self._is_over = True
                self._waiting.clear()
                runner = self._runner
            if runner is not None and not runner.done():
                _threads.give_up(runner)

    def _deliver(self) -> None:
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
