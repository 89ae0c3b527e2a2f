"""Flow collections that both parsers read alike, and those that only the exact one may read."""

from __future__ import annotations

import pytest
from yaml_twins import twins

from toolyard.parsing.yaml_flow import list_may_differ, mapping_may_differ


def may_differ(text: str) -> bool:
    return list_may_differ(text.encode()) or mapping_may_differ(text.encode())


@pytest.mark.parametrize(
    "value",
    [
        "[]", "{}", "[a]", "[a, b]", "[ a , b ]", "[a, b,]", '["a, b", \'c: d\']', "[1, -2, 3.5, -x]", "[http://x.y/z, a:b]", "[[1, 2], [3]]",
        "{a: b}", "{a: b, c: d}", '{"a":1,"b":[2,{"c":3}]}', "{a: {b: {c: []}}}", '{"$ref": "#/x"}', "[a b, c d]", "[$x, (y), é, x=y]",
        "[a,\n  b,\n  c]", "{\n  a: b,\n  c: d\n}", "[\n  {a: b},\n\n  {c: d}\n  ]", "['it''s']", '["\\"", "\\\\"]',
    ],
)  # fmt: skip
def test_the_common_forms_stay_on_the_fast_path(value: str) -> None:
    value = value.replace("\n", "\n      ")
    for text in (f"k: {value}\n", f"- {value}\n", f"- - {value}\n", f"k:\n  {value}\n"):
        assert not may_differ(text)
        assert twins(text) == "same"


@pytest.mark.parametrize(
    "value",
    [
        "[a\n  b]", "{a\n  : b}", "{a\n  b: c}", '{"a\n  b": c}', '{"a":\n  b}', "[a?]", "[?a]", "[? a : b]", "{a:}", "{a: }", "{a: , b: c}", "[:x]",
        "{a: :x}", "[|]", "[a, >x]", "[a #c\n  ]", "[a,\t b]", "[a, it's]", "[a, *b]", "[&a b]", "[!t a]", "[%a]", "[@a]", "[-]", "[- a]", "[a", "{a: b",
        "[a: b, c: :d]", '["a"b]', "{a: b}c: d}", "[a: {b\n: c}]",
    ],
)  # fmt: skip
def test_the_others_are_left_to_the_exact_parser(value: str) -> None:
    for text in (f"k: {value}\n", f"- {value}\n", f"k:\n  {value}\n"):
        assert may_differ(text) or twins(text) in ("same", "undecided")
        assert twins(text) in ("same", "undecided")


def test_brackets_inside_text_are_none_of_its_business() -> None:
    assert not may_differ("a: see [x\nb: f(x)[0\nc: text {y\n")


def test_text_that_begins_like_a_collection_counts_as_one() -> None:
    assert may_differ("a: |\n  [x\n")
    assert not may_differ("a: |\n  [link](http://x.y) and so on\n")


def test_a_flood_of_brackets_is_given_up() -> None:
    assert may_differ("- [a,\n" * 2_000)
