"""`StdioWire`: a server that runs as a child process, over its standard input and output."""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import logging
import os
import select
import shutil
import signal
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

from toolyard.links.http.messages import make_timeout_error
from toolyard.links.mcp import framing
from toolyard.links.mcp.framing import SplitMessage
from toolyard.links.mcp.peer import McpReply, Peer
from toolyard.links.mcp.wire import Lost, Mailbox, McpWire, Request
from toolyard.loop.threads import keep_alive
from toolyard.model.bindings import McpServer
from toolyard.model.errors import CallTimeout, ToolFailed, Unavailable
from toolyard.parsing.lines import LineReader, SkippedLine

_log = logging.getLogger("toolyard.mcp")

_EXIT_SECONDS = 0.5
"""Seconds between SIGTERM and SIGKILL when the interpreter exits."""
_GROUP_SECONDS = 0.3
_POLL_SECONDS = 0.02

_CHILDREN: set[Child] = set()


class Child:
    """A child process that leads its own process group. It is ended at the latest when this process exits."""

    def __init__(self, transport: asyncio.SubprocessTransport) -> None:
        self.transport = transport
        self.pid = transport.get_pid()
        self.exited = asyncio.Event()
        if transport.get_returncode() is not None:
            self.exited.set()  # before anybody could be notified
        if not _CHILDREN:
            atexit.register(_end_all)
        _CHILDREN.add(self)

    async def end(self, seconds: float) -> None:
        """Wait for it to exit, then send SIGTERM, then SIGKILL; finally end the rest of its group."""
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                self.signal(number)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.exited.wait()
                break
        if self.signal(signal.SIGTERM):
            end = time.monotonic() + _GROUP_SECONDS
            while self.signal(0) and time.monotonic() < end:  # noqa: ASYNC110 - there is no event for an empty process group
                await asyncio.sleep(_POLL_SECONDS)
            self.signal(signal.SIGKILL)
        self.transport.close()
        _CHILDREN.discard(self)
        if not _CHILDREN:
            atexit.unregister(_end_all)

    def signal(self, number: int) -> bool:
        """Send a signal to the whole group; False if the group is empty."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def disown_children() -> None:
    """In a forked child, disown the parent's processes and close our copies of their pipes, so that they can end."""
    for child in _CHILDREN:
        keep_alive(child)
        for number in range(3):
            pipe = child.transport.get_pipe_transport(number)
            file = None if pipe is None else pipe.get_extra_info("pipe")
            if file is not None:
                with suppress(OSError):
                    file.close()
    _CHILDREN.clear()
    atexit.unregister(_end_all)


def _end_all() -> None:
    mine = list(_CHILDREN)
    for child in mine:
        child.signal(signal.SIGTERM)
    end = time.monotonic() + _EXIT_SECONDS
    while time.monotonic() < end and any(child.signal(0) for child in mine):
        time.sleep(_POLL_SECONDS)
    for child in mine:
        child.signal(signal.SIGKILL)


os.register_at_fork(after_in_child=disown_children)


_INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
_STDIN, _STDOUT, _STDERR = 0, 1, 2
_MAX_UNREAD = 1000
"""A process that does not read so many consecutive responses is ended."""
_DRAIN_SECONDS = 0.2
"""Seconds to wait for the remaining output of an ended process."""
_SHOWN_LINES, _SHOWN_WIDTH = 12, 200
"""Limits of stderr in a log message; the last lines are kept, since they state the cause of an error."""


