"""`Worker`: the pipes to one child, the exchange of frames over them, and the errors of its failures.

A frame is a length in four bytes, big-endian, followed by JSON.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

import msgspec

from toolyard.links.scripts.inside.serving import ENVELOPE_BYTES
from toolyard.model.errors import CallError, CallTimeout, ToolFailed
from toolyard.parsing.json_text import json_decoder
from toolyard.schema.common_options import WorkerSettings

HEAD = 4


class InvalidFrame(ValueError):
    """The data is not a frame, or the frame is too large."""


def encode_frame(body: bytes) -> bytes:
    """The frame of a body."""
    return len(body).to_bytes(HEAD, "big") + body


class FrameReader:
    """Collects bytes until one body is complete; more is an error, since only one is expected."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        """The body once it is complete, else None."""
        self._data += data
        if len(self._data) < HEAD:
            return None
        size = int.from_bytes(self._data[:HEAD], "big")
        if size > self._limit:
            raise InvalidFrame(f"a frame of {size} bytes, where {self._limit} are allowed")
        if len(self._data) > size + HEAD:
            raise InvalidFrame("more than the one frame that was asked for")
        if len(self._data) < size + HEAD:
            return None
        body = bytes(self._data[HEAD:])
        self._data.clear()
        return body


_CHUNK = 65536
_IN, _OUT = select.EPOLLIN, select.EPOLLOUT


class ExchangeError(Exception):
    """The exchange failed, and the worker cannot be used again."""


class WorkerLost(ExchangeError):
    """The process ended."""


class InvalidReply(ExchangeError):
    """The process sent something invalid; the text says what."""


class OutputTooLarge(ExchangeError):
    """The process printed more than the limit."""


class DeadlinePassed(ExchangeError):
    """The deadline has passed."""


class ReportedFault(msgspec.Struct, frozen=True):
    """An exception in a script, as its process reports it."""

    type: str
    message: str
    trace: str = ""
    line: int | None = None
    refused: bool = False


class ReportedDeclarations(msgspec.Struct, frozen=True):
    """The declarations of a file, or why its process has none."""

    tools: list[dict[str, Any]] | None = None
    fault: ReportedFault | None = None
    ended: int | None = None
    unforked: str | None = None


class WorkerReply(msgspec.Struct, frozen=True):
    """The response of a worker to a call or to a request for declarations."""

    token: str = ""
    value: Any = None
    fault: ReportedFault | None = None
    again: bool = False
    """Whether the worker can take another call."""
    body: ReportedDeclarations | None = None
    ready: bool = False
    broken: str | None = None


_decode: Callable[[bytes], WorkerReply] = json_decoder(WorkerReply)


class Tail:
    """The last bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Append data, keeping the last bytes only."""
        self.total += len(data)
        self._kept += data
        if len(self._kept) > self._limit * 2 + _CHUNK:
            del self._kept[: len(self._kept) - self._limit]

    @property
    def truncated(self) -> bool:
        """Whether the beginning was dropped."""
        return self.total > self._limit

    def text(self) -> str:
        """The kept bytes as text."""
        if not self.total:
            return ""
        return bytes(self._kept[-self._limit :] if self._limit else b"").decode("utf-8", "replace")


class WorkerEnd(msgspec.Struct, frozen=True):
    """How a worker ended."""

    status: int | None = None
    """An exit status as in `subprocess`, negative for a signal; None if unknown."""
    clean: bool = True
    """True if nothing that it started is left."""
    fault: str | None = None


class Worker:
    """The server's end of a child's pipes: one to write to and three to read from."""

    def __init__(self, name: str, fds: list[int], end: Callable[[Worker], WorkerEnd]) -> None:
        self.name = name
        self._end = end
        self.key: tuple[str, str] | None = None
        """The script it belongs to: file name and hash."""
        self.calls = 0
        self.to, self.answers, self.out, self.err = fds
        self.poll = select.epoll()
        self._is_closed = False
        for fd in fds:
            os.set_blocking(fd, False)
        for fd in (self.answers, self.out, self.err):
            self.poll.register(fd, _IN)

    def is_ready(self) -> bool:
        """True if it is alive and has sent nothing since its last response."""
        return not self._is_closed and not self.poll.poll(0)

    def end(self) -> WorkerEnd:
        """End the process and everything that it started; also returns how it ended by itself. Blocks."""
        return self._end(self)

    def close(self) -> None:
        """Close the pipes; a child that is still alive reads an end of file."""
        if not self._is_closed:
            self._is_closed = True
            self.poll.close()
            for fd in (self.to, self.answers, self.out, self.err):
                os.close(fd)


class WorkerExchange:
    """One request frame, one response frame, and the output in between."""

    __slots__ = ("_left", "_limits", "_reader", "_worker", "reply", "stderr", "stdout")

    def __init__(self, worker: Worker, limits: WorkerSettings) -> None:
        self._worker = worker
        self._limits = limits
        self._reader = FrameReader(limits.max_answer_bytes + ENVELOPE_BYTES)
        self._left = memoryview(b"")
        half = limits.max_output_bytes // 2
        self.stdout, self.stderr = Tail(half), Tail(half)
        self.reply: WorkerReply | None = None

    def printed(self) -> tuple[str, str, bool]:
        """The kept part of stdout and stderr, and whether it is truncated."""
        return self.stdout.text(), self.stderr.text(), self.stdout.truncated or self.stderr.truncated

    @property
    def is_sent(self) -> bool:
        """Whether the request was written completely; a worker may respond without having read it."""
        return not self._left

    def begin(self, body: bytes) -> None:
        """Write the request, as far as possible without blocking."""
        data = encode_frame(body)
        try:
            sent = os.write(self._worker.to, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            raise WorkerLost from None
        if sent < len(data):
            self._left = memoryview(data)[sent:]
            self._worker.poll.register(self._worker.to, _OUT)

    def advance(self, seconds: float) -> bool:
        """Handle data that has arrived or arrives within that time; True once the response is complete."""
        worker = self._worker
        has_answer = False
        for fd, _ in worker.poll.poll(seconds):
            if fd == worker.answers:
                has_answer = True
            elif fd == worker.to:
                self._send()
            else:
                self._take_printed(fd)
        if has_answer:
            # Read last, because output that precedes it, or the end of the process, is in the pipes by then.
            data = os.read(worker.answers, _CHUNK)
            if not data:
                raise WorkerLost
            try:
                if (body := self._reader.feed(data)) is not None:
                    self.reply = _decode(body)
            except (InvalidFrame, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise InvalidReply(str(error)) from None
        return self.reply is not None

    def wait(self, deadline: float) -> WorkerReply:
        """Block until the response is complete."""
        while self.reply is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise DeadlinePassed
            self.advance(left)
        return self.reply

    async def wait_async(self, deadline: float | None) -> WorkerReply:
        """Wait for the response on the running loop."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def read_available() -> None:
            try:
                if self.advance(0) and not done.done():
                    done.set_result(None)
            except ExchangeError as error:
                if not done.done():
                    done.set_exception(error)

        fd = self._worker.poll.fileno()
        loop.add_reader(fd, read_available)
        try:
            async with asyncio.timeout_at(deadline):
                await done
        except TimeoutError:
            if done.cancelled():
                raise DeadlinePassed from None
            done.result()  # it came in time, but the loop was busy until after the deadline
        finally:
            loop.remove_reader(fd)
        assert self.reply is not None
        return self.reply

    def _take_printed(self, fd: int) -> None:
        data = os.read(fd, _CHUNK)
        if not data:
            self._worker.poll.unregister(fd)
        (self.stdout if fd == self._worker.out else self.stderr).add(data)
        if self.stdout.total + self.stderr.total > self._limits.max_printed_bytes:
            raise OutputTooLarge

    def _send(self) -> None:
        try:
            self._left = self._left[os.write(self._worker.to, self._left) :]
        except BlockingIOError:
            return
        except OSError:
            raise WorkerLost from None
        if not self._left:
            self._worker.poll.unregister(self._worker.to)


