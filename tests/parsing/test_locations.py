"""`locate` finds the line of a value from its JSON pointer."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given, strategies as st

from toolyard.parsing import locate

JSON = """{
  "a": [1,
    {"b": "x"}, 3],
  "c/d": {"~": true,
          "": null},
  "e": "{[,"
}"""

YAML = """# top
a:
- 1
- b: x
  ? c
  : - y
c/d: {"~": true,
  "": ~}
200: ok
e: &anchor
  f: |
    text
g: *anchor
? [complex]
: 1
h: end
"""


@pytest.mark.parametrize(
    ("pointer", "line"),
    [
        ("", 1), ("/a", 2), ("/a/0", 2), ("/a/1", 3), ("/a/1/b", 3), ("/a/2", 3), ("/c~1d", 4), ("/c~1d/~0", 4), ("/c~1d/", 5), ("/e", 6),
        ("/x", None), ("/a/3", None), ("/a/01", None), ("/a/-1", None), ("/a/0/b", None), ("/e/0", None), ("a", None), ("/a/1/b/c", None),
    ],
)  # fmt: skip
def test_the_line_of_a_value_in_json(pointer: str, line: int | None) -> None:
    assert locate(JSON, pointer, yaml=False) == line
    assert locate(b"\xef\xbb\xbf" + JSON.replace("\n", "\r\n").encode(), pointer, yaml=False) == line


@pytest.mark.parametrize(
    ("pointer", "line"),
    [
        ("", 2), ("/a", 3), ("/a/0", 3), ("/a/1", 4), ("/a/1/b", 4), ("/a/1/c", 6), ("/a/1/c/0", 6), ("/c~1d", 7), ("/c~1d/~0", 7), ("/c~1d/", 8),
        ("/200", 9), ("/e", 10), ("/e/f", 11), ("/g", 13), ("/g/f", None), ("/h", 16), ("/x", None), ("/a/2", None), ("a", None), ("/h/0", None),
    ],
)  # fmt: skip
def test_the_line_of_a_value_in_yaml(pointer: str, line: int | None) -> None:
    assert locate(YAML, pointer, yaml=True) == line
    assert locate(b"\xef\xbb\xbf" + YAML.replace("\n", "\r\n").encode(), pointer, yaml=True) == line


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ("", "/a"),
        ("{", "/a"),
        ('{"a"', "/a"),
        ('{"a":', "/a"),
        ("[1,", "/1"),
        ('{"a" 1', "/b"),
        ("]", "/0"),
        ("[" * 100_000, "/1"),
        ('["\\', "/1"),
    ],
)
def test_a_broken_text_has_no_lines_beyond_the_break(text: str, pointer: str) -> None:
    assert locate(text, pointer, yaml=False) is None


@pytest.mark.parametrize("text", ["{", "[1,", "'", "a: b: c", "\t- a", "[" * 300, "\x01", "*a"])
def test_a_broken_yaml_text_has_no_lines_beyond_the_break(text: str) -> None:
    assert locate(text, "/9", yaml=True) is None
    assert locate(text.encode() + b"\xff", "/9", yaml=True) is None


def test_characters_that_end_no_line_are_not_counted_as_lines() -> None:
    text = 'a\u2028b: x\x85y\n"\\ud83d\\ude00": 1\n'
    assert locate(text, "/a\u2028b", yaml=True) == 1
    assert locate(text, "/😀", yaml=True) == 2
    assert locate('{"a": "\u2028",\n "b": 1}', "/b", yaml=False) == 2


def test_values_before_a_syntax_error_are_located() -> None:
    assert locate('{"a": 1,\n"b": 2, "c": oops', "/b", yaml=False) == 2
    assert locate('{"a": 1,\n"b": {"c": oops', "/b", yaml=False) == 2
    assert locate("a: 1\nb: 2\nc: [", "/b", yaml=True) == 2


VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=10,
)


def pointers(value: Any, pointer: str = "") -> list[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [pointers(child, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}") for key, child in items]
    return [pointer, *(found for part in below for found in part)]


@given(VALUES)
def test_every_value_of_a_document_is_found_in_order(value: Any) -> None:
    for text, is_yaml in ((json.dumps(value, indent=1), False), (pyyaml.safe_dump(value, sort_keys=False), True)):
        lines = [locate(text, pointer, yaml=is_yaml) for pointer in pointers(value)]
        assert lines == sorted(line for line in lines if line is not None)
