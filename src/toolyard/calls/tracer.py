"""`Tracer`: tells every sink about every call, once, with secrets taken out, and never fails a call."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toolyard.calls.invocation import Invocation
from toolyard.calls.sinks import CallEvent, JsonlSink, Level, LoggingSink
from toolyard.model.call import Mode, ToolCall, ToolResult
from toolyard.model.errors import ConfigError, Interrupted
from toolyard.model.tool import Tool
from toolyard.registry.bind import Bound
from toolyard.schema.options import Text, read_options
from toolyard.sessions.session import Session
from toolyard.words.redactor import REDACTED, Redactor

_log = logging.getLogger(__name__)


class LoggingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One line per call to Python's logging."""

    logger: Annotated[Text, Meta(description="Name of the logger.")] = "toolyard.calls"
    level: Annotated[Level, Meta(description="Of calls that work; failures are warnings.")] = "info"


class JsonlOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One JSON object per call, a line each, appended to a file."""

    path: Annotated[Text, Meta(description="The file to append to, relative to the config file.")]
    max_bytes: Annotated[
        int | UnsetType, Meta(ge=1, description="Beyond this the file is moved to `<path>.1` and a new one begun.")
    ] = UNSET


class TracingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told about calls, and how much."""

    logging: Annotated[
        bool | LoggingOptions,
        Meta(description="One line per call to Python's logging; true for the usual logger and level."),
    ] = False
    jsonl: Annotated[
        JsonlOptions | UnsetType, Meta(description="One JSON object per call, a line each, appended to a file.")
    ] = UNSET
    opentelemetry: Annotated[bool, Meta(description="One span per call, to the process's tracer provider.")] = False
    arguments: Annotated[bool, Meta(description="Tell the arguments of calls too.")] = False
    results: Annotated[bool, Meta(description="Tell the results of calls too.")] = False


class Sink(Protocol):
    """Somebody who is told about calls. May raise: that is counted, and the call goes on."""

    def emit(self, event: CallEvent) -> None:
        """Take one event; called from many threads."""

    def close(self) -> None:
        """Let go of files and connections; may be called twice."""


@runtime_checkable
class SpanSink(Sink, Protocol):
    """A sink that must know when a call begins; it then gets `end` in place of `emit`."""

    def begin(self, tool: Tool | None, call: ToolCall, session_id: str, mode: Mode) -> object:
        """Called in the thread or task that will run the tool; the answer comes back in `end`.

        `tool` is None when no tool has the name; `call` comes without its arguments.
        """

    def end(self, token: object, event: CallEvent) -> None:
        """Called once for every `begin`, where it was called."""


_MISSED = object()


