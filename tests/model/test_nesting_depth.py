"""`nests_deeper` counts levels of dicts and lists exactly."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from toolyard.model.tree_size import nests_deeper

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
