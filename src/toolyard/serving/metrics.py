"""`Metrics`: counts and latencies of requests and calls, and gauges, in the Prometheus text format.

Counting happens on every request, so it is one dict lookup and an addition in plain Python; families and text are
built only for a scrape. Each worker process writes its tallies to a file in a shared folder, and the process that
answers the scrape adds them up.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from toolyard.constants import VERSION

if TYPE_CHECKING:
    from prometheus_client.core import Metric


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

        counts: dict[tuple[str, ...], Tally] = {}
        timed: dict[tuple[str, ...], Tally] = {}
        for key, tally in chain.from_iterable(processes):
            _add_tally(counts, key, tally)
            _add_tally(timed, key[:1], tally)
        labels = list(self._labels)
        counter = CounterMetricFamily(f"{self._name}s", self._help, labels=labels)
        for key, tally in sorted(counts.items()):
            counter.add_metric(key, sum(tally.buckets))
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
        processes = list(self._read_processes())
        yield _info_family()
        yield from self._requests.collect(one.requests for one in processes)
        yield from self._calls.collect(one.calls for one in processes)
        yield from _gauge_families(processes, self._clock())

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


def _info_family() -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily("toolyard_info", "Always 1; the version is its label.", labels=["version"])
    family.add_metric([VERSION], 1)
    return family


def _gauge_families(processes: list[_Counts], now: float) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    alive = [one.gauges for one in processes if now - one.at < _ALIVE_SECONDS]
    for name, (exported, help_text) in GAUGES.items():
        values = [gauges[name] for gauges in alive if name in gauges]
        if values:
            value = max(values) if name in _SHARED_GAUGES else sum(values)
            yield GaugeMetricFamily(exported, help_text, value=value)


def _add_tally(sums: dict[tuple[str, ...], Tally], key: tuple[str, ...], tally: Tally) -> None:
    have = sums.get(key)
    if have is None:
        sums[key] = Tally(list(tally.buckets), tally.seconds)
    else:
        have.buckets = [ours + theirs for ours, theirs in zip(have.buckets, tally.buckets, strict=True)]
        have.seconds += tally.seconds
