"""MCP over standard input and output: one client, one message per line.

The client receives only messages. Output of tools goes to standard error, and their standard input is empty, whether
they run in this process or in others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
from contextlib import suppress
from typing import BinaryIO

from toolyard.dialects.mcp_protocol import INVALID_REQUEST, PARSE_ERROR
from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_json
from toolyard.parsing.lines import LineReader, SkippedLine
from toolyard.serving.identity import NOBODY
from toolyard.serving.mcp.json_rpc import RpcFault, encode_error
from toolyard.serving.mcp.message_client import MessageClient
from toolyard.serving.mcp.server import McpEndpoint
from toolyard.serving.streams import Subscriber, no_op

_CHUNK = 256 * 1024
_HIGH = 8 * 1024 * 1024
"""Bytes unread by the client above which its input is no longer read."""
_log = logging.getLogger(__name__)


class StdioTransport(asyncio.Protocol):
    """The connection to the client."""

    def __init__(self, server: McpEndpoint) -> None:
        self._block = server.server_block
        self._lines = LineReader(self._block.max_body_bytes)
        self._reading: asyncio.ReadTransport | None = None
        self.out = OutputPipe(self)
        self.client = MessageClient(server, self.write, self.write, NOBODY, server.server_block.public_url)
        self.finished = asyncio.get_running_loop().create_future()
        """Done when the client has closed its output or is gone."""

    def write(self, message: bytes) -> None:
        """Send a message as one line."""
        self.out.write(message + b"\n")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, to pause and resume reading."""
        self._reading = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Handle complete lines; pause reading while the client does not read its messages."""
        for line in self._lines.feed(data):
            self._read_line(line)
        if self._reading is not None and self.out.is_full:
            self._reading.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading, once the client has read its messages."""
        if self._reading is not None:
            self._reading.resume_reading()

    def eof_received(self) -> None:
        """Finish: the client has closed its output."""
        self.finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """Finish: the connection is lost."""
        self.finish()

    def finish(self) -> None:
        """Handle the last line and set `finished`."""
        if not self.finished.done():
            for line in self._lines.finish():
                self._read_line(line)
            self.finished.set_result(None)

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


class OutputPipe(asyncio.BaseProtocol):
    """Output to the client: asynchronous to a pipe or socket, blocking to a file."""

    def __init__(self, wire: StdioTransport) -> None:
        self._wire = wire
        self._transport: asyncio.WriteTransport | None = None
        self._file: BinaryIO | None = None
        self.is_full = False

    async def open(self, fd: int) -> None:
        """Write to this file descriptor from now on, and own it."""
        if _is_pipe(fd):
            pipe = os.fdopen(fd, "wb", buffering=0)
            self._transport, _ = await asyncio.get_running_loop().connect_write_pipe(lambda: self, pipe)
            self._transport.set_write_buffer_limits(high=_HIGH)
        else:
            self._file = os.fdopen(fd, "wb", buffering=0)

    def write(self, data: bytes) -> None:
        """Write all of the data, in order; buffered for a pipe."""
        if self._transport is not None:
            self._transport.write(data)
        elif self._file is not None:
            with suppress(OSError):
                view = memoryview(data)
                while view:
                    view = view[self._file.write(view) or 0 :]

    def connection_lost(self, exc: Exception | None) -> None:
        """Finish: the client is gone."""
        self._transport = None
        self._wire.finish()

    def pause_writing(self) -> None:
        """Note that the client does not read."""
        self.is_full = True

    def resume_writing(self) -> None:
        """Resume input: the client reads again."""
        self.is_full = False
        self._wire.resume_reading()

    async def flush(self, seconds: float) -> None:
        """Wait until everything is written, for at most this many seconds."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while self._transport is not None and self._transport.get_write_buffer_size() and clock() < until:
            if self._transport.is_closing():
                return
            await asyncio.sleep(0.005)

    def close(self) -> None:
        """Close the output, dropping unwritten data."""
        if self._transport is not None:
            self._transport.abort()
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
    client, out, timeout = wire.client, wire.out, server.server_block.shutdown_timeout
    await out.open(writing)
    # With a single client, its stream never has to make room for another, so `end` does nothing.
    subscriber = Subscriber("", client.notify_changed, no_op)
    server.subscribers.join(subscriber)
    await _open_input(wire, reading)
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
        await out.flush(timeout)
    finally:
        stopping.cancel()
        server.subscribers.leave(subscriber)
        out.close()


async def _open_input(wire: StdioTransport, fd: int) -> None:
    loop = asyncio.get_running_loop()
    if _is_pipe(fd):
        await loop.connect_read_pipe(lambda: wire, os.fdopen(fd, "rb", buffering=0))
        return

    def read() -> None:
        with os.fdopen(fd, "rb", buffering=0) as file:
            while data := file.read(_CHUNK):
                loop.call_soon_threadsafe(wire.data_received, data)
        loop.call_soon_threadsafe(wire.eof_received)

    loop.run_in_executor(None, read)


def _is_pipe(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
