"""What a schema says about the type of a value."""

from __future__ import annotations

from typing import Any

from toolyard.model import Schema


def types_of(value: object) -> list[str]:
    """The names in a `type` keyword."""
    names = value if isinstance(value, list) else [value]
    return [name for name in names if isinstance(name, str)]


def allowed_values(schema: Schema) -> list[Any] | None:
    """The values of `const` or `enum`; None when neither limits them."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None
