import pytest

from client.fake_wire import FakeWire


@pytest.fixture
def fake():
    with FakeWire() as server:
        yield server
