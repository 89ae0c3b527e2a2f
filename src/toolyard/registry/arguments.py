"""What callers hand over as arguments, made into the one thing a tool takes: a JSON object."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from toolyard.model.errors import InvalidArguments, MalformedSource
from toolyard.model.json_words import json_type
from toolyard.model.tree_size import is_shallow
from toolyard.parsing import parse_json

Arguments = dict[str, Any]
RawArguments = Arguments | str | bytes | None

MAX_DEPTH = 200
MAX_VALUES = 1_000_000
MAX_BITS = 14_284
"""4,300 digits, the most that JSON text may have; beyond it the validator does not judge."""
_SCALARS = frozenset({str, bool, type(None)})
SURELY_SMALL = 400
"""Bytes of JSON text that cannot nest too deep, hold too many values, or an integer of too many digits."""

encode = msgspec.json.encode
_decode = msgspec.json.decode


def read_arguments(arguments: RawArguments) -> Arguments:
    """Arguments as an object: None is empty, text is parsed as strict JSON."""
    if isinstance(arguments, dict):
        return arguments
    if arguments is None:
        return {}
    value: Any = arguments
    if isinstance(arguments, (str, bytes)):
        try:
            value = parse_json(arguments, what="arguments")
        except MalformedSource as error:
            raise InvalidArguments(f"arguments are not valid JSON: {error}", hint="send one JSON object") from None
    if not isinstance(value, dict):
        raise InvalidArguments(f"arguments must be a JSON object, not {json_type(value)}", hint="send one JSON object")
    return value


def json_text(arguments: Arguments) -> bytes:
    """The arguments as JSON text; raises what `check_json` says if they cannot be written."""
    if not is_shallow(arguments):
        check_json(arguments)
    try:
        return encode(arguments)
    except (TypeError, ValueError, RecursionError):
        check_json(arguments)
        raise InvalidArguments("arguments hold a value that JSON cannot carry") from None


def plain_copy(arguments: Arguments, text: bytes) -> Arguments:
    """A copy that shares nothing with the caller's, read from its JSON text; raises unless all of it is JSON.

    Writing and reading back at C speed, then comparing, finds whatever JSON would change on the way (a tuple,
    a date, NaN, a key that is no text). Only what differs, or is near a limit, is walked to say what is wrong.
    """
    copy: Arguments = _decode(text)
    if copy != arguments or len(text) > SURELY_SMALL:
        check_json(arguments)
    return copy


def check_json(arguments: Arguments) -> None:
    """Raise unless every value inside is JSON, of a size and depth that JSON text may have.

    Validators look only where something is declared; what is recorded or sent on must be JSON all over.
    """
    stack: list[tuple[Any, int]] = [(arguments, 1)]
    seen = 0
    while stack:
        item, depth = stack.pop()
        seen += 1
        if depth > MAX_DEPTH or seen > MAX_VALUES:
            limit = f"nest deeper than {MAX_DEPTH} levels" if depth > MAX_DEPTH else f"hold over {MAX_VALUES:,} values"
            raise InvalidArguments(f"arguments {limit}")
        kind = type(item)
        if kind is dict:
            if not all(type(key) is str for key in item):
                raise InvalidArguments("arguments hold a key that is not text, which JSON cannot carry")
            stack.extend((value, depth + 1) for value in item.values())
        elif kind is list:
            stack.extend((value, depth + 1) for value in item)
        elif kind is float:
            if not math.isfinite(item):
                raise InvalidArguments("arguments hold NaN or Infinity, which JSON cannot carry")
        elif kind is int:
            if item.bit_length() > MAX_BITS:
                raise InvalidArguments("arguments hold an integer of over 4,300 digits")
        elif kind not in _SCALARS:
            raise InvalidArguments(f"arguments hold a value of type {kind.__name__}, which JSON cannot carry")
