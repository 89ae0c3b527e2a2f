"""What was filled in, as arguments.

A control left as it was shown stands for exactly the default it showed. One left empty is not sent, unless the schema
insists on it. The arguments still have to satisfy the schema; that is for the one call path to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_json
from toolyard.serving.pages.form_fields import MORE, FormField, Kind

_LOCAL = re.compile(r"([0-9]{4,}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]+)?)?")
_NUMBER_DIGITS = 6


class FilledForm(msgspec.Struct, frozen=True):
    """A form as it came back: the arguments, and by control what keeps them from being sent."""

    arguments: dict[str, Any]
    mistakes: dict[str, str] = {}


def read_form(fields: list[FormField], data: Mapping[str, str]) -> FilledForm:
    """The arguments that a filled-in form stands for."""
    arguments: dict[str, Any] = {}
    mistakes: dict[str, str] = {}
    for field in fields:
        raw = data.get(field.control, "").replace("\r\n", "\n")
        try:
            for value in _read(field, raw):
                if field.control == MORE:
                    _take_more(arguments, value)
                else:
                    arguments[field.name] = value
        except ValueError as error:
            mistakes[field.control] = str(error)
    return FilledForm(arguments, mistakes)


def read_json(control: str, text: str) -> FilledForm:
    """Arguments written as one JSON object."""
    try:
        value = _parsed(text.replace("\r\n", "\n")) if text.strip() else {}
        if not isinstance(value, dict):
            raise ValueError("write a JSON object: names in quotes, each with its value, between { and }")
    except ValueError as error:
        return FilledForm({}, {control: str(error)})
    return FilledForm(value)


def _read(field: FormField, raw: str) -> Iterator[Any]:
    """The value of one control, or nothing if it is to be left out."""
    if field.has_default and raw == field.shown:
        yield field.default
    elif raw == "":
        yield from _empty(field)
    else:
        yield _value(field, raw)


def _empty(field: FormField) -> Iterator[Any]:
    if not field.required and not field.has_default:
        return
    # A default that was wiped out is no longer wanted, so leaving it out, which brings it back, would be wrong.
    if field.nullable:
        yield None
    elif field.kind in ("text", "long", "secret"):
        yield ""
    elif field.kind == "lines":
        yield []
    elif field.required:
        raise ValueError("choose one" if field.kind == "choice" else "fill this in: the tool needs it")


def _value(field: FormField, raw: str) -> Any:
    match field.kind:
        case "integer" | "number":
            return _number(field.kind, raw)
        case "choice":
            if not (raw.isascii() and raw.isdigit()) or int(raw[:_NUMBER_DIGITS]) >= len(field.options):
                raise ValueError("choose one of the options")
            return field.options[int(raw[:_NUMBER_DIGITS])].value
        case "datetime":
            return _moment(raw)
        case "lines":
            return raw.removesuffix("\n").split("\n")
        case "json":
            return _parsed(raw)
        case _:
            return raw


def _number(kind: Kind, raw: str) -> int | float:
    try:
        value = parse_json(raw.strip())
    except MalformedSource:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("write a whole number, such as 42" if kind == "integer" else "write a number, such as 3.14")
    if kind == "integer" and isinstance(value, float):
        if not value.is_integer():
            raise ValueError("write a whole number, without a fraction")
        return int(value)
    return value


def _moment(raw: str) -> str:
    local = _LOCAL.fullmatch(raw)
    # A browser's control knows no zone; what is typed where there is no such control may have one.
    return f"{local[1]}{local[2] or ':00'}Z" if local else raw


def _parsed(raw: str) -> Any:
    try:
        return parse_json(raw, what="JSON")
    except MalformedSource as error:
        line, _, column = error.where.removeprefix("JSON:").partition(":")
        reason = str(error).removeprefix(f"{error.where}: ")
        raise ValueError(f"not valid JSON at line {line}, column {column}: {reason}") from None


def _take_more(arguments: dict[str, Any], more: Any) -> None:
    if not isinstance(more, dict):
        raise ValueError('write a JSON object, such as {"name": "value"}')
    twice = sorted(more.keys() & arguments.keys())
    if twice:
        raise ValueError(f"{twice[0]!r} has a field of its own above")
    arguments.update(more)
