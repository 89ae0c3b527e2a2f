"""soak_crash.py [ROUNDS]: kill -9 at random moments on a real SQLite file and a real Postgres; exit code 1 on any loss."""

import random
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sessions.postgres_server import running_postgres

from engines.crash_rounds import Rounds


def soak(kind, address, count, folder, seed):
    rounds = Rounds(kind, address, "soak", folder, random.Random(f"{seed} {kind}"))
    lost = ""
    for _ in range(count):
        try:
            rounds.run()
        except AssertionError as error:
            lost = f" LOST: {error}"
            break
    facts = ", ".join(f"{value:,} {name}" for name, value in rounds.summary.items())
    print(f"{kind}: {facts}, {lost or '0 lost'}", flush=True)
    return not lost


def main():
    # Stopped from outside, it still stops the server and the worker.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    seed = sys.argv[2] if len(sys.argv) > 2 else "soak"
    with tempfile.TemporaryDirectory() as folder, running_postgres() as dsn:
        places = {"sqlite": Path(folder) / "sessions.db", "postgres": dsn}
        kept = [soak(kind, address, count, folder, seed) for kind, address in places.items()]
    sys.exit(not all(kept))


if __name__ == "__main__":
    main()
