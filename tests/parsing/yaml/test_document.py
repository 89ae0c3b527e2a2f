"""`parse_yaml` reads YAML 1.2 as plain JSON data."""

from __future__ import annotations

import gc
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_yaml
from toolyard.parsing.files import LARGE


def parse(text: str) -> Any:
    return parse_yaml(text, what="f.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: [x, 2.5, true, ~]\n", {"a": 1, "b": ["x", 2.5, True, None]}),
        ("a: 2024-01-02\nb: yes\nc: on\nd: No\n", {"a": "2024-01-02", "b": "yes", "c": "on", "d": "No"}),
        ("- 010\n- 0o17\n- 0x1F\n- 1_000\n- 1e3\n- ~\n-\n", [10, 15, 31, "1_000", 1000.0, None, None]),
        ("- '010'\n- \"true\"\n- |\n  1\n", ["010", "true", "1\n"]),
        ("200: ok\non: x\n1.5: y\ntrue: z\n~: n\n0x1F: h\n", {"200": "ok", "on": "x", "1.5": "y", "true": "z", "~": "n", "0x1F": "h"}),
        ("responses:\n  200:\n    description: OK\n  404: {}\n", {"responses": {"200": {"description": "OK"}, "404": {}}}),
        (".inf: a\n", {".inf": "a"}),
        ("? a\n: b\n? c\n", {"a": "b", "c": None}),
        ("a: !!str 12\nb: !!int '12'\nc: !!float 3\nd: !!seq [1]\ne: !!map {x: !!null ~}\nf: ! 7\n",
         {"a": "12", "b": 12, "c": 3.0, "d": [1], "e": {"x": None}, "f": "7"}),
        ("---\na: 1\n...\n", {"a": 1}),
        ("# c\n---\n- 1\n", [1]),
        ("%YAML 1.2\n---\na: 1\n", {"a": 1}),
        ("a: >-\n  folded\n  text\n\n  end\nb: |+\n  kept\n\nc: \"x\\\n  y \\u00e9 \\ud83d\\ude00\"\n",
         {"a": "folded text\nend", "b": "kept\n\n", "c": "xy é 😀"}),
        ("a: x\u2028y\x85z\nb: \"\u2029\"\n", {"a": "x\u2028y\x85z", "b": "\u2029"}),
        ("a: '\\ud83d\\ude00'\n", {"a": "\\ud83d\\ude00"}),
        ("a: {\"b\":1,'c': [],d: }\n", {"a": {"b": 1, "c": [], "d": None}}),
        ("a\tb: c\td\n", {"a\tb": "c\td"}),
        ("12", 12),
        ("text", "text"),
        ("", None),
        ("# only a comment\n", None),
    ],
)  # fmt: skip
def test_core_schema(text: str, value: object) -> None:
    parsed = parse(text)
    assert parsed == value
    assert repr(parsed) == repr(value)


def test_line_ends_and_marks_of_other_systems_change_nothing() -> None:
    text = "a: |\n  x\n  y\nb:\n- 'p\n\n  q'\n"
    expected = {"a": "x\ny\n", "b": ["p\nq"]}
    for variant in (text, text.replace("\n", "\r\n"), text.replace("\n", "\r"), "\ufeff" + text):
        assert parse(variant) == expected


def test_bytes_and_text_are_the_same() -> None:
    text = "a: é😀\n"
    assert parse_yaml(text) == parse_yaml(text.encode()) == parse_yaml(b"\xef\xbb\xbf" + text.encode()) == {"a": "é😀"}


def test_a_missing_line_feed_at_the_end_is_supplied() -> None:
    assert parse_yaml("a: |\n  x") == parse_yaml("a: |\n  x\n") == {"a": "x\n"}
    assert parse_yaml("a: |-\n  x") == {"a": "x"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x: &d {a: 1, b: 2}\ny:\n  <<: *d\n  b: 3\n", {"a": 1, "b": 3}),
        ("x: &d {a: 1, b: 2}\ny:\n  b: 3\n  <<: *d\n", {"a": 1, "b": 3}),
        ("x: [&p {a: 1}, &q {a: 2, c: 3}]\ny:\n  <<: [*p, *q]\n", {"a": 1, "c": 3}),
        ("y:\n  <<: {a: 1}\n  c: 2\n", {"a": 1, "c": 2}),
        ("y:\n  <<: []\n  c: 2\n", {"c": 2}),
        ("x: &d {a: 1, b: 2}\ny:\n  !!merge <<: *d\n  b: 3\n", {"a": 1, "b": 3}),
        ("y:\n  '<<': 1\n  c: 2\n", {"<<": 1, "c": 2}),
    ],
)
def test_merge_keys_give_way_to_written_ones(text: str, value: object) -> None:
    assert parse(text)["y"] == value


