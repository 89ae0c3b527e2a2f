from concurrent.futures import Future

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from conftest import examples
from toolyard.links.scripts.pool import PoolSlot, PoolSlots


class FakeWorker:
    def __init__(self, key):
        self.key = key


class SeatsMachine(RuleBasedStateMachine):
    """Whatever happens in whatever order: no seat is lost or doubled, and who waits is served in order."""

    def __init__(self):
        super().__init__()
        self.size = 3
        self.seats = PoolSlots(self.size)
        self.held: list = []
        self.waiting: list = []

    def _sit(self, key, seat):
        if seat.worker is not None:
            assert seat.worker.key == key
            worker = seat.worker
        else:
            worker = FakeWorker(key)
        self.held.append(worker)

    def _serve(self):
        served = [n for n, (_, promise) in enumerate(self.waiting) if promise.done()]
        assert served == list(range(len(served)))
        for _ in served:
            key, promise = self.waiting.pop(0)
            self._sit(key, promise.result())

    @rule(key=st.sampled_from("abcd"))
    def take(self, key):
        seat = self.seats.take(key)
        if isinstance(seat, Future):
            self.waiting.append((key, seat))
        else:
            assert not self.waiting
            self._sit(key, PoolSlot(worker=seat) if isinstance(seat, FakeWorker) else seat)

    @rule(which=st.integers(0, 2), keep=st.booleans())
    def give(self, which, keep):
        if which < len(self.held):
            worker = self.held.pop(which)
            self.seats.give(worker if keep else None)
            self._serve()

    @rule(which=st.integers(0, 5))
    def abandon(self, which):
        if which < len(self.waiting):
            _, promise = self.waiting.pop(which)
            self.seats.abandon(promise)
            self._serve()

    @invariant()
    def seats_add_up(self):
        assert len(self.held) + len(self.seats._idle) + self.seats._free == self.size
        assert not self.waiting or len(self.held) == self.size


SeatsMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestSeats = SeatsMachine.TestCase


def test_a_seat_given_just_as_its_taker_leaves_goes_to_the_next():
    seats = PoolSlots(1)
    seats.take("a")
    first, second = seats.take("a"), seats.take("a")
    seats.give(None)
    assert first.done()
    seats.abandon(first)
    assert second.done()


def test_clearing_sends_those_who_wait_away():
    seats = PoolSlots(1)
    seats.take("a")
    waiting = seats.take("b")
    assert seats.clear() == []
    assert waiting.cancelled()
