"""Why a text is not the JSON we accept, and where. Reached only once it was refused, so it may be slow."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

from toolyard.model.errors import MalformedSource
from toolyard.parsing.places import fault_at, undecodable
from toolyard.parsing.yaml.scalars import MAX_DIGITS

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
