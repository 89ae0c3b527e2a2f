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
    rows = [
        Row(LIMIT, _process(sys.executable, "-c", "pass"), clock=_children),
        Row("import toolyard", _process(sys.executable, "-c", "import toolyard"), 1, LIMIT, 3.0, _children),
        Row("CLI toolyard version", _process(script, "version"), 1, LIMIT, None, _children),
        Row("CLI toolyard --help", _process(script, "--help"), 1, LIMIT, None, _children),
        Row(
            "from toolyard import Tool",
            _process(sys.executable, "-c", "from toolyard import Tool"),
            1,
            LIMIT,
            None,
            _children,
        ),
        Row(
            "from toolyard import ToolRegistry",
            _process(sys.executable, "-c", "from toolyard import ToolRegistry"),
            1,
            LIMIT,
            None,
            _children,
        ),
        Row("import orjson", _process(sys.executable, "-c", "import orjson"), 1, LIMIT, None, _children),
        Row(
            "import pydantic (BaseModel)",
            _process(sys.executable, "-c", "from pydantic import BaseModel"),
            1,
            LIMIT,
            None,
            _children,
        ),
        Row("import mcp", _process(sys.executable, "-c", "import mcp"), 1, LIMIT, None, _children),
    ]
    measure(rows, 7)
    return show("H. cold start", rows)


def _process(*command: str) -> Callable[[], object]:
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
