"""soak_abuse.py [BLOCKS] [--first]: abuse in real numbers against one server. Exit code 1 if a limit is missed.

Limits: newcomers are served during all of it, the light key's p99 stays within twice of its p99 without a flood,
memory is flat from the second cycle on, and within 2 s after the abuse everything is as before.

The floods come from a process of the scheduling class SCHED_IDLE: on a machine of two processors it would otherwise take
the server's or the light client's, alone and beside a flood, and the scheduler would be measured. It has the second
processor to itself but for the light client's few requests, so it is not slower for that.

The p99 is that of all requests alone and of all beside the flood, sent in blocks that alternate. Of one block of 500 it
is the fifth slowest, and that is the machine's doing: two blocks without any flood differ by up to three times. The first
line says what the comparison gives with no flood at all, which is what the machine adds to each of the others.

Whatever else runs on the machine is measured too, and the server feels it more the more it has to do. With --first, for
which one must be root, all of this goes before everything else: server and light client in real time, a flood at the
highest priority there is otherwise.
"""

import resource
import signal
import statistics
import sys
import tempfile
import threading
import time
from contextlib import nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from abuse_support import (
    Flood,
    Line,
    connections,
    drip,
    go_first,
    guarded,
    light,
    p99,
    resident,
    send_nonsense,
    was_ended,
)

RATIO, RECOVERY, GROWTH = 2.0, 2.0, 16
CYCLES, SECONDS = 3, 5
EVERY = 0.01
"""Seconds from one request of the light key to the next: 500 in a block."""
LARGE = b'{"args":{"text":"' + b"x" * 3_900_000 + b'"}}'
HOSTILE = b'{"args":{"text":[' + b",".join([b"[" * 90 + b"]" * 90] * 22_000) + b"]}}"
REPEATED = b'{"args":{"text":[' + b",".join([b'{"a":1}'] * 480_000) + b'], "x":1, "x":2}}'

FLOODS = {
    "64 connections": {"connections": 64},
    "a new connection for each request": {"connections": 64, "headers": ("Connection: close",)},
    "a key that does not exist": {"connections": 64, "token": "ty_no"},
    "calls that take 0.2 s, 200 at once": {
        "connections": 200,
        "path": "/v1/tools/bench::wait:invoke",
        "body": b'{"args":{"seconds":0.2}}',
    },
    "1,000 connections": {"connections": 1000},
    "bodies of 3.9 MB": {"connections": 16, "body": LARGE},
    "bodies of 2 million lists": {"connections": 16, "body": HOSTILE},
    "bodies of 480,000 objects with a repeated key": {"connections": 16, "body": REPEATED},
    "bodies larger than allowed": {"connections": 64, "body": b"x" * 5_000_000},
}


class Findings:
    """What was found, said at once."""

    def __init__(self):
        self.good = True

    def say(self, text, good=True):
        self.good = self.good and good
        print(f"{text}{'' if good else '  MISSED'}", flush=True)


def newcomers(server, seconds):
    """How long new connections of the light key take until they are answered."""
    return light(server, seconds, every=0.1)


def recovery(server):
    """Seconds until a newcomer is answered."""
    begin = time.perf_counter()
    with Line(server.address) as line:
        status, body = line.ask(server.invocation(server.light))
    assert status == 200, body
    return time.perf_counter() - begin


def beside(server, findings, name, abuse):
    """Run the abuse, ask as a newcomer meanwhile, and see how it is afterwards."""
    ended = []
    thread = threading.Thread(target=lambda: ended.append(abuse()))
    thread.start()
    took = []
    while thread.is_alive():
        took += newcomers(server, 0.5)
    thread.join()
    back = recovery(server)
    findings.say(
        f"{name}: {ended[0] if ended else 'FAILED'}; {len(took)} newcomers served, slowest {max(took):.3f} s; "
        f"afterwards {back * 1e3:.1f} ms",
        bool(ended) and back < RECOVERY,
    )


def slow_heads(server):
    head = server.head("GET", "/v1/tools", None, server.flood, "X-Long: " + "x" * 100)
    with connections(server.address, 500, head[:5]) as made:
        drip(made, 12, head[5:])
        return _ended(made)


def slow_bodies(server):
    head = server.head("POST", "/v1/tools/bench::echo:invoke", 4000, server.flood)
    with connections(server.address, 500, head + b"{") as made:
        drip(made, 34, b" ")
        return _ended(made)


def _ended(made):
    count = sum(map(was_ended, made))
    assert count == len(made), f"{len(made) - count} are still open"
    return f"all {count} ended"


def idle(server):
    with connections(server.address, 10_000):
        time.sleep(3)
    return "10,000 connections, 3 s"


def nonsense(server):
    seen = send_nonsense(server, 4_000)
    assert not any(status >= 500 for status in seen), seen
    return ", ".join(f"{count} x {status or 'no answer'}" for status, count in sorted(seen.items()))


def compare(server, findings, name, options, blocks):
    """Interleaved blocks of the light key alone and beside a flood, or beside nothing if there are no options."""
    calm, busy, told = [], [], (0, 0)
    slowest = 0.0
    with Line(server.address) as line:
        light(server, 0.5, line)
        for _ in range(blocks):
            calm += light(server, SECONDS, line, every=EVERY)
            with Flood(server, SECONDS, **options) if options else nullcontext() as flood:
                busy += light(server, SECONDS, line, every=EVERY)
                told = flood.ended() if flood else told
            slowest = max(slowest, recovery(server))
    ratio = p99(busy) / p99(calm)
    findings.say(
        f"flood, {name}: of {len(calm):,} requests of the light key p99 {p99(calm) * 1e3:.1f} ms, beside it "
        f"{p99(busy) * 1e3:.1f} ms, ratio {ratio:.2f} (median {statistics.median(busy) / statistics.median(calm):.2f}); "
        f"{told[0]:,} answers, {told[1]:,} of them refusals; afterwards {slowest * 1e3:.1f} ms",
        (not options or ratio <= RATIO) and slowest < RECOVERY,
    )


def main():
    # Stopped from outside, it still stops the server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    arguments = sys.argv[1:]
    if "--first" in arguments:
        arguments.remove("--first")
        go_first()
    blocks = int(arguments[0]) if arguments else 5
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    findings = Findings()
    with tempfile.TemporaryDirectory() as name, guarded(Path(name)) as server:
        compare(server, findings, "none", {}, blocks)
        for flood, options in FLOODS.items():
            compare(server, findings, flood, options, blocks)
        beside(server, findings, "heads, 1 byte/s on 500 connections", lambda: slow_heads(server))
        beside(server, findings, "bodies, 1 byte/s on 500 connections", lambda: slow_bodies(server))
        memory = []
        for _ in range(CYCLES):
            beside(server, findings, "idle", lambda: idle(server))
            beside(server, findings, "nonsense", lambda: nonsense(server))
            time.sleep(3)
            memory.append(resident(server.pid) >> 20)
        findings.say(f"memory after each cycle: {memory} MB", memory[-1] - memory[0] <= GROWTH)
    sys.exit(not findings.good)


if __name__ == "__main__":
    main()
