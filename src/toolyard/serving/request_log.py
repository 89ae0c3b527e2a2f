"""`RequestLog`: writes a line to standard error for each request, failure and event of the service.

Lines are safe to read and to parse: they contain what the service determined (route, status, name of the key, tool),
never arguments, results, headers or raw paths. The event loop only queues lines, and a thread formats and writes them,
so a slow reader of standard error does not slow down requests. Lines that do not fit the queue are dropped, and their
number is logged.
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
"""Seconds between writes; the lines of one interval are written together."""

_PLAIN = re.compile(r"[A-Za-z0-9_.:/{}+@*-]+")
_MAX_MESSAGE = 8000
_LOGGERS = ("toolyard", "uvicorn", "asyncio")
"""The loggers of the service itself; what tools log is not captured."""


class RequestLog:
    """The log of a server; the style "off" disables it.

    `stream` defaults to `sys.stderr`, looked up at each write. Close the log to write the last lines.
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

    def log_event(self, name: str, **fields: Value) -> None:
        """Log a response, or anything else that happens; fields that are None are left out."""
        if self.enabled:
            self._enqueue(name, fields)

    def log_failure(self, request_id: str, error: BaseException) -> None:
        """Log the type and frames of an unexpected exception, but not its message, which may quote input."""
        if self.enabled:
            self._enqueue(
                "failure", {"request_id": request_id, "error": type(error).__name__, "where": describe_frames(error)}
            )

    def close(self) -> None:
        """Write the queued lines and stop the thread."""
        self._closing.set()
        self._has_lines.set()
        if self._thread is not None:
            self._thread.join()
        self._drain()
        self.enabled = False

    def _enqueue(self, name: str, fields: dict[str, Value]) -> None:
        if len(self._queue) >= MAX_QUEUED:
            self._dropped += 1
            return
        self._queue.append((self._clock(), name, fields))
        if not self._has_lines.is_set():
            if self._thread is None:
                # Started with the first line: the process may fork between creating the log and using it.
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
                # The reader is gone or the stream is closed, so there is nowhere to report it.
                self.enabled = False


class LogHandler(logging.Handler):
    """Writes Python log records as events of a `RequestLog`; of exceptions only the type and frames."""

    def __init__(self, log: RequestLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record as one line."""
        error = record.exc_info[1] if record.exc_info else None
        self._log.log_event(
            "log",
            level=record.levelname.lower(),
            logger=record.name,
            message=_message(record),
            error=None if error is None else type(error).__name__,
            where=None if error is None else describe_frames(error),
        )


@contextmanager
def capture_logs(style: Style) -> Iterator[None]:
    """Write warnings and errors of the service in the format of the request log.

    With the style "off" they are written as text: a response that refers to the log must be found there.
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
    except Exception:  # noqa: BLE001 - formatting a logged object may raise anything, and must not fail the caller
        text = record.msg if isinstance(record.msg, str) else "(a message that cannot be shown)"
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}..."


def json_line(at: float, name: str, fields: dict[str, Value]) -> str:
    """Format a line as a JSON object, in ASCII, so that no name can contain bidi or other control characters."""
    given = {field: value for field, value in fields.items() if value is not None}
    return json.dumps({"time": _format_time(at), "event": name, **given}) + "\n"


def text_line(at: float, name: str, fields: dict[str, Value]) -> str:
    """Format a line as `time event field=value ...`; unusual values are JSON strings, so none can pose as a field."""
    words = [f"{field}={_quote_value(value)}" for field, value in fields.items() if value is not None]
    return " ".join([_format_time(at), name, *words]) + "\n"


def _quote_value(value: str | int | float) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) is None:
        return json.dumps(value)
    return str(value)


def _format_time(at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
