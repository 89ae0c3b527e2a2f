"""Parse JSON strictly to plain data.

JSON is the part of RFC 8259 that all readers agree on, decoded by msgspec. The reason for a rejection is only looked
for afterwards, so that step may be slow.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from toolyard.constants import MAX_DIGITS
from toolyard.model.errors import MalformedSource
from toolyard.model.json_schema import nests_deeper
from toolyard.parsing.files import BOM, LARGE, decode_utf8, encode_utf8, paused_gc

_BACKSLASH = 0x5C  # `in` on bytes is ten times faster for an int than for bytes.
_ESCAPED_QUOTE = re.compile(rb"(?<!\\)(?:\\\\)*\\u0022")

_encode = msgspec.json.Encoder().encode

_SMALL, _FEW = 4096, 500
"""Bytes of a text, and commas in it, up to which its numbers cannot take long."""
_FOLDED = bytes.maketrans(b"E3", b"e2")
_ONES = bytes.maketrans(b"023456789", b"1" * 9)
_LONG_RUN, _RUN = b"1" * 200, re.compile(rb"1*+")
_MAX_DIGIT_STEPS = 500_000_000


def json_decoder(kind: Any = Any) -> Callable[[bytes | bytearray], Any]:
    """`msgspec.json.Decoder(kind).decode`, but as fast for every number.

    The decoder takes up to 50 us for a float near the limits of what there is, such as 1e308, and holds the interpreter
    meanwhile. Python takes 1 us for any float, which is slow for all others.
    """
    decode = msgspec.json.Decoder(kind).decode
    decode_extremes = msgspec.json.Decoder(kind, float_hook=_read_float).decode

    def decode_text(text: bytes | bytearray) -> Any:
        return (decode if len(text) < _SMALL or not _may_hold_extremes(text) else decode_extremes)(text)

    return decode_text


def _may_hold_extremes(text: bytes | bytearray) -> bool:
    # Exponents of 200 to 399, with either sign and leading zeros; also some others, and text.
    return text.count(b",") > _FEW and b"e2" in text.translate(_FOLDED, b"+-0")


def _read_float(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise msgspec.ValidationError("Number out of range")
    return value


def has_costly_integers(text: bytes | bytearray) -> bool:
    """True if converting the long integers in a JSON text takes over some milliseconds."""
    if _count_digit_steps(text) <= _MAX_DIGIT_STEPS:
        return False
    # Digits in strings cost nothing. Where nothing is escaped, a string is what follows an odd number of quotes.
    unescaped = text.replace(rb"\\", b"").replace(rb"\"", b"")
    return _count_digit_steps(unescaped, in_strings=False) > _MAX_DIGIT_STEPS


def _count_digit_steps(text: bytes | bytearray, *, in_strings: bool = True) -> int:
    """The squares of the lengths of long integers."""
    ones, end, steps, quotes = text.translate(_ONES), 0, 0, 0
    # Not one pattern for all: it would look at each byte ten times as long, and hold the interpreter meanwhile.
    while (start := ones.find(_LONG_RUN, end)) >= 0:
        quotes += 0 if in_strings else ones.count(b'"', end, start)
        end = _RUN.match(ones, start).end()  # type: ignore[union-attr]
        is_integer = ones[start - 1 : start] in b"[,: \t\n\r-" and ones[end : end + 1] not in b".eE"
        if is_integer and quotes % 2 == 0 and end - start <= MAX_DIGITS:
            steps += (end - start) ** 2
    return steps


_decode = json_decoder()


def parse_json(data: str | bytes, *, what: str = "document", max_depth: int = 200) -> Any:
    """The document as dicts with text keys, lists, text, numbers, bools and None.

    Integers are exact up to 4,300 digits. A leading byte order mark is ignored. Raises `MalformedSource`, whose `where`
    is `{what}:{line}:{column}`, for everything that RFC 8259 forbids, and for repeated keys, numbers too large for a
    float, lone surrogates, and nesting deeper than `max_depth` or the interpreter's recursion limit.
    """
    source = data if isinstance(data, bytes) else encode_utf8(data, what)
    size = len(source)
    if has_costly_integers(source):
        raise MalformedSource("too many integers with hundreds of digits; write them as text", where=what)
    cause: Exception | None = None
    try:
        if size < LARGE:
            value = _decode(source)
        else:
            with paused_gc():
                value = _decode(source)
        # Each level begins with a bracket, so a text with few of them needs no measuring.
        if source.count(b"{") + source.count(b"[") <= max_depth or not nests_deeper(value, max_depth):
            encoded = _encode(value)
            # The decoder silently keeps the last of two equal keys, which loses at least the two quotes of one. Nothing
            # else changes the number of quotes: one inside a string is `\"` in source and output alike, unless the
            # source escapes it as a code point.
            if encoded == source or encoded.count(b'"') == source.count(b'"') + (
                len(_ESCAPED_QUOTE.findall(source)) if _BACKSLASH in source and b"\\u0022" in source else 0
            ):
                return value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if source.startswith(BOM):
            return parse_json(source[len(BOM) :], what=what, max_depth=max_depth)
        # The traceback refers to this frame, which refers to the error: that cycle would keep the source alive.
        cause = error.with_traceback(None)

    raise json_fault(source, what, max_depth) from cause


def iter_json_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The 1-based number and the stripped text of each line of a JSONL document that is not blank.

    Only line feeds separate lines: the other characters that `splitlines` breaks at may occur in JSON strings.
    """
    for number, line in enumerate(io.BytesIO(data.removeprefix(BOM)), 1):
        stripped = line.strip(b" \t\r\n")
        if stripped:
            yield number, stripped


