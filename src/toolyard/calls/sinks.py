"""`CallEvent`, the record of a finished call, and the sinks that the tracer sends it to.

`LoggingSink` writes a line per call to a logger, and `JsonlSink` a JSON object to a file. `OpenTelemetrySink` makes a
span and a duration, following the GenAI conventions for tool execution. It needs only the OpenTelemetry API, which is
imported when a sink is created. Without an SDK, spans are dropped at almost no cost; an SDK exports them outside of the
call path.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from toolyard.constants import TOOL_NAMESPACE_SEP, VERSION
from toolyard.model.bindings import McpBinding, RestBinding
from toolyard.model.call import Mode, ToolCall
from toolyard.model.errors import ConfigError, Effect
from toolyard.model.tool import Tool
from toolyard.schema.options import Count, option_type, read_value

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider


class CallEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finished call. Arguments and result are included only if tracing is configured to."""

    time: float
    """Seconds since the epoch when the call began."""
    latency: float
    """Duration in seconds, without the wait for the turn and, if calls are logged, without the write to the store."""
    mode: Mode
    session_id: str
    name: str
    """Qualified name; the caller's spelling if no such tool exists."""
    call_id: str | None = None
    owner: str | None = None
    seq: int | None = None
    """Number of the history entry."""
    engine: str | None = None
    tool_version: str | None = None
    definition_hash: str | None = None
    generation: int = 0
    """Generation of the registry snapshot that the call was bound on."""
    coercions: int = 0
    attempts: int = 1
    code: str | None = None
    """Error code; None for success."""
    error: str | None = None
    effect: Effect | None = None
    """Of a failed call; None for success."""
    effects: str | None = None
    """What the tool does: read, write or unknown."""
    approval: str | None = None
    """Id of the approval that it ran with, or waits for."""
    argument_bytes: int | None = None
    result_bytes: int | None = None
    request_id: str | None = None
    """Id of the remote request that contained the call."""
    number: int | None = None
    """Number of the call in the call log, if there is one."""
    stdout: str | None = None
    """The end of a script's output; None if it printed nothing or the tool is not a script."""
    stderr: str | None = None
    """Likewise; it ends with the traceback if the script raised."""
    notes: dict[str, Any] | None = None
    """Notes of the engine about its answer, such as how much of a long history it used."""
    arguments: Any = msgspec.UNSET
    result: Any = msgspec.UNSET
    steps: tuple[float, ...] = ()
    """Seconds of each step that the call reached: bind, policy, run, check."""


def json_bytes(value: Any) -> bytes:
    """One line of JSON for a log or a span.

    Falls back to the slow encoder for integers over 64 bits and lone surrogates, which calls may contain.
    """
    try:
        return msgspec.json.encode(value)
    except (OverflowError, ValueError):
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode("ascii")


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


_OPERATION = "execute_tool"
_LONGEST = 1000
_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)


class _Open(NamedTuple):
    span: Span
    before: Context


