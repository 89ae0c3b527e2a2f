"""Where subschemas live in a JSON Schema, told once for every walker.

Walkers must know this: under `properties` a key is a user's name, under `default` everything is data.
"""

SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value maps free names to subschemas."""

SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords whose value is a list of subschemas."""

SCHEMA_SINGLES = frozenset(
    {
        "additionalProperties",
        "additionalItems",
        "unevaluatedProperties",
        "unevaluatedItems",
        "propertyNames",
        "contains",
        "contentSchema",
        "items",
        "not",
        "if",
        "then",
        "else",
    }
)
"""Keywords whose value is one subschema (`items` may also be a list in older drafts)."""

IN_PLACE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "$ref", "$dynamicRef"}
)
"""Keywords whose subschemas judge the same value again, and so can multiply the work."""

JSON_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
