"""What callers hand over as arguments, made into the one thing a tool takes: a JSON object."""

from __future__ import annotations

import math
from typing import Any

from toolyard.model.errors import InvalidArguments, MalformedSource
from toolyard.model.json_words import json_type
from toolyard.parsing import parse_json

Arguments = dict[str, Any]
RawArguments = Arguments | str | bytes | None

MAX_DEPTH = 200
MAX_VALUES = 1_000_000
MAX_BITS = 14_284
"""4,300 digits, the most that JSON text may have; beyond it the validator does not judge."""
_SCALARS = frozenset({str, bool, type(None)})


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
