from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from conftest import examples
from toolyard.links.scripts.pool import PoolSlots


class FakeWorker:
    def __init__(self, key):
        self.key = key


class SeatsMachine(RuleBasedStateMachine):
    """Whatever happens in whatever order: no seat is lost, and there are never more workers than seats."""

    def __init__(self):
        super().__init__()
        self.size = 3
        self.seats = PoolSlots(self.size)
        self.seated = 0
        self.held: list = []

    @rule()
    def enter(self):
        if self.seats.gate.enter_at_once():
            self.seated += 1

    @rule(key=st.sampled_from("abcd"))
    def find(self, key):
        if self.seated:
            self.seated -= 1
            known = [worker for worker in self.seats._idle if worker.key == key]
            found = self.seats.find(key)
            assert found is (known[-1] if known else found)
            self.held.append(found if found is not None and found.key == key else FakeWorker(key))

    @rule(which=st.integers(0, 2), keep=st.booleans())
    def give(self, which, keep):
        if which < len(self.held):
            worker = self.held.pop(which)
            self.seats.give(worker if keep else None)

    @rule()
    def clear(self):
        assert {worker.key for worker in self.seats.clear()} <= set("abcd")

    @invariant()
    def seats_add_up(self):
        assert self.seated + len(self.held) + len(self.seats.gate.free) == self.size
        assert len(self.held) + len(self.seats._idle) <= self.size


SeatsMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestSeats = SeatsMachine.TestCase


def test_a_worker_of_another_script_makes_room_only_where_there_is_none():
    seats = PoolSlots(2)
    for key in "ab":
        assert seats.gate.enter_at_once() and seats.find(key) is None
    one, two = FakeWorker("a"), FakeWorker("b")
    seats.give(one)
    assert seats.gate.enter_at_once() and seats.find("c") is one
    seats.give(None)
    seats.give(two)
    assert seats.gate.enter_at_once() and seats.find("c") is None
