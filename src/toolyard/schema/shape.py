"""`ValueShape`: schemas so simple that a valid value is known to be small and flat without looking at all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

_SCALARS = frozenset({"string", "integer", "number", "boolean", "null"})


class ValueShape(msgspec.Struct, frozen=True):
    """An object of scalars, of lists of scalars and of objects of scalars."""

    declared: frozenset[str] | None
    """The names it may have; None if the schema itself refuses others."""
    integers: tuple[str, ...]
    """Properties for which the validator also takes 3.0."""
    lists: tuple[str, ...]
    objects: tuple[tuple[str, frozenset[str] | None], ...]
    """Properties that are objects, and the names those may have."""

    @property
    def is_flat(self) -> bool:
        """True if a valid value holds scalars and nothing else."""
        return self.declared is None and not self.lists and not self.objects

    def copier(self) -> Callable[[dict[str, Any]], dict[str, Any] | None]:
        """Copies a valid value, lists and objects in it too; None if something in it is not of this shape."""
        declared, lists, objects = self.declared, self.lists, self.objects

        def copy(value: dict[str, Any]) -> dict[str, Any] | None:
            if declared is not None and not value.keys() <= declared:
                return None
            made = value.copy()
            for name in lists:
                if name in made:
                    item = made[name]
                    if type(item) is not list:
                        return None
                    made[name] = item.copy()
            for name, inner in objects:
                if name in made:
                    item = made[name]
                    if type(item) is not dict or (inner is not None and not item.keys() <= inner):
                        return None
                    made[name] = item.copy()
            return made

        return copy


def shape_of(schema: dict[str, Any]) -> ValueShape | None:
    """The shape of a schema; None if values that it accepts may be of any other."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        return None
    integers, lists, objects = [], [], []
    for name, sub in properties.items():
        kinds = _scalars(sub)
        if kinds is not None:
            if "integer" in kinds and "number" not in kinds:
                integers.append(name)
        elif isinstance(sub, dict) and sub.get("type") == "array" and _inner(sub.get("items")):
            lists.append(name)
        elif isinstance(sub, dict) and sub.get("type") == "object" and isinstance(sub.get("properties"), dict):
            if not all(map(_inner, sub["properties"].values())):
                return None
            objects.append((name, _names(sub)))
        else:
            return None
    return ValueShape(_names(schema), tuple(integers), tuple(lists), tuple(objects))


def _names(schema: dict[str, Any]) -> frozenset[str] | None:
    closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    return None if closed else frozenset(schema["properties"])


def _scalars(schema: Any) -> frozenset[str] | None:
    """The scalar types a subschema asks for; None if it leaves room for anything else."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    kinds = frozenset(kind if isinstance(kind, list) else [kind])
    return kinds if kind and kinds <= _SCALARS else None


def _inner(schema: Any) -> bool:
    kinds = _scalars(schema)
    return kinds is not None and "integer" not in kinds
