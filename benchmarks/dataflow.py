"""Dataflow in one thread with precomputed vectors: CPU time, and growth of memory.

Tools come from the corpus that `eval_simulator` finds, one namespace per file. If that has too few, they are repeated
under other namespaces.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Row, measure, show

if TYPE_CHECKING:
    from toolyard.insight.dataflow.match import EmbedTexts
    from toolyard.insight.dataflow.profile import ToolProfile

SMALL, LARGE = 800, 8000
GROWTH = 2.6
"""Maximum ratio of memory when the number of tools doubles; quadratic growth would be 4."""


def run() -> bool:
    """Run each measurement in a process with one thread."""
    timed = json.loads(_child("time", SMALL).splitlines()[-1])["good"]
    grown = {count: json.loads(_child("memory", count).splitlines()[-1])["mb"] for count in (LARGE // 2, LARGE)}
    ratio = grown[LARGE] / grown[LARGE // 2]
    for count, mb in grown.items():
        print(f"{count} tools: {mb:.0f} MB more at the peak, {1024 * mb / count:.1f} KB a tool")
    print(f"twice the tools, {ratio:.2f} x the memory (goal <= {GROWTH})")
    return bool(timed) and ratio <= GROWTH


def _child(what: str, count: int) -> str:
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.dataflow", what, str(count)],
        env={**os.environ, **one},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    print("\n".join(done.stdout.splitlines()[:-1]))
    return done.stdout


def _tools(count: int) -> list[Any]:
    from benchmarks.eval_simulator import files, load
    from toolyard.model.tool import Tool

    found = []
    for path in files([]):
        if path.suffix == ".yaml" and path.parent.name == "catalogs":
            continue  # the same as JSON lines
        for tool in load(path) or ():
            if tool.output_parameters:
                found.append(Tool(tool.name, path.stem, tool.description, tool.parameters, tool.output_parameters))
    random.Random(1).shuffle(found)
    copies = [found] + [
        [tool.replace(namespace=f"{tool.namespace}{number}") for tool in found]
        for number in range(1, -(-count // len(found)))
    ]
    return [tool for copy in copies for tool in copy][:count]


def _at_hand(profiles: Sequence[ToolProfile]) -> EmbedTexts:
    """An embedder that returns precomputed vectors."""
    import numpy as np

    from toolyard.insight.dataflow.match import token_vectors

    every = [kind.text for one in profiles for side in one[:2] for kind in side.kinds]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(every))}
    made = token_vectors(list(numbers))
    return lambda texts: made.take(np.fromiter(map(numbers.__getitem__, texts), np.intp, len(texts)), axis=0)


def _time(count: int) -> bool:
    from toolyard.insight.dataflow.enrichment import EdgeLimits, compute_edges
    from toolyard.insight.dataflow.match import MIN_SCORE
    from toolyard.insight.dataflow.profile import read_profile

    tools = _tools(count)
    profiles = [read_profile(tool) for tool in tools]
    vectors, limits = _at_hand(profiles), EdgeLimits(MIN_SCORE, 10)
    rows = [
        Row(f"{count} tools", lambda: compute_edges(tools, map(read_profile, tools), vectors, limits)),
        Row(f"{count} tools, definitions read before", lambda: compute_edges(tools, profiles, vectors, limits)),
    ]
    measure(rows, rounds=5)
    return show("Dataflow", rows)


def _memory(count: int) -> float:
    from toolyard.insight.dataflow.enrichment import EdgeLimits, compute_edges
    from toolyard.insight.dataflow.match import MIN_SCORE
    from toolyard.insight.dataflow.profile import read_profile

    tools = _tools(count)
    profiles = [read_profile(tool) for tool in tools]
    vectors = _at_hand(profiles)
    before = _resident()
    compute_edges(tools, profiles, vectors, EdgeLimits(MIN_SCORE, 10))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return max(peak - before, 1.0)


def _resident() -> float:
    """Megabytes in use now."""
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024


def _main(what: str, count: int) -> None:
    print(json.dumps({"good": _time(count)} if what == "time" else {"mb": _memory(count)}))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
