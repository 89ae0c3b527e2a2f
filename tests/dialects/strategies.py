"""Names, schemas and values for the property tests of this folder."""

import string
import unicodedata
from typing import Any

from hypothesis import strategies as st

from toolyard.model import Tool
from toolyard.model.errors import InvalidNameError
from toolyard.model.names import check_namespace, check_tool_name

Json = Any

_SCRIPTS = ("абвгд", "αβγδ", "天気予報", "مرحبا", "קלט", "éüßñ", "한국어")


def _passes(check: Any, name: str) -> bool:
    try:
        check(name)
    except InvalidNameError:
        return False
    return True


def _texts(check: Any) -> st.SearchStrategy[str]:
    ascii_text = st.text(string.ascii_letters + string.digits + "_-./ []$@:'\"\\(){}<>~%", min_size=1, max_size=20)
    scripts = st.sampled_from(_SCRIPTS).flatmap(lambda letters: st.text(letters + "_ 1", min_size=1, max_size=20))
    simple = st.from_regex(r"[a-zA-Z][a-zA-Z0-9]{0,6}([_-]{1,3}[a-zA-Z0-9]{1,4}){0,3}_?", fullmatch=True)
    long = st.builds(lambda text, n: (text * 128)[:n], st.text("ab_.é", min_size=1, max_size=5), st.integers(60, 128))
    normal = st.one_of(simple, ascii_text, scripts, long).map(lambda text: unicodedata.normalize("NFC", text))
    return normal.filter(lambda name: _passes(check, name))


namespaces = _texts(check_namespace)
tool_names = _texts(check_tool_name)
qualified = st.tuples(namespaces, tool_names)

scalars = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
"""Any JSON value."""

_REFS = (
    "#",
    "#/$defs/A",
    "#/$defs/B",
    "#/properties/a",
    "#/definitions/A",
    "#/anyOf/0",
    "#here",
    "#/nowhere",
    "x.json",
)
_JUNK_KEYWORDS = (
    *("type", "format", "title", "description", "nullable", "enum", "const", "items", "minItems", "maxItems"),
    *("properties", "required", "minimum", "maximum", "exclusiveMinimum", "minLength", "pattern", "default"),
    *("examples", "anyOf", "oneOf", "allOf", "not", "if", "then", "$ref", "$defs", "additionalProperties"),
    *("prefixItems", "patternProperties", "dependentRequired", "x-vendor", "multipleOf", "uniqueItems", "$anchor"),
)


