import pytest

from toolyard.model.bases import Closing


class Door(Closing):
    def __init__(self):
        self.closed = 0

    def close(self):
        self.closed += 1


async def test_with_and_async_with_both_close_whatever_happens_inside():
    door = Door()
    with door as inside:
        assert inside is door
    async with door as inside:
        assert inside is door
    with pytest.raises(LookupError), door:
        raise LookupError
    assert door.closed == 3


def test_what_cannot_be_closed_cannot_be_made():
    with pytest.raises(TypeError, match="close"):
        type("Wall", (Closing,), {})()
