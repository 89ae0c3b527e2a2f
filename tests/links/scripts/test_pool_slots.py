from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from conftest import examples
from toolyard.links.scripts.pool import PoolSlots


class FakeWorker:
    def __init__(self, key):
        self.key = key


class SlotsMachine(RuleBasedStateMachine):
    """Whatever happens in whatever order: no slot is lost, and there are never more workers than slots."""

    def __init__(self):
        super().__init__()
        self.size = 3
        self.slots = PoolSlots(self.size)
        self.entered = 0
        self.held: list = []

    @rule()
    def enter(self):
        if self.slots.gate.enter_at_once():
            self.entered += 1

    @rule(key=st.sampled_from("abcd"))
    def find(self, key):
        if self.entered:
            self.entered -= 1
            known = [worker for worker in self.slots._idle if worker.key == key]
            found = self.slots.find(key)
            assert found is (known[-1] if known else found)
            self.held.append(found if found is not None and found.key == key else FakeWorker(key))

    @rule(which=st.integers(0, 2), keep=st.booleans())
    def release(self, which, keep):
        if which < len(self.held):
            worker = self.held.pop(which)
            self.slots.release(worker if keep else None)

    @rule()
    def clear(self):
        assert {worker.key for worker in self.slots.remove_idle()} <= set("abcd")

    @invariant()
    def slots_add_up(self):
        assert self.entered + len(self.held) + len(self.slots.gate.free) == self.size
        assert len(self.held) + len(self.slots._idle) <= self.size


SlotsMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestSlots = SlotsMachine.TestCase


def test_a_worker_of_another_script_makes_room_only_where_there_is_none():
    slots = PoolSlots(2)
    for key in "ab":
        assert slots.gate.enter_at_once() and slots.find(key) is None
    one, two = FakeWorker("a"), FakeWorker("b")
    slots.release(one)
    assert slots.gate.enter_at_once() and slots.find("c") is one
    slots.release(None)
    slots.release(two)
    assert slots.gate.enter_at_once() and slots.find("c") is None
