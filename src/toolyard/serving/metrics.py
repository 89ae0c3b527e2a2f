"""What is noted of each request: `Metrics` counts it, in Prometheus' text form, and `RequestLog` writes a line.

Counting happens on every request, so it is one dict lookup and one addition in plain Python; families and text are
made only when somebody reads them. Of several worker processes each leaves its tallies in a file of a folder they
share, and whichever is asked adds them up.

A line on standard error is safe to read and safe to parse: it holds what the service decided (route, status, the key's
name, the tool), never arguments, results, headers or paths as sent. The loop only queues it: a thread words it and
writes it, so that a slow reader of standard error slows nobody else down. What does not fit the queue is counted, and
the count is written.
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
import traceback
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

import msgspec

from toolyard.constants import VERSION

if TYPE_CHECKING:
    from prometheus_client.core import Metric


MAX_TOOLS = 1000
MAX_ROUTES = 200
MAX_CODES = 100
OTHER = "other"
"""The label of whatever is over a limit or not known."""

SHARED_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_FRESH = 10.0
"""Seconds without a word after which a process' gauges are no longer counted: it is gone."""

_REQUEST_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
# Fewer for calls, since every tool has its own.
_CALL_BOUNDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)

GAUGES: dict[str, tuple[str, str]] = {
    "running": ("toolyard_requests_running", "Requests being answered."),
    "waiting": ("toolyard_requests_waiting", "Requests waiting for their turn."),
    "aside": ("toolyard_requests_overdue", "Requests answered at their deadline, whose work goes on all the same."),
    "connections": ("toolyard_connections", "Open connections."),
    "sessions": ("toolyard_sessions", "Open sessions."),
    "tools": ("toolyard_tools", "Tools in the registry, overloads included."),
}
"""What `watch` takes: its name, and how it is exported."""

_SAME_EVERYWHERE = frozenset({"tools", "sessions"})
"""Processes see the same registry and, through the store, the same sessions; adding them up would count them twice."""


class Tally(msgspec.Struct):
    """How often, and how long in all; one number for each bucket and one for what is above the last."""

    buckets: list[int]
    seconds: float = 0.0


_Tallies = list[tuple[tuple[str, ...], Tally]]


class _Counts(msgspec.Struct):
    """Everything one process has counted; also the form it takes in the shared folder."""

    requests: _Tallies
    calls: _Tallies
    gauges: dict[str, float]
    at: float


class LabelledCounter:
    """Counts by labels, and times by the first of them. Of a label there are at most so many values."""

    def __init__(
        self, name: str, words: str, timed_words: str, labels: Mapping[str, int], bounds: tuple[float, ...]
    ) -> None:
        self._name, self._words, self._timed_words = name, words, timed_words
        self._labels = dict(labels)
        self._bounds = bounds
        self._seen: dict[str, set[str]] = {label: set() for label in labels}
        self.tallies: dict[tuple[str, ...], Tally] = {}

    def add(self, key: tuple[str, ...], seconds: float) -> None:
        """Count one that took so long."""
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

    def families(self, everybody: Iterable[_Tallies]) -> Iterator[Metric]:
        """What all processes counted, as Prometheus has it."""
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        counts: dict[tuple[str, ...], Tally] = {}
        timed: dict[tuple[str, ...], Tally] = {}
        for key, tally in chain.from_iterable(everybody):
            _add(counts, key, tally)
            _add(timed, key[:1], tally)
        labels = list(self._labels)
        counter = CounterMetricFamily(f"{self._name}s", self._words, labels=labels)
        for key, tally in sorted(counts.items()):
            counter.add_metric(key, sum(tally.buckets))
        yield counter
        histogram = HistogramMetricFamily(f"{self._name}_seconds", self._timed_words, labels=labels[:1])
        names = [*map(str, self._bounds), "+Inf"]
        for key, tally in sorted(timed.items()):
            steps = zip(names, map(float, accumulate(tally.buckets)), strict=True)
            histogram.add_metric(key, list(steps), tally.seconds)
        yield histogram


