"""Cost of generating a result, compared with validating it: small, medium and large schemas."""

from __future__ import annotations

from typing import Any

from benchmarks.harness import Row, measure, show
from toolyard import Tool
from toolyard.engines.simulator import Simulator
from toolyard.schema.compile import compile_schema

_TEXT: dict[str, Any] = {"type": "string"}
_WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": _TEXT,
        "temperature": {"type": "number", "minimum": -50, "maximum": 60},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "observed_at": {"type": "string", "format": "date-time"},
        "condition": _TEXT,
        "humidity": {"type": "integer", "minimum": 0, "maximum": 100},
        "wind": {
            "type": "object",
            "properties": {"speed": {"type": "number"}, "direction": {"enum": ["n", "e", "s", "w"]}},
            "required": ["speed", "direction"],
        },
        "alerts": {"type": "array", "items": _TEXT},
    },
    "required": ["city", "temperature", "unit", "observed_at", "condition", "humidity", "wind", "alerts"],
}
_FORECAST: dict[str, Any] = {
    "type": "object",
    "properties": {
        "days": {"type": "array", "minItems": 7, "maxItems": 7, "items": {"$ref": "#/$defs/day"}},
        "source": {"anyOf": [_TEXT, {"type": "null"}]},
    },
    "required": ["days", "source"],
    "$defs": {"day": _WEATHER},
}
_EVENTS: dict[str, Any] = {
    "type": "array",
    "minItems": 5,
    "maxItems": 5,
    "items": {
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": "push"}, "sha": _TEXT}, "required": ["kind", "sha"]},
            {"type": "object", "properties": {"kind": {"const": "star"}, "by": _TEXT}, "required": ["kind", "by"]},
        ]
    },
}
_PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": _TEXT,
        "email": {"type": "string", "format": "email"},
        "tags": {"type": "array", "items": _TEXT},
        "created_at": {"type": "string", "format": "date-time"},
        "address": {
            "type": "object",
            "properties": {"city": _TEXT, "zip": _TEXT, "country": {"type": ["string", "null"]}},
        },
        "status": {"enum": ["active", "away"]},
        "balance": {"type": "number"},
    },
    "required": ["id", "name"],
}
_PEOPLE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "minItems": 10, "maxItems": 10, "items": {"$ref": "#/$defs/person"}},
        "total": {"type": "integer"},
        "next": {"type": ["string", "null"]},
    },
    "required": ["items", "total"],
    "$defs": {"person": _PERSON},
}
_SCHEMAS = {
    "weather, 10 values": _WEATHER,
    "forecast, 70 values": _FORECAST,
    "ten people, most fields optional": _PEOPLE,
    "five tiny objects, oneOf": _EVENTS,
}
_ARGUMENTS = {"city": "Paris", "days": 3, "unit": "celsius"}


def run() -> bool:
    """Measure and print."""
    rows: list[Row] = []
    simulator = Simulator(7)
    for name, schema in _SCHEMAS.items():
        tool = Tool("weather_report", "w", output_parameters=schema)
        value = simulator.value(tool, _ARGUMENTS)
        check = compile_schema(schema)
        assert check.is_valid(value)
        rows += [
            Row(f"{name}: validate", lambda check=check, value=value: check.is_valid(value), repeat=5000),  # type: ignore[misc]
            Row(
                f"{name}: make",
                lambda tool=tool: simulator.value(tool, _ARGUMENTS),  # type: ignore[misc]
                repeat=2000,
                limit=f"{name}: validate",
            ),
        ]
    measure(rows, 15)
    return show("Results made from schemas", rows)