class ScriptFailed(ToolFailed):
    """The script raised, or its process ended. Its output is for the trace, not for the caller."""

    stdout: str = ""
    stderr: str = ""
    trace: str = ""


class ScriptTimeout(CallTimeout):
    """The script was ended at its deadline."""

    stdout: str = ""
    stderr: str = ""
    trace: str = ""


_NONE = "`isolation: inprocess` runs it without a sandbox"
_FILES = f"`sandbox: rlimits` lets it reach all that its user may, {_NONE}"
_PROCESSES = "option `processes` limits processes and threads of scripts"
_HINTS = (
    (
        "PermissionError",
        "[Errno 1]",
        f"the sandbox denies it sockets, and changes of modes and owners of files; {_NONE}",
    ),
    ("PermissionError", "[Errno 13]", f"the sandbox denies it files outside its own folder; {_FILES}"),
    ("MemoryError", "", "option `memory_bytes` limits its memory"),
    ("RuntimeError", "can't start new thread", _PROCESSES),
    ("BlockingIOError", "[Errno 11]", _PROCESSES),
    ("OSError", "[Errno 24]", "option `files` limits its open files"),
    ("OSError", "[Errno 27]", "option `file_bytes` limits the size of a file that it writes"),
)
"""Type and beginning of what a script raises where the options of its source limit it, and which these are."""