def _object_of(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    maps = st.dictionaries(st.sampled_from(("a", "b", "$ref", "anyOf", "type", "")), inner, max_size=3)
    lists = st.lists(inner, max_size=3)
    kinds = st.sampled_from(("object", "array", "string", "integer", "number", "boolean", "null", "dict"))
    return st.fixed_dictionaries(
        {},
        optional={
            "type": kinds | st.lists(kinds, max_size=3),
            "properties": maps,
            "$defs": st.dictionaries(st.sampled_from("AB"), inner, max_size=2),
            "definitions": st.dictionaries(st.just("A"), inner, max_size=1),
            "required": st.lists(st.sampled_from(("a", "b", "zz")), max_size=3),
            "additionalProperties": inner,
            "items": inner | lists,
            "prefixItems": lists,
            "anyOf": lists,
            "oneOf": lists,
            "allOf": lists,
            "not": inner,
            "$ref": st.sampled_from(_REFS),
            "$anchor": st.just("here"),
            "enum": st.lists(scalars | st.sampled_from(("", "x", "y")), max_size=4),
            "const": scalars | st.text(max_size=2),
            "default": values,
            "description": st.sampled_from(("d", "other words")),
            "format": st.sampled_from(("date-time", "int32", "email", "double")),
            "minimum": st.integers(-5, 5),
            "exclusiveMinimum": st.integers(-5, 5) | st.floats(-5, 5),
            "minLength": st.integers(0, 5) | st.just(2.0),
            "maxItems": st.integers(0, 5),
            "nullable": st.booleans(),
        },
    )


schemas = st.recursive(st.booleans() | st.just({}), _object_of, max_leaves=12).filter(lambda s: isinstance(s, dict))
"""Schemas that mix every keyword, whether or not they make sense together."""

inputs = schemas | st.builds(
    lambda member, other: {
        "type": "object",
        "properties": {"a": member, "b": other},
        "$defs": {"A": member, "B": other},
    },
    schemas,
    schemas,
)
"""The same, with some of them as input schemas have them: below the properties of an object."""

junk = st.recursive(
    values, lambda inner: st.dictionaries(st.sampled_from(_JUNK_KEYWORDS), inner, max_size=4), max_leaves=8
).filter(lambda s: isinstance(s, dict))
"""What only looks like a schema: the right keywords with the wrong values."""


def _leaf() -> st.SearchStrategy[tuple[Json, Json]]:
    texts = st.text("abc", max_size=4)
    return st.one_of(
        texts.map(lambda v: ({"type": "string", "maxLength": 9}, v)),
        st.integers(-9, 9).map(lambda v: ({"type": "integer", "exclusiveMinimum": -10}, v)),
        st.floats(-9, 9).map(lambda v: ({"type": "number", "maximum": 9.0}, v)),
        st.booleans().map(lambda v: ({"type": "boolean"}, v)),
        st.sampled_from("xyz").map(lambda v: ({"enum": ["x", "y", "z"]}, v)),
        st.sampled_from((1, 2)).map(lambda v: ({"type": "integer", "enum": [1, 2, 3]}, v)),
        st.sampled_from(("x", None)).map(lambda v: ({"type": ["string", "null"], "enum": ["x", None]}, v)),
        st.sampled_from(("on", 7)).map(lambda v: ({"const": v}, v)),
        st.sampled_from(("text", 3, None)).map(lambda v: ({"anyOf": [{"type": t} for t in _THREE]}, v)),
        st.sampled_from(("text", 3)).map(lambda v: ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, v)),
        texts.map(lambda v: ({"$ref": "#/$defs/Text", "description": "a text"}, v)),
        texts.map(lambda v: ({"allOf": [{"$ref": "#/$defs/Text"}, {"maxLength": 4}]}, v)),
        st.integers(0, 3).map(lambda depth: ({"$ref": "#/$defs/Node"}, _nested(depth))),
    )


_THREE = ("string", "integer", "null")


def _nested(depth: int) -> Json:
    return {"value": depth, **({"next": _nested(depth - 1)} if depth else {})}


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[tuple[Json, Json]]) -> tuple[Json, Json]:
    members = draw(st.dictionaries(st.sampled_from(("a", "b", "c", "$ref", "type")), inner, min_size=1, max_size=3))
    present = draw(st.sets(st.sampled_from(sorted(members))))
    required = sorted(draw(st.sets(st.sampled_from(sorted(present))))) if present else []
    schema = {"type": "object", "properties": {name: pair[0] for name, pair in members.items()}}
    if required or draw(st.booleans()):
        schema |= {"required": required, "additionalProperties": False}
    return schema, {name: members[name][1] for name in members if name in present}


def _members(inner: st.SearchStrategy[tuple[Json, Json]]) -> st.SearchStrategy[tuple[Json, Json]]:
    lists = inner.map(lambda pair: ({"type": "array", "items": pair[0]}, [pair[1]]))
    return lists | _objects(inner)


_DEFS = {
    "Text": {"type": "string"},
    "Node": {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}},
        "required": ["value"],
    },
}

accepted = _objects(st.recursive(_leaf(), _members, max_leaves=4)).map(
    lambda pair: ({**pair[0], "$defs": _DEFS}, pair[1])
)
"""A sensible input schema, and arguments it accepts."""


def tool(name: str = "find", namespace: str = "hr", parameters: Json = None, **fields: Any) -> Tool:
    return Tool(name, namespace, fields.pop("description", "Find people."), parameters or {}, **fields)
