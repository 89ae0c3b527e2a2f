"""JSON values: type names, pointers, levels of nesting, and how large one is once written out."""

import dataclasses
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field

from toolyard.model.json_schema import LEAVES, is_small, is_within_limits, json_type, nests_deeper, pointer_of
from toolyard.schema.subschemas import resolve_pointer

leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=2)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=4)
        # The same thing more than once.
        | inner.map(lambda item: [item, item])
        | inner.map(lambda item: {"a": item, "b": [item]})
    ),
    max_leaves=20,
)


def measured(value):
    """Values and levels of containers, by walking all of it."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        return 1, 0
    inside = [measured(child) for child in value]
    return 1 + sum(count for count, _ in inside), 1 + max((levels for _, levels in inside), default=0)


def containers(value):
    """Every dict and list in it, as often as it is referred to; None for what is neither, nor a leaf."""
    if not isinstance(value, dict | list):
        return [] if type(value) in LEAVES else [None]
    inside = value.values() if isinstance(value, dict) else value
    return [value, *[found for child in inside for found in containers(child)]]


@given(values | st.lists(st.lists(leaves, max_size=20), min_size=60, max_size=66))
def test_is_small_accepts_values_with_few_containers(value):
    found = containers(value)
    assert is_small(value) == (len(found) <= 64 and None not in found)


def test_values_that_contain_themselves_or_very_many_values_are_not_small():
    endless = []
    endless.append(endless)
    assert not is_small(endless)
    assert is_small([0] * 3_999)
    assert not is_small({"a": [0] * 4_000})


@given(values)
def test_the_counted_size_equals_that_of_a_full_walk(value):
    count, levels = measured(value)
    assert is_within_limits(value, max_values=count, max_depth=max(levels, 1))
    if count > 1:
        assert not is_within_limits(value, max_values=count - 1, max_depth=levels)
    if levels > 1:
        assert not is_within_limits(value, max_values=count, max_depth=levels - 1)


def doubled(value, levels=200):
    for _ in range(levels):
        value = [value, value]
    return value


@dataclasses.dataclass
class Pair:
    left: object
    right: object


@dataclasses.dataclass(slots=True)
class Slotted:
    left: object
    right: object


class Struct(msgspec.Struct):
    left: object
    right: object


class Model(BaseModel):
    left: object
    right: object


@pytest.mark.parametrize(
    "make", [Pair, Slotted, Struct, lambda a, b: Model(left=a, right=b), lambda a, b: {1: a, 2: b}]
)
def test_heavily_shared_objects_are_measured_quickly(make):
    value = "x"
    for _ in range(200):
        value = make(value, value)
    assert not is_within_limits(value, max_values=10**7, max_depth=500)


def test_heavily_shared_values_are_measured_without_following_every_reference():
    assert not is_within_limits(doubled(1), max_values=10**7, max_depth=500)
    assert is_within_limits(doubled(1, 20), max_values=2**22, max_depth=500)
    assert not is_within_limits(doubled([1], 20), max_values=2**21, max_depth=500)


def test_a_value_that_contains_itself_is_not_within_limits():
    circle = [1]
    circle.append({"again": (circle,)})
    assert not is_within_limits(circle, max_values=10**9, max_depth=10**9)
    box = Pair(1, [])
    box.right.append(box)
    assert not is_within_limits(box, max_values=10**9, max_depth=10**9)


def test_a_value_that_occurs_twice_is_within_limits():
    shared = [[1]]
    assert is_within_limits([shared, shared, {"a": shared}], max_values=100, max_depth=10)


def test_fields_that_are_not_written_do_not_count():
    class Child(BaseModel):
        name: str
        parent: object = Field(default=None, exclude=True)

    child = Child(name="a")
    child.parent = [child]
    assert is_within_limits(child, max_values=10, max_depth=5)


def test_a_deep_value_needs_no_recursion():
    value = []
    for _ in range(20_000):
        value = [value]
    assert not is_within_limits(value, max_values=10**9, max_depth=500)
    assert is_within_limits(value, max_values=10**9, max_depth=10**9)


@pytest.mark.parametrize("value", [None, 1, "x", 2.5, object(), b"x", len])
def test_empty_containers_are_within_limits(value):
    assert is_within_limits(value, max_values=1, max_depth=1)


def test_is_small_accepts_exact_types_only():
    class Word(str):
        pass

    assert is_small({"a": [1, 2.5, "x", None, True]})
    assert not is_small({"a": [Word("x")]})
    assert not is_small({"a": Word("x")})


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)),
    max_leaves=25,
)


def levels(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(levels, value.values()), default=0)
    return 1 + max(map(levels, value), default=0) if isinstance(value, list) else 0


@given(VALUES)
def test_it_agrees_with_counting(value: Any) -> None:
    for limit in range(7):
        assert nests_deeper(value, limit) is (levels(value) > limit)


def test_containers_without_containers_count_too() -> None:
    assert nests_deeper({"a": {"b": {}}}, 2)
    assert not nests_deeper({"a": {"b": {}}}, 3)
    assert nests_deeper([[{}]], 2)


@given(st.lists(st.text(max_size=4), max_size=4))
def test_a_pointer_leads_back_to_its_path(path):
    root: dict = {}
    node = root
    for part in path:
        node[part] = {}
        node = node[part]
    node["end"] = "here"
    found = resolve_pointer(root, "#" + pointer_of([*path, "end"]).replace("%", "%25"))
    assert found == "here"


def test_every_json_value_has_a_type_name():
    values = [None, True, 1, 1.5, "x", [], {}]
    assert [json_type(v) for v in values] == ["null", "boolean", "integer", "number", "string", "array", "object"]
    assert json_type({1}) == "set"
