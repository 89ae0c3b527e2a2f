"""Strict JSON: what RFC 8259 allows and every reader understands alike, at the speed of msgspec.

Why a text is not the JSON we accept, and where, is only looked for once it was refused, so that may be slow.
"""

from __future__ import annotations

import gc
import json
import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from toolyard.model.errors import MalformedSource
from toolyard.parsing.files import paused_gc

_CONTAINERS = frozenset({dict, list})


def nests_deeper(value: Any, limit: int) -> bool:
    """Whether a document of dicts and lists has more than `limit` levels of them; a scalar has none.

    Goes down level by level with the garbage collector's own view of who holds whom: two C calls a level
    instead of one Python step a value. CPython may leave a dict without containers untracked, so a level
    holds every container that has a level below it, and only the last step looks at types.
    """
    if limit < 1:
        return type(value) in _CONTAINERS
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(limit - 1):
        level = [*filter(gc.is_tracked, gc.get_referents(*level))]
        if not level:
            return False
    return any(type(child) in _CONTAINERS for child in gc.get_referents(*level))


def fault_at(text: str, index: int, message: str, what: str) -> MalformedSource:
    """The error at a character of `text`; lines and columns count from 1."""
    line = text.count("\n", 0, index) + 1
    column = index - text.rfind("\n", 0, index)
    return MalformedSource(message, where=f"{what}:{line}:{column}")


def undecodable(data: bytes, error: UnicodeDecodeError, what: str) -> MalformedSource:
    """The error for bytes that are not UTF-8."""
    before = data[: error.start].decode().removeprefix("\ufeff")
    message = f"byte 0x{data[error.start]:02x} is not valid UTF-8; save the text as UTF-8"
    return fault_at(before, len(before), message, what)


def encode_utf8(text: str, what: str) -> bytes:
    """`text` in UTF-8; refuses lone surrogates, which no encoding can write."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        message = f"U+{code:04X} is half of a surrogate pair, not a character; decode the text with its right encoding"
        raise fault_at(text, error.start, message, what) from error


LARGE = 64 * 1024
"""Bytes from which a pause of the garbage collector is worth its lock."""

MAX_DIGITS = 4300
"""Of an integer: Python refuses to read or print longer ones, because that takes the square of their length."""

BOM = b"\xef\xbb\xbf"
_BACKSLASH = 0x5C  # Asking bytes for a number is ten times faster than asking them for bytes.
_ESCAPED_QUOTE = re.compile(rb"(?<!\\)(?:\\\\)*\\u0022")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def parse_json(data: str | bytes, *, what: str = "document", max_depth: int = 200) -> Any:
    """The document as dicts with text keys, lists, text, numbers, bools and None.

    Integers are exact up to 4,300 digits. Refused with `MalformedSource`, whose `where` is
    `{what}:{line}:{column}`: everything RFC 8259 forbids, and also repeated keys, numbers too large for a
    float, lone surrogates, and nesting beyond `max_depth`. A leading byte order mark is ignored.

    Depth is bounded by the interpreter's recursion limit too, whatever `max_depth` says.
    """
    source = data if isinstance(data, bytes) else encode_utf8(data, what)
    size = len(source)
    cause: Exception | None = None
    try:
        if size < LARGE:
            value = _decode(source)
        else:
            with paused_gc():
                value = _decode(source)
        # A level costs two bytes, its brackets, so a short text needs no measuring.
        if size <= 2 * max_depth or not nests_deeper(value, max_depth):
            encoded = _encode(value)
            # The decoder keeps the last of two equal keys in silence, which loses at least the two quotes around one.
            # Nothing else changes their number: a quote inside a string is one byte, `\"`, before and after, unless
            # the source spells it as a code point.
            if encoded == source or encoded.count(b'"') == source.count(b'"') + (
                _quotes_spelt_out(source) if _BACKSLASH in source else 0
            ):
                return value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if source.startswith(BOM):
            return parse_json(source[len(BOM) :], what=what, max_depth=max_depth)
        cause = error

    raise json_fault(source, what, max_depth) from cause


def _quotes_spelt_out(source: bytes) -> int:
    return len(_ESCAPED_QUOTE.findall(source)) if b"\\u0022" in source else 0


def iter_json_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Each line of a JSONL text that is not blank, stripped, with its 1-based number.

    Only line feeds separate lines: the other characters `splitlines` breaks at may stand inside a JSON string.
    """
    start = len(BOM) if data.startswith(BOM) else 0
    number = 0
    while start < len(data):
        number += 1
        stop = data.find(b"\n", start)
        if stop < 0:
            stop = len(data)
        line = data[start:stop].strip(b" \t\r")
        if line:
            yield number, line
        start = stop + 1


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
_SURROGATE = re.compile(r"\\(?:u(?P<code>[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)

_REMEDIES = {
    "Expecting value": "expected a value here",
    "Expecting property name enclosed in double quotes": "expected a key in double quotes here",
    "Expecting ',' delimiter": "expected ',' or the closing bracket here",
    "Expecting ':' delimiter": "expected ':' after the key",
    "Extra data": "the value ends before this; a JSON text holds one value (one a line is JSONL)",
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
    """The error for a text `parse_json` refused, naming the first fault found."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return undecodable(data, error, what)
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return fault_at(text, error.pos, _explain_syntax(text, error), what)
    except (RecursionError, ValueError):
        pass  # Too deep for the standard library, or an integer too long for it: both are found below.
    for index, message in _find_offences(text, max_depth):
        return fault_at(text, index, message, what)
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
    """What is wrong with text that has the form of JSON, in order of appearance."""
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
            yield from _lone_surrogates(token["string"], token.start() + 1)
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


def _lone_surrogates(raw: str, start: int) -> Iterator[tuple[int, str]]:
    """Escapes of half a character; the two halves of one must follow each other."""
    high: re.Match[str] | None = None
    for escape in _SURROGATE.finditer(raw):
        code = escape["code"]
        is_low = code is not None and code[1] in "cdefCDEF"
        if high is not None and not (is_low and escape.start() == high.end()):
            break
        if is_low and high is None:
            high = escape
            break
        high = escape if code is not None and not is_low else None
    if high is not None:
        yield start + high.start(), f"{high[0]} is half of a surrogate pair, not a character; write both halves"
