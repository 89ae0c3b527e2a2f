"""What a session has made: found by any name, and kept in pieces, so that one more costs as much as the first."""

import json

import pytest
from hypothesis import given, strategies as st

from engines.engine_support import ask
from toolyard import LMToolEngine, RestBinding, Tool, ToolRegistry
from toolyard.engines.simulator.entities import EntityStore, merge_fields
from toolyard.engines.simulator.simulator import apply_patch, is_patch
from toolyard.model.bindings import RestBody, RestParameter
from toolyard.model.errors import ToolFailed


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


KNOWN = {"name": "a", "tags": ["x", "y"], "owner": {"fullName": "Ada"}, "a/b": 1}


@pytest.mark.parametrize(
    ("step", "changed"),
    [
        ({"op": "replace", "path": "/name", "value": "b"}, {"name": "b"}),
        ({"op": "replace", "path": "/owner/full_name", "value": "Eve"}, {"owner": {"fullName": "Eve"}}),
        ({"op": "add", "path": "/size", "value": 3}, {"size": 3}),
        ({"op": "add", "path": "/tags/-", "value": "z"}, {"tags": ["x", "y", "z"]}),
        ({"op": "add", "path": "/tags/0", "value": "z"}, {"tags": ["z", "x", "y"]}),
        ({"op": "replace", "path": "/tags/1", "value": "z"}, {"tags": ["x", "z"]}),
        ({"op": "remove", "path": "/tags/0"}, {"tags": ["y"]}),
        ({"op": "copy", "from": "/name", "path": "/owner/nick"}, {"owner": {"fullName": "Ada", "nick": "a"}}),
        ({"op": "replace", "path": "/a~1b", "value": 2}, {"a/b": 2}),
        ({"op": "test", "path": "/name", "value": "q"}, {}),
        ({"op": "replace", "path": "/nowhere/at/all", "value": 1}, {}),
        ({"op": "remove", "path": "/tags/9"}, {}),
        ({"op": "replace", "path": "", "value": "no object"}, {}),
    ],
)
def test_each_step_does_what_it_says(step, changed):
    before = dict(KNOWN)
    assert apply_patch(KNOWN, [step]) == {**KNOWN, **changed}
    assert before == KNOWN


def test_what_is_moved_is_gone_where_it_was():
    assert apply_patch({"a": 1, "b": {}}, [{"op": "move", "from": "/a", "path": "/b/c"}]) == {"b": {"c": 1}}


JSON = st.recursive(st.none() | st.integers() | st.text("ab/~", max_size=3), lambda inner: st.lists(inner, max_size=3))
PATCH_STEPS = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "replace", "remove", "move", "copy", "test"]),
        "path": st.from_regex(r"(/(name|tags|owner|-|[0-3]|~0))*", fullmatch=True),
    },
    optional={"from": st.from_regex(r"(/(name|tags|owner|[0-3]))*", fullmatch=True), "value": JSON},
)


@given(st.lists(PATCH_STEPS, max_size=6))
def test_whatever_is_asked_for_the_entity_stays_one(patch):
    assert is_patch(patch)
    assert isinstance(apply_patch(KNOWN, patch), dict)


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "copy", "from": "", "path": f"/a{at}"} for at in range(60)],
        [{"op": "copy", "from": "/tags", "path": "/tags/-"} for _ in range(60)],
        [{"op": "add", "path": "/b", "value": "b" * 10_000}]
        + [{"op": "copy", "from": "/b", "path": f"/b{at}"} for at in range(900)],
        [{"op": "add", "path": f"/{at}", "value": 1} for at in range(2000)],
    ],
    ids=["the whole in itself", "a list in itself", "a long text often", "too many steps"],
)
def test_a_patch_that_grows_without_end_is_refused(patch):
    with pytest.raises(ToolFailed, match="the patch (copies|has) more than"):
        apply_patch(KNOWN, patch)


def test_patches_that_copy_do_not_grow_an_entity_from_call_to_call():
    known, patch = {"b": "b" * 500_000}, [{"op": "copy", "from": "/b", "path": "/c"}]
    known = apply_patch(known, patch)
    with pytest.raises(ToolFailed, match="copies until"):
        apply_patch(known, [{"op": "copy", "from": "/b", "path": "/d"}])


def test_a_patch_changes_what_later_calls_show():
    text, whole = {"type": "string"}, {"type": "integer"}
    flag = {"type": "object", "properties": {"id": whole, "name": text}}
    key = RestParameter(argument="flag_id", name="flag_id", location="path")
    one = {"type": "object", "properties": {"flag_id": whole, "body": {"type": "array", "items": {"type": "object"}}}}
    body = RestBody(media_type="application/json", properties={"name": "name"})
    patch = RestBody(media_type="application/json-patch+json", argument="body")
    engine = LMToolEngine(
        ToolRegistry(
            [
                Tool(
                    "create",
                    "n",
                    parameters=flag,
                    output_parameters=flag,
                    binding=RestBinding("POST", "/flags", "", (), body),
                ),
                Tool(
                    "get",
                    "n",
                    parameters=one,
                    output_parameters=flag,
                    binding=RestBinding("GET", "/flags/{flag_id}", "", (key,)),
                ),
                Tool(
                    "patch",
                    "n",
                    parameters=one,
                    output_parameters=flag,
                    binding=RestBinding("PATCH", "/flags/{flag_id}", "", (key,), patch),
                ),
            ]
        )
    )
    engine.setup("s")
    made = ask(engine, "create", name="old")
    ask(engine, "patch", flag_id=made["id"], body=[{"op": "replace", "path": "/name", "value": "new"}])
    assert ask(engine, "get", flag_id=made["id"]) == {**made, "name": "new"}
