"""`parse_json` accepts RFC 8259 and nothing that readers understand differently."""

from __future__ import annotations

import gc
import json
import math
import re
import sys
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from toolyard.model.errors import MalformedSource
from toolyard.parsing import iter_json_lines, json_text, parse_json
from toolyard.parsing.files import LARGE
from toolyard.parsing.json_text import json_decoder


class Repeated(Exception):
    """The standard library saw one key twice."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise Repeated
    return dict(pairs)


def refuse(constant: str) -> None:
    raise ValueError(constant)


def depth_of(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if children is None else 1 + max(map(depth_of, children), default=0)


def reference(text: str) -> Any:
    """The standard library with our rules on top; a ValueError or `Repeated` where we must refuse."""
    value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    json.dumps(value, allow_nan=False)
    json.dumps(value, ensure_ascii=False).encode()
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, "x", true, false, null]}', {"a": [1, 2.5, "x", True, False, None]}),
        ("[]", []),
        (' "s" ', "s"),
        ("-0.0", -0.0),
        ('"\\ud83d\\ude00 \\/ \\u0022 \\\\u0022"', '😀 / " \\u0022'),
        ("\ufeff[1]", [1]),
        ("[1e-400]", [0.0]),
    ],
)
def test_text_and_bytes_give_the_same_plain_data(text: str, value: object) -> None:
    assert parse_json(text) == value
    assert parse_json(text.encode()) == value


@pytest.mark.parametrize("digits", [20, 21, 400, 4299])
def test_long_integers_stay_exact(digits: int) -> None:
    number = int("9" * digits)
    assert parse_json(f"[{number}, -{number}]") == [number, -number]


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ('{"a": 1,\n "a": 2}', "2:2", "key 'a' appears twice in one object, first on line 1"),
        ('{"a": 1, "\\u0061": 2}', "1:10", "appears twice"),
        ('[{"é": 1, "é": 2}]', "1:11", "appears twice"),
        ('{"a\\u0022\\u0022": 1, "b": 1, "b": 2}', "1:30", "key 'b' appears twice"),
        ("[NaN]", "1:2", "NaN is not a JSON number"),
        ("[1,\n -Infinity]", "2:2", "-Infinity is not a JSON number"),
        ("[1e400]", "1:2", "too large for a float"),
        (f"[1{'0' * 400}.0]", "1:2", "too large for a float"),
        (f"[{'9' * 4301}]", "1:2", "4,301 characters"),
        ('["\\ud800"]', "1:3", "half of a surrogate pair"),
        ('["x\\ude00\\ud83d"]', "1:4", "half of a surrogate pair"),
        ("[1] x", "1:5", "one value"),
        ('{"name": "a"}\n{"name": "b"}\n', "2:1", "one a line is JSONL, a .jsonl file"),
        ("{'a': 1}", "1:2", "double quotes"),
        ("[1, // c\n2]", "1:5", "no comments"),
        ("[True]", "1:2", "write true"),
        ("[01]", "1:3", "expected ','"),
        ("[.5]", "1:2", "a number begins with"),
        ('["a\nb"]', "1:4", "control characters"),
        ('["\\x"]', "1:3", "backslash"),
        ('["abc', "1:2", "never ends"),
        ('{"a": [1,\n', "2:1", "cut off"),
        ("", "1:1", "empty"),
        (" \n ", "2:2", "empty"),
    ],
)
def test_a_refusal_says_where_and_why(text: str, place: str, reason: str) -> None:
    with pytest.raises(MalformedSource, match=re.escape(reason)) as caught:
        parse_json(text, what="tools.json")
    assert caught.value.where == f"tools.json:{place}"


@pytest.mark.parametrize("text", ["[1,]", '{"a": 1,}', "[[1, ], 2]"])
def test_a_comma_too_many_is_named(text: str) -> None:
    """Without its column: Python versions point at the comma or at the bracket behind it."""
    with pytest.raises(MalformedSource, match=r"document:1:\d+: .*comma before the closing bracket"):
        parse_json(text)


@pytest.mark.parametrize("data", [b'{"a": "\xff"}', b'["\xed\xa0\x80"]', b"\xff", b'["\xc3"]'])
def test_bytes_that_are_not_utf8_are_refused_with_their_place(data: bytes) -> None:
    with pytest.raises(MalformedSource, match="is not valid UTF-8") as caught:
        parse_json(b"\n" + data)
    assert caught.value.where == f"document:2:{max(data.find(0xFF), data.find(0xED), data.find(0xC3)) + 1}"


def test_text_with_half_a_character_is_refused() -> None:
    with pytest.raises(MalformedSource, match=r"document:1:3: U\+D800"):
        parse_json('["\ud800"]')


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"b":'])
def test_a_million_brackets_are_refused_at_the_first_too_deep(opening: str) -> None:
    with pytest.raises(MalformedSource, match="nested deeper than 200 levels"):
        parse_json(opening * 1_000_000)


@pytest.mark.parametrize("inner", ["", "{}", '{"a": 1}', "[]", "1"])
def test_the_depth_limit_is_exact(inner: str) -> None:
    levels = 1 if inner[:1] in ("{", "[") else 0
    at_limit = "[" * (200 - levels) + inner + "]" * (200 - levels)
    assert depth_of(parse_json(at_limit)) == 200
    with pytest.raises(MalformedSource, match="nested deeper than 200 levels"):
        parse_json(f"[{at_limit}]")
    assert depth_of(parse_json(f"[{at_limit}]", max_depth=201)) == 201


def test_deeper_than_the_interpreter_can_go_is_refused_whatever_the_limit() -> None:
    levels = sys.getrecursionlimit() * 60
    with pytest.raises(MalformedSource, match="deeper"):
        parse_json("[" * levels + "]" * levels, max_depth=10**9)


def test_a_large_document_leaves_the_collector_running() -> None:
    text = json.dumps([{"n": i} for i in range(LARGE // 8)])
    assert len(parse_json(text)) == LARGE // 8
    assert gc.isenabled()
    with pytest.raises(MalformedSource):
        parse_json(text[:-1])
    assert gc.isenabled()


QUOTES = st.sampled_from(['\\"', "\\u0022", "\\\\", "\\\\u0022", "\\/", "\\u005c", "\\n", "\\u0000", "\\u001f", "\\b"])
CHARACTERS = st.sampled_from(
    ["a", "b", " ", "é", "日", "😀", "\\ud83d\\ude00", "\x7f", "\u2028", "[", "{", ":", ",", "u0022"]
)
STRINGS = st.lists(st.one_of(QUOTES, CHARACTERS), max_size=4).map(lambda parts: f'"{"".join(parts)}"')
SCALARS = st.one_of(
    STRINGS, st.sampled_from(["1", "-0", "2.5", "1e5", "true", "null", "123456789012345678901234567890"])
)
BLANKS = st.sampled_from(["", "", " ", "\n", "\t "])
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.tuples(BLANKS, st.lists(inner, max_size=4)).map(lambda t: f"[{t[0]}{(',' + t[0]).join(t[1])}]"),
        st.tuples(BLANKS, st.lists(st.tuples(STRINGS, inner), max_size=4)).map(
            lambda t: "{" + t[0] + ("," + t[0]).join(f"{key}{t[0]}:{value}" for key, value in t[1]) + "}"
        ),
    ),
    max_leaves=12,
)


@given(DOCUMENTS)
def test_repeated_keys_are_found_exactly_where_the_standard_library_finds_them(text: str) -> None:
    """The proof by example that counting quotes is exact: no escape, however odd, adds or hides one."""
    try:
        expected = reference(text)
    except Repeated:
        with pytest.raises(MalformedSource, match="appears twice"):
            parse_json(text)
    else:
        assert parse_json(text) == expected
        assert parse_json(text.encode()) == expected


@given(st.text(alphabet='[]{}",:.\\u0019eE+-aNtrufalsy \n\ud800é', max_size=30))
def test_any_text_is_accepted_and_refused_as_by_the_standard_library(text: str) -> None:
    try:
        expected = reference(text)
        text.encode()
    except (Repeated, ValueError):
        with pytest.raises(MalformedSource):
            parse_json(text)
    else:
        assert parse_json(text) == expected


@given(st.binary(max_size=40))
def test_any_bytes_give_data_or_a_malformed_source(data: bytes) -> None:
    try:
        parse_json(data)
    except MalformedSource as error:
        assert error.where.startswith("document:")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_come_back_bit_for_bit(number: float) -> None:
    (parsed,) = parse_json(f"[{number!r}]")
    assert math.copysign(1, parsed) == math.copysign(1, number)
    assert parsed == number


def test_json_lines_are_numbered_and_blank_ones_skipped() -> None:
    data = '\ufeff{"a": 1}\r\n\n  \t\n {"b": "\u2028\x85"} \n[2]'.encode()
    lines = list(iter_json_lines(data))
    assert [number for number, _ in lines] == [1, 4, 5]
    assert [parse_json(line) for _, line in lines] == [{"a": 1}, {"b": "\u2028\x85"}, [2]]


def test_json_lines_of_an_empty_text_are_none() -> None:
    assert list(iter_json_lines(b"")) == []
    assert list(iter_json_lines(b"\n\n")) == []


EXTREMES = ["1e308", "1E308", "1.7976931348623157e+308", "9e0300", "4.9e-324", "1.5E-00300", "0.1e299", "2.5e-299"]
ORDINARY = ["1.5", "-0.0", "1e15", "3e-7", "3.141592653589793", "18446744073709551616"]


@pytest.fixture
def floats(monkeypatch):
    """The floats that Python read in place of the decoder."""
    read, found = json_text._read_float, []
    monkeypatch.setattr(json_text, "_read_float", lambda literal: found.append(literal) or read(literal))
    return found


@pytest.mark.parametrize("number", EXTREMES)
def test_many_floats_near_the_limits_are_not_left_to_the_decoder_which_takes_long(floats, number):
    text = f"[{','.join([number] * 2000)}]".encode()
    assert json_decoder()(text) == json.loads(text)
    assert len(floats) == 2000


@pytest.mark.parametrize("number", ORDINARY)
def test_other_numbers_are_left_to_the_decoder(floats, number):
    text = f"[{','.join([number] * 2000)}]".encode()
    assert json_decoder()(text) == json.loads(text)
    assert not floats


@pytest.mark.parametrize("number", ["1e309", "-1e400", "1e999999"])
def test_a_number_too_large_for_a_float_is_refused_among_many_too(number):
    with pytest.raises(msgspec.DecodeError):
        json_decoder()(f"[{'1e300,' * 2000}{number}]".encode())
    with pytest.raises(MalformedSource):
        parse_json(f"[{'1e300,' * 2000}{number}]")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.integers()))
def test_floats_are_the_same_whoever_reads_them(values):
    values = [*values, 1e308] * 600
    with suppress(UnicodeEncodeError):
        assert json_decoder()(json.dumps(values, ensure_ascii=False).encode()) == values


@pytest.mark.parametrize("digits", [300, 1000, 4000])
@pytest.mark.parametrize("form", ["[{}]", '{{"a": [{}]}}', "[[-{}]]"])
def test_long_integers_are_exact_and_refused_where_converting_them_takes_long(digits, form):
    few = form.format(", ".join(["9" * digits] * 3))
    assert parse_json(few) == json.loads(few)
    many = form.format(",".join(["9" * digits] * (600_000_000 // digits**2)))
    for text in (many, rf'["\\", {many}]', rf'["\"", {many}]'):
        with pytest.raises(MalformedSource, match="integers with hundreds of digits"):
            parse_json(text)


@pytest.mark.parametrize("number", ['"{}"', '"a {}"', r'"\\\", {}"', "0.{}", "{}e-4000"])
def test_text_and_floats_may_have_as_many_digits_as_they_like(number):
    text = f"[{','.join([number.format('9' * 4000)] * 100)}]"
    assert parse_json(text) == json.loads(text)
