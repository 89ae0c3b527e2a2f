"""soak_nodes.py [ROUNDS]: kill -9 of servers under load, two on one Postgres and two workers on one SQLite file."""

import random
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sessions.postgres_server import running_postgres
from waiting import until

from serving.nodes_support import Nodes, Rounds, kill_worker, workers_of, write_yard


def soak(kind, sessions, count, seed):
    rng = random.Random(f"{seed} {kind}")
    lost = ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_yard(folder, sessions)
        with Nodes(folder, *((1, "--workers", "2") if kind == "workers" else (2,))) as nodes:
            rounds = Rounds(nodes, rng)
            try:
                for number in range(count):
                    rounds.run(lambda number=number: KILLS[kind](nodes, number, rng))
            except AssertionError as error:
                lost = f" LOST: {error}"
    facts = ", ".join(f"{value:,} {name}" for name, value in rounds.summary.items())
    print(f"{kind}: {facts}, {lost or '0 lost'}", flush=True)
    return not lost


def _kill_node(nodes, number, rng):
    nodes.kill(number % 2)
    nodes.start(number % 2)


def _kill_worker(nodes, number, rng):
    server = nodes.running[0]
    victim = kill_worker(server, rng)
    # The parent waits longer each time before it starts another; the one that is left must do meanwhile.
    if number < 3:
        until(lambda: len(workers_of(server.pid)) == 2 and victim not in workers_of(server.pid))
    elif len(workers_of(server.pid)) < 2:
        server.stop()
        nodes.start(0)


KILLS = {"nodes": _kill_node, "workers": _kill_worker}


def main():
    # Stopped from outside, it still stops the servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    seed = sys.argv[2] if len(sys.argv) > 2 else "soak"
    with running_postgres() as dsn:
        kept = [
            soak("nodes", {"store": "postgres", "dsn": dsn, "schema": "soak"}, count, seed),
            soak("workers", {"store": "sqlite", "path": "s.db"}, count, seed),
        ]
    sys.exit(not all(kept))


if __name__ == "__main__":
    main()
