"""D2. Calls of many different tools: real definitions and everyday functions, each compared with its own limit.

A single tool is not representative. Real definitions come from the corpus that `TOOLYARD_CORPUS` names, or else from
the small one in the tests.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs

from benchmarks.everyday_functions import EVERYDAY
from toolyard import Policy, PythonBinding, PythonToolEngine, Tool, ToolCall, ToolRegistry, Tracer, function_tool
from toolyard.calls.policy import Rule

_ROUNDS = 5
_REPEAT = 20
_CORPUS = Path(os.environ.get("TOOLYARD_CORPUS") or Path(__file__).parents[1] / "tests" / "data")
_KEPT = 2_000
"""Entries after which a new session is opened, so that histories do not grow with the rounds."""


class _Deaf:
    """A sink that ignores events, so that only the emitting code is measured."""

    def emit(self, event: object) -> None:
        """Ignore the event."""

    def close(self) -> None:
        """Do nothing."""


def run() -> bool:
    """Measure and print; False if a goal was missed."""
    print("\n## D2. calls over a distribution\n")
    print("| set | tools | row | median | p90 | goal | |\n|---|---:|---|---:|---:|---|---|")
    real = _measure_set("real definitions", *_real_tools(), check_dispatch=True)
    everyday = [function_tool(function, namespace="w") for function, _ in EVERYDAY]
    calls = [ToolCall(tool.qualified_name, call) for tool, (_, call) in zip(everyday, EVERYDAY, strict=True)]
    return _measure_set("everyday functions", everyday, calls, check_dispatch=False) and real


def _real_tools() -> tuple[list[Tool], list[ToolCall]]:
    tools, calls, seen = [], [], set()
    for path in sorted((_CORPUS / "calls").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            name = row["tool"]["name"]
            if not row["normalised_accepts"] or name in seen:
                continue
            seen.add(name)
            tools.append(Tool(name, "w", "", row["tool"]["parameters"], binding=PythonBinding(_count, plain=True)))
            calls.append(ToolCall(f"w::{name}", row["arguments"]))
    return tools, calls


def _count(**arguments: Any) -> dict[str, Any]:
    return {"count": len(arguments), "ok": True}


def _measure_set(title: str, tools: list[Tool], calls: list[ToolCall], *, check_dispatch: bool) -> bool:
    registry = ToolRegistry(tools)
    plain = PythonToolEngine(registry)
    watched = PythonToolEngine(registry, policy=Policy([Rule("deny", tools="x::*")]), tracer=Tracer([_Deaf()]))
    ratios: dict[str, list[float]] = {"dispatch": [], "execute": [], "execute, policy and trace": []}
    for engine in (plain, watched):
        engine.setup("s")
    for number, call in enumerate(calls):
        if number * (_ROUNDS + 1) * _REPEAT % _KEPT == 0:
            for engine in (plain, watched):
                engine.teardown("s")
                engine.setup("s")
        hand, dispatch, execute, both = _cpu_of(_rows(registry, plain, watched, call))
        ratios["dispatch"].append(dispatch / hand)
        ratios["execute"].append(execute / dispatch)
        ratios["execute, policy and trace"].append(both / dispatch)
    goals: dict[str, tuple[float | None, float | None]] = {
        "dispatch": (1.5 if check_dispatch else None, None),
        "execute": (5.0, 10.0),
        "execute, policy and trace": (14.0, None),
    }
    met = [_show_row(title, name, found, *goals[name]) for name, found in ratios.items()]
    return all(met)


def _rows(
    registry: ToolRegistry, plain: PythonToolEngine, watched: PythonToolEngine, call: ToolCall
) -> list[Callable[[], object]]:
    [tool] = registry.get(call.name)
    validate = jsonschema_rs.validator_for(tool.parameters or {"type": "object"}, offline=True).is_valid
    function = tool.binding.callable if isinstance(tool.binding, PythonBinding) else _count
    prepare = tool.binding.prepare if isinstance(tool.binding, PythonBinding) else None
    name, arguments, batch = call.name, call.arguments, [call]

    def by_hand() -> object:
        validate(arguments)
        if prepare is None:
            return function(**arguments)
        args, keywords = prepare(arguments)
        return function(*args, **keywords)

    return [
        by_hand,
        lambda: registry.dispatch(name, arguments),
        lambda: plain.execute("s", batch),
        lambda: watched.execute("s", batch),
    ]


def _cpu_of(rows: list[Callable[[], object]]) -> list[float]:
    """The median CPU time over interleaved rounds."""
    samples: list[list[int]] = [[] for _ in rows]
    for row in rows:
        row()
    gc.disable()
    try:
        for _ in range(_ROUNDS):
            for row, taken in zip(rows, samples, strict=True):
                begin = time.process_time_ns()
                for _ in range(_REPEAT):
                    row()
                taken.append(time.process_time_ns() - begin)
    finally:
        gc.enable()
    return [statistics.median(taken) for taken in samples]


def _show_row(title: str, name: str, ratios: list[float], median_goal: float | None, p90_goal: float | None) -> bool:
    median, p90 = statistics.median(ratios), statistics.quantiles(ratios, n=10)[-1]
    missed = (median_goal is not None and median > median_goal) or (p90_goal is not None and p90 > p90_goal)
    goal = "" if median_goal is None else f"<= {median_goal:g}" + ("" if p90_goal is None else f", p90 <= {p90_goal:g}")
    over = "jsonschema-rs and the call" if name == "dispatch" else "dispatch"
    cells = [title, len(ratios), f"{name} / {over}", f"{median:.2f}", f"{p90:.2f}", goal, "MISSED" if missed else ""]
    print("| " + " | ".join(map(str, cells)) + " |")
    return not missed