class OpenTelemetrySink:
    """Keeps a span open and current while the tool runs, so that spans created by the tool become its children.

    `tracer_provider=None` uses the process's global provider, even if that is set later.
    """

    name = "opentelemetry"

    def __init__(
        self, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        try:
            from opentelemetry import context, metrics, trace
        except ImportError as error:
            raise ConfigError("tracing to OpenTelemetry needs the package opentelemetry-api; install it") from error
        self._context = context
        self._trace = trace
        self._tracer = trace.get_tracer("toolyard", VERSION, tracer_provider)
        self._duration = metrics.get_meter("toolyard", VERSION, meter_provider).create_histogram(
            "gen_ai.execute_tool.duration",
            unit="s",
            description="How long calls of tools took.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )

    def begin(self, tool: Tool | None, call: ToolCall, session_id: str, mode: Mode) -> object:
        """Start the span and make it current in this thread or task."""
        span = self._start_span(tool, call, session_id, mode)
        before = self._context.get_current()
        self._context.attach(self._trace.set_span_in_context(span, before))
        return _Open(span, before)

    def end(self, token: object, event: CallEvent) -> None:
        """Set the outcome on the span, and end it."""
        if not isinstance(token, _Open):
            raise TypeError(f"not what begin returned: {type(token).__name__}")
        try:
            if self._trace.get_current_span() is token.span:
                # Attach the previous context; `detach` logs an error if this runs in a copy of the context of `begin`.
                self._context.attach(token.before)
        finally:
            self._end_span(token.span, event, None)

    def emit(self, event: CallEvent) -> None:
        """Create a span for a finished call without `begin`; it has no children."""
        tool = None if event.definition_hash is None else _tool_of_name(event.name)
        call = ToolCall(event.name, {}, event.call_id)
        span = self._start_span(tool, call, event.session_id, event.mode, _nanoseconds(event.time))
        self._end_span(span, event, _nanoseconds(event.time + event.latency))

    def close(self) -> None:
        """Do nothing: the provider belongs to the application, which flushes it."""

    def _start_span(
        self, tool: Tool | None, call: ToolCall, session_id: str, mode: Mode, start_time: int | None = None
    ) -> Span:
        # An unknown name is only an attribute: models invent names, and span names must have low cardinality.
        name = _OPERATION if tool is None else f"{_OPERATION} {tool.name}"
        attributes = _first_attributes(tool, call, session_id, mode)
        kind = self._trace.SpanKind.INTERNAL
        return self._tracer.start_span(name, kind=kind, attributes=attributes, start_time=start_time)

    def _end_span(self, span: Span, event: CallEvent, end_time: int | None) -> None:
        measured = {"gen_ai.tool.name": _tool_of_name(event.name).name} if event.definition_hash is not None else {}
        self._duration.record(event.latency, measured | ({"error.type": event.code} if event.code else {}))
        try:
            if span.is_recording():
                span.set_attributes(_last_attributes(event))
                if event.code is not None:
                    span.set_status(self._trace.StatusCode.ERROR, event.error and _safe_text(event.error))
        finally:
            span.end(end_time)


def _first_attributes(tool: Tool | None, call: ToolCall, session_id: str, mode: Mode) -> dict[str, Any]:
    """The attributes known before the call, which samplers can use."""
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": _OPERATION,
        "gen_ai.tool.name": _safe_text(_tool_of_name(call.name).name) if tool is None else tool.name,
        "toolyard.mode": mode,
    }
    if session_id:
        attributes["gen_ai.conversation.id"] = _safe_text(session_id)
    if call.call_id is not None:
        attributes["gen_ai.tool.call.id"] = _safe_text(call.call_id)
    if tool is None:
        return attributes
    attributes["toolyard.namespace"] = tool.namespace
    if tool.description:
        attributes["gen_ai.tool.description"] = tool.description
    if tool.binding is not None:
        outside = isinstance(tool.binding, RestBinding | McpBinding)
        attributes["gen_ai.tool.type"] = "extension" if outside else "function"
    if isinstance(tool.binding, McpBinding):
        attributes["mcp.method.name"] = "tools/call"
        if tool.binding.place is not None:
            attributes["network.transport"] = "tcp" if tool.binding.place.command is None else "pipe"
    return attributes


def _last_attributes(event: CallEvent) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "error.type": event.code,
        "toolyard.version": event.tool_version,
        "toolyard.definition_hash": event.definition_hash,
        "toolyard.engine": event.engine,
        "toolyard.effect": event.effect,
        "toolyard.coercions": event.coercions,
        "toolyard.attempts": event.attempts,
        "toolyard.seq": event.seq,
    }
    for name, text in (("stdout", event.stdout), ("stderr", event.stderr)):
        if text is not None:
            # Keep the end, which is more informative than the beginning.
            attributes[f"toolyard.{name}"] = _safe_text(text[-_LONGEST:])
    if event.notes is not None:
        attributes["toolyard.notes"] = json_bytes(event.notes).decode()
    if event.arguments is not msgspec.UNSET:
        attributes["gen_ai.tool.call.arguments"] = json_bytes(event.arguments).decode()
    if event.result is not msgspec.UNSET and event.code is None:
        attributes["gen_ai.tool.call.result"] = json_bytes(event.result).decode()
    return {key: value for key, value in attributes.items() if value is not None}


def _tool_of_name(name: str) -> Tool:
    """A `Tool` with just the namespace and name of a qualified name."""
    namespace, sep, bare = name.partition(TOOL_NAMESPACE_SEP)
    return Tool(bare, namespace) if sep else Tool(name, "")


def _safe_text(text: str) -> str:
    """A caller's text, shortened and valid UTF-8: an exporter would drop the whole batch for one invalid text."""
    cut = text[:_LONGEST]
    return cut if cut.isascii() else cut.encode("utf-8", "replace").decode("utf-8")


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