class Tracer:
    """The one way out for what is known of a call.

    Arguments and results leave only if switched on, and they and error texts pass the redactor here,
    so that no sink has to be trusted with secrets. A sink that raises is counted in `failures` and
    logged once.
    """

    def __init__(
        self,
        sinks: Iterable[Sink] = (),
        *,
        arguments: bool = False,
        results: bool = False,
        redactor: Redactor | None = None,
    ) -> None:
        self.sinks = tuple(sinks)
        self.active = bool(self.sinks)
        """False when nobody listens, so that a caller may skip making events."""
        self.tells_arguments = arguments
        self._results = results
        self._redactor = Redactor() if redactor is None else redactor
        self._named = list(zip(_name_sinks(self.sinks), self.sinks, strict=True))
        self._spans = [(name, sink) for name, sink in self._named if isinstance(sink, SpanSink)]
        self._plain = [(name, sink) for name, sink in self._named if not isinstance(sink, SpanSink)]
        self._failures: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def failures(self) -> dict[str, int]:
        """How often each sink raised, by name; a sink that never did is not in it."""
        with self._lock:
            return dict(self._failures)

    @classmethod
    def from_config(
        cls, block: Any, where: str = "tracing", redactor: Redactor | None = None, *, base: Path | None = None
    ) -> Tracer:
        """The tracer of a `tracing` block; `where` is its place, such as `yard.yaml: tracing`.

        A relative path is taken from `base`. Everything is read before anything is opened.
        """
        return cls.from_options(read_options(TracingOptions, block, where), where, redactor, base=base)

    @classmethod
    def from_options(
        cls, options: TracingOptions, where: str, redactor: Redactor | None = None, *, base: Path | None = None
    ) -> Tracer:
        """The tracer of a `tracing` block that was read."""
        sinks: list[Sink] = []
        if options.logging is not False:
            chosen = options.logging if isinstance(options.logging, LoggingOptions) else LoggingOptions()
            sinks.append(LoggingSink(chosen.logger, chosen.level))
        if options.opentelemetry:
            from toolyard.calls.sinks import OpenTelemetrySink

            try:
                sinks.append(OpenTelemetrySink())
            except ConfigError as error:
                raise ConfigError(f"{where}.opentelemetry: {error}") from error
        if isinstance(options.jsonl, JsonlOptions):
            path, most = options.jsonl.path, options.jsonl.max_bytes
            try:
                sinks.append(JsonlSink((base or Path()) / path, max_bytes=None if most is UNSET else most))
            except OSError as error:
                raise ConfigError(f"{where}.jsonl.path: cannot append to {path!r}: {error.strerror}") from error
        return cls(sinks, arguments=options.arguments, results=options.results, redactor=redactor)

    def begin(self, tool: Tool | None, call: ToolCall, session_id: str, mode: Mode) -> list[object] | None:
        """Open the spans of one call, where it will run. Hand the answer to `end`, whatever happens."""
        if not self._spans:
            return None
        # Without the arguments: what a sink does not get, it cannot let out past the redactor.
        told = ToolCall(
            call.name if tool is not None else self._redact_value(call.name), {}, call.call_id, call.overload
        )
        tokens: list[object] = []
        for name, sink in self._spans:
            try:
                tokens.append(sink.begin(tool, told, session_id, mode))
            except Exception as error:  # noqa: BLE001 - tracing never fails a call.
                tokens.append(_MISSED)
                self._count_failure(name, error)
        return tokens

    def end(self, token: list[object] | None, event: CallEvent) -> None:
        """Tell every sink. Call it in the thread or task that called `begin`."""
        if not self.active:
            return
        told = self._redact_event(event)
        # The last opened is closed first, as contexts nest.
        for index in range(len(self._spans) - 1, -1, -1):
            name, sink = self._spans[index]
            try:
                if token is None:
                    sink.emit(told)
                elif token[index] is not _MISSED:
                    sink.end(token[index], told)
            except Exception as error:  # noqa: BLE001 - tracing never fails a call.
                self._count_failure(name, error)
        for name, plain in self._plain:
            try:
                plain.emit(told)
            except Exception as error:  # noqa: BLE001 - tracing never fails a call.
                self._count_failure(name, error)

    def close(self) -> None:
        """Close every sink, whatever one of them raises."""
        for name, sink in self._named:
            try:
                sink.close()
            except Exception as error:  # noqa: BLE001 - the others must be closed too.
                self._count_failure(name, error)

    def _redact_event(self, event: CallEvent) -> CallEvent:
        changes: dict[str, Any] = {}
        for field in ("error", "stdout", "stderr", "notes"):
            told = getattr(event, field)
            if told is not None:
                changes[field] = self._redact_value(told)
        if event.definition_hash is None:
            # No tool has this name: it is whatever the caller wrote.
            changes["name"] = self._redact_value(event.name)
        for field, wanted in (("arguments", self.tells_arguments), ("result", self._results)):
            value = getattr(event, field)
            if value is not msgspec.UNSET:
                changes[field] = self._redact_value(value) if wanted else msgspec.UNSET
        return msgspec.structs.replace(event, **changes) if changes else event

    def _redact_value(self, value: Any) -> Any:
        try:
            return self._redactor.value(value)
        except Exception as error:  # noqa: BLE001 - what could not be cleaned is not let out.
            self._count_failure("redactor", error)
            return REDACTED

    def _count_failure(self, name: str, error: Exception) -> None:
        with self._lock:
            seen = self._failures.get(name, 0)
            self._failures[name] = seen + 1
        if not seen:
            said = f"{type(error).__name__}: {self._error_text(error)}"
            _log.warning("tracing to %s failed, calls go on without it (said once): %s", name, said)

    def _error_text(self, error: Exception) -> str:
        try:
            return self._redactor.text(str(error))
        except Exception:  # noqa: BLE001 - an exception of a stranger may not even have a text.
            return REDACTED


