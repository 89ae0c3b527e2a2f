"""Schemas and values that once cost seconds, gigabytes or the process; used by the tests, and timed by the soak."""

_FORMS = {"and": ("left", "right"), "or": ("left", "right"), "not": ("left",)}
FILTER = {
    "type": "object",
    "properties": {"where": {"$ref": "#/$defs/filter"}},
    "required": ["where"],
    "$defs": {
        "filter": {"anyOf": [{"$ref": f"#/$defs/{op}"} for op in (*_FORMS, "eq")]},
        **{
            op: {
                "type": "object",
                "properties": {"op": {"const": op}, **{side: {"$ref": "#/$defs/filter"} for side in sides}},
                "required": ["op", *sides],
            }
            for op, sides in _FORMS.items()
        },
        "eq": {
            "type": "object",
            "properties": {"op": {"const": "eq"}, "field": {"type": "string"}, "value": {"type": "integer"}},
            "required": ["op", "field", "value"],
        },
    },
}
CODES = {
    "type": "object",
    "properties": {"codes": {"type": "array", "items": {"enum": [f"c{number}" for number in range(250)]}}},
}


def filtered(depth, leaf):
    where = {"op": "eq", "field": "f", "value": leaf}
    for _ in range(depth):
        where = {"op": "and", "left": where, "right": {"op": "eq", "field": "f", "value": 1}}
    return {"where": where}


def nested(depth, leaf, name="x"):
    for _ in range(depth):
        leaf = {name: leaf}
    return leaf


def cycle(length):
    """Schemas that lead to each other in a ring, twice at each step: the validator remembers one of them only."""
    ring = {
        f"b{at}": {"properties": {"x": {"allOf": [{"$ref": f"#/$defs/b{(at + 1) % length}"}] * 2}}}
        for at in range(length)
    }
    return {"$ref": "#/$defs/b0", "$defs": ring}


def doubling_levels(levels):
    """No reference leads back, and yet each level of a value is judged twice as often as the one around it."""
    steps = {f"d{at}": {"allOf": [{"properties": {"x": {"$ref": f"#/$defs/d{at + 1}"}}}] * 2} for at in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{levels}": {"type": "string"}}}


def _lists_in_lists(depth):
    value = list(range(60_000))
    for _ in range(depth):
        value = [value, *range(16)]
    return value


def _recursive(**keywords):
    return {"type": "object", **keywords}


_SELF = {"$ref": "#"}
CASES = {
    "filter, wrong leaf": (FILTER, filtered(12, "x")),
    "filter, wrong leaf, 95 deep": (FILTER, filtered(95, "x")),
    "filter, right, 95 deep": (FILTER, filtered(95, 1)),
    "codes, all wrong": (CODES, {"codes": ["x"] * 95_000}),
    "codes, last wrong": (CODES, {"codes": ["c1"] * 94_999 + ["x"]}),
    "codes, all right": (CODES, {"codes": ["c1"] * 95_000}),
    "integers, all wrong": ({"items": {"type": "integer"}}, ["x"] * 95_000),
    "oneOf twice itself": (_recursive(properties={"x": {"oneOf": [_SELF, _SELF]}}), nested(24, {})),
    "oneOf twice itself, 95 deep": (_recursive(properties={"x": {"oneOf": [_SELF, _SELF]}}), nested(95, {})),
    "anyOf itself or an array": (
        _recursive(properties={"x": {"anyOf": [_SELF, {"items": _SELF}, _SELF]}}),
        nested(95, "x"),
    ),
    "properties and patternProperties": (
        {"type": "object", "properties": {"x": _SELF}, "patternProperties": {"x": _SELF}},
        nested(95, "x"),
    ),
    "additionalProperties and dependentSchemas": (
        {"additionalProperties": _SELF, "dependentSchemas": {"x": {"additionalProperties": _SELF}}},
        nested(95, 1),
    ),
    "dependencies of older drafts": (
        {"dependencies": {"x": {"properties": {"x": _SELF}}}, "properties": {"x": _SELF}},
        nested(95, 1),
    ),
    "unevaluatedProperties": (
        {"anyOf": [{"properties": {"x": _SELF}}, {"properties": {"x": _SELF}}], "unevaluatedProperties": False},
        nested(40, 1),
    ),
    "anyOf twice itself, wrong leaf": (_recursive(properties={"x": {"anyOf": [_SELF, _SELF]}}), nested(95, "x")),
    "unevaluatedProperties, wrong leaf": (
        _recursive(anyOf=[{"properties": {"x": _SELF}}] * 2, unevaluatedProperties=False),
        nested(40, "x"),
    ),
    "dynamic references": (
        {"$dynamicAnchor": "n", "properties": {"x": {"allOf": [{"$dynamicRef": "#n"}] * 2}}},
        nested(60, 1),
    ),
    "allOf of 1,000 in recursion": (_recursive(properties={"x": {"allOf": [_SELF] * 1000}}), nested(95, {})),
    "a ring of 13": (cycle(13), nested(24, "s")),
    "a ring of 16": (cycle(16), nested(60, "s")),
    "doubling levels": (doubling_levels(30), nested(30, "s")),
    "an $id for the way back": (
        {"$id": "http://a.example/s", "properties": {"x": {"allOf": [{"$ref": "http://a.example/s"}] * 2}}},
        nested(60, 1),
    ),
    "many contains": ({"allOf": [{"contains": {"const": at}} for at in range(200)]}, list(range(20_000))),
    "enum of objects": ({"items": {"enum": [{"a": at} for at in range(1000)]}}, [{"a": 999}] * 20_000),
    "oneOf of numbers": ({"items": {"oneOf": [{"const": at} for at in range(50)]}}, [49] * 95_000),
    "many patternProperties": (
        {"patternProperties": {f"x{at}$": {"type": "integer"} for at in range(800)}},
        {f"k{at}": 1 for at in range(20_000)},
    ),
    "unique lists in unique lists": ({"items": _SELF, "uniqueItems": True}, _lists_in_lists(80)),
    "unique integers beyond 64 bits": ({"uniqueItems": True}, [10**30 + at for at in range(20_000)]),
    "long integers with a minimum": ({"items": {"minimum": 3}}, [10**4200 + at for at in range(900)]),
    "objects, last wrong": (
        {"items": {"properties": {"a": {"type": "integer"}, "b": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}},
        [{"a": 1, "b": "x"}] * 30_000 + [{"a": "x", "b": "x"}],
    ),
}
