"""The validator that recognises plain data agrees with the walk in Python."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings, strategies as st

from toolyard.parsing.yaml_fast import _is_plain, _normalise

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**308, 10**309, -(10**400), 2**63, -0.0])
    | st.floats()
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=2) | st.integers(0, 3) | st.just("<<") | st.booleans(), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=400, deadline=None, database=None)
@given(st.lists(values, max_size=3), st.integers(1, 4))
def test_what_compiled_code_takes_for_plain_the_walk_in_python_accepts_unchanged(value: list[Any], depth: int) -> None:
    before = copy.deepcopy(value)
    if _is_plain(value, b"", depth):
        assert _normalise(value, b"", depth)
        assert repr(value) == repr(before)


def test_ordinary_data_is_plain_and_the_rest_needs_the_walk() -> None:
    assert _is_plain([{"a": [1, 2.5, None, True, "x"]}], b"", 200)
    assert not _is_plain([{1: "x"}], b"", 200)
    assert not _is_plain([float("inf")], b"", 200)
    assert not _is_plain([[[]]], b"", 2)
    assert not _is_plain([{"a": {"<<": 1}}], b"", 200)
    assert not _is_plain([10**4_400], b"1" * 4_401, 200)