def _name_sinks(sinks: Iterable[Sink]) -> list[str]:
    """One name per sink: its `name`, or its class, numbered where several share it."""
    names: list[str] = []
    for sink in sinks:
        base = str(getattr(sink, "name", None) or type(sink).__name__)
        name, count = base, 1
        while name in names:
            count += 1
            name = f"{base}#{count}"
        names.append(name)
    return names


class CallTrace:
    """Made only where somebody listens."""

    __slots__ = (
        *("_began", "_bound", "_call", "_generation", "_mode", "_session", "_time", "_token", "_tracer", "approval"),
    )

    def __init__(self, tracer: Tracer | ResumedTracer, session: Session, call: ToolCall, mode: Mode) -> None:
        self._tracer = tracer
        self._session = session
        self._call = call
        self._mode = mode
        self._bound: Bound | None = None
        self._token: list[object] | None = None
        self._generation = 0
        self.approval: str | None = None
        """Id of the approval that the call runs by, or waits for."""
        self._time = time.time()
        self._began = time.perf_counter()

    def begin(self, tool: Tool, bound: Bound, generation: int) -> None:
        """The tool is known: open spans, so that what it does appears inside them."""
        self._bound = bound
        self._generation = generation
        self._token = self._tracer.begin(tool, self._call, self._session.key.session_id, self._mode)

    def end(self, invocation: Invocation | None, result: ToolResult) -> None:
        """Tell the sinks."""
        latency = time.perf_counter() - self._began
        info, bound, key = result.error_info, self._bound, self._session.key
        tool = None if bound is None else bound.tool
        stdout, stderr = (None if invocation is None else invocation.printed) or (None, None)
        event = CallEvent(
            time=self._time,
            latency=latency,
            mode=self._mode,
            session_id=key.session_id,
            name=self._call.name if tool is None else tool.qualified_name,
            call_id=self._call.call_id,
            owner=key.owner or None,
            seq=len(self._session.history),
            engine=None if invocation is None else invocation.engine_name,
            tool_version=None if tool is None else tool.version,
            definition_hash=None if tool is None else tool.definition_hash,
            generation=self._generation,
            result_bytes=None if invocation is None else invocation.result_bytes,
            coercions=0 if bound is None else len(bound.coercions),
            attempts=1 if invocation is None else invocation.attempt,
            code=None if info is None else info.code,
            error=None if info is None else info.message,
            effect=None if info is None else info.effect,
            approval=self.approval,
            stdout=stdout or None,
            stderr=stderr or None,
            notes=None if invocation is None else invocation.notes,
            arguments=self._told_arguments(),
            result=msgspec.UNSET if info is not None else result.result,
        )
        self._tracer.end(self._token, event)

    def _told_arguments(self) -> Any:
        """As they were sent: the tool may have changed its own."""
        if not self._tracer.tells_arguments:
            return msgspec.UNSET
        return self._call.arguments if self._bound is None else msgspec.json.decode(self._bound.sent)

    def cut(self, invocation: Invocation | None) -> None:
        """The call was cancelled, or could not be recorded."""
        begun = invocation is not None and invocation.begun
        info = Interrupted("the call was cancelled before it was answered", effect=None if begun else "none").info
        self.end(invocation, ToolResult.failed(self._call, info))

    def resume(self, event: CallEvent) -> None:
        """Tell the sinks of the end, as the call saw it that went on in place of this one."""
        self._tracer.end(self._token, msgspec.structs.replace(event, approval=self.approval))

    @property
    def tells_arguments(self) -> bool:
        """As the tracer."""
        return self._tracer.tells_arguments


class ResumedTracer:
    """The tracer of a call that goes on after somebody was asked: its spans are open, and it is told of once."""

    def __init__(self, trace: CallTrace) -> None:
        self._trace = trace
        self.tells_arguments = trace.tells_arguments

    def begin(self, tool: Tool | None, call: ToolCall, session_id: str, mode: Mode) -> None:
        """They are open already."""

    def end(self, _token: list[object] | None, event: CallEvent) -> None:
        """Tell the sinks."""
        self._trace.resume(event)
