"""Test data: real catalogs, a tool with five parameters, and generated catalogs of any size."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

from toolyard.insight.embeddings.embedder import Embedder, default_embedder, resolve_embedder

_SHIPPED = Path(__file__).resolve().parent.parent / "tests" / "data"

CALL: dict[str, Any] = {
    "city": "Paris",
    "days": 3,
    "unit": "celsius",
    "tags": ["wind", "rain", "sun"],
    "place": {"lat": 48.85, "lon": 2.35},
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "City to forecast."},
        "days": {"type": "integer", "minimum": 1, "description": "How many days."},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "description": "Unit of temperature."},
        "tags": {"type": "array", "items": {"type": "string"}, "description": "What to look at."},
        "place": {
            "type": "object",
            "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
            "required": ["lat", "lon"],
            "description": "Exact position.",
        },
    },
    "required": ["city", "days", "unit", "tags", "place"],
}


class Result:
    """The result of the measured tool, as small as possible."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def forecast(city: str, days: int, unit: str, tags: list[str], place: dict[str, float]) -> Result:
    """The tool itself: next to no work, so that what is measured is the way to it."""
    return Result((city, days, unit, len(tags), place["lat"]))


def catalog(count: int) -> list[dict[str, Any]]:
    """Definitions that differ in name, description and property names."""
    return [_definition(index) for index in range(count)]


def _definition(index: int) -> dict[str, Any]:
    # A copy, since PyYAML writes repeated objects as anchors and aliases.
    schemas = copy.deepcopy(SCHEMA["properties"])
    properties = {f"{name}_{index % 97}" if name != "city" else name: sub for name, sub in schemas.items()}
    return {
        "name": f"forecast_{index}",
        "description": f"Forecast number {index}: says what the **weather** will be, day by day. Units: see `unit`.",
        "parameters": {"type": "object", "properties": properties, "required": ["city"]},
    }


def corpus_folder(part: str = "") -> Path:
    """A folder of real data: of the corpus that `TOOLYARD_CORPUS` names, else of the shipped sample."""
    named = os.environ.get("TOOLYARD_CORPUS")
    found = Path(named or _SHIPPED) / part
    return found if found.is_dir() else _SHIPPED / part


def chosen_embedder() -> Embedder | None:
    """The model that `TOOLYARD_MODEL` names (a folder, or a name for sentence-transformers), else the default."""
    named = os.environ.get("TOOLYARD_MODEL")
    return resolve_embedder(named) if named else default_embedder()
