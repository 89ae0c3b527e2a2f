"""Sinks of the tracer: `LoggingSink` writes a line per call to a logger, `JsonlSink` a JSON object to a file."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from pathlib import Path
from typing import Literal

import msgspec

from toolyard.calls.call_event import CallEvent, json_bytes
from toolyard.schema.options import Count, option_type, read_value

Level = Literal["debug", "info", "warning", "error"]

_SHOWN = 500


class LoggingSink:
    """Logs one line per call; failed calls have at least the level WARNING.

    The log record has the whole event as `record.toolyard`, for formatters that write JSON.
    """

    def __init__(self, logger: str | logging.Logger = "toolyard.calls", level: str = "info") -> None:
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self._level = getattr(logging, read_value(option_type(Level), level, "LoggingSink.level").upper())
        self.name = f"logging:{self._logger.name}"

    def emit(self, event: CallEvent) -> None:
        """Log the event, if the logger is listening at that level."""
        level = self._level if event.code is None else max(self._level, logging.WARNING)
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", _log_line(event), extra={"toolyard": msgspec.to_builtins(event)})

    def close(self) -> None:
        """Do nothing: loggers belong to the application."""


def _log_line(event: CallEvent) -> str:
    parts = [event.mode, _one_line(event.name), f"session={_one_line(event.session_id)}"]
    for key in ("seq", "call_id", "engine"):
        value = getattr(event, key)
        if value is not None:
            parts.append(f"{key}={_one_line(str(value))}")
    if event.attempts != 1:
        parts.append(f"attempts={event.attempts}")
    parts.append(f"{event.latency * 1000:.1f}ms")
    if event.code is None:
        parts.append("ok")
    else:
        parts.append(event.code)
        if event.effect is not None:
            parts.append(f"effect={event.effect}")
        parts.append(_one_line(event.error or ""))
    return " ".join(parts)


def _one_line(text: str) -> str:
    """The text, shortened and with unprintable characters escaped, so that it cannot forge log lines."""
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    if shown.isprintable():
        return shown
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in shown)


class JsonlSink:
    """Appends one JSON object per line. Each line is a single write, so several processes may share a file.

    New files are readable only by their owner. When a line would exceed `max_bytes`, the file is renamed to `<path>.1`,
    replacing an older one, and a new file is started; a line longer than `max_bytes` is still written whole.
    """

    def __init__(self, path: str | os.PathLike[str], max_bytes: int | None = None) -> None:
        self._path = Path(path)
        self._max_bytes = read_value(option_type(Count | None), max_bytes, "JsonlSink.max_bytes")
        self.name = f"jsonl:{self._path.name}"
        self._lock = threading.Lock()
        self._torn = False
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._fd: int | None = self._open()

    def emit(self, event: CallEvent) -> None:
        """Append one line; `OSError` if it could not be written completely, or after `close`."""
        line = json_bytes(event) + b"\n"
        with self._lock:
            if self._fd is None:
                raise OSError(f"{self._path} is closed")
            if self._max_bytes is not None:
                self._fd = self._rotate(self._fd, len(line), self._max_bytes)
            if self._torn:
                line = b"\n" + line
            written = os.write(self._fd, line)
            # If the write was partial, the next line must not continue this one.
            self._torn = written < len(line)
            if self._torn:
                raise OSError(f"only {written} of {len(line)} bytes fitted into {self._path}")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _rotate(self, fd: int, coming: int, max_bytes: int) -> int:
        """The file to write to: `fd`, or a new one if it is full or another process has renamed it."""
        if not self._is_current(fd):
            return self._reopen(fd)
        size = os.fstat(fd).st_size
        if size == 0 or size + coming <= max_bytes:
            return fd
        # Lock the full file, so that only one of several processes renames it and the others notice.
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            if self._is_current(fd):
                os.replace(self._path, f"{self._path}.1")
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)
        return self._reopen(fd)

    def _reopen(self, fd: int) -> int:
        fresh = self._open()
        os.close(fd)
        self._torn = False
        return fresh

    def _is_current(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(fd))
        except FileNotFoundError:
            return False
