"""kill -9 at any moment, with another process on the same keys: nothing runs twice, no answer that was told is lost."""

import random
import subprocess
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from sessions import conftest as places
from waiting import until
from warm_python import warm_toolyard

from conftest import SOAK, examples
from serving.idempotency_worker import Requests

pytestmark = pytest.mark.process

place, postgres_place, sqlite_place = places.place, places.postgres_place, places.sqlite_place

WORKER = Path(__file__).with_name("idempotency_worker.py")
ROUNDS = examples(3)
KEYS = 2000
"""More than a round gets through."""


class Killed:
    """One round: two workers on the same new keys, the first of them killed, the second a little later."""

    def __init__(self, where, folder, ledger, number, rng):
        self.said = [folder / f"said{number}.{which}" for which in range(2)]
        span = [str(number * KEYS), str((number + 1) * KEYS)]
        workers = []
        try:
            for said in self.said:
                with said.open("wb") as out:
                    words = [WORKER, *where, ledger, *span]
                    workers.append(warm_toolyard().start(words, stdout=out, stderr=subprocess.PIPE))
            # After some work, not after some time: a busy machine would have done none.
            self.wait_for_answers(workers, [rng.randrange(10, 100), 0])
            time.sleep(rng.uniform(0, 0.02))
            workers[0].kill()
            self.wait_for_answers(workers[1:], [0, self.count_answers(1) + rng.randrange(10, 100)])
            time.sleep(rng.uniform(0, 0.02))
        finally:
            complaints = []
            for worker in workers:
                worker.kill()
                complaints.append(worker.communicate()[1].decode())
        assert complaints == ["", ""]

    def count_answers(self, which):
        return self.said[which].read_bytes().count(b"\n") - 1

    def wait_for_answers(self, workers, wanted):
        """Until each has told of so many; none of the workers may end before."""

        def told():
            dead = [worker for worker in workers if worker.poll() is not None]
            assert not dead, dead[0].stderr.read().decode()
            return all(self.count_answers(which) >= number for which, number in enumerate(wanted))

        until(told)

    def told(self):
        for said in self.said:
            # What has no end of line was cut off by the kill.
            for line in said.read_text().splitlines(keepends=True)[1:]:
                if line.endswith("\n"):
                    number, body = line.split()
                    yield int(number), body


@pytest.mark.parametrize("place", ["sqlite", "postgres"] if SOAK else ["sqlite"], indirect=True)
async def test_a_killed_process_runs_nothing_twice_and_loses_no_answer(place, tmp_path):
    where, ledger = (place.kind, place.address, place.schema or "-"), tmp_path / "ledger"
    rng, told = random.Random(f"once {place.kind}"), defaultdict(set)
    for number in range(ROUNDS):
        for key, body in Killed(where, tmp_path, ledger, number, rng).told():
            told[key].add(body)
    assert all(len(bodies) == 1 for bodies in told.values()), "two answers to one request"
    ran = Counter(map(int, ledger.read_text().split()))
    assert max(ran.values()) == 1, "a request was carried out twice"
    requests = Requests(where, ledger)
    interrupted = 0
    for key in sorted({*ran, *told}):
        answer = await requests.ask(key)
        assert told.get(key, {answer}) == {answer}, "an answer that was told is lost"
        interrupted += answer == "interrupted"
    await requests.once.close()
    requests.store.close()
    assert max(Counter(map(int, ledger.read_text().split())).values()) == 1
    assert len(told) > 100
    # Killed in the middle of a run at least once, or this has shown nothing.
    assert interrupted > 0