class StdioWire(McpWire, asyncio.SubprocessProtocol):
    """A connection to one process, for its lifetime. The loop calls the protocol methods."""

    def __init__(self, server: McpServer, peer: Peer, lost: Lost) -> None:
        super().__init__(peer, lost)
        self._server = server
        self._mailbox = Mailbox(peer, self.send_soon)
        self._reader = LineReader(peer.limits.max_message_bytes)
        self._split = SplitMessage(peer.limits.max_message_bytes)
        self._pieces_read = 0
        self._silence: asyncio.Task[None] | None = None
        self._tail = bytearray()
        self._unlogged = bytearray()
        self._log_timer: asyncio.TimerHandle | None = None
        self._child: Child | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._is_dying = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = asyncio.Event()
        self._unread = 0

    async def open(self) -> None:
        """Start the process."""
        server = self._server
        env = {name: os.environ[name] for name in _INHERITED if name in os.environ} | dict(server.env)
        program = server.command or ""
        if shutil.which(program, path=env.get("PATH")) is None:
            # Or in the folder of this interpreter, which need not be on the PATH.
            program = shutil.which(program, path=str(Path(sys.executable).parent)) or program
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.subprocess_exec(
                lambda: self, program, *server.args, env=env, cwd=server.cwd or None,
                start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise Unavailable(_explain_start_failure(server, error), retryable=False) from None
        self._child = Child(transport)
        stdin = transport.get_pipe_transport(_STDIN)
        assert isinstance(stdin, asyncio.WriteTransport)
        self._stdin = stdin

    async def request(self, request: Request) -> McpReply:
        """Send a request and return the response."""
        self._is_dying = self._is_dying or self._is_pipe_closed()
        if self._is_dying and self._mailbox.ended is None:
            asyncio.get_running_loop().call_later(_DRAIN_SECONDS, self._lose_process)
            await self._closed.wait()  # read its remaining output first
        if not self._writable.is_set():
            try:
                async with asyncio.timeout_at(request.deadline):
                    await self._writable.wait()
            except TimeoutError:
                raise make_timeout_error(self.peer.name, request.seconds, "none") from None
        failed = request.method not in ("server/discover", "initialize")  # one of both is expected to fail
        try:
            reply = await self._mailbox.exchange(request, self._send)
            failed = isinstance(reply.result, dict) and reply.result.get("isError") is True
            return reply
        except CallTimeout:
            if request.cancellable and (self._silence is None or self._silence.done()):
                self._silence = self.peer.start(self._end_if_silent(request))
            raise
        finally:
            if failed and self._log_timer is None and self._mailbox.ended is None:
                self._log_timer = asyncio.get_running_loop().call_later(_DRAIN_SECONDS, self._log_stderr)

    def has_read(self) -> bool:
        """Whether the pipe is empty; True if that cannot be determined."""
        pipe = None if self._stdin is None else self._stdin.get_extra_info("pipe")
        try:
            return pipe is None or not any(fcntl.ioctl(pipe.fileno(), termios.FIONREAD, bytes(4)))
        except (OSError, ValueError):
            return True

    def _is_pipe_closed(self) -> bool:
        """Whether the other end of the pipe is closed, although the loop has not reported it yet."""
        if self._stdin is None or self._stdin.is_closing():
            return False
        look = select.poll()
        # With no events requested, poll reports errors and a closed other end only.
        look.register(self._stdin.get_extra_info("pipe"), 0)
        return bool(look.poll(0))

    def send_soon(self, data: bytes) -> None:
        """Send a message that has no response."""
        if self._mailbox.ended is not None or self._stdin is None or self._stdin.is_closing():
            return
        if self._writable.is_set():
            self._stdin.write(data + b"\n")
            return
        # The server sends requests without reading the responses.
        self._unread += 1
        if self._unread > _MAX_UNREAD:
            self._end_process("does not read what it is sent")

    async def finish_handshake(self, version: str) -> None:
        """Send the notification that ends a handshake."""
        self.send_soon(framing.INITIALIZED)

    async def aclose(self) -> None:
        """End the process and everything it started."""
        await self.peer.aclose()
        self._closed.set()
        self._mailbox.end("was closed")
        if self._child is not None:
            if self._stdin is not None:
                self._stdin.close()
            await self._child.end(self.peer.limits.close_seconds)
            if self._log_timer is not None:
                self._log_timer.cancel()
                self._log_stderr()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Handle bytes from one of the pipes."""
        if fd == _STDERR:
            for kept in (self._tail, self._unlogged):
                kept += data
                del kept[: -self.peer.limits.stderr_bytes]
            return
        if self._mailbox.ended is not None:
            return
        self._pieces_read += 1
        for line in self._reader.feed(data):
            if isinstance(line, SkippedLine):
                self._mailbox.deliver_skipped(line)
            elif not self._mailbox.deliver(line) and (text := self._split.add(line)):
                hint = "over stdio each message is one line: let the server write its JSON without line breaks"
                fault = ToolFailed(f"{self.peer.name} wrote its answer over several lines", hint=hint)
                self._mailbox.deliver(text, fault)
        pause = self.peer.seconds_to_pause()
        pipe = None if self._child is None else self._child.transport.get_pipe_transport(_STDOUT)
        if pause and isinstance(pipe, asyncio.ReadTransport) and pipe.is_reading():
            # Pause reading from a server that sends too many messages.
            pipe.pause_reading()
            asyncio.get_running_loop().call_later(pause, pipe.resume_reading)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Handle the end of one of the pipes."""
        if fd == _STDIN:
            self._is_dying = True
        elif fd == _STDOUT:
            self._is_dying = True
            asyncio.get_running_loop().call_later(_DRAIN_SECONDS, self._lose_process)
        elif self._child is not None and self._child.exited.is_set():
            self._lose_process()

    def process_exited(self) -> None:
        """Handle the exit of the process."""
        self._is_dying = True
        if self._child is not None:
            self._child.exited.set()
        asyncio.get_running_loop().call_later(_DRAIN_SECONDS, self._lose_process)

    def pause_writing(self) -> None:
        """The pipe to the process is full."""
        self._unread = 0
        self._writable.clear()

    def resume_writing(self) -> None:
        """The pipe to the process has room again."""
        self._unread = 0
        self._writable.set()

    def _send(self, request: Request, future: asyncio.Future[McpReply]) -> None:
        data = request.encode() + b"\n"
        if self._mailbox.ended is not None or self._is_dying or self._stdin is None or self._stdin.is_closing():
            self._lose_process()
            raise self._mailbox.make_closed_error(request)
        request.sent = True
        self._stdin.write(data)

    async def _end_if_silent(self, request: Request) -> None:
        """After a timeout, end a process that writes nothing more, not even an answer to a ping: it hangs."""
        pieces = self._pieces_read
        seconds = max(request.seconds or 0.0, self.peer.limits.silence_seconds)
        self.send_soon(framing.encode_request(self.peer.next_number(), "ping", None))
        while True:
            await asyncio.sleep(seconds)
            if self._pieces_read != pieces or self._mailbox.ended is not None:
                return
            if not self._mailbox.is_busy_before(request):  # else it may be working on that
                self._end_process(f"was ended (it wrote nothing for {seconds:.3g} s after a call had timed out)")

    def _lose_process(self) -> None:
        if self._mailbox.ended is not None:
            return
        status = None if self._child is None else self._child.transport.get_returncode()
        how = "closed its output" if status is None else f"ended with status {status}"
        if status is not None and status < 0:
            how = f"was ended by signal {-status}"
        self._end_process(how)

    def _end_process(self, how: str) -> None:
        lines = self._read_stderr(self._tail)
        last_words = f"; its last words: {chr(10).join(lines)}" if lines else ""
        self._closed.set()
        self._writable.set()
        self._mailbox.end(how, last_words)
        self._lost(self, Unavailable(f"{self.peer.name} {how}{last_words}"))

    def _read_stderr(self, written: bytearray) -> list[str]:
        """The last lines that say something: frames and rules, which banners draw, do not."""
        text = self.peer.redactor.text(written.decode("utf-8", "replace"))
        return [line.rstrip() for line in text.strip().splitlines() if any(map(str.isalnum, line))][-_SHOWN_LINES:]

    def _log_stderr(self) -> None:
        """Log stderr after a failed call, since many servers report the reason only there."""
        self._log_timer = None
        end = self._unlogged.rfind(b"\n") + 1  # whole lines only, since part of a secret would not be redacted
        if lines := self._read_stderr(self._unlogged[:end]):
            shown = "".join(f"\n  {_make_visible(line[:_SHOWN_WIDTH])}" for line in lines)
            _log.warning("%s wrote to its standard error:%s", self.peer.name, shown)
        del self._unlogged[:end]


def _make_visible(text: str) -> str:
    """The text with control characters escaped, so that it cannot drive a terminal or forge log lines."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _explain_start_failure(server: McpServer, error: Exception) -> str:
    if server.cwd and not os.path.isdir(server.cwd):
        return f"cannot start {server.name}: there is no folder {server.cwd!r}"
    if isinstance(error, FileNotFoundError):
        return f"cannot start {server.name}: there is no program {server.command!r} here or on the PATH"
    reason = error.strerror if isinstance(error, OSError) else "its command line cannot be passed on"
    return f"cannot start {server.name}: {reason or type(error).__name__}"
