"""H. Cold start: CPU of fresh processes."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import Row, measure, show

LIMIT = "LIMIT python -c pass"


def run() -> bool:
    """Measure and print."""
    script = str(Path(sys.executable).with_name("toolyard"))
    rows = [Row(LIMIT, _process(sys.executable, "-c", "pass"), clock=_children)]
    for name, goal, command in (
        ("import toolyard", 3.0, [sys.executable, "-c", "import toolyard"]),
        ("CLI toolyard version", 4.0, [script, "version"]),
        ("CLI toolyard --help", None, [script, "--help"]),
        ("from toolyard import Tool", None, [sys.executable, "-c", "from toolyard import Tool"]),
        ("from toolyard import ToolRegistry", None, [sys.executable, "-c", "from toolyard import ToolRegistry"]),
        ("import orjson", None, [sys.executable, "-c", "import orjson"]),
        ("import pydantic (BaseModel)", None, [sys.executable, "-c", "from pydantic import BaseModel"]),
        ("import mcp", None, [sys.executable, "-c", "import mcp"]),
    ):
        rows.append(Row(name, _process(*command), limit=LIMIT, goal=goal, clock=_children))
    measure(rows, 7)
    return show("H. cold start", rows)


def _process(*command: str) -> Callable[[], object]:
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
