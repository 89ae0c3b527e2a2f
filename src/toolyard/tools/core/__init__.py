"""The core domain: `echo`, `calc` and `time_now`. Also an example of a domain, see `load_tools`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from toolyard.model.errors import ToolFailed
from toolyard.model.names import show
from toolyard.model.tool import Effects, Schema, Tool
from toolyard.registry.functions import function_tool
from toolyard.tools.core.calc import MAX_DIGITS, evaluate

Clock = Callable[[], datetime]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
_LONGEST = 64
# Variants of the database with and without leap seconds, and the files with this machine's zone.
_NO_ZONES = re.compile(r"right/.*|posix/.*|posixrules|localtime")


def utc_now() -> datetime:
    """The current time of this machine in UTC."""
    return datetime.now(UTC)


def time_in(tz: str | None, clock: Clock) -> dict[str, str]:
    """The time zone's name, and the time there in ISO 8601 with microseconds and offset; None is UTC."""
    name = "UTC" if tz is None else tz
    return {"tz": name, "iso": clock().astimezone(_find_zone(name)).isoformat(timespec="microseconds")}


@lru_cache(maxsize=1024)
def _find_zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # known even where no zone database is installed
    if len(name) <= _LONGEST and _NAME.fullmatch(name) and not _NO_ZONES.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            pass  # no such file, or not a zone file
    raise ToolFailed(
        f"no time zone is called {show(name)}",
        hint="give a name of the IANA database, in its spelling: UTC, Europe/Berlin, America/New_York",
        effect="none",
    )


__all__ = ["load_tools"]

_VERSION = "0.1.0"
_TEXT: Schema = {"type": "string"}


def load_tools(clock: Clock = utc_now) -> list[Tool]:
    """The tools of the domain. A module that exports this function is a domain."""

    def time_now(tz: str | None = "UTC") -> dict[str, Any]:
        return time_in(tz, clock)

    return [_make_tool(echo, _ECHO), _make_tool(calc, _CALC), _make_tool(time_now, _TIME_NOW)]


def echo(text: str) -> dict[str, Any]:
    """Return the text unchanged."""
    return {"text": text}


def calc(expression: str) -> dict[str, Any]:
    """The expression and its value."""
    return {"expression": expression, "value": evaluate(expression)}


def _make_tool(function: Any, definition: dict[str, Any]) -> Tool:
    # None of them blocks, so they may run on an event loop.
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