class Metrics:
    """Counters, latencies and gauges of one server. Count from one thread, that of the loop.

    Labels are bounded whatever clients send: a tool has its own only if `known` says that it exists.
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
        """Where processes leave word for each other; None if there is only this one."""
        self._clock = clock
        self._writing = threading.Lock()
        self._start = secrets.token_hex(4)
        """A process may have the number of one that is gone, whose counts stay."""
        self._requests = LabelledCounter(
            *("toolyard_request", "Answers by route and status.", "Time to answer a request."),
            {"route": MAX_ROUTES, "status": MAX_CODES},
            _REQUEST_BOUNDS,
        )
        self._calls = LabelledCounter(
            *("toolyard_call", 'Tool calls; the code is "ok" or that of the error.', "Time a tool call took."),
            {"tool": MAX_TOOLS, "mode": MAX_CODES, "code": MAX_CODES},
            _CALL_BOUNDS,
        )
        self._gauges: dict[str, Callable[[], float]] = {}

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count one answer; `route` is the template that matched, never a path."""
        self._requests.add((route, str(status)), seconds)

    def call(self, tool: str, mode: str, code: str, seconds: float) -> None:
        """Count one call by its tool's qualified name; `code` is "ok" or that of the error."""
        key = (tool, mode, code)
        if key not in self._calls.tallies and not self._known(tool):
            key = (OTHER, mode, code)
        self._calls.add(key, seconds)

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Export what `read` gives whenever somebody asks; names are those of `GAUGES`."""
        if name not in GAUGES:
            raise ValueError(f"no gauge is called {name!r}; there are {', '.join(GAUGES)}")
        self._gauges[name] = read

    def text(self) -> bytes:
        """Everything in Prometheus' text form. Takes milliseconds in a large catalog; safe in a thread."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        if self.shared is None:
            from prometheus_client import ProcessCollector

            ProcessCollector(registry=registry)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """The families, as a Prometheus registry asks for them."""
        everybody = list(self._everybody())
        yield _info()
        yield from self._requests.families(one.requests for one in everybody)
        yield from self._calls.families(one.calls for one in everybody)
        yield from _gauge_families(everybody, self._clock())

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: a registry would otherwise collect everything once to learn the names."""
        return ()

    def _counts(self) -> _Counts:
        return _Counts(
            list(self._requests.tallies.items()),
            list(self._calls.tallies.items()),
            {name: float(read()) for name, read in self._gauges.items()},
            self._clock(),
        )

    def leave_word(self) -> None:
        """Tell the other processes what is counted here."""
        assert self.shared is not None
        path = self.shared / f"toolyard-{os.getpid()}-{self._start}.json"
        new = path.with_suffix(".new")
        with self._writing:
            new.write_bytes(msgspec.json.encode(self._counts()))
            new.replace(path)

    def _everybody(self) -> Iterator[_Counts]:
        if self.shared is None:
            yield self._counts()
            return
        # Written first: whoever is asked next tells no less than what is told now.
        self.leave_word()
        for path in sorted(self.shared.glob("toolyard-*.json")):
            yield msgspec.json.decode(path.read_bytes(), type=_Counts)


def _info() -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily("toolyard_info", "Always 1; the version is its label.", labels=["version"])
    family.add_metric([VERSION], 1)
    return family


def _gauge_families(everybody: list[_Counts], now: float) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    alive = [one.gauges for one in everybody if now - one.at < _FRESH]
    for name, (exported, help_text) in GAUGES.items():
        values = [gauges[name] for gauges in alive if name in gauges]
        if values:
            value = max(values) if name in _SAME_EVERYWHERE else sum(values)
            yield GaugeMetricFamily(exported, help_text, value=value)


def _add(sums: dict[tuple[str, ...], Tally], key: tuple[str, ...], tally: Tally) -> None:
    have = sums.get(key)
    if have is None:
        sums[key] = Tally(list(tally.buckets), tally.seconds)
    else:
        have.buckets = [ours + theirs for ours, theirs in zip(have.buckets, tally.buckets, strict=True)]
        have.seconds += tally.seconds


Style = Literal["text", "json", "off"]
Value = str | int | float | None

MAX_QUEUED = 10_000
_GATHER = 0.05
"""Seconds between two writes; lines of one such time go out in one."""

_PLAIN = re.compile(r"[A-Za-z0-9_.:/{}+@*-]+")
_FRAMES = 20
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
        self._word = json_line if style == "json" else text_line
        self._stream = stream
        self._clock = clock
        self._queue: deque[tuple[float, str, dict[str, Value]]] = deque()
        self._dropped = 0
        self._something = threading.Event()
        self._over = threading.Event()
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
            self._put("failure", {"request_id": request_id, "error": type(error).__name__, "where": _where(error)})

    def close(self) -> None:
        """Write what is queued, and stop."""
        self._over.set()
        self._something.set()
        if self._thread is not None:
            self._thread.join()
        self._drain()
        self.enabled = False

    def _put(self, name: str, fields: dict[str, Value]) -> None:
        if len(self._queue) >= MAX_QUEUED:
            self._dropped += 1
            return
        self._queue.append((self._clock(), name, fields))
        if not self._something.is_set():
            if self._thread is None:
                # Not before there is something to write: a process may fork between making a log and using it.
                self._thread = threading.Thread(target=self._write_on, name="toolyard-log", daemon=True)
                self._thread.start()
            self._something.set()

    def _write_on(self) -> None:
        while not self._over.is_set():
            self._something.wait()
            self._over.wait(_GATHER)
            self._something.clear()
            self._drain()

    def _drain(self) -> None:
        lines = []
        while self._queue:
            lines.append(self._word(*self._queue.popleft()))
        dropped, self._dropped = self._dropped, 0
        if dropped:
            lines.append(self._word(self._clock(), "dropped", {"lines": dropped}))
        if lines:
            stream = self._stream or sys.stderr
            try:
                stream.write("".join(lines))
                stream.flush()
            except (OSError, ValueError):
                # Nobody reads any more, or the stream is closed; there is no other place to say so.
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
            where=None if error is None else _where(error),
        )


@contextmanager
def taking_logs(style: Style) -> Iterator[None]:
    """Have warnings and errors of the service itself written as requests are, instead of as Python would.

    They are written where requests are not: whoever is told that the log has it must be able to find it there.
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


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames))


def json_line(at: float, name: str, fields: dict[str, Value]) -> str:
    """One JSON object a line; ASCII, so that nothing in a name can turn a terminal's text around."""
    given = {field: value for field, value in fields.items() if value is not None}
    return json.dumps({"time": _when(at), "event": name, **given}) + "\n"


def text_line(at: float, name: str, fields: dict[str, Value]) -> str:
    """`time event field=value ...`; a value that is not plain is a JSON string, so no value can pose as a field."""
    words = [f"{field}={_shown(value)}" for field, value in fields.items() if value is not None]
    return " ".join([_when(at), name, *words]) + "\n"


def _shown(value: str | int | float) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) is None:
        return json.dumps(value)
    return str(value)


def _when(at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
