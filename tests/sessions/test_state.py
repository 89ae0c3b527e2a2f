"""`State` and `EngineState` against plain dicts."""

import datetime

import pytest
from hypothesis import given, strategies as st

from toolyard.model.errors import SessionError
from toolyard.sessions.state import EngineState, State, read_changes, write_changes

names = st.sampled_from(["a", "b", "c", "ü", ""])
owners = st.sampled_from(["one", "two"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=5,
)
texts = st.none() | st.binary(min_size=1, max_size=3)
changes = st.dictionaries(st.tuples(owners, st.text(max_size=2)), texts, max_size=6)
many = st.integers(0, 40).map(lambda n: {("one", str(k)): b"%d" % k for k in range(n)})


@given(
    st.lists(st.tuples(st.sampled_from(["apply", "apply", "fork"]), st.integers(0, 20), changes | many), max_size=40)
)
def test_states_of_a_random_family_agree_with_dicts(program):
    family = [(State(), {})]
    for action, pick, change in program:
        state, model = family[pick % len(family)]
        if action == "apply":
            state.apply(change)
            model.update(change)
        else:
            family.append((state.fork(), dict(model)))
    for state, model in family:
        there = {slot: text for slot, text in model.items() if text is not None}
        assert state.slots() == sorted(there)
        assert {slot: state.get(slot) for slot in model} == model
        assert bool(state) == bool(there)
        plain = State()
        plain.apply(there)
        assert state.digest() == plain.digest()


def test_forks_do_not_see_each_others_changes():
    state = State()
    state.apply({("one", "a"): b"1"})
    left, right = state.fork(), state.fork()
    left.apply({("one", "a"): b"2"})
    right.apply({("one", "a"): None})
    assert [s.get(("one", "a")) for s in (state, left, right)] == [b"1", b"2", None]
    assert state.to_dict() == {"one": {"a": 1}}
    assert right.to_dict() == {}
    assert right.digest() == State().digest()


@given(changes)
def test_changes_come_back_from_the_store_as_they_were(change):
    change = {slot: None if text is None else b'"%b"' % text.hex().encode() for slot, text in change.items()}
    assert read_changes(write_changes(change)) == change


def test_a_stored_null_is_not_a_deletion():
    assert read_changes(write_changes({("one", "a"): b"null", ("one", "b"): None})) == {
        ("one", "a"): b"null",
        ("one", "b"): None,
    }
    assert write_changes({}) == b""


@given(
    st.dictionaries(names, values),
    st.lists(st.tuples(st.sampled_from(["set", "get", "del", "len", "list", "mutate"]), names, values), max_size=20),
)
def test_an_engines_state_is_a_dict_whose_changes_are_kept(before, program):
    state = State()
    first = EngineState(state, "one")
    first.update(before)
    state.apply(first.changes())
    state.apply({("two", "a"): b'"not mine"'})
    kept, model = EngineState(state, "one"), dict(before)
    for action, name, value in program:
        if action == "set":
            kept[name] = model[name] = value
        elif action == "get":
            assert kept.get(name, "none") == model.get(name, "none")
        elif action == "del":
            assert kept.pop(name, "none") == model.pop(name, "none")
        elif action == "mutate":
            for one in (kept, model):
                if isinstance(one.get(name), list):
                    one[name] = [*one[name], 1]
        elif action == "len":
            assert len(kept) == len(model)
        else:
            assert list(kept) == sorted(model)
    state.apply(kept.changes())
    assert dict(EngineState(state, "one")) == model
    assert state.to_dict().get("two") == {"a": "not mine"}


def committed(**start):
    state = State()
    engine = EngineState(state, "one")
    engine.update(start)
    state.apply(engine.changes())
    return state


def test_what_is_changed_in_place_is_kept():
    state = committed(a=[1], b={"x": 1})
    engine = EngineState(state, "one")
    engine["a"].append(2)
    engine["b"]["y"] = 2
    assert engine.changes() == {("one", "a"): b"[1,2]", ("one", "b"): b'{"x":1,"y":2}'}


def test_what_is_only_read_is_no_change():
    engine = EngineState(committed(a=[1], b=2), "one")
    assert engine["a"] == [1]
    assert "b" in engine
    assert engine.changes() == {}


def test_what_was_changed_in_place_and_then_deleted_is_deleted():
    engine = EngineState(committed(a=[1]), "one")
    engine["a"].append(2)
    del engine["a"]
    assert "a" not in engine
    assert engine.changes() == {("one", "a"): None}
    with pytest.raises(KeyError):
        del engine["a"]


def test_a_value_put_in_and_changed_afterwards_is_kept_as_it_was_in_the_end():
    engine, value = EngineState(State(), "one"), [1]
    engine["a"] = value
    value.append(2)
    assert engine.changes() == {("one", "a"): b"[1,2]"}


def test_readers_get_copies_of_their_own():
    state = committed(a=[1])
    EngineState(state, "one")["a"].append(2)
    assert EngineState(state, "one")["a"] == [1]


def test_tuples_become_lists():
    engine = EngineState(State(), "one")
    engine["a"] = (1, {"b": (2,)})
    assert engine.changes() == {("one", "a"): b'[1,{"b":[2]}]'}


@pytest.mark.parametrize(
    "value", [float("nan"), [float("inf")], {1: 2}, {"a", "b"}, datetime.date(2026, 1, 1), object(), b"x", "\ud800"]
)
def test_what_json_would_change_is_refused_by_name(value):
    engine = EngineState(State(), "one")
    engine["broken"] = value
    with pytest.raises(SessionError, match="state 'broken' of engine 'one' is not JSON"):
        engine.changes()


def test_what_refers_to_itself_is_refused():
    engine, loop = EngineState(State(), "one"), []
    loop.append(loop)
    engine["broken"] = loop
    with pytest.raises(SessionError, match="not JSON"):
        engine.changes()


def test_names_are_text():
    engine = EngineState(State(), "one")
    with pytest.raises(TypeError, match="names, which are text"):
        engine[1] = 1
