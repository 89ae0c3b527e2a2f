"""soak_abuse.py: abuse in real numbers against one server. Exit code 1 if a limit is missed.

Limits: newcomers are served during all of it, memory is flat from the second cycle on, and within 2 s after the abuse
everything is as before. How fast others are served beside a flood of connections is a proxy's matter, and not measured.
"""

import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from serving.abuse_support import Flood, Line, connections, drip, guarded, light, resident, send_nonsense, was_ended

RECOVERY, GROWTH = 2.0, 16
CYCLES = 3
FLOOD_SECONDS = 5
LARGE = b'{"args":{"text":"' + b"x" * 3_900_000 + b'"}}'
HOSTILE = b'{"args":{"text":[' + b",".join([b"[" * 90 + b"]" * 90] * 22_000) + b"]}}"

FLOODS = {
    "a flood on 64 connections": {"connections": 64},
    "a flood with a key that does not exist": {"connections": 64, "token": "ty_no"},
    "a flood of bodies of 3.9 MB": {"connections": 16, "body": LARGE},
    "a flood of bodies of 2 million lists": {"connections": 16, "body": HOSTILE},
    "a flood of bodies larger than allowed": {"connections": 64, "body": b"x" * 5_000_000},
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
    # As many as the server keeps. Where more come at once than that, a newcomer may be the one that goes.
    with connections(server.address, 4_000):
        time.sleep(3)
    return "4,000 connections, 3 s"


def nonsense(server):
    seen = send_nonsense(server, 4_000)
    assert not any(status >= 500 for status in seen), seen
    return ", ".join(f"{count} x {status or 'no answer'}" for status, count in sorted(seen.items()))


def flood(server, options):
    with Flood(server, FLOOD_SECONDS, **options) as running:
        answers, refusals = running.ended()
    return f"{answers:,} answers, {refusals:,} of them refusals"


def main():
    if shutil.which("wrk") is None:
        sys.exit("wrk is needed to send floods: apt-get install wrk")
    # Stopped from outside, it still stops the server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    findings = Findings()
    with tempfile.TemporaryDirectory() as folder, guarded(Path(folder)) as server:
        for name, options in FLOODS.items():
            beside(server, findings, name, lambda options=options: flood(server, options))
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
