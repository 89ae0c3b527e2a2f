"""soak_cost.py: how long the loop is held, and how much memory is taken, by values that once stalled or ended a server.

Each case runs in a process of its own: bound as a call, judged as an answer, listed. Exit code 1 if one takes over 50 ms of
processor time at a stretch, or over 50 MB. Says the times; run it on a machine that does nothing else.
"""

import contextlib
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from schema.hostile import CASES
from toolyard import InvalidArguments, Tool, ToolCall, ToolRegistry
from toolyard.schema import compile_schema

MILLISECONDS, MEGABYTES = 50, 50


def timed(work):
    begun = time.process_time()
    result = work()
    return (time.process_time() - begun) * 1000, result


def run(name):
    schema, value = CASES[name]
    compiled = compile_schema(schema)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    weighing, _ = timed(lambda: compiled.weight)
    verdict, is_valid = timed(lambda: compiled.accepts(value))
    listing, found = timed(lambda: compiled.violations(value))
    binding = bind(schema, value) if isinstance(value, dict) else 0.0
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    held = max(weighing, verdict, listing, binding)
    good = held <= MILLISECONDS and grown <= MEGABYTES
    told = "valid" if is_valid else str(found[0])[-70:]
    print(
        f"{name:45s} weighed {weighing:5.1f} judged {verdict:5.1f} listed {listing:5.1f} bound {binding:5.1f} ms "
        f"{grown:5.1f} MB  {told}{'' if good else '  MISSED'}",
        flush=True,
    )
    return good


def bind(schema, value):
    registry = ToolRegistry([Tool("t", "ns", "", {"type": "object", **schema})])

    def attempt():
        with contextlib.suppress(InvalidArguments):
            registry.bind(ToolCall("ns::t", value))

    attempt()  # compiles the schema, and warms everything else
    return timed(attempt)[0]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(not run(sys.argv[1]))
    results = [subprocess.run([sys.executable, __file__, name], check=False).returncode for name in CASES]
    sys.exit(any(results))
