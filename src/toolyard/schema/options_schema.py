"""Options as JSON Schema, for editors and the reference page."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import NODEFAULT

from toolyard.model.json_schema import JSON_TYPES
from toolyard.schema.options import ConfigOption, Kind, OptionType, options_of

_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum"}
_KEYWORDS: dict[Kind, dict[str, str]] = {
    "integer": _BOUNDS,
    "number": _BOUNDS,
    "string": {"min_length": "minLength", "pattern": "pattern"},
    "array": {"min_length": "minItems"},
}
"""Fields of `Meta` and the keywords that mean the same, for each kind that has any."""


def options_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The struct as JSON Schema; a class attribute `schema_rules` adds rules between its keys."""
    known = options_of(struct)
    required = [key for key, option in known.items() if option.required]
    return {
        "type": "object",
        "additionalProperties": False,
        **({"description": " ".join((struct.__doc__ or "").split())} if struct.__doc__ else {}),
        "properties": {key: option_schema(option) for key, option in known.items()},
        **({"required": required} if required else {}),
        **getattr(struct, "schema_rules", {}),
    }


def option_schema(option: ConfigOption) -> dict[str, Any]:
    """One option as JSON Schema, with its description and default."""
    schema = type_schema(option.type)
    if option.description:
        schema["description"] = option.description
    if isinstance(option.default, str | int | float) and not option.type.extra_value("secret"):
        schema["default"] = option.default
    return schema


def type_schema(wanted: OptionType) -> dict[str, Any]:
    """A type as JSON Schema, without references, so that it can be embedded anywhere."""
    stated = wanted.meta_value("extra_json_schema")
    if stated is not None:
        return dict(stated)
    if wanted.others:
        branches = [type_schema(msgspec.structs.replace(branch, others=())) for branch in wanted.all]
        return {"anyOf": [{key: value for key, value in one.items() if key != "description"} for one in branches]}
    if wanted.options is not None:
        return options_schema(wanted.options)
    if wanted.kind == "choice":
        return {"enum": list(wanted.choices)}
    schema: dict[str, Any] = {"type": wanted.kind} if wanted.kind in JSON_TYPES else {}
    keywords = _KEYWORDS.get(wanted.kind, {})
    schema |= {word: wanted.meta_value(name) for name, word in keywords.items() if wanted.meta_value(name) is not None}
    if wanted.kind == "array":
        item = schema["items"] = type_schema(wanted.item_type)
        if wanted.extra_value("split"):
            return {"anyOf": [{"type": "string"}, schema]}
        return {"anyOf": [item, schema]} if wanted.extra_value("one") else schema
    if wanted.keys:
        schema["properties"] = {key: option_schema(ConfigOption(key, of, NODEFAULT)) for key, of in wanted.keys.items()}
    elif wanted.kind == "object":
        schema["additionalProperties"] = type_schema(wanted.item_type)
        if wanted.key is not None and wanted.key.metas:
            schema["propertyNames"] = type_schema(wanted.key)
    return schema
