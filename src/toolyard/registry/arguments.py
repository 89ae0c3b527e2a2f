"""The arguments of a call as a JSON object: read from text, written as text, copied, and checked to be JSON."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import msgspec

from toolyard.model.errors import InvalidArguments, MalformedSource
from toolyard.model.json_schema import TooManyValues, is_small, iter_levels, json_type
from toolyard.parsing import parse_json

Arguments = dict[str, Any]
RawArguments = Arguments | str | bytes | None

MAX_DEPTH = 200
MAX_VALUES = 1_000_000
MAX_BITS = 14_284
"""Size of an integer of 4,300 digits, the limit for JSON text; the validator does not support larger ones."""
_KINDS = frozenset({dict, list, str, int, float, bool, type(None)})

_encode = msgspec.json.encode
_decode = msgspec.json.decode


def read_arguments(arguments: RawArguments) -> Arguments:
    """The arguments as an object: None is empty, text is parsed as strict JSON; raises `InvalidArguments`."""
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
    """The arguments as JSON text; raises `InvalidArguments` as `check_json` does."""
    # Other mappings such as OrderedDict are accepted at the root only.
    if not is_small(arguments if type(arguments) is dict else {**arguments}):
        check_json(arguments)
    try:
        return _encode(arguments)
    except (TypeError, ValueError, RecursionError):
        check_json(arguments)
        raise InvalidArguments("arguments hold a value that JSON cannot carry") from None


def plain_copy(arguments: Arguments, text: bytes) -> Arguments:
    """A deep copy of the arguments, decoded from their JSON `text`; raises `InvalidArguments` unless all of it is JSON.

    Comparing the copy with the original, at C speed, finds whatever JSON would change (tuples, dates, NaN, keys that
    are not text). Only arguments that differ, or may hold too many values, are walked in Python to name the fault.
    """
    copy: Arguments = _decode(text)
    if copy != arguments or len(text) > MAX_VALUES:
        check_json(arguments)
    return copy


def check_json(arguments: Arguments) -> None:
    """Raise `InvalidArguments` unless every value is JSON, within the limits of size and depth.

    Validators only look at declared values, but all arguments are recorded or sent on as JSON.
    """
    try:
        for depth, level in enumerate(iter_levels(arguments, MAX_VALUES), 1):
            if depth > MAX_DEPTH:
                raise InvalidArguments(f"arguments nest deeper than {MAX_DEPTH} levels")
            _check_level(level)
    except TooManyValues:
        raise InvalidArguments(f"arguments hold over {MAX_VALUES:,} values") from None


def _check_level(level: list[Any]) -> None:
    kinds = set(map(type, level))
    if dict in kinds and not set(map(type, chain.from_iterable(item for item in level if type(item) is dict))) <= {str}:
        raise InvalidArguments("arguments hold a key that is not text, which JSON cannot carry")
    if float in kinds and not all(math.isfinite(item) for item in level if type(item) is float):
        raise InvalidArguments("arguments hold NaN or Infinity, which JSON cannot carry")
    if int in kinds and max(item.bit_length() for item in level if type(item) is int) > MAX_BITS:
        raise InvalidArguments("arguments hold an integer of over 4,300 digits")
    if unknown := kinds - _KINDS:
        kind = next(type(item) for item in level if type(item) in unknown)
        raise InvalidArguments(f"arguments hold a value of type {kind.__name__}, which JSON cannot carry")
