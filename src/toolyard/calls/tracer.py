"""`Tracer`: sends a redacted record of every call to every sink. A failing sink never makes a call fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from operator import sub
from pathlib import Path
from time import perf_counter, time as wall_time
from types import SimpleNamespace
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toolyard.calls.invocation import Invocation
from toolyard.calls.journal import CallLogOptions, Journal, new_call_number
from toolyard.calls.sinks import CallEvent, JsonlSink, Level, LoggingSink
from toolyard.model.call import Mode, ToolCall, ToolResult
from toolyard.model.errors import ConfigError, Interrupted
from toolyard.model.json_schema import list_given
from toolyard.model.tool import Tool
from toolyard.parsing.json_text import json_decoder
from toolyard.registry.bind import Bound
from toolyard.schema.options import Text, read_options
from toolyard.sessions.session import Session
from toolyard.sessions.store.base import Append, LogRow
from toolyard.words.redactor import REDACTED, Redactor

_decode = json_decoder()
_log = logging.getLogger(__name__)


class LoggingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One line per call to Python's logging."""

    logger: Annotated[Text, Meta(description="Name of the logger.")] = "toolyard.calls"
    level: Annotated[Level, Meta(description="Level for successful calls; failures are warnings.")] = "info"


class JsonlOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Append one JSON object per call to a file."""

    path: Annotated[Text, Meta(description="The file to append to, relative to the config file.")]
    max_bytes: Annotated[
        int | UnsetType,
        Meta(ge=1, description="Size at which the file is renamed to `<path>.1` and a new one started."),
    ] = UNSET


class TracingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where records of calls are sent, and what they contain."""

    logging: Annotated[
        bool | LoggingOptions,
        Meta(description="Log one line per call with Python's logging; true for the default logger and level."),
    ] = False
    jsonl: Annotated[JsonlOptions | UnsetType, Meta(description="Append one JSON object per call to a file.")] = UNSET
    opentelemetry: Annotated[bool, Meta(description="Create one span per call in the process's tracer provider.")] = (
        False
    )
    arguments: Annotated[bool, Meta(description="Include the arguments of calls.")] = False
    results: Annotated[bool, Meta(description="Include the results of calls.")] = False
    log: Annotated[
        bool | CallLogOptions | UnsetType,
        Meta(description="Keep one row per call in the session store, for `toolyard calls`; by default on in servers."),
    ] = UNSET


def read_log_options(given: bool | CallLogOptions | UnsetType, *, serving: bool) -> CallLogOptions | None:
    """The options of the call log, from `tracing.log`; None if calls are not logged."""
    if isinstance(given, CallLogOptions):
        return given
    return CallLogOptions() if (serving if given is UNSET else given) else None


class Sink(Protocol):
    """Receives the events of calls. If it raises, that is counted and the call continues."""

    def emit(self, event: CallEvent) -> None:
        """Take one event; called from many threads."""

    def close(self) -> None:
        """Close files and connections; may be called twice."""


@runtime_checkable
class SpanSink(Sink, Protocol):
    """A sink that is also notified when a call begins; `end` is then called instead of `emit`."""

    def begin(self, tool: Tool | None, call: ToolCall, session_id: str, mode: Mode) -> object:
        """Called in the thread or task that will run the tool; returns a token for `end`.

        `tool` is None if no tool has the name; `call` has no arguments.
        """

    def end(self, token: object, event: CallEvent) -> None:
        """Called once for every `begin`, in the same thread or task."""


_MISSED: Any = object()
_UNKNOWN = ("", None, None, None)
_NOT_MADE = SimpleNamespace(engine_name=None, attempt=1, result_bytes=None, printed=None, notes=None)
"""In place of the invocation of a call that got none."""
_NO_FAILURE = SimpleNamespace(code=None, message=None, effect=None)