def test_an_alias_is_a_copy() -> None:
    value = parse_yaml("a: &x {k: [1]}\nb: *x\nc:\n  <<: *x\n")
    value["a"]["k"].append(2)
    assert value["b"] == value["c"] == {"k": [1]}


def test_an_alias_may_be_a_key_and_stands_for_the_scalar_as_written() -> None:
    assert parse_yaml("a: &x 0x1F\n*x : b\n") == {"a": 31, "0x1F": "b"}


@pytest.mark.parametrize("parts", [2, 9, 100])
def test_alias_bombs_are_refused_at_once(parts: int) -> None:
    levels = "".join(
        f"{name}: &{name} [{', '.join([f'*{below}'] * parts)}]\n"
        for below, name in zip("abcdefghijklmnopqrstuvwxy", "bcdefghijklmnopqrstuvwxyz", strict=True)
    )
    with pytest.raises(MalformedSource, match="aliases expand to far more data than is written"):
        parse_yaml(f"a: &a [x, x]\n{levels}")


def test_aliases_in_proportion_to_the_document_are_fine() -> None:
    tools = "".join(f"t{i}: {{<<: *base, n: {i}}}\n" for i in range(20_000))
    value = parse_yaml(f"base: &base {{a: 1, b: 2, c: [1, 2, 3, 4], d: {{e: 5}}}}\n{tools}")
    assert value["t19999"] == {"a": 1, "b": 2, "c": [1, 2, 3, 4], "d": {"e": 5}, "n": 19_999}


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("a: 1\nb: 2\na: 3\n", "3:1", "key 'a' appears twice in one mapping"),
        ("200: a\n'200': b\n", "2:1", "appears twice"),
        ("<<: {a: 1}\n<<: {b: 1}\n", "2:1", "key '<<' appears twice"),
        ("{a: 1, a: 2}\n", "1:8", "appears twice"),
        ("a: .nan\n", "1:4", "finite"),
        ("a: [-.inf]\n", "1:5", "finite"),
        ("a: 1e400\n", "1:4", "finite"),
        (f"a: {'9' * 4301}\n", "1:4", "more than 4,300 digits"),
        ("? [a]\n: b\n", "1:3", "key must be a scalar"),
        ("{[a]: b}\n", "1:2", "key must be a scalar"),
        ("? {a: b}\n: c\n", "1:3", "key must be a scalar"),
        ("a: &x [1]\n*x : b\n", "2:1", "key must be a scalar"),
        ("a: !!timestamp 2024-01-02\n", "1:4", "tag !!timestamp"),
        ("a: !!python/object/apply:os.system [x]\n", "1:4", "tag !!python"),
        ("a: !mine 1\n", "1:4", "tag !mine"),
        ("a: !!set {x}\n", "1:4", "tag !!set"),
        ("a: !!int x\n", "1:4", "not a !!int"),
        ("a: !!map [1]\n", "1:4", "tag !!map"),
        ("a: 1\n---\nb: 2\n", "2:1", "second document"),
        ("- 1\n...\n- 2\n", "3:1", "document"),
        ("a: *x\n", "1:4", "before any &x"),
        ("a: &x [1, *x]\n", "1:11", "inside the value it names"),
        ("a: &x {b: *x}\n", "1:11", "inside the value it names"),
        ("<<: 1\n", "1:5", "merges a mapping"),
        ("<<: [{a: 1}, 2]\n", "1:5", "merges a mapping"),
        ("a: \x01\n", "1:4", "control character U+0001"),
        ("a: b\n# \x7f\n", "2:3", "control character U+007F"),
        ("a: b\n\tc: d\n", "2:1", "tab cannot indent"),
        ("a:\n\t- b\n", "2:1", "tab cannot indent"),
        ("a: |\n\tb\n", "2:1", "tab cannot indent"),
        ("a: b: c\n", "1:5", "': ' is not allowed here"),
        ("deny: *\n", "1:8", "quote a text"),
        ("a: @b\n", "1:4", "'@' cannot begin a plain value"),
        ("a: 'b\n", "2:1", "never ends"),
        ('a: "\\q"\n', "1:5", "no such escape"),
        ('a: "\\ud83d"\n', "1:7", "half of a surrogate pair"),
        ("a: [1, 2\nb: 3\n", "2:2", "expected ',' or ']'"),
        ("{a: x, b: ${TOKEN}}\n", "1:12", "${...} must be in quotes"),
        ("a: [b/${TOKEN:-c}, d]\n", "1:8", "${...} must be in quotes"),
        ("a:\n   b: 1\n  c: 2\n", "3:3", "indentation fits no line above"),
        ("- a\nb: c\n", "2:1", "'- ' is missing"),
        ("a: !<x> b\n", "1:4", "tag x"),
        ("a: !x!y b\n", "1:4", "not declared"),
    ],
)
def test_a_refusal_says_where_and_why(text: str, place: str, reason: str) -> None:
    with pytest.raises(MalformedSource, match=re.escape(reason)) as caught:
        parse_yaml(text, what="f.yaml")
    assert caught.value.where == f"f.yaml:{place}"


