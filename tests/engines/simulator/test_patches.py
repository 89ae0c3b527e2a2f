"""Updates that say step by step what is to be done."""

import pytest
from hypothesis import given, strategies as st

from engines.engine_support import ask
from toolyard import LMToolEngine, RestBinding, Tool, ToolRegistry
from toolyard.engines.simulator.patches import apply_patch, is_patch
from toolyard.model.bindings import RestBody, RestParameter

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
STEPS = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "replace", "remove", "move", "copy", "test"]),
        "path": st.from_regex(r"(/(name|tags|owner|-|[0-3]|~0))*", fullmatch=True),
    },
    optional={"from": st.from_regex(r"(/(name|tags|owner|[0-3]))*", fullmatch=True), "value": JSON},
)


@given(st.lists(STEPS, max_size=6))
def test_whatever_is_asked_for_the_entity_stays_one(patch):
    assert is_patch(patch)
    assert isinstance(apply_patch(KNOWN, patch), dict)


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
