"""`Metrics`: what the service counts, in Prometheus' text form.

Counting happens on every request, so it is one dict lookup and one addition in plain Python; families and text are
made only when somebody reads them. Of several worker processes each leaves its tallies in a file of a folder they
share, and whichever is asked adds them up.
"""

from __future__ import annotations

import asyncio
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from toolyard.constants import VERSION

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_Key = TypeVar("_Key", bound=tuple[str, ...])

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


class _Counts(msgspec.Struct):
    """Everything one process has counted; also the form it takes in the shared folder."""

    requests: list[tuple[str, int, Tally]]
    calls: list[tuple[str, str, str, Tally]]
    gauges: dict[str, float]
    at: float


class Metrics:
    """Counters, latencies and gauges of one server. Count from one thread, that of the loop.

    Labels are bounded whatever clients send: a tool has its own only if `known` says that it exists.
    """

    content_type = b"text/plain; version=1.0.0; charset=utf-8"

    def __init__(
        self,
        known: Callable[[str], bool],
        *,
        shared: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._known = known
        folder = os.environ.get(SHARED_VARIABLE)
        self._shared = shared or (Path(folder) if folder else None)
        self._clock = clock
        self._requests: dict[tuple[str, int], Tally] = {}
        self._calls: dict[tuple[str, str, str], Tally] = {}
        self._routes: set[str] = set()
        self._tools: set[str] = set()
        self._codes: set[str] = set()
        self._gauges: dict[str, Callable[[], float]] = {}

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count one answer; `route` is the template that matched, never a path."""
        tally = self._requests.get((route, status)) or self._new_request(route, status)
        tally.buckets[bisect_left(_REQUEST_BOUNDS, seconds)] += 1
        tally.seconds += seconds

    def call(self, tool: str, mode: str, code: str, seconds: float) -> None:
        """Count one call by its tool's qualified name; `code` is "ok" or that of the error."""
        tally = self._calls.get((tool, mode, code)) or self._new_call(tool, mode, code)
        tally.buckets[bisect_left(_CALL_BOUNDS, seconds)] += 1
        tally.seconds += seconds

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
        if self._shared is None:
            from prometheus_client import ProcessCollector

            ProcessCollector(registry=registry)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """The families, as a Prometheus registry asks for them."""
        everybody = list(self._everybody())
        yield _info()
        yield from _request_families(everybody)
        yield from _call_families(everybody)
        yield from _gauge_families(everybody, self._clock())

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: a registry would otherwise collect everything once to learn the names."""
        return ()

    async def run(self, every: float = 1.0) -> None:
        """Leave word for the other processes again and again, until cancelled; returns at once if there are none."""
        while self._shared is not None:
            data = msgspec.json.encode(self._counts())
            await asyncio.to_thread(self._write, data)
            await asyncio.sleep(every)

    def _counts(self) -> _Counts:
        return _Counts(
            [(*key, tally) for key, tally in list(self._requests.items())],
            [(*key, tally) for key, tally in list(self._calls.items())],
            {name: float(read()) for name, read in self._gauges.items()},
            self._clock(),
        )

    def _write(self, data: bytes) -> None:
        assert self._shared is not None
        path = self._shared / f"toolyard-{os.getpid()}.json"
        new = path.with_suffix(".new")
        new.write_bytes(data)
        new.replace(path)

    def _everybody(self) -> Iterator[_Counts]:
        yield self._counts()
        for path in sorted(self._shared.glob("toolyard-*.json")) if self._shared is not None else ():
            if path.stem != f"toolyard-{os.getpid()}":
                yield msgspec.json.decode(path.read_bytes(), type=_Counts)

    def _new_request(self, route: str, status: int) -> Tally:
        route = _admitted(route, self._routes, MAX_ROUTES)
        return self._requests.setdefault((route, status), _tally(_REQUEST_BOUNDS))

    def _new_call(self, tool: str, mode: str, code: str) -> Tally:
        tool = _admitted(tool, self._tools, MAX_TOOLS) if self._known(tool) else OTHER
        code = _admitted(code, self._codes, MAX_CODES)
        return self._calls.setdefault((tool, mode, code), _tally(_CALL_BOUNDS))


def _tally(bounds: tuple[float, ...]) -> Tally:
    return Tally([0] * (len(bounds) + 1))


def _admitted(label: str, seen: set[str], most: int) -> str:
    if label not in seen:
        if len(seen) >= most:
            return OTHER
        seen.add(label)
    return label


def _info() -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily("toolyard_info", "Always 1; the version is its label.", labels=["version"])
    family.add_metric([VERSION], 1)
    return family


def _request_families(everybody: list[_Counts]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    counts: dict[tuple[str, str], Tally] = {}
    by_route: dict[tuple[str, ...], Tally] = {}
    for one in everybody:
        for route, status, tally in one.requests:
            _add(counts, (route, str(status)), tally)
            _add(by_route, (route,), tally)
    family = CounterMetricFamily("toolyard_requests", "Answers by route and status.", labels=["route", "status"])
    for key, tally in sorted(counts.items()):
        family.add_metric(key, sum(tally.buckets))
    yield family
    yield _histogram("toolyard_request_seconds", "Time to answer a request.", ["route"], by_route, _REQUEST_BOUNDS)


def _call_families(everybody: list[_Counts]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    counts: dict[tuple[str, str, str], Tally] = {}
    by_tool: dict[tuple[str, ...], Tally] = {}
    for one in everybody:
        for tool, mode, code, tally in one.calls:
            _add(counts, (tool, mode, code), tally)
            _add(by_tool, (tool,), tally)
    family = CounterMetricFamily(
        "toolyard_calls", 'Tool calls; the code is "ok" or that of the error.', labels=["tool", "mode", "code"]
    )
    for key, tally in sorted(counts.items()):
        family.add_metric(key, sum(tally.buckets))
    yield family
    yield _histogram("toolyard_call_seconds", "Time a tool call took.", ["tool"], by_tool, _CALL_BOUNDS)


def _gauge_families(everybody: list[_Counts], now: float) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    alive = [one.gauges for one in everybody if now - one.at < _FRESH]
    for name, (exported, help_text) in GAUGES.items():
        values = [gauges[name] for gauges in alive if name in gauges]
        if values:
            value = max(values) if name in _SAME_EVERYWHERE else sum(values)
            yield GaugeMetricFamily(exported, help_text, value=value)


def _histogram(
    name: str, help_text: str, labels: list[str], tallies: Mapping[tuple[str, ...], Tally], bounds: tuple[float, ...]
) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(name, help_text, labels=labels)
    names = [*map(str, bounds), "+Inf"]
    for key, tally in sorted(tallies.items()):
        running, steps = 0, []
        for le, count in zip(names, tally.buckets, strict=True):
            running += count
            steps.append((le, float(running)))
        family.add_metric(key, steps, tally.seconds)
    return family


def _add(sums: dict[_Key, Tally], key: _Key, tally: Tally) -> None:
    have = sums.get(key)
    if have is None:
        sums[key] = Tally(list(tally.buckets), tally.seconds)
    else:
        have.buckets = [ours + theirs for ours, theirs in zip(have.buckets, tally.buckets, strict=True)]
        have.seconds += tally.seconds
