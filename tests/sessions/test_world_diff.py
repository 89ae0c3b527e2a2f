"""Where two worlds differ: every difference is named by its path, and nothing else is."""

import copy

import msgspec
import pytest
from hypothesis import given, strategies as st

from toolyard.schema.subschemas import resolve_pointer
from toolyard.sessions.state import SETUP, State
from toolyard.sessions.world_diff import (
    MAX_BYTES,
    MAX_CHANGES,
    MAX_VALUE_BYTES,
    WorldChange,
    diff_states,
    diff_worlds,
    hash_world,
)

names = st.sampled_from(["a", "b", "a/b", "~", ""])
leaves = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([1.0, 0.5, -0.0]), names)
values = st.recursive(
    leaves, lambda inside: st.lists(inside, max_size=4) | st.dictionaries(names, inside, max_size=3), max_leaves=12
)
worlds = st.dictionaries(st.sampled_from(["lm", "rest"]), st.dictionaries(names, values, max_size=3), max_size=2)


def state_of(world, setup=None):
    state = State()
    state.apply({(engine, name): msgspec.json.encode(v) for engine, kept in world.items() for name, v in kept.items()})
    if setup is not None:
        state.apply({(SETUP, "given"): msgspec.json.encode(setup)})
    return state


def at(world, path):
    return resolve_pointer(world, f"#{path}")


@given(worlds, worlds)
def test_each_change_is_at_its_path_and_equal_worlds_have_none(before, after):
    diff = diff_worlds(before, after)
    for change in diff.changes:
        if change.kind != "added":
            assert at(before, change.path) == change.before
        if change.kind != "removed":
            assert at(after, change.path) == change.after
    equal = hash_world(state_of(before)) == hash_world(state_of(after))
    assert diff.equal == equal
    assert diff_states(state_of(before, setup=1), state_of(after, setup=2)) == diff


@given(st.dictionaries(names, st.dictionaries(names, leaves)), st.dictionaries(names, st.dictionaries(names, leaves)))
def test_the_changes_lead_from_one_world_to_the_other(before, after):
    before, after = {"lm": before}, {"lm": after}
    world = copy.deepcopy(before)
    for change in diff_worlds(before, after).changes:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in change.path.split("/")[1:]]
        inside = world
        for part in parts[:-1]:
            inside = inside[part]
        if change.kind == "removed":
            del inside[parts[-1]]
        else:
            inside[parts[-1]] = change.after
    assert diff_worlds(world, after).equal


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (
            {"order": {"status": "paid"}},
            {"order": {"status": "refunded"}},
            ['~ /lm/order/status: "paid" -> "refunded"'],
        ),
        ({}, {"order": {"id": 1}}, ['+ /lm/order: {"id":1}']),
        ({"order": None}, {}, ["- /lm/order: null"]),
        ({"n": [1, 2, 3]}, {"n": [1, 9, 2, 3]}, ["+ /lm/n/1: 9"]),
        ({"n": [1, 2, 3]}, {"n": [1, 3]}, ["- /lm/n/1: 2"]),
        ({"n": [{"a": 1}, 2]}, {"n": [{"a": 2}, 2]}, ["~ /lm/n/0/a: 1 -> 2"]),
        ({"n": 1}, {"n": True}, ["~ /lm/n: 1 -> true"]),
        ({"n": 1, "m": 2}, {"m": 2.0, "n": 1.0}, []),
        ({"n": []}, {"n": {}}, ["~ /lm/n: [] -> {}"]),
    ],
)
def test_changes_read_as_lines(before, after, changes):
    assert [change.describe() for change in diff_worlds({"lm": before}, {"lm": after}).changes] == changes


def test_many_changes_are_counted_where_they_are_not_listed():
    before, after = {"lm": {}}, {"lm": {str(number): number for number in range(MAX_CHANGES + 7)}}
    diff = diff_worlds(before, after)
    assert (len(diff.changes), diff.left_out, diff.equal) == (MAX_CHANGES, 7, False)
    assert diff_worlds(before, after, max_changes=0).left_out == MAX_CHANGES + 7
    long = diff_worlds({}, {"lm": {letter * 600_000: 1 for letter in "abc"}})
    assert (len(long.changes), long.left_out) == (1, 2)
    assert len(msgspec.json.encode(long)) < MAX_BYTES


def test_a_large_value_is_shown_by_its_beginning_and_said_to_be():
    [change] = diff_worlds({"lm": {"note": "short"}}, {"lm": {"note": "ü" * MAX_VALUE_BYTES}}).changes
    assert change.shortened == ("after",) and change.before == "short"
    assert change.after.startswith('"üü') and len(change.after.encode()) <= MAX_VALUE_BYTES
    assert change.describe().endswith("ü...")


def test_values_may_nest_as_deep_as_json_does():
    deep = msgspec.json.decode(b'{"a":' * 400 + b"[1]" + b"}" * 400)
    other = msgspec.json.decode(b'{"a":' * 400 + b"[2]" + b"}" * 400)
    assert diff_worlds({"lm": {"n": deep}}, {"lm": {"n": other}}).changes == [
        WorldChange("/lm/n" + "/a" * 400 + "/0", "changed", 1, 2)
    ]
    assert hash_world(state_of({"lm": {"n": deep}})) != hash_world(state_of({"lm": {"n": other}}))


def test_a_change_is_one_line_whatever_its_names_hold():
    [change] = diff_worlds({"e": {}}, {"e": {"a\nb\u2028c": "d\ne"}}).changes
    assert change.describe() == '+ /e/a b c: "d\\ne"'
