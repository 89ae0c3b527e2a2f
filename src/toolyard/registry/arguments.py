"""What callers hand over as arguments, made into the one thing a tool takes: a JSON object."""

from __future__ import annotations

import math
from typing import Any

from toolyard.model.errors import InvalidArguments, MalformedSource
from toolyard.parsing import parse_json
from toolyard.schema.violations import json_type

Arguments = dict[str, Any]
RawArguments = Arguments | str | bytes | None


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


def refuse_non_finite(arguments: Arguments) -> None:
    """Raise for NaN and Infinity anywhere inside; validators do not look where nothing is declared."""
    stack: list[Any] = [arguments]
    while stack:
        item = stack.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                raise InvalidArguments("arguments contain NaN or Infinity, which JSON cannot carry")
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
