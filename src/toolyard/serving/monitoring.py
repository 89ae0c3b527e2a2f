"""What an operator sees of the service: `RequestLog`, and `Metrics` in the Prometheus text format.

`RequestLog` writes a line to standard error for each request, failure and event. Lines are safe to read and to parse:
they contain what the service determined (route, status, name of the key, tool), never arguments, results, headers or
raw paths. The event loop only queues lines, and a thread formats and writes them, so a slow reader of standard error
does not slow down requests. Lines that do not fit the queue are dropped, and their number is logged.

`Metrics` has counts and latencies of requests and calls, and gauges. Counting happens on every request, so it is one
dict lookup and an addition in plain Python; families and text are built only for a scrape. Each worker process writes
its tallies to a file in a shared folder, and the process that answers the scrape adds them up.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import sys
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

import msgspec

from toolyard.calls.result import describe_frames
from toolyard.constants import VERSION

if TYPE_CHECKING:
    from prometheus_client.core import Metric


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


MAX_TOOLS = 1000
MAX_ROUTES = 200
MAX_CODES = 100
OTHER = "other"
"""The label value for values over a limit or unknown."""

SHARED_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_ALIVE_SECONDS = 10.0
"""Seconds without a write after which a process is taken for dead, and its gauges are ignored."""

_REQUEST_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
# Fewer buckets for calls, since every tool has a histogram.
_CALL_BOUNDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)

GAUGES: dict[str, tuple[str, str]] = {
    "running": ("toolyard_requests_running", "Requests being answered."),
    "waiting": ("toolyard_requests_waiting", "Requests queued for a place."),
    "aside": ("toolyard_requests_overdue", "Requests answered at their deadline whose work is still running."),
    "connections": ("toolyard_connections", "Open connections."),
    "sessions": ("toolyard_sessions", "Open sessions."),
    "tools": ("toolyard_tools", "Tools in the registry, overloads included."),
}
"""For each name that `watch_gauge` takes: the exported name and its help text."""

_SHARED_GAUGES = frozenset({"tools", "sessions"})
"""Gauges that are equal in all processes, which share the registry and the session store: not added up."""


class Tally(msgspec.Struct):
    """A histogram: a count for each bucket, one for values above the last bound, and the sum of seconds."""

    buckets: list[int]
    seconds: float = 0.0


_Tallies = list[tuple[tuple[str, ...], Tally]]


class _Counts(msgspec.Struct):
    """All metrics of one process; also the format of its file in the shared folder."""

    requests: _Tallies
    calls: _Tallies
    gauges: dict[str, float]
    at: float


class LabelledCounter:
    """Counts by all labels, and latencies by the first. `labels` gives the maximum number of values of each label."""

    def __init__(
        self, name: str, help_text: str, timed_help: str, labels: Mapping[str, int], bounds: tuple[float, ...]
    ) -> None:
        self._name, self._help, self._timed_help = name, help_text, timed_help
        self._labels = dict(labels)
        self._bounds = bounds
        self._seen: dict[str, set[str]] = {label: set() for label in labels}
        self.tallies: dict[tuple[str, ...], Tally] = {}

    def add(self, key: tuple[str, ...], seconds: float) -> None:
        """Count one event that took `seconds`; `key` has a value for each label."""
        tally = self.tallies.get(key)
        if tally is None:
            admitted = tuple(map(self._admit, self._labels, key))
            tally = self.tallies.setdefault(admitted, Tally([0] * (len(self._bounds) + 1)))
        tally.buckets[bisect_left(self._bounds, seconds)] += 1
        tally.seconds += seconds

    def _admit(self, label: str, value: str) -> str:
        seen = self._seen[label]
        if value not in seen:
            if len(seen) >= self._labels[label]:
                return OTHER
            seen.add(value)
        return value

    def collect(self, processes: Iterable[_Tallies]) -> Iterator[Metric]:
        """Return the sums over all processes as a Prometheus counter and histogram."""
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        counts: Counter[tuple[str, ...]] = Counter()
        timed: dict[tuple[str, ...], Tally] = {}
        for key, tally in chain.from_iterable(processes):
            counts[key] += sum(tally.buckets)
            total = timed.setdefault(key[:1], Tally([0] * len(tally.buckets)))
            total.buckets = [ours + theirs for ours, theirs in zip(total.buckets, tally.buckets, strict=True)]
            total.seconds += tally.seconds
        labels = list(self._labels)
        counter = CounterMetricFamily(f"{self._name}s", self._help, labels=labels)
        for key, count in sorted(counts.items()):
            counter.add_metric(key, count)
        yield counter
        histogram = HistogramMetricFamily(f"{self._name}_seconds", self._timed_help, labels=labels[:1])
        names = [*map(str, self._bounds), "+Inf"]
        for key, tally in sorted(timed.items()):
            steps = zip(names, map(float, accumulate(tally.buckets)), strict=True)
            histogram.add_metric(key, list(steps), tally.seconds)
        yield histogram


class Metrics:
    """Counters, latencies and gauges of one server. Count only on the event loop's thread.

    The number of labels is bounded, whatever clients send: a tool gets one only if `known` says that it exists.
    """

    def __init__(
        self,
        known: Callable[[str], bool],
        *,
        shared: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._known = known
        folder = os.environ.get(SHARED_VARIABLE)
        self.shared = shared or (Path(folder) if folder else None)
        """Folder in which processes share their tallies; None if there is only one process."""
        self._clock = clock
        self._writing = threading.Lock()
        self._start = secrets.token_hex(4)
        """Part of the file name: a process id may be reused, and the counts of the dead process must stay."""
        self._requests = LabelledCounter(
            *("toolyard_request", "Responses by route and status.", "Time to respond to a request."),
            {"route": MAX_ROUTES, "status": MAX_CODES},
            _REQUEST_BOUNDS,
        )
        self._calls = LabelledCounter(
            *("toolyard_call", 'Tool calls; the code is "ok" or the error code.', "Duration of tool calls."),
            {"tool": MAX_TOOLS, "mode": MAX_CODES, "code": MAX_CODES},
            _CALL_BOUNDS,
        )
        self._gauges: dict[str, Callable[[], float]] = {}

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count one response; `route` is the path template that matched, never the raw path."""
        self._requests.add((route, str(status)), seconds)

    def count_call(self, tool: str, mode: str, code: str, seconds: float) -> None:
        """Count one call by its tool's qualified name; `code` is "ok" or the error code."""
        key = (tool, mode, code)
        if key not in self._calls.tallies and not self._known(tool):
            key = (OTHER, mode, code)
        self._calls.add(key, seconds)

    def watch_gauge(self, name: str, read: Callable[[], float]) -> None:
        """Export the value of `read()` at the time of a scrape; `name` is a key of `GAUGES`."""
        if name not in GAUGES:
            raise ValueError(f"no gauge is called {name!r}; there are {', '.join(GAUGES)}")
        self._gauges[name] = read

    def render(self) -> bytes:
        """Return all metrics in the Prometheus text format. Thread-safe; takes milliseconds with a large catalog."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        if self.shared is None:
            from prometheus_client import ProcessCollector

            ProcessCollector(registry=registry)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families; called by the Prometheus registry."""
        from prometheus_client.core import GaugeMetricFamily

        processes = list(self._read_processes())
        info = GaugeMetricFamily("toolyard_info", "Always 1; the version is its label.", labels=["version"])
        info.add_metric([VERSION], 1)
        yield info
        yield from self._requests.collect(one.requests for one in processes)
        yield from self._calls.collect(one.calls for one in processes)
        now = self._clock()
        alive = [one.gauges for one in processes if now - one.at < _ALIVE_SECONDS]
        for name, (exported, help_text) in GAUGES.items():
            values = [gauges[name] for gauges in alive if name in gauges]
            if values:
                value = max(values) if name in _SHARED_GAUGES else sum(values)
                yield GaugeMetricFamily(exported, help_text, value=value)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, or the registry would collect everything once to learn the names."""
        return ()

    def _count_all(self) -> _Counts:
        return _Counts(
            list(self._requests.tallies.items()),
            list(self._calls.tallies.items()),
            {name: float(read()) for name, read in self._gauges.items()},
            self._clock(),
        )

    def write_shared(self) -> None:
        """Write the metrics of this process to the shared folder."""
        assert self.shared is not None
        path = self.shared / f"toolyard-{os.getpid()}-{self._start}.json"
        new = path.with_suffix(".new")
        with self._writing:
            new.write_bytes(msgspec.json.encode(self._count_all()))
            new.replace(path)

    def _read_processes(self) -> Iterator[_Counts]:
        if self.shared is None:
            yield self._count_all()
            return
        # Write first, so that a later scrape of another process never exports lower counts than this one.
        self.write_shared()
        for path in sorted(self.shared.glob("toolyard-*.json")):
            yield msgspec.json.decode(path.read_bytes(), type=_Counts)
