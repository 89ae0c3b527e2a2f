"""MCP over standard input and output: one client, one message per line.

The client receives only messages. Output of tools goes to standard error, and their standard input is empty, whether
they run in this process or in others. `MessageClient` is also the client of the older SSE transport: responses are sent
when they are ready, in any order; `initialize` and faults are answered at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO

from toolyard.dialects.mcp_protocol import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LIST_CHANGED,
    LISTEN,
    NEWEST_HANDSHAKE,
    PARSE_ERROR,
    PROTOCOL_VERSION,
    REFUSED,
    encode_notification,
)
from toolyard.model.errors import MalformedSource, ToolyardError
from toolyard.parsing import parse_json
from toolyard.parsing.lines import LineReader, SkippedLine
from toolyard.serving.identity import NOBODY, Caller, Principal
from toolyard.serving.mcp.approving import ClientQuestions, can_elicit
from toolyard.serving.mcp.event_stream import EventStream, read_subscription
from toolyard.serving.mcp.json_rpc import (
    RANK,
    TOOLS_CHANGED,
    Id,
    Json,
    RequestContext,
    RpcFault,
    RpcMessage,
    check_envelope,
    check_version,
    encode_error,
    encode_result,
    find_id,
    finish_result,
    negotiate_version,
    read_message,
)
from toolyard.serving.mcp.server import McpEndpoint
from toolyard.serving.mcp.sessions import InflightRequest, Running, cancel_request, find_cancelled, forget_request
from toolyard.serving.streams import Subscriber, no_op

_CHUNK = 256 * 1024
_HIGH = 8 * 1024 * 1024
"""Bytes unread by the client above which its input is no longer read."""
_MOST_RUNNING = 1024
_MOST_SUBSCRIPTIONS = 16
_log = logging.getLogger("toolyard.serving.mcp.message_client")  # filters of users may name it


class MessageClient:
    """The state of one client: protocol settings, running requests, open questions and subscriptions.

    `send` sends responses, which must not be lost; `notify` sends notifications, which may be dropped. `stream` is what
    an SSE client reads them from.
    """

    def __init__(
        self,
        server: McpEndpoint,
        send: Callable[[bytes], None],
        notify: Callable[[bytes], None],
        principal: Principal,
        address: str | None = None,
        stream: EventStream | None = None,
    ) -> None:
        self._server = server
        self._send = send
        self._notify = notify
        self._principal = principal
        self.stream = stream
        self._find_address = None if address is None else partial(address.rstrip, "/")
        self.level = RANK["info"]
        self.version = NEWEST_HANDSHAKE
        self.running: Running = {}
        self._is_initialized = self._elicits = False
        self._questions = ClientQuestions()
        self._subscriptions: dict[Id, Json] = {}
        """The tag of each subscription, by the id of its request."""

    def notify_changed(self) -> None:
        """Notify the client of a changed catalog."""
        if self._is_initialized:
            self._notify(TOOLS_CHANGED)
        for tag in self._subscriptions.values():
            self._notify(encode_notification(LIST_CHANGED, {"_meta": tag}))

    @property
    def is_full(self) -> bool:
        """True if no message should be taken until the client has read its responses."""
        return self.stream is not None and self.stream.is_full

    def accepts(self, document: Json) -> bool:
        """True: all messages of its session belong to it."""
        return True

    def receive(self, document: Any, principal: Principal | None = None) -> None:
        """Handle a message; the response may be sent later. `principal` is its sender; None leaves it unchanged."""
        if principal is not None:
            self._principal = principal
        try:
            if self.is_full:
                raise RpcFault(REFUSED, "there are answers that were not read; read them, and ask again")
            if type(document) is not dict:
                raise RpcFault(INVALID_REQUEST, "a message is one JSON object; there are no batches")
            message = read_message(document)
            if message is None:
                self._questions.resolve(document)
                return
            if message.id is None:
                if (number := find_cancelled(document)) is not None and self._subscriptions.pop(number, None) is None:
                    cancel_request(self.running, document)
            elif message.method == "initialize":
                self.version = negotiate_version(message)
                self._is_initialized, self._elicits = True, can_elicit(message.params.get("capabilities"))
                self._send(encode_result(message.id, self._server.greet(self.version)))
            else:
                self._begin(message, message.id)
        except RpcFault as fault:
            self._send(encode_error(find_id(document), fault))

    def close(self) -> None:
        """Stop the running requests of a client that is gone."""
        for inflight in list(self.running.values()):
            inflight.stop("over")

    def _begin(self, message: RpcMessage, number: Id) -> None:
        stateless = PROTOCOL_VERSION in message.meta
        if stateless:
            check_envelope(message)
            check_version(message.meta[PROTOCOL_VERSION])
        if number in self.running or number in self._subscriptions:
            raise RpcFault(INVALID_REQUEST, "a request with this id is under way")
        if stateless and message.method == LISTEN:
            self._subscribe(message, number)
            return
        caller = Caller(self._principal)
        if len(self.running) >= _MOST_RUNNING:
            raise RpcFault(REFUSED, f"more than {_MOST_RUNNING} requests are under way; wait for some of them")
        ask = partial(self._questions.ask, self._send) if self._elicits else None
        context = RequestContext(message, caller, client=None if stateless else self, notify=self._notify, ask=ask)
        context.find_address = self._find_address
        inflight = InflightRequest(asyncio.get_running_loop().create_task(self._answer(context, number)))
        self.running[number] = inflight
        inflight.task.add_done_callback(lambda _: forget_request(self.running, number, inflight))

    def _subscribe(self, message: RpcMessage, number: Id) -> None:
        tag, wants_changes, acknowledgement = read_subscription(message)
        if len(self._subscriptions) >= _MOST_SUBSCRIPTIONS:
            raise RpcFault(REFUSED, f"{_MOST_SUBSCRIPTIONS} subscriptions are open; end one of them")
        self._send(acknowledgement)
        if wants_changes:
            self._subscriptions[number] = tag

    def end_subscriptions(self) -> None:
        """End all subscriptions by sending their results."""
        for number, tag in self._subscriptions.items():
            self._send(encode_result(number, finish_result({"_meta": dict(tag)}, stateless=True)))
        self._subscriptions.clear()

    async def _answer(self, context: RequestContext, number: Id) -> None:
        try:
            self._send(encode_result(number, await self._server.answer(context)))
        except RpcFault as fault:
            self._send(encode_error(number, fault))
        except ToolyardError as error:
            self._send(encode_error(number, RpcFault(REFUSED, str(error))))
        except Exception as error:  # noqa: BLE001 - a boundary: an unexpected error must not affect other requests
            _log.error("%s: failed with %s", context.message.method, type(error).__name__, exc_info=error)
            self._send(encode_error(number, RpcFault(INTERNAL_ERROR, "the server failed; its log has it")))


class StdioTransport(asyncio.Protocol):
    """The connection to the client: input and output, each asynchronous for a pipe or socket, and blocking for a file.

    Both may be one socket, as inetd, systemd and socat pass it on. While the client does not read its messages, no
    further ones of it are read.
    """

    def __init__(self, server: McpEndpoint) -> None:
        self._block = server.server_block
        self._lines = LineReader(self._block.max_body_bytes)
        self._input: asyncio.ReadTransport | None = None
        self._output: asyncio.WriteTransport | None = None
        self._file: BinaryIO | None = None
        """The output, if it is a file."""
        self._is_full = False
        self.client = MessageClient(server, self.write, self.write, NOBODY, server.server_block.public_url)
        self.finished = asyncio.get_running_loop().create_future()
        """Done when the client has closed its output or is gone."""

    async def open(self, reading: int, writing: int) -> None:
        """Read from and write to these file descriptors from now on, and own them."""
        if _is_one_socket(reading, writing):
            # The transport of a pipe would take a message of the client for the end of its reading.
            os.close(reading)
            line = socket.socket(fileno=writing)
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: self, line)
            self._input = self._output = transport
        else:
            await self._open_output(writing)
            await self._open_input(reading)
        if self._output is not None:
            self._output.set_write_buffer_limits(high=_HIGH)

    async def _open_output(self, fd: int) -> None:
        file = os.fdopen(fd, "wb", buffering=0)
        if _is_pipe(fd):
            self._output, _ = await asyncio.get_running_loop().connect_write_pipe(lambda: self, file)
        else:
            self._file = file

    async def _open_input(self, fd: int) -> None:
        loop, file = asyncio.get_running_loop(), os.fdopen(fd, "rb", buffering=0)
        if _is_pipe(fd):
            self._input, _ = await loop.connect_read_pipe(lambda: self, file)
            return

        def read() -> None:
            with file:
                while data := file.read(_CHUNK):
                    loop.call_soon_threadsafe(self.data_received, data)
            loop.call_soon_threadsafe(self.eof_received)

        loop.run_in_executor(None, read)

    def write(self, message: bytes) -> None:
        """Send a message as one line; buffered for a pipe."""
        if self._output is not None:
            self._output.write(message + b"\n")
        elif self._file is not None:
            with suppress(OSError):
                view = memoryview(message + b"\n")
                while view:
                    view = view[self._file.write(view) or 0 :]

    def data_received(self, data: bytes) -> None:
        """Handle complete lines; pause reading while the client does not read its messages."""
        for line in self._lines.feed(data):
            self._read_line(line)
        if self._input is not None and self._is_full:
            self._input.pause_reading()

    def _read_line(self, line: bytes | SkippedLine) -> None:
        if isinstance(line, SkippedLine):
            most = self._block.max_body_bytes
            self.write(encode_error(None, RpcFault(INVALID_REQUEST, f"the message is longer than {most:,} bytes")))
        elif not line.isspace():
            try:
                document = parse_json(line, what="message", max_depth=self._block.max_depth)
            except MalformedSource as error:
                self.write(encode_error(None, RpcFault(PARSE_ERROR, str(error))))
                return
            self.client.receive(document)

    def eof_received(self) -> bool:
        """Handle the last line: the client has closed its output, or is gone. True: it may still read."""
        if not self.finished.done():
            for line in self._lines.finish():
                self._read_line(line)
            self.finished.set_result(None)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Finish: one of the pipes is closed."""
        if self._output is not None and self._output.is_closing():
            self._output = None
        self.eof_received()

    def pause_writing(self) -> None:
        """Note that the client does not read."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Resume input: the client reads again."""
        self._is_full = False
        if self._input is not None:
            self._input.resume_reading()

    async def flush(self, seconds: float) -> None:
        """Wait until everything is written, for at most this many seconds."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while self._output is not None and self._output.get_write_buffer_size() and clock() < until:
            if self._output.is_closing():
                return
            await asyncio.sleep(0.005)

    def close(self) -> None:
        """Close the output, dropping unwritten data."""
        if self._output is not None:
            self._output.abort()
        elif self._file is not None:
            self._file.close()


def take_streams() -> tuple[int, int]:
    """Reserve standard input and output for the protocol. Other code gets an empty input and writes to stderr.

    Returns the file descriptors for reading and writing.
    """
    sys.stdout.flush()
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return reading, writing


async def serve_stdio(server: McpEndpoint, reading: int, writing: int, stop: asyncio.Event) -> None:
    """Serve until the client closes its output or `stop` is set; then wait for running requests up to the limit."""
    wire = StdioTransport(server)
    client, timeout = wire.client, server.server_block.shutdown_timeout
    # With a single client, its stream never has to make room for another, so `end` does nothing.
    subscriber = Subscriber("", client.notify_changed, no_op)
    server.subscribers.join(subscriber)
    await wire.open(reading, writing)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({wire.finished, stopping}, return_when=asyncio.FIRST_COMPLETED)
        running = {inflight.task for inflight in client.running.values()}
        if running:
            _, unfinished = await asyncio.wait(running, timeout=timeout)
            for task in unfinished:
                task.cancel()
            if unfinished:
                await asyncio.wait(unfinished, timeout=timeout)
        client.end_subscriptions()
        await wire.flush(timeout)
    finally:
        stopping.cancel()
        server.subscribers.leave(subscriber)
        wire.close()


def _is_pipe(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _is_one_socket(reading: int, writing: int) -> bool:
    given = os.fstat(writing)
    return stat.S_ISSOCK(given.st_mode) and os.path.samestat(os.fstat(reading), given)
