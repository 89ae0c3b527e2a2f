"""What a session has made: found by any name, and kept in pieces, so that one more costs as much as the first."""

import json

from hypothesis import given, strategies as st

from toolyard.engines.simulator.entities import EntityStore, merge_fields


class Kept(dict):
    """A state that keeps JSON and counts what is written."""

    written = 0

    def __setitem__(self, name, value):
        text = json.dumps(value)
        self.written += len(text)
        super().__setitem__(name, text)

    def get(self, name, default=None):
        return json.loads(self[name]) if name in self else default


STEPS = st.lists(
    st.tuples(st.sampled_from(("add", "write", "remove", "find", "gone")), st.integers(0, 60), st.integers(0, 5)),
    max_size=120,
)


@given(STEPS)
def test_things_are_as_they_were_left_in_whatever_order_they_come_and_go(steps):
    state, live, gone = Kept(), {}, []
    for step, pick, name in steps:
        things = EntityStore(state, "pets")
        number = sorted(live)[pick % len(live)] if live else None
        if step == "add":
            live[things.add({"name": f"n{name}"}, {"tag": f"t{name}"})] = {"n": f"n{name}", "t": f"t{name}"}
        elif step == "write" and number is not None:
            things.write(number, {"name": f"n{name}"})
            live[number]["n"] = f"n{name}"
        elif step == "remove" and number is not None:
            things.remove(number)
            gone.append(live.pop(number))
        fresh = EntityStore(state, "pets")
        named = [number for number, known in live.items() if known["n"] == f"n{name}"]
        tagged = [number for number, known in live.items() if known["t"] == f"t{name}"]
        assert fresh.find(f"n{name}", ("name",)) == max(named, default=None)
        assert fresh.find(f"t{name}", ("name", "tag")) == max(tagged, default=None)
        assert fresh.is_gone(f"n{name}", ("name",)) == any(known["n"] == f"n{name}" for known in gone)
        assert (fresh.numbers(), len(fresh)) == (sorted(live), len(live))
        assert all(fresh.read(number)["name"] == known["n"] for number, known in live.items())


def test_one_more_thing_writes_as_much_as_the_first_hundred_did_each():
    state = Kept()

    def added(count):
        before = state.written
        for _ in range(count):
            EntityStore(state, "pets").add({"id": "x" * 20}, {})
        return (state.written - before) / count

    first = added(100)
    added(1000)
    assert added(100) < 1.2 * first


def test_kinds_do_not_mix():
    state = Kept()
    EntityStore(state, "pets").add({"id": "a"}, {})
    assert EntityStore(state, "owners").find("a", ("id",)) is None
    assert EntityStore(state, "owners").numbers() == []


def test_what_is_new_takes_the_place_of_what_is_known_in_any_spelling():
    known = {"friendlyName": "One", "size": 1, "address": {"City": "Ulm", "zip": "1"}}
    new = {"FriendlyName": "Two", "address": {"city": "Bonn"}}
    assert merge_fields(known, new) == {"size": 1, "FriendlyName": "Two", "address": {"zip": "1", "city": "Bonn"}}
    assert merge_fields(known, new, deep=False)["address"] == {"city": "Bonn"}
