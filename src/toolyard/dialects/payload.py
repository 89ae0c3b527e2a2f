"""Reading what providers send: JSON, or the objects their SDKs make of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_json

Json = dict[str, Any]

RAW_ARGUMENTS = "__raw_arguments__"
"""Holds arguments that are not valid JSON, on wires that take nothing but an object."""


def fields(value: object) -> Json:
    """The fields of a JSON object or SDK object; empty for anything else."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        # Pydantic models know the names the wire uses; what merely looks like one is asked plainly.
        value = dump(by_alias=True) if hasattr(type(value), "model_fields") else dump()
    return value if isinstance(value, dict) else {}


def entries(value: object) -> list[Any]:
    """The items of a list; empty for anything else."""
    return list(value) if isinstance(value, (list, tuple)) else []


def pick(data: Json, *keys: str) -> Any:
    """The first of the keys that is set: some SDKs spell in snake case what JSON spells in camel case."""
    return next((data[key] for key in keys if data.get(key) is not None), None)


def records(payload: object) -> Iterator[Json]:
    """A payload as a series of objects: one by itself, each of a list, or the messages of a request.

    `TypeError` if it is neither, for then the caller passed something else than a provider's answer.
    """
    items = payload if isinstance(payload, (list, tuple)) else [payload]
    for item in items:
        if not isinstance(item, dict) and not callable(getattr(item, "model_dump", None)):
            raise TypeError(f"expected a response, a message or a list of them, not {type(item).__name__}")
        record = fields(item)
        if isinstance(record.get("messages"), (list, tuple)):
            yield from records(record["messages"])
        else:
            yield record


def read_arguments(value: object) -> dict[str, Any] | str:
    """Arguments as a model wrote them: an object, or the text that could not be read as one."""
    if value is None:
        return {}
    if isinstance(value, dict):
        raw = value.get(RAW_ARGUMENTS)
        return raw if isinstance(raw, str) and len(value) == 1 else value
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, default=str)
    if not value.strip():
        return {}
    try:
        parsed = parse_json(value, what="tool call arguments")
    except MalformedSource:
        return value
    return parsed if isinstance(parsed, dict) else value


def arguments_object(arguments: dict[str, Any] | str) -> dict[str, Any]:
    """Arguments for a wire that takes an object only; `read_arguments` undoes it."""
    return {RAW_ARGUMENTS: arguments} if isinstance(arguments, str) else arguments


def arguments_text(arguments: dict[str, Any] | str) -> str:
    """Arguments for a wire that takes text, as OpenAI's does."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def read_id(value: object) -> str | None:
    """A call id as text; JSON-RPC allows numbers."""
    return None if value is None else str(value)
