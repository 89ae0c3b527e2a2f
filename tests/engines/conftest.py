"""The places of tests/sessions, and what every test of an engine checks in the end."""

import pytest
from sessions.conftest import Place, place, postgres_place, sqlite_place  # noqa: F401 - fixtures

from toolyard.sessions.sessions import Sessions


class MemoryPlace:
    """Sessions that live in this process alone; one object, however often it is opened."""

    kind = "memory"

    def __init__(self):
        self.sessions = Sessions()

    def open_sessions(self):
        return self.sessions

    def close(self):
        self.sessions.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def anywhere(request):
    """`open_sessions()` on each kind of place; a new object on the same sessions each time, where that can be."""
    if request.param == "memory":
        found = MemoryPlace()
    else:
        found = request.getfixturevalue(f"{request.param}_place")
        found.open_sessions = lambda: Sessions(found.open())
    yield found
    found.close()
