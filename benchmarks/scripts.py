"""K. Scripts: a call of a warm worker compared with a bare pipe, loading with importing, and CPU-bound scripts."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.harness import Row, measure, show
from benchmarks.quick_calls import async_block, sync_block
from toolyard import PythonToolEngine, ScriptToolLoader, ToolCall, ToolRegistry, function_tool
from toolyard.links.scripts import LEVELS, Code, ScriptPool, WorkerSettings, find_obstacle, probe_level

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "scripts"
PIPE = "LIMIT a bare pipe to a Python process and back"
IMPORT = "LIMIT import them"
TINY = "LIMIT import tiny ones"
CALLS, FILES = 300, 200
BLOCKS = 30
HOG_GOAL = 1.5
ECHO = "import os\nwhile data := os.read(0, 65536): os.write(1, data)\n"
HANDLER = """
TOOL_NAME = "twice"
TOOL_DESCRIPTION = "Twice as much."
TOOL_PARAMETERS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def run(n):
    return n * 2
"""
HOG = """
import time

TOOL_NAME = "hog"
TOOL_DESCRIPTION = "Uses a core."
TOOL_PARAMETERS = {"type": "object"}


def run(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
"""


def run() -> bool:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        results = [_calling(Path(folder)), _loading(Path(folder)), _beside_a_hog(Path(folder))]
    return all(results)


def _calling(folder: Path) -> bool:
    scripts = _directory(folder / "one", {"twice.py": HANDLER})
    with ExitStack() as stack:
        echo = stack.enter_context(
            subprocess.Popen([sys.executable, "-I", "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )
        rows = [Row(PIPE, lambda: _echoed(echo), calls=CALLS, clock=time.perf_counter)]
        for level in (level for level in LEVELS if find_obstacle(level) is None):
            rows += _worker_rows(level, stack)
        rows += _engine_rows(scripts, stack)
        measure(rows, 15)
        assert echo.stdin is not None
        echo.stdin.close()
    return show(f"K. Scripts: a warm call, wall clock, {CALLS} calls a round; level {probe_level('auto')}", rows)


def _echoed(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    to, back = process.stdin.fileno(), process.stdout.fileno()
    for _ in range(CALLS):
        os.write(to, b'{"n":21}')
        os.read(back, 65536)


def _worker_rows(level: str, stack: ExitStack) -> list[Row]:
    # Workers live longer than by default, so that no round starts a new one.
    pool = stack.enter_context(ScriptPool(WorkerSettings(sandbox=level, calls_per_worker=1_000_000)))  # type: ignore[arg-type]
    source = HANDLER.encode()
    code = Code("twice.py", hashlib.sha256(source).hexdigest(), source)

    def calls() -> None:
        for _ in range(CALLS):
            if pool.call(code, "run", {"n": 21}, deadline=time.monotonic() + 30).value != 42:
                raise SystemExit("the worker did not answer as it should")

    async def on_a_loop() -> None:
        for _ in range(CALLS):
            await pool.acall(code, "run", {"n": 21}, deadline=time.monotonic() + 30)

    loop = asyncio.new_event_loop()
    stack.callback(loop.close)
    clock = time.perf_counter
    return [
        Row(f"ScriptPool.call, {level}", calls, 1, PIPE, None, CALLS, clock),
        Row(f"ScriptPool.acall, {level}", lambda: loop.run_until_complete(on_a_loop()), 1, PIPE, None, CALLS, clock),
    ]


def _engine_rows(scripts: Path, stack: ExitStack) -> list[Row]:
    loader = ScriptToolLoader(scripts, calls_per_worker=1_000_000)
    registry = stack.enter_context(ToolRegistry.from_loaders([loader]))
    engine = stack.enter_context(PythonToolEngine(registry))

    def calls() -> None:
        engine.setup("s")
        for _ in range(CALLS):
            [result] = engine.execute("s", [ToolCall("twice", {"n": 21})])
            if result.result != 42:
                raise SystemExit(f"the engine did not answer as it should: {result}")
        engine.teardown("s")

    return [Row("engine.execute: bound, validated, recorded", calls, 1, PIPE, None, CALLS, time.perf_counter)]


def _loading(folder: Path) -> bool:
    full = _directory(folder / "full", {f"s{n}.py": _example(n) for n in range(FILES)})
    tiny = _directory(folder / "tiny", {f"t{n}.py": HANDLER.replace("twice", f"twice_{n}") for n in range(FILES)})
    known = ScriptToolLoader(full)
    count = len(known.load())
    clock = time.perf_counter
    rows = [Row(IMPORT, lambda: _imported(full), clock=clock)]
    rows += [
        Row(
            f"ScriptToolLoader.load, {level}",
            lambda level=level: _loaded(full, level, count),
            1,
            IMPORT,
            2.0,
            clock=clock,
        )  # type: ignore[misc]
        for level in LEVELS
        if find_obstacle(level) is None
    ]
    rows += [
        Row("load again, nothing changed", known.load, 1, IMPORT, clock=clock),
        Row(TINY, lambda: _imported(tiny), clock=clock),
        Row(
            *("load tiny ones", lambda: _loaded(tiny, "auto", FILES), 1, TINY),
            clock=clock,
            note="most of it is the start of the interpreter that they run in",
        ),
    ]
    measure(rows, 15)
    size = sum(path.stat().st_size for path in full.glob("*.py")) / FILES
    return show(f"K. Scripts: {FILES} files, {size:,.0f} bytes each, wall clock", rows)


def _example(number: int) -> str:
    """One of the example scripts with unique names."""
    files = sorted(EXAMPLES.glob("*.py"))
    text = files[number % len(files)].read_text()
    text = re.sub(r'(TOOL_NAME = |"name": )"(\w+)"', lambda found: f'{found[1]}"{found[2]}_{number}"', text)
    return re.sub(r"TOOL_ALIASES = .*", "", text)


def _imported(folder: Path) -> None:
    """Import as a loader without workers would, without bytecode files, which only a second start has."""
    for path in folder.glob("*.py"):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _loaded(folder: Path, level: Any, count: int) -> None:
    loader = ScriptToolLoader(folder, sandbox=level)
    if len(loader.load()) != count:
        raise SystemExit(f"not everything was loaded: {loader.report.rejected}")


def _beside_a_hog(folder: Path) -> bool:
    print(f"\n## K. p99 of in-process tools beside a script that takes a core ({BLOCKS} interleaved blocks)\n")
    print("| caller | p99 without | p99 with | ratio | goal | |")
    print("|---|---:|---:|---:|---:|---|")
    scripts = _directory(folder / "hog", {"hog.py": HOG})
    registry = ToolRegistry.from_loaders([ScriptToolLoader(scripts, timeout=60)])
    registry.add(function_tool(_quick, namespace="w", name="quick"))
    with registry, PythonToolEngine(registry) as engine:
        engine.setup("mine")
        engine.setup("hog")
        rows = [_hog_row(engine, "sync, in its own thread", sync_block), _hog_row(engine, "async", async_block)]
    return all(rows)


def _hog_row(engine: PythonToolEngine, caller: str, block: Callable[[PythonToolEngine], list[float]]) -> bool:
    block(engine)
    without: list[float] = []
    beside: list[float] = []
    for number in range(BLOCKS):
        for samples, busy in ((without, False), (beside, True)) if number % 2 else ((beside, True), (without, False)):
            call = [ToolCall("hog", {"seconds": 0.6})]
            hog = threading.Thread(target=engine.execute, args=("hog", call), daemon=True)
            if busy:
                hog.start()
            gc.collect()
            time.sleep(0.1)
            samples.append(statistics.quantiles(block(engine), n=100)[98])
            if busy:
                hog.join()
    # Adjacent blocks run under the same machine load, so compare them in pairs.
    ratio = statistics.median(busy / calm for busy, calm in zip(beside, without, strict=True))
    good = ratio <= HOG_GOAL
    cells = [caller, *(f"{statistics.median(each) * 1e6:.1f} us" for each in (without, beside)), f"{ratio:.2f}"]
    print(f"| {' | '.join(cells)} | <= {HOG_GOAL} | {'' if good else 'MISSED'} |")
    return good


def _quick(n: int) -> int:
    """What everybody else calls."""
    return n + 1


def _directory(path: Path, files: dict[str, str]) -> Path:
    path.mkdir(mode=0o755)
    for name, text in files.items():
        (path / name).write_text(text)
    (path / "_manifest.json").write_text(json.dumps({"allow": list(files)}))
    return path
