"""The core domain: `echo`, `calc` and `time_now`. It is also how a domain is written: see `load_tools`."""

from __future__ import annotations

from typing import Any

from toolyard.model.tool import Effects, Schema, Tool
from toolyard.registry.functions import function_tool
from toolyard.tools.core.calc import MAX_DIGITS, evaluate
from toolyard.tools.core.zones import Clock, time_in, utc_now

__all__ = ["load_tools"]

_VERSION = "0.1.0"
_TEXT: Schema = {"type": "string"}


def load_tools(clock: Clock = utc_now) -> list[Tool]:
    """The tools of the domain; all a module needs to export to be one."""

    def time_now(tz: str | None = "UTC") -> dict[str, Any]:
        return time_in(tz, clock)

    return [_make_tool(echo, _ECHO), _make_tool(calc, _CALC), _make_tool(time_now, _TIME_NOW)]


def echo(text: str) -> dict[str, Any]:
    """Say the text back."""
    return {"text": text}


def calc(expression: str) -> dict[str, Any]:
    """The expression and its value."""
    return {"expression": expression, "value": evaluate(expression)}


def _make_tool(function: Any, definition: dict[str, Any]) -> Tool:
    # None of them waits for anything, so an event loop may call them itself.
    return function_tool(
        function, namespace="core", version=_VERSION, effects=Effects.READ, blocking=False, **definition
    )


def _object_schema(properties: dict[str, Schema], required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_ECHO: dict[str, Any] = {
    "description": "Return the text unchanged.",
    "parameters": _object_schema({"text": {**_TEXT, "description": "What to say back."}}, ["text"]),
    "output_parameters": _object_schema({"text": _TEXT}, ["text"]),
}
_CALC: dict[str, Any] = {
    "description": (
        "Calculate an arithmetic expression of numbers, + - * / // % ** and brackets. Whole numbers are exact, "
        f"up to {MAX_DIGITS:,} digits; / gives a decimal fraction, // the whole quotient, % the remainder."
    ),
    "parameters": _object_schema(
        {"expression": {**_TEXT, "minLength": 1, "description": "Such as (19 + 4) * 2**10."}}, ["expression"]
    ),
    "output_parameters": _object_schema({"expression": _TEXT, "value": {"type": "number"}}, ["expression", "value"]),
}
_TIME_NOW: dict[str, Any] = {
    "description": "Tell the current date and time in a time zone, in ISO 8601 form with the offset from UTC.",
    "parameters": _object_schema(
        {
            "tz": {
                "type": ["string", "null"],
                "default": "UTC",
                "description": "A name of the IANA time zone database, such as Europe/Berlin.",
            }
        },
        [],
    ),
    "output_parameters": _object_schema({"tz": _TEXT, "iso": _TEXT}, ["tz", "iso"]),
}
