"""kill -9 at any moment: nothing acknowledged is lost, no fork is broken, no effect goes unmentioned."""

import random

import pytest

from conftest import SOAK, examples
from engines.crash_rounds import Rounds

pytestmark = pytest.mark.process

ROUNDS = min(examples(10), 10)  # soak_crash.py does a hundred


@pytest.mark.parametrize("kind", ["sqlite", "postgres"] if SOAK else ["sqlite"])
def test_a_killed_process_loses_nothing_it_acknowledged(kind, request, tmp_path):
    place = request.getfixturevalue(f"{kind}_place")
    rounds = Rounds(kind, place.address, place.schema or "-", tmp_path, random.Random(f"crash {kind}"))
    for _ in range(ROUNDS):
        rounds.run()
    assert rounds.summary["rounds"] == ROUNDS
    assert rounds.summary["acknowledged"] > 10 * ROUNDS
    assert rounds.summary["forks"] > ROUNDS
    # Killed in the middle of a WRITE call at least once, or this has shown nothing.
    assert rounds.summary["unknown"] > 0