class Tracer:
    """Sends records of calls to sinks.

    Arguments and results are sent only if enabled. They and error texts are redacted here, so that sinks never get
    secrets. Exceptions of a sink are counted in `failures`; the first one is logged.
    """

    def __init__(
        self,
        sinks: Iterable[Sink] = (),
        *,
        arguments: bool = False,
        results: bool = False,
        redactor: Redactor | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.journal = journal
        self.sinks = (*list_given(sinks, "sinks"), *(() if journal is None else (journal,)))
        for sink in self.sinks:
            if not callable(getattr(sink, "emit", None)):
                raise ConfigError(f"{type(sink).__name__} is no sink: it has no method `emit`, as JsonlSink has")
        self.active = bool(self.sinks)
        """False if there are no sinks, so that no events need to be created."""
        self.tells_arguments = arguments
        self.tells_results = results
        self._redactor = Redactor() if redactor is None else redactor
        self._named = list(zip(_name_sinks(self.sinks), self.sinks, strict=True))
        self._spans = [(name, sink) for name, sink in self._named if isinstance(sink, SpanSink)]
        # Contexts are nested, so the one begun last ends first.
        self._innermost_first = list(enumerate(self._spans))[::-1]
        self._plain = [(name, sink) for name, sink in self._named if not isinstance(sink, SpanSink)]
        self._unstored = [(name, sink) for name, sink in self._plain if sink is not journal]
        self._failures: dict[str, int] = {}
        self._lock = threading.Lock()

    def with_journal(self, journal: Journal) -> Tracer:
        """A tracer with the same sinks and options, and a journal."""
        tells = {"arguments": self.tells_arguments, "results": self.tells_results}
        return Tracer(self.sinks, **tells, redactor=self._redactor, journal=journal)

    @property
    def failures(self) -> dict[str, int]:
        """How often each sink raised, by name; sinks that never did are left out."""
        with self._lock:
            return dict(self._failures)

    @classmethod
    def from_config(
        cls, block: Any, where: str = "tracing", redactor: Redactor | None = None, *, base: Path | None = None
    ) -> Tracer:
        """The tracer of a `tracing` block; `where` names the block in errors, such as `yard.yaml: tracing`.

        Relative paths are resolved against `base`. All options are checked before any file is opened.
        """
        return cls.from_options(read_options(TracingOptions, block, where), where, redactor, base=base)

    @classmethod
    def from_options(
        cls, options: TracingOptions, where: str, redactor: Redactor | None = None, *, base: Path | None = None
    ) -> Tracer:
        """The tracer of a parsed `tracing` block."""
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
        """Open the spans of one call, in the thread or task that will run it. Always pass the result to `end`."""
        if not self._spans:
            return None
        # Without the arguments, which would otherwise bypass the redactor.
        told = ToolCall(
            call.name if tool is not None else self._redact_value(call.name), {}, call.call_id, call.overload
        )
        return [self._ask(name, sink, "begin", tool, told, session_id, mode) for name, sink in self._spans]

    def announce(self, number: int, tool: Tool, session: Session, mode: Mode) -> None:
        """Record in the journal that a call has begun."""
        if self.journal is not None and self.journal.is_followed:
            self._ask("journal", self.journal, "begin", number, tool, session, mode)

    def write_rows(self, event: CallEvent) -> tuple[CallEvent, tuple[LogRow, ...] | None]:
        """The redacted event, to pass to `end`, and the journal's rows to write with the call's entry, if any."""
        told = self._redact_event(event)
        rows: Any = _MISSED if self.journal is None else self._ask("journal", self.journal, "write_rows", told)
        return told, None if rows is _MISSED else rows

    def end(self, token: list[object] | None, event: CallEvent, *, stored: bool = False) -> None:
        """Send the record to every sink. Call it in the thread or task that called `begin`.

        `stored`: the event came from `write_rows`, and the store has its rows.
        """
        told = event if stored else self._redact_event(event)
        for index, (name, sink) in self._innermost_first:
            if token is None:
                self._ask(name, sink, "emit", told)
            elif token[index] is not _MISSED:
                self._ask(name, sink, "end", token[index], told)
        for name, plain in self._unstored if stored else self._plain:
            self._ask(name, plain, "emit", told)

    def close(self) -> None:
        """Close every sink, even if one raises."""
        for name, sink in self._named:
            self._ask(name, sink, "close")

    def _ask(self, name: str, sink: object, method: str, *given: Any) -> Any:
        """Call a method of a sink. If it raises or does not exist, that is counted, and `_MISSED` is returned."""
        try:
            return getattr(sink, method)(*given)
        except Exception as error:  # noqa: BLE001 - a sink must not make calls fail, or keep the event from other sinks
            self._count_failure(name, error)
            return _MISSED

    def _redact_event(self, event: CallEvent) -> CallEvent:
        told = event.error or event.stdout or event.stderr or event.notes
        if not told and event.definition_hash is not None and event.arguments is event.result is UNSET:
            return event
        changes: dict[str, Any] = {}
        for field in ("error", "stdout", "stderr", "notes"):
            told = getattr(event, field)
            if told is not None:
                changes[field] = self._redact_value(told)
        if event.definition_hash is None:
            # No tool has this name, so it is arbitrary text of the caller.
            changes["name"] = self._redact_value(event.name)
        for field, wanted in (("arguments", self.tells_arguments), ("result", self.tells_results)):
            value = getattr(event, field)
            if value is not UNSET:
                changes[field] = self._redact_value(value) if wanted else UNSET
        return msgspec.structs.replace(event, **changes) if changes else event

    def _redact_value(self, value: Any) -> Any:
        try:
            return self._redactor.value(value)
        except Exception as error:  # noqa: BLE001 - a value that cannot be redacted is not sent
            self._count_failure("redactor", error)
            return REDACTED

    def _count_failure(self, name: str, error: Exception) -> None:
        with self._lock:
            seen = self._failures.get(name, 0)
            self._failures[name] = seen + 1
        if not seen:
            try:
                text = self._redactor.text(str(error))
            except Exception:  # noqa: BLE001 - `__str__` of a sink's exception may raise anything
                text = REDACTED
            said = f"{type(error).__name__}: {text}"
            _log.warning("tracing to %s failed, calls go on without it (said once): %s", name, said)


def _name_sinks(sinks: Iterable[Sink]) -> list[str]:
    """A unique name per sink: its `name` or class name, numbered if several share it."""
    names: list[str] = []
    for sink in sinks:
        base = str(getattr(sink, "name", None) or type(sink).__name__)
        name, count = base, 1
        while name in names:
            count += 1
            name = f"{base}#{count}"
        names.append(name)
    return names


class CallTrace(msgspec.Struct, eq=False):
    """Collects the facts of one call for the tracer; created only if there are sinks."""

    tracer: Tracer
    session: Session
    call: ToolCall
    mode: Mode
    request_id: str | None = None
    approval: str | None = None
    """Id of the approval that the call runs with, or waits for."""
    number: int | None = None
    """Number of the call in the journal, if there is one."""
    bound: Bound | None = None
    generation: int = 0
    token: list[object] | None = None
    """What the tracer returned when the call began."""
    stored: CallEvent | None = None
    """The event whose rows were written with the entry of the call."""
    marks: dict[str, float] = {}
    """When each step but the last ended, for the journal."""
    time: float = msgspec.field(default_factory=wall_time)
    began: float = msgspec.field(default_factory=perf_counter)

    def __post_init__(self) -> None:
        if self.tracer.journal is not None:
            self.number = new_call_number()

    def end_step(self, step: Literal["bind", "policy", "run"]) -> None:
        """Record the end of a step; if called again for a step, the last time counts."""
        if self.number is not None:
            self.marks[step] = perf_counter()

    def take_answer(self, value: Any) -> Any:
        """Record the end of the run; returns the value unchanged."""
        self.end_step("run")
        return value

    def begin(self, bound: Bound, generation: int) -> None:
        """Call once the tool is known: opens spans, so that spans created by the tool become their children."""
        self.end_step("bind")
        self.bound, self.generation = bound, generation
        if self.number is not None:
            self.tracer.announce(self.number, bound.tool, self.session, self.mode)
        self.token = self.tracer.begin(bound.tool, self.call, self.session.key.session_id, self.mode)

    def restart(self) -> None:
        """Leave what came since the arguments were bound out of the duration: the wait for a person, or a preview."""
        now = perf_counter()
        passed = now - self.marks.get("bind", self.began)
        self.time, self.began = self.time + passed, self.began + passed
        self.end_step("bind")

    def add_rows(self, write: Append, invocation: Invocation | None, result: ToolResult) -> Append:
        """Add the journal's rows of the finished call to the write of its entry. Call `end` after the write."""
        if self.number is None:
            return write
        event, rows = self.tracer.write_rows(self._make_event(invocation, result, write.seq))
        if rows is None:
            return write
        self.stored = event
        return msgspec.structs.replace(write, rows=rows)

    def end(self, invocation: Invocation | None, result: ToolResult) -> None:
        """Send the record of the call to the sinks."""
        if self.stored is not None:
            self.tracer.end(self.token, self.stored, stored=True)
        else:
            seq = 0 if self.session.is_alone else len(self.session.history)
            self.tracer.end(self.token, self._make_event(invocation, result, seq))

    def _make_event(self, invocation: Invocation | None, result: ToolResult, seq: int) -> CallEvent:
        now, bound, call, key = perf_counter(), self.bound, self.call, self.session.key
        name, definition, version, effects = _UNKNOWN if bound is None else bound.prepared.identity
        made: Any = invocation or _NOT_MADE
        failure: Any = result.error_info or _NO_FAILURE
        stdout, stderr = made.printed or (None, None)
        arguments: Any = UNSET
        if self.tracer.tells_arguments:
            # As sent, since the tool may have changed its own.
            arguments = call.arguments if bound is None else _decode(bound.sent)
        # Positional: with this many keyword arguments, creating the struct would take ten times as long.
        return CallEvent(
            self.time,
            now - self.began,
            self.mode,
            key.session_id,
            name or call.name,
            call.call_id,
            key.owner or None,
            seq,
            made.engine_name,
            version,
            definition,
            self.generation,
            0 if bound is None else len(bound.coercions),
            made.attempt,
            failure.code,
            failure.message,
            failure.effect,
            effects,
            self.approval,
            None if bound is None else len(bound.sent),
            made.result_bytes,
            self.request_id,
            self.number,
            stdout or None,
            stderr or None,
            made.notes,
            arguments,
            result.result if self.tracer.tells_results and failure is _NO_FAILURE else UNSET,
            () if self.number is None else self._steps(now),
        )

    def _steps(self, now: float) -> tuple[float, ...]:
        points = (self.began, *self.marks.values(), now)
        return tuple(map(sub, points[1:], points))

    def cut(self, invocation: Invocation | None) -> None:
        """End the record of a call that was cancelled or could not be stored."""
        begun = invocation is not None and invocation.begun
        info = Interrupted("the call was cancelled before it was answered", effect=None if begun else "none").info
        self.stored = None
        self.end(invocation, ToolResult.failed(self.call, info))