@pytest.mark.parametrize("data", [b"a: \xff\n", b"\xef\xbb\xbfa: \xff\n", b"a: \xc3", b"a:\r\n \xed\xa0\x80"])
def test_bytes_that_are_not_utf8_are_refused_with_their_place(data: bytes) -> None:
    with pytest.raises(MalformedSource, match=r"document:[12]:[24]: byte 0x\w\w is not valid UTF-8"):
        parse_yaml(data)


def test_text_with_half_a_character_is_refused() -> None:
    with pytest.raises(MalformedSource, match=r"document:1:4: U\+D800"):
        parse_yaml("a: \ud800\n")


@pytest.mark.parametrize("unit", ["- ", "[", "{a: ", "? a\n: "])
def test_the_depth_limit_is_exact(unit: str) -> None:
    def text(levels: int) -> str:
        if unit.startswith("?"):
            return "".join(f"{' ' * i}? a\n{' ' * i}: \n" for i in range(levels))
        closing = {"[": "]", "{": "}"}.get(unit[0], "")
        return unit * levels + "x" + closing * levels

    assert parse(text(200))
    with pytest.raises(MalformedSource, match="nested deeper than 200 levels"):
        parse(text(201))


def test_aliases_count_towards_the_depth() -> None:
    text = f"a: &a {'[' * 150}1{']' * 150}\nb: {'[' * 49}*a{']' * 49}\n"
    assert parse_yaml(text)
    with pytest.raises(MalformedSource, match="deeper than 200"):
        parse_yaml(text.replace("b: ", "b: [").replace("*a", "*a]"))


def test_a_large_document_leaves_the_collector_running() -> None:
    text = "- a: b\n" * (LARGE // 4)
    assert len(parse_yaml(text)) == LARGE // 4
    assert gc.isenabled()
    with pytest.raises(MalformedSource):
        parse_yaml(text + "'")
    assert gc.isenabled()


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 500_000,
        "? " * 50_000,
        "[\n" * 100_000,
        "'" + "a\n" * 500_000,
        "a: " + "1" * 4_000_000,
        "#\n" * 500_000,
    ],
)
def test_hostile_texts_are_rejected_quickly(text: str) -> None:
    """No clock is asked: with nesting or numbers that take the square of their length, this would not end."""
    try:
        parse_yaml(text)
    except MalformedSource as error:
        assert error.where


@given(st.text(alphabet="ab01:-?[]{},#&*!|>'\"%@`\n\n  \t\\_.<~\x85\u2028", max_size=40))
def test_any_text_gives_data_or_a_malformed_source(text: str) -> None:
    try:
        parse_yaml(text)
    except MalformedSource as error:
        assert re.fullmatch(r"document:\d+:\d+", error.where)