def _find_hint(fault: ReportedFault, level: str) -> str | None:
    if fault.type == "KeyError" and "os.environ" in fault.trace:
        return "scripts get the environment variables that option `env` of their source names"
    if fault.type == "FileNotFoundError" and level == "bwrap":
        return f"in its sandbox, files outside its own folder are not there; {_FILES}"
    if fault.message.startswith("[Errno 13]") and level == "rlimits":
        return None  # it may do what its user may
    fitting = (hint for kind, start, hint in _HINTS if fault.type == kind and fault.message.startswith(start))
    return next(fitting, None)


def make_script_error(file: str, fault: ReportedFault, exchange: WorkerExchange, level: str) -> ScriptFailed:
    """The error for a script that raised or returned an invalid result, at a level of the sandbox."""
    text = f"{file}: {fault.message}" if fault.refused else f"{file}: {fault.type}: {fault.message}".removesuffix(": ")
    hint = None if fault.refused else _find_hint(fault, level)
    error = ScriptFailed(text, hint=hint, details={} if fault.refused else {"exception": fault.type})
    error.unforeseen = not fault.refused
    error.stdout, error.stderr, _ = exchange.printed()
    error.trace = fault.trace
    return error


def make_exchange_error(
    file: str, failure: ExchangeError, ended: WorkerEnd, exchange: WorkerExchange, seconds: float
) -> CallError:
    """The error for an exchange that failed."""
    error: ScriptFailed | ScriptTimeout
    if isinstance(failure, DeadlinePassed):
        error = ScriptTimeout(f"{file} did not answer within {seconds:.3g} s and was ended")
    elif isinstance(failure, OutputTooLarge):
        error = ScriptFailed(f"{file} printed more than its limit and was ended", hint="print less, or to a file")
    else:
        error = ScriptFailed(f"{file} {describe_end(ended, failure)}")
    error.stdout, error.stderr, _ = exchange.printed()
    return error


def describe_end(ended: WorkerEnd, failure: ExchangeError | None = None, *, doing: str = "it answered") -> str:
    """Describe how a process ended."""
    words = str(failure or "")
    if words:
        return f"wrote to the pipe that is reserved for results: {words}"
    if ended.fault is not None:
        return f"could not be run: {ended.fault}"
    if ended.status is None:
        return f"lost its process before {doing}"
    if ended.status < 0:
        try:
            name = signal.Signals(-ended.status).name
        except ValueError:
            name = f"signal {-ended.status}"
        return f"was ended by {name} before {doing}"
    return f"ended its process with status {ended.status} before {doing}"