def is_json_lines(data: bytes) -> bool:
    """Whether a text, whatever its file is called, has one object per line."""
    first, _, rest = data.removeprefix(BOM).lstrip().partition(b"\n")
    return first[:1] == b"{" and first.rstrip()[-1:] == b"}" and rest.lstrip()[:1] == b"{"


def read_embedded(value: Any, opening: str | tuple[str, ...] = ("{", "[")) -> Any:
    """The object or list in JSON text that begins with one of these characters; any other value unchanged."""
    if isinstance(value, str) and value.lstrip().startswith(opening):
        with suppress(MalformedSource):
            return parse_json(value)
    return value


_TOKEN = re.compile(
    r"""
      "(?P<string> (?: [^"\\]++ | \\. )*+ )" (?P<colon> [ \t\n\r]*+ : )?
    | (?P<open> [\[{] )
    | (?P<close> [\]}] )
    | (?P<constant> NaN | -?Infinity )
    | (?P<number> -? [0-9]++ (?: \.[0-9]++ )? (?: [eE][+-]?[0-9]++ )? )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)

_REMEDIES = {
    "Expecting value": "expected a value here",
    "Expecting property name enclosed in double quotes": "expected a key in double quotes here",
    "Expecting ',' delimiter": "expected ',' or the closing bracket here",
    "Expecting ':' delimiter": "expected ':' after the key",
    "Extra data": "the value ends before this; a JSON text holds one value (one a line is JSONL, a .jsonl file)",
    "Illegal trailing comma before end of object": "a comma before the closing bracket must go",
    "Illegal trailing comma before end of array": "a comma before the closing bracket must go",
    "Unterminated string starting at": "the string that starts here never ends; add its closing quote",
    "Invalid control character at": "control characters in a string must be escaped, such as \\n or \\t",
    "Invalid \\escape": 'a backslash must be doubled, or begin one of \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX',
    "Invalid \\uXXXX escape": "\\u needs four hexadecimal digits",
}
_HINTS = (
    (re.compile(r"'"), "strings take double quotes"),
    (re.compile(r"//|/\*|#"), "JSON has no comments; remove it"),
    (re.compile(r"(?:True|False|None)\b"), "write true, false or null"),
    (re.compile(r"[\]}]"), "a comma before the closing bracket must go, and a value left out must be added"),
    (re.compile(r"[+.]|0[0-9]"), "a number begins with one digit or a minus sign, and only 0 itself with a zero"),
)


def json_fault(data: bytes, what: str, max_depth: int) -> MalformedSource:
    """The error for a text that `parse_json` rejected, naming the first fault found."""
    try:
        text = decode_utf8(data, what)
    except MalformedSource as error:
        return error
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return MalformedSource.at_character(text, error.pos, _explain_syntax(text, error), what)
    except (RecursionError, ValueError):
        pass  # Too deep, or an integer too long, for the standard library; both are found below.
    for index, message in _find_offences(text, max_depth):
        return MalformedSource.at_character(text, index, message, what)
    return MalformedSource("is not JSON, or nests deeper than the interpreter's recursion limit", where=what)


def _explain_syntax(text: str, error: json.JSONDecodeError) -> str:
    if not text.strip(" \t\n\r"):
        return "the text is empty; expected a JSON value"
    if not text[error.pos :].strip(" \t\n\r") and not error.msg.startswith("Unterminated"):
        return "the text ends before its value does; is it cut off?"
    message = _REMEDIES.get(error.msg, error.msg)
    for pattern, hint in _HINTS:
        if error.msg.startswith("Expecting") and pattern.match(text, error.pos):
            return f"{message}; {hint}"
    return message


def _find_offences(text: str, max_depth: int) -> Iterator[tuple[int, str]]:
    """Offset and description of each fault in text with valid JSON syntax, in order."""
    keys: list[dict[str, int]] = []
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "open":
            keys.append({})
            if len(keys) > max_depth:
                yield token.start(), f"nested deeper than {max_depth} levels; flatten the data"
        elif kind == "close":
            del keys[-1:]
        elif kind == "constant":
            yield token.start(), f"{token[0]} is not a JSON number; use null or a string"
        elif kind == "number":
            yield from _explain_number(token[0], token.start())
        else:
            yield from _find_lone_surrogate(token["string"], token.start() + 1)
            if kind == "colon" and keys:
                yield from _find_repeated_key(text, token["string"], token.start(), keys[-1])


def _find_repeated_key(text: str, raw: str, index: int, seen: dict[str, int]) -> Iterator[tuple[int, str]]:
    key = json.loads(f'"{raw}"') if "\\" in raw else raw
    if key in seen:
        line = text.count("\n", 0, seen[key]) + 1
        yield index, f"key {key!r} appears twice in one object, first on line {line}; remove or rename one"
    seen[key] = index


def _explain_number(literal: str, index: int) -> Iterator[tuple[int, str]]:
    if literal.lstrip("-").isdigit():
        if len(literal) > MAX_DIGITS:
            yield index, f"an integer of {len(literal):,} characters, more than {MAX_DIGITS:,}; write it as a string"
    elif math.isinf(float(literal)):
        yield index, f"{literal[:40]} is too large for a float; write it as a string"


def _find_lone_surrogate(raw: str, start: int) -> Iterator[tuple[int, str]]:
    """The first escape that is only half of a surrogate pair; whole pairs and other escapes are passed over."""
    half = next((escape for escape in _ESCAPE.finditer(raw) if escape["half"]), None)
    if half is not None:
        yield start + half.start(), f"{half[0]} is half of a surrogate pair, not a character; write both halves"
