"""`python -m benchmarks [section ...]`: exits 1 if a goal was missed."""

from __future__ import annotations

import importlib
import platform
import sys

SECTIONS = (
    "dispatch",
    "build",
    "names",
    "start",
    "calls",
    "call_distribution",
    "call_log",
    "hung",
    "serve",
    "rest",
    "mcp",
    "mcp_serve",
    "scripts",
    "lm",
    "replay",
    "simulator",
    "insight_vectors",
    "search",
    "dataflow",
    "soak",
)


def main(sections: list[str]) -> int:
    """Run some sections, or all."""
    print(f"Python {platform.python_version()}, {platform.machine()}; CPU time, interleaved rounds, medians")
    results = [importlib.import_module(f"benchmarks.{name}").run() for name in sections or SECTIONS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
