"""`RequestLog`: one line for each request, failure and event of the service, on standard error.

A line is safe to read and safe to parse: it holds what the service decided (route, status, the key's name, the tool),
never arguments, results, headers or paths as sent. The event loop only queues it; a thread formats and writes it, so
that a slow reader of standard error slows nothing down. Lines that do not fit the queue are counted, and the count is
written.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal, TextIO

from toolyard.calls.failure import describe_frames

Style = Literal["text", "json", "off"]
Value = str | int | float | None

MAX_QUEUED = 10_000
_GATHER = 0.05
"""Seconds between two writes; lines of one such time go out in one."""

_PLAIN = re.compile(r"[A-Za-z0-9_.:/{}+@*-]+")
_MAX_MESSAGE = 8000
_LOGGERS = ("toolyard", "uvicorn", "asyncio")
"""Those that speak of the service; what tools log is theirs."""


class RequestLog:
    """Where requests and failures of the service are noted; with "off" nothing is done at all.

    `stream` is standard error as it is when the first line is written. Close it to have the last lines written.
    """

    def __init__(
        self, style: Style = "text", *, stream: TextIO | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.enabled = style != "off"
        self._format = json_line if style == "json" else text_line
        self._stream = stream
        self._clock = clock
        self._queue: deque[tuple[float, str, dict[str, Value]]] = deque()
        self._dropped = 0
        self._has_lines = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def request(
        self,
        method: str,
        route: str,
        status: int,
        seconds: float,
        *,
        request_id: str,
        key: str | None = None,
        tool: str | None = None,
        code: str | None = None,
    ) -> None:
        """Note one answer. `code` is that of the error, of the request or of the call; None if all went well."""
        if self.enabled:
            fields: dict[str, Value] = {
                "method": method,
                "route": route or None,
                "status": status,
                "ms": round(seconds * 1000, 3),
                "request_id": request_id,
                "key": key,
                "tool": tool,
                "code": code,
            }
            self._put("request", fields)

    def event(self, name: str, **fields: Value) -> None:
        """Note something that is not a request: a start, a reload, a source that failed."""
        if self.enabled:
            self._put(name, fields)

    def failure(self, request_id: str, error: BaseException) -> None:
        """Note where an unexpected exception came from: kind and frames, not its text, which may quote input."""
        if self.enabled:
            self._put(
                "failure", {"request_id": request_id, "error": type(error).__name__, "where": describe_frames(error)}
            )

    def close(self) -> None:
        """Write what is queued, and stop."""
        self._closing.set()
        self._has_lines.set()
        if self._thread is not None:
            self._thread.join()
        self._drain()
        self.enabled = False

    def _put(self, name: str, fields: dict[str, Value]) -> None:
        if len(self._queue) >= MAX_QUEUED:
            self._dropped += 1
            return
        self._queue.append((self._clock(), name, fields))
        if not self._has_lines.is_set():
            if self._thread is None:
                # Not before there is something to write: a process may fork between making a log and using it.
                self._thread = threading.Thread(target=self._write_on, name="toolyard-log", daemon=True)
                self._thread.start()
            self._has_lines.set()

    def _write_on(self) -> None:
        while not self._closing.is_set():
            self._has_lines.wait()
            self._closing.wait(_GATHER)
            self._has_lines.clear()
            self._drain()

    def _drain(self) -> None:
        lines = []
        while self._queue:
            lines.append(self._format(*self._queue.popleft()))
        dropped, self._dropped = self._dropped, 0
        if dropped:
            lines.append(self._format(self._clock(), "dropped", {"lines": dropped}))
        if lines:
            stream = self._stream or sys.stderr
            try:
                stream.write("".join(lines))
                stream.flush()
            except (OSError, ValueError):
                # The reader has gone, or the stream is closed; there is no other place to say so.
                self.enabled = False


class LogHandler(logging.Handler):
    """Python's log records as events of a `RequestLog`; of an exception only its kind and frames."""

    def __init__(self, log: RequestLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Note it, in one line, whatever is in it."""
        error = record.exc_info[1] if record.exc_info else None
        self._log.event(
            "log",
            level=record.levelname.lower(),
            logger=record.name,
            message=_message(record),
            error=None if error is None else type(error).__name__,
            where=None if error is None else describe_frames(error),
        )


@contextmanager
def capture_logs(style: Style) -> Iterator[None]:
    """Have warnings and errors of the service itself written as requests are, instead of as Python would.

    They are written even where requests are not: an answer that refers to the log must be found there.
    """
    log = RequestLog("text" if style == "off" else style)
    handler = LogHandler(log)
    for name in _LOGGERS:
        logging.getLogger(name).addHandler(handler)
    try:
        yield
    finally:
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(handler)
        log.close()


def _message(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except Exception:  # noqa: BLE001 - what is logged may raise anything when asked for its text; the caller is not at fault
        text = record.msg if isinstance(record.msg, str) else "(a message that cannot be shown)"
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}..."


def json_line(at: float, name: str, fields: dict[str, Value]) -> str:
    """One JSON object a line; ASCII, so that nothing in a name can turn a terminal's text around."""
    given = {field: value for field, value in fields.items() if value is not None}
    return json.dumps({"time": _format_time(at), "event": name, **given}) + "\n"


def text_line(at: float, name: str, fields: dict[str, Value]) -> str:
    """`time event field=value ...`; a value that is not plain is a JSON string, so no value can pose as a field."""
    words = [f"{field}={_quote_value(value)}" for field, value in fields.items() if value is not None]
    return " ".join([_format_time(at), name, *words]) + "\n"


def _quote_value(value: str | int | float) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) is None:
        return json.dumps(value)
    return str(value)


def _format_time(at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
