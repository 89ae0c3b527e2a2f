"""Dataflow beside the bare matrix product that compares every output with every parameter.

All have the vectors of all texts at hand, and one thread. The limit is one product of the distinct texts of outputs and
of parameters, at the width of the usual model. Two rows are held against it: the whole, as a first run does it, which
begins with the definitions and remembers nothing, and what is done when definitions were read before, between what was
read and the finished arrays. The last two are for information: the whole in a process that has seen such names, and the
product as it is where equal texts are not put together, one row for each value. That one is a control as well: how many
times the work of the limit it is follows from its size, and how far the measured ratio is from that shows what the
machine did meanwhile. The limit is run twice for each sample, so that all are exposed for about as long.

Tools come from the corpus that `eval_simulator` finds, a namespace for each file; where that is small, again under
other namespaces.
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
    from toolyard.insight.dataflow.match import Vectors
    from toolyard.insight.dataflow.profile import Told

SMALL, LARGE = 800, 8000
GOAL = 2.5
GROWTH = 2.6
"""Memory at twice the tools, at most; the square would be 4."""
ONE_MORE = 0.5
"""One tool more beside all of them, at most."""
_TIMED = (("time", SMALL), ("more", LARGE))


def run() -> bool:
    """Run in processes of their own, which have one thread."""
    timed = [json.loads(_child(what, count).splitlines()[-1])["good"] for what, count in _TIMED]
    grown = {count: json.loads(_child("memory", count).splitlines()[-1])["mb"] for count in (LARGE // 2, LARGE)}
    ratio = grown[LARGE] / grown[LARGE // 2]
    for count, mb in grown.items():
        print(f"{count} tools: {mb:.0f} MB more at the peak, {1024 * mb / count:.1f} KB a tool")
    print(f"twice the tools, {ratio:.2f} x the memory (goal <= {GROWTH})")
    return all(timed) and ratio <= GROWTH


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


def _at_hand(told: Sequence[Told]) -> Vectors:
    """Gives the vectors of texts, which have been made before."""
    import numpy as np

    from toolyard.insight.dataflow.match import token_vectors
    from toolyard.insight.dataflow.profile import outputs_of

    every = [text for one in told for text in (*outputs_of(one.given).texts(), *one.inputs.texts(), one.text)]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(every))}
    made = token_vectors(list(numbers))
    return lambda texts: made.take(np.fromiter(map(numbers.__getitem__, texts), np.intp, len(texts)), axis=0)


def _time(count: int) -> bool:
    from toolyard.insight.dataflow.edges import compute_edges, limits_of
    from toolyard.insight.dataflow.match import MIN_SCORE, token_vectors
    from toolyard.insight.dataflow.names import forget
    from toolyard.insight.dataflow.profile import outputs_of, told_of

    tools = _tools(count)
    told = [told_of(tool) for tool in tools]
    given = [text for one in told for text in outputs_of(one.given).texts()]
    taken = [text for one in told for text in one.inputs.texts()]
    outputs, inputs = token_vectors(list(dict.fromkeys(given))), token_vectors(list(dict.fromkeys(taken)))
    values = [token_vectors(given), token_vectors(taken)]
    vectors = _at_hand(told)
    limits = limits_of(MIN_SCORE, 10)

    def product() -> object:
        return outputs @ inputs.T

    def every_value() -> object:
        return values[0] @ values[1].T

    def edges() -> object:
        return compute_edges(tools, told, vectors, limits)

    def whole() -> object:
        return compute_edges(tools, map(told_of, tools), vectors, limits)

    limit = f"{len(outputs)} x {len(inputs)} texts, {outputs.shape[1]} wide, one product"
    exact = len(values[0]) * len(values[1]) / (len(outputs) * len(inputs))
    every = f"{len(values[0])} x {len(values[1])} values, equal texts apart, one product"
    rows = [
        Row(limit, product, 2),
        Row(f"{count} tools, a first run: definitions read, nothing remembered", whole, 1, limit, GOAL, before=forget),
        Row(f"{count} tools, definitions read before", edges, limit=limit, goal=GOAL),
        Row(f"{count} tools, definitions read, names remembered", whole, limit=limit),
        Row(every, every_value, limit=limit, note=f"{exact:.2f} by its size"),
    ]
    measure(rows, rounds=50)
    return show("Dataflow", rows)


def _more(count: int) -> bool:
    """One tool more, of which the others were compared before."""
    import numpy as np

    from toolyard.insight.dataflow.edges import compute_edges, grow_edges, limits_of
    from toolyard.insight.dataflow.match import MIN_SCORE
    from toolyard.insight.dataflow.profile import told_of

    tools = _tools(count)
    told = [told_of(tool) for tool in tools]
    vectors, limits = _at_hand(told), limits_of(MIN_SCORE, 10)
    places = np.delete(np.arange(count, dtype=np.int32), count // 2)
    last = compute_edges([tools[place] for place in places], [told[place] for place in places], vectors, limits)
    limit = f"{count} tools, definitions read before"
    rows = [
        Row(limit, lambda: compute_edges(tools, told, vectors, limits)),
        Row(
            "one tool more", lambda: grow_edges(last, places, tools, told, vectors, limits), limit=limit, goal=ONE_MORE
        ),
    ]
    measure(rows, rounds=3)
    return show("Dataflow, one tool more", rows)


def _memory(count: int) -> float:
    from toolyard.insight.dataflow.edges import compute_edges, limits_of
    from toolyard.insight.dataflow.match import MIN_SCORE
    from toolyard.insight.dataflow.profile import told_of

    tools = _tools(count)
    told = [told_of(tool) for tool in tools]
    vectors = _at_hand(told)
    before = _resident()
    compute_edges(tools, told, vectors, limits_of(MIN_SCORE, 10))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return max(peak - before, 1.0)


def _resident() -> float:
    """Megabytes in use now."""
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024


def _main(what: str, count: int) -> None:
    timed = {"time": _time, "more": _more}
    print(json.dumps({"good": timed[what](count)} if what in timed else {"mb": _memory(count)}))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
