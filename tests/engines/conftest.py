"""The places of tests/sessions, and cassettes of both kinds."""

import pytest
from sessions.conftest import Place, place, postgres_place, sqlite_place  # noqa: F401 - fixtures

from conftest import chosen_way, ways_to_try
from toolyard.sessions.sessions import Sessions


class MemoryPlace:
    """Sessions in memory; every opening gives the same object."""

    kind = "memory"

    def __init__(self):
        self.sessions = Sessions()

    def open_sessions(self):
        return self.sessions

    def close(self):
        self.sessions.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def anywhere(request):
    """`open_sessions()` on each kind of place; a new object on the same sessions each time, where possible."""
    kind = chosen_way(request)
    if kind == "memory":
        found = MemoryPlace()
    else:
        found = request.getfixturevalue(f"{kind}_place")
        found.open_sessions = lambda: Sessions(found.open())
    yield found
    found.close()


@pytest.fixture(params=ways_to_try("tape.jsonl", "tape.yaml"))
def tape(request, tmp_path):
    return tmp_path / chosen_way(request)
