"""Measures rows in interleaved rounds and compares the CPU time of each with the limit of its section."""

from __future__ import annotations

import gc
import operator
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass
class Row:
    """One thing to measure: `run` is called `repeat` times per round."""

    name: str
    run: Callable[[], object]
    repeat: int = 1
    limit: str | None = None
    """The row this one is compared with."""
    goal: float | None = None
    """Maximum ratio to the limit."""
    calls: int = 1
    """How many calls one `run` makes."""
    clock: Callable[[], float] = time.process_time
    note: str = ""
    before: Callable[[], object] | None = None
    """Called before each round, not measured."""
    samples: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Seconds of CPU per call."""
        return statistics.median(self.samples)

    def ratio(self, limit: Row) -> float:
        """Ratio of its time to the limit's: the median of the ratios of each round, if both have as many rounds.

        The load of the machine changes within seconds. A round measures both under the same load; their separate
        medians may be of different moments.
        """
        if len(self.samples) != len(limit.samples):
            return self.median / limit.median
        return statistics.median(map(operator.truediv, self.samples, limit.samples))


def measure(rows: list[Row], rounds: int) -> None:
    """Run every row once per round, in turn, so that noise affects all of them equally."""
    for row in rows:
        row.run()
    for _ in range(rounds):
        for row in rows:
            gc.collect()
            if row.before is not None:
                row.before()
            begin = row.clock()
            for _ in range(row.repeat):
                row.run()
            row.samples.append((row.clock() - begin) / (row.repeat * row.calls))


def paused(work: Callable[[], T]) -> Callable[[], T]:
    """The work with garbage collection disabled, for limits that should not include its cost."""

    def run() -> T:
        gc.disable()
        try:
            return work()
        finally:
            gc.enable()

    return run


def show(title: str, rows: list[Row]) -> bool:
    """Print the table of a section; False if a goal was missed."""
    by_name = {row.name: row for row in rows}
    print(f"\n## {title}\n")
    print("| row | CPU (median) | CPU min | x of its limit | limit | goal | |")
    print("|---|---:|---:|---:|---|---:|---|")
    good = True
    for row in rows:
        ratio = row.ratio(by_name[row.limit]) if row.limit else None
        missed = ratio is not None and row.goal is not None and ratio > row.goal
        good = good and not missed
        cells = [
            row.name,
            _time(row.median),
            _time(min(row.samples)),
            "" if ratio is None else f"{ratio:.2f}",
            row.limit or "",
            "" if row.goal is None else f"<= {row.goal:g}",
            "MISSED" if missed else row.note,
        ]
        print("| " + " | ".join(cells) + " |")
    return good


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.2f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
