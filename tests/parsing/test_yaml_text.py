"""Events become plain data, within the rules."""

from __future__ import annotations

import sys

import pytest

from toolyard.model.errors import MalformedSource
from toolyard.parsing.yaml_text import ALIAS_ALLOWANCE, parse_yaml


def load(text: str, max_depth: int = 200) -> object:
    return parse_yaml(text, what="f", max_depth=max_depth)


def test_nesting_is_limited_by_the_caller_and_not_by_the_interpreter() -> None:
    levels = 3 * sys.getrecursionlimit()
    value = load("- " * levels + "x\n", max_depth=levels)
    depth = 0
    while isinstance(value, list):
        (value,) = value
        depth += 1
    assert (depth, value) == (levels, "x")


def test_the_order_of_keys_is_that_of_the_text_and_merged_ones_come_first() -> None:
    value = load("z: 1\na: &x {q: 1, b: 2}\nm:\n  k: 1\n  b: 9\n  <<: [*x, {n: 1, q: 7}]\n  a: 3\n")
    assert isinstance(value, dict)
    assert list(value) == ["z", "a", "m"]
    assert list(value["m"].items()) == [("q", 1), ("b", 9), ("n", 1), ("k", 1), ("a", 3)]


def test_an_anchor_may_be_used_again_for_another_value() -> None:
    assert load("- &a 1\n- *a\n- &a 2\n- *a\n") == [1, 1, 2, 2]


def test_an_anchor_inside_an_anchored_value_is_known_at_once() -> None:
    assert load("&a {b: &b [1], c: *b}\n") == {"b": [1], "c": [1]}


def test_an_anchor_on_a_key_names_the_value_it_would_be_elsewhere() -> None:
    assert load("&a 12: x\nb: *a\n") == {"12": "x", "b": 12}


def test_aliases_of_a_huge_string_are_a_bomb_too() -> None:
    text = "- &a '" + "x" * 1_000_000 + "'\n"
    value = load(text + "- *a\n" * 10)
    assert isinstance(value, list)
    assert len(value) == 11
    with pytest.raises(MalformedSource, match="aliases expand"):
        load(text + "- *a\n" * 1000)


def test_an_alias_too_deep_to_copy_is_refused() -> None:
    levels = 60 * sys.getrecursionlimit()
    with pytest.raises(MalformedSource, match="recursion limit"):
        load("- &a " + "\n  " + "- " * levels + "x\n- *a\n", max_depth=10**9)


def test_the_budget_counts_values_and_not_aliases() -> None:
    per_alias = 1000
    block = f"- &a [{', '.join(['x'] * (per_alias - 1))}]\n"
    within = (ALIAS_ALLOWANCE + len(block)) // per_alias
    value = load(block + "- *a\n" * within)
    assert isinstance(value, list)
    assert len(value) == within + 1
    with pytest.raises(MalformedSource, match="aliases expand"):
        load(block + "- *a\n" * (within + 20))


def test_a_very_long_key_is_cut_short_in_the_error() -> None:
    key = "k" * 900
    with pytest.raises(MalformedSource, match="appears twice") as caught:
        load(f"{key}: 1\n{key}: 2\n")
    assert len(str(caught.value)) < 200
