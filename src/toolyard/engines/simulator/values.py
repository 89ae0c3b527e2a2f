"""`SchemaValues`: values that conform to a JSON Schema.

A schema is compiled once into functions, each of which makes a value from a `Draw`. Where that cannot guarantee
validity (`oneOf`, `not`, `if` and similar), the value is checked immediately and others are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, islice, product
from typing import Any

from toolyard.engines.simulator.containers import ArrayMaker, object_maker, spellings_of
from toolyard.engines.simulator.draw import LEAVES, SIMPLE, Check, Choice, Draw, GaveUp, Lazy, Make, make_null
from toolyard.engines.simulator.scalars import ID_NAMES, choose_value, make_boolean, number_maker, text_maker
from toolyard.model.errors import InvalidSchemaError
from toolyard.model.json_schema import json_type
from toolyard.schema.compile import compile_schema
from toolyard.schema.fold import COMPOSED, SchemaWay, allowed_types, find_ways
from toolyard.schema.subschemas import SubSchema, allowed_values, map_references, resolve_pointer
from toolyard.words.identifiers import plain_letters

_OBJECT = frozenset({"properties", "required", "additionalProperties", "patternProperties", "minProperties"})
_OBJECT |= {"maxProperties", "propertyNames", "dependentRequired", "dependentSchemas"}
_ARRAY = frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"})
_TEXT = frozenset({"pattern", "minLength", "maxLength", "format"})
_NUMBER = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_LIMITS = (_TEXT | _NUMBER | _ARRAY | _OBJECT) - {"items", "properties", "additionalProperties", "format"}
_TRIES = ((0, False), (0, False), (LEAVES + 1, False), (-10 * LEAVES, False), (1, False), (LEAVES + 1, True))
"""Attempts for a whole schema, as (values spent, loose): normal, minimal, complete, and finally without guarantee."""
_ANNOTATIONS = frozenset({"description", "title", "default", "example", "examples", "deprecated"})
_ANNOTATIONS |= {"readOnly", "writeOnly", "$comment"}
_PLAIN = frozenset({"$ref", "allOf", "anyOf", "oneOf", "type"})
_PLAIN |= {"properties", "required", "items", "additionalProperties"}
_SHARED_KEYWORDS = ("$schema", "$defs", "definitions")
_ROOT = "root of it all"
_MOST_SUBSCHEMAS = 40
"""Maximum number of subschemas followed at one place."""
_MOST_OVERLAID = 500
"""Maximum number of known properties laid over a generated object."""
_MOST_SHORTENED = 200
"""Maximum number of objects with a property removed that are tried for that."""
_CANDIDATES_KEPT = 6
"""Candidates kept while searching for a valid value."""


class SharedParts:
    """Makers and checks of subschemas, by identity, shared by the schemas of one document with the same definitions.

    Otherwise each tool of a large API would have its own copy for every definition.
    """

    def __init__(self) -> None:
        self._definitions: dict[str, SubSchema] = {}
        self.made: dict[tuple[int, str], Make] = {}
        self.checks: dict[int, Lazy] = {}
        self.kept: list[SubSchema] = []
        """Subschemas kept alive because their ids are used as keys."""

    def fits(self, root: dict[str, Any]) -> bool:
        """True if every definition is the same object as in earlier schemas; if so, the schema is added."""
        own = {f"{key}/{name}": node for key in _SHARED_KEYWORDS[1:] for name, node in (root.get(key) or {}).items()}
        if any(self._definitions.get(name, node) is not node for name, node in own.items()):
            return False
        self._definitions |= own
        return True


class SchemaValues:
    """Makes values of one schema and of its subschemas."""

    def __init__(self, schema: dict[str, Any], shared: SharedParts | None = None) -> None:
        self.root = _move_into_definitions(schema)
        self.check: Check = Lazy(lambda: self.compile_check(self.root))
        parts = shared if shared is not None and shared.fits(self.root) else SharedParts()
        self._made, self._checks, self._kept = parts.made, parts.checks, parts.kept
        self._whole: Make | None = None
        self._names: dict[int, dict[str, tuple[str, SubSchema]]] = {}

    def maker(self, node: SubSchema, name: str = "") -> Make:
        """The maker of values for that part; parts with references or alternatives are built on first use."""
        key = (id(node), name)
        if key not in self._made:
            self._kept.append(node)
            lazy = isinstance(node, dict) and not COMPOSED.isdisjoint(node)
            self._made[key] = Lazy(lambda: self.build(node, name)) if lazy else self.build(node, name)
        return self._made[key]

    def build(self, node: SubSchema, name: str) -> Make:
        """Build the maker of values for that part."""
        makers: list[tuple[int, Make]] = []
        why = "nothing is allowed"
        ways = find_ways(self.root, node)
        checked = not ways or any(way.checked for way in ways)
        # Different ways may lead to the same schema.
        for way in {id(way.schema): way for way in ways}.values():
            for kind in _value_kinds(way.schema):
                try:
                    makers.append(self._kind_maker(way, node, kind, name))
                except GaveUp as error:
                    why = str(error)
        if not makers:
            return _fail_with(f"{name}: {why}" if name else why)
        if plain_letters(name) in ID_NAMES and not checked:
            # Avoid null as an id: the entity could not be requested.
            makers = [pair for pair in makers if pair[1] is not make_null] or makers
        if len(makers) == 1 and not checked:
            return makers[0][1]
        choices = _list_choices(self.root, node) if checked else []
        return Choice(makers, self.checker(node) if checked else None, partial(self._violate_branches, choices))

    def _violate_branches(
        self, choices: list[list[SubSchema]], value: Any, known: Any, tries: Iterator[int]
    ) -> Iterator[Any]:
        """Variants that satisfy fewer branches, of one `oneOf` first and then of more; known fields change last."""
        sent = {plain_letters(name) for name in known} if isinstance(known, dict) else set()
        there = list(value) if isinstance(value, dict) else []
        for kept in (frozenset(there), frozenset(name for name in there if plain_letters(name) in sent), frozenset()):
            found = [value]
            for branches in choices:
                ways = (self._keep_branch(branches, one, kept, tries) or [one] for one in found)
                found = list(islice(chain.from_iterable(ways), _CANDIDATES_KEPT))
                yield from found

    def _keep_branch(
        self, branches: list[SubSchema], value: Any, kept: frozenset[str], tries: Iterator[int]
    ) -> list[Any]:
        """Variants that satisfy only one branch, with properties that only others declare changed to violate them."""
        found = []
        for _, own in zip(tries, branches, strict=False):
            if self.checker(own)(value):
                changed = value
                for _, other in zip(tries, branches, strict=False):
                    if other is not own and self.checker(other)(changed):
                        changed = self._contradict(changed, own, other, kept, tries)
                found.append(changed)
        return found

    def _contradict(
        self, value: Any, own: SubSchema, other: SubSchema, kept: frozenset[str], tries: Iterator[int]
    ) -> Any:
        accepts, refuses = self.checker(own), self.checker(other)
        ways = zip(tries, self._variants(value, own, other, kept), strict=False)
        return next((way for _, way in ways if accepts(way) and not refuses(way)), value)

    def _variants(self, value: Any, own: SubSchema, other: SubSchema, kept: frozenset[str]) -> Iterator[Any]:
        mine, theirs = item_node(self.root, own), item_node(self.root, other)
        if isinstance(value, list) and mine is not None and theirs is not None:
            for first in self._variants(value[0] if value else {}, mine, theirs, kept):
                yield [first, *value[1:]]
        elif isinstance(value, dict):
            # Branches may differ only in what they require.
            yield from (_leave_out(value, name) for name in value if name not in kept)
            said, declared = properties_of(self.root, own) or {}, properties_of(self.root, other) or {}
            for name in sorted(declared, key=lambda name: name in said):
                if name not in kept:
                    yield from ({**value, name: simple} for simple in SIMPLE)
                if isinstance(value.get(name), (dict, list)):
                    inner = self._variants(value[name], said.get(name, True), declared[name], kept)
                    yield from ({**value, name: part} for part in inner)
        else:
            yield from SIMPLE

    def _kind_maker(self, way: SchemaWay, node: SubSchema, kind: str, name: str) -> tuple[int, Make]:
        """A maker for one type, and its cost compared with the simplest value."""
        schema = way.schema
        values = allowed_values(schema)
        if values is not None:
            allowed = [value for value in values if _is_kind(value, kind)]
            if not _LIMITS.isdisjoint(schema) or kind in ("array", "object"):
                allowed = list(filter(self.checker(node), allowed))
            if not allowed:
                raise GaveUp("none of the allowed values fits")
            return 0, choose_value(allowed)
        if kind == "object":
            needed = schema.get("required")
            return 3 + len(needed or ()) if isinstance(needed, list) else 3, object_maker(self, schema)
        if kind == "array":
            return 2 + (8 if schema.get("minItems") else 0), ArrayMaker(self, schema, name)
        if kind == "null":
            return 0, make_null
        if kind == "boolean":
            return 0, make_boolean
        check = self.checker(schema if way.checked else node) if self._has_limits(schema) else _accept_any
        if kind == "string":
            return 0, text_maker(schema, name, check)
        return 0, number_maker(schema, name, check, whole=kind == "integer")

    def _has_limits(self, schema: dict[str, Any]) -> bool:
        return not _LIMITS.isdisjoint(schema) or "not" in schema

    def is_any_text(self, node: SubSchema) -> bool:
        """True if a part allows any text, with no format and no examples other than numerals."""
        schemas = [way.schema for way in find_ways(self.root, node)]
        texts = [schema for schema in schemas if allowed_types(schema) in (("string",), ("string", "null"))]
        shown = [example for schema in texts for example in (*schema.get("examples", ()), schema.get("example", "0"))]
        numerals = all(isinstance(example, str) and example.isdecimal() for example in shown)
        return bool(texts) and numerals and all(schema.keys() <= _ANNOTATIONS | {"type"} for schema in texts)

    def checker(self, node: SubSchema) -> Lazy:
        """A check for that part, compiled on first use."""
        found = self._checks.get(id(node))
        if found is None:
            self._kept.append(node)
            found = self._checks[id(node)] = Lazy(lambda: self.compile_check(node))
        return found

    def compile_check(self, node: SubSchema) -> Check:
        """Compile a check for that part; a part that refers to definitions combines their checks.

        A validator would hold all that its schema refers to, so in a large API each part would hold every definition.
        """
        if node == {}:
            return _accept_any
        if node is self.root:
            node = {key: value for key, value in self.root.items() if key not in _SHARED_KEYWORDS}
        refers = any(True for _ in _list_references(node))
        if refers and isinstance(node, dict) and self._is_plain(node):
            return _CombinedCheck(self, node)
        around = {key: self.root[key] for key in _SHARED_KEYWORDS if key in self.root and (refers or key == "$schema")}
        try:
            # Skip the cost estimate, which would take longer than checking these small values.
            return compile_schema({**around, "allOf": [node]}).judge_small
        except InvalidSchemaError:
            return _accept_any  # the whole value is checked in the end

    def _is_plain(self, node: dict[str, Any]) -> bool:
        """True if `_CombinedCheck` handles all keywords of a part, and it does not refer back to itself in place."""
        said = node.keys() - _ANNOTATIONS
        if not said <= _PLAIN or ("$ref" in said and len(said) > 1) or isinstance(node.get("items"), list):
            return False
        below = _walk_in_place(self.root, node)
        found = "$ref" not in node or isinstance(resolve_pointer(self.root, node["$ref"]), (dict, bool))
        return found and len(below) < _MOST_SUBSCHEMAS and not any(part is node for part in below)

    def make(self, draw: Draw) -> Any:
        """A value of the whole schema, an invalid one if no valid one was found; raises `GaveUp` if there is none."""
        if self._whole is None:
            self._whole = self.build(self.root, "")
        return self.make_part(self._whole, self.check, draw)

    def make_part(self, maker: Make, check: Check, draw: Draw) -> Any:
        """A value by that maker that passes the check, or else the first one made; raises `GaveUp` if there is none."""
        found: list[Any] = []
        why, known = GaveUp("the schema allows nothing"), draw.known
        for spent, loose in _TRIES:
            draw.spent, draw.depth, draw.loose, draw.known = spent, 0, loose, known
            try:
                value = maker(draw)
            except GaveUp as error:
                why = error
                draw.echo = known = None
                draw.restart(b"%d %b" % (spent, draw.key))
                continue
            if check(value):
                return value
            # The known value itself may be invalid, so try without it.
            known = None if found else known
            found = [value]
        if not found:
            raise why
        return found[0]

    def overlay(self, node: SubSchema, value: Any, known: Any, fresh: frozenset[str] = frozenset()) -> Any:
        """The value with all known properties that are allowed, even those not declared by the branch it was made by.

        To make room for names in `fresh` (normalised), others may be removed, since alternatives may exclude each
        other.
        """
        if type(value) is list and type(known) is list and len(value) == len(known):
            items = item_node(self.root, node)
            laid = value if items is None else [self.overlay(items, *pair) for pair in zip(value, known, strict=True)]
            return laid if self.checker(node)(laid) else value
        if type(value) is not dict or type(known) is not dict:
            return value
        names, accepts, tries = self._name_parts(node), self.checker(node), iter(range(_MOST_SHORTENED))
        for name, item in islice(known.items(), _MOST_OVERLAID):
            own, part = names.get(name) or names.get(plain_letters(name), ("", True)) if names else (name, True)
            there, ways = value.get(own), spellings_of(item)
            if not own or (own in value and (there in ways or there == [item])):
                continue
            if type(there) is type(item) and type(item) in (dict, list):
                ways = (self.overlay(part, there, item), *(() if type(item) is dict else ways))
            fitting = [{**value, own: way} for way in ways if way != there and self.checker(part)(way)]
            others = (
                [other for other in value if plain_letters(other) not in fresh] if plain_letters(name) in fresh else ()
            )
            shorter = (_leave_out(*pair) for _, pair in zip(tries, product(fitting, others), strict=False))
            value = next(filter(accepts, chain(fitting, shorter)), value)
        return value

    def _name_parts(self, node: SubSchema) -> dict[str, tuple[str, SubSchema]]:
        """Properties of objects at that node, in any branch: name and schema, by exact and by normalised name."""
        found = self._names.get(id(node))
        if found is None:
            self._kept.append(node)
            found = self._names[id(node)] = {}
            for way in find_ways(self.root, node):
                properties = way.schema.get("properties")
                for name, part in (properties if isinstance(properties, dict) else {}).items():
                    found.setdefault(name, (name, part))
            for name, pair in list(found.items()):
                found.setdefault(plain_letters(name), pair)
        return found


class _CombinedCheck:
    """A check of a part by the checks of the parts inside it."""

    __slots__ = ("_node", "_values")

    def __init__(self, values: SchemaValues, node: dict[str, Any]) -> None:
        self._values = values
        self._node = node

    def __call__(self, value: Any) -> bool:
        """Judge a value."""
        return self._judge(value, {})

    def _judge(self, value: Any, known: dict[tuple[int, int], bool]) -> bool:
        # Branches that lead back to one part would otherwise judge a value 2^depth times.
        key = id(self), id(value)
        if key not in known:
            known[key] = self._find_verdict(value, known)
        return known[key]

    def _find_verdict(self, value: Any, known: dict[tuple[int, int], bool]) -> bool:
        def fits(part: SubSchema, inside: Any) -> bool:
            check = self._values.checker(part).function()
            return check._judge(inside, known) if isinstance(check, _CombinedCheck) else bool(check(inside))

        node = self._node
        kinds = allowed_types(node)
        if kinds is not None and not any(_is_kind(value, kind) for kind in kinds):
            return False
        if "$ref" in node:
            return fits(resolve_pointer(self._values.root, node["$ref"]), value)
        if "anyOf" in node and not any(fits(branch, value) for branch in node["anyOf"]):
            return False
        if not all(fits(branch, value) for branch in node.get("allOf", ())):
            return False
        if "oneOf" in node and [fits(branch, value) for branch in node["oneOf"]].count(True) != 1:
            return False
        if isinstance(value, list):
            return all(fits(node.get("items", True), item) for item in value)
        if not isinstance(value, dict):
            return True
        declared, rest = node.get("properties", {}), node.get("additionalProperties", True)
        return all(name in value for name in node.get("required", ())) and all(
            fits(declared.get(name, rest), item) for name, item in value.items()
        )


def _leave_out(value: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key != name}


def is_any_object(schema: dict[str, Any]) -> bool:
    """True if a schema allows any object without describing it."""
    kinds = allowed_types(schema)
    said = ("allOf", "anyOf", "oneOf", "$ref", "enum", "const", "items", "required", "not", "if")
    free = (kinds is None or "object" in kinds) and not any(key in schema for key in said)
    free = free and not schema.get("properties")
    return free and schema.get("additionalProperties", True) in (True, {}) and "patternProperties" not in schema


def item_node(root: dict[str, Any], node: SubSchema) -> SubSchema | None:
    """The schema of an array's items; None if the node allows no array."""
    for way in find_ways(root, node):
        kinds = allowed_types(way.schema)
        items = way.schema.get("items")
        if isinstance(items, dict) and (kinds is None or "array" in kinds):
            return items
    return None


def properties_of(root: dict[str, Any], node: SubSchema) -> dict[str, Any] | None:
    """The properties of an object; None if the node allows no object, or declares none."""
    for way in find_ways(root, node):
        kinds = allowed_types(way.schema)
        properties = way.schema.get("properties")
        if isinstance(properties, dict) and properties and (kinds is None or "object" in kinds):
            return properties
    return None


def _list_choices(root: dict[str, Any], node: SubSchema) -> list[list[SubSchema]]:
    """All `oneOf` lists that apply to values of a node."""
    parts = [node, *_walk_in_place(root, node)]
    return [part["oneOf"] for part in parts if isinstance(part, dict) and isinstance(part.get("oneOf"), list)]


def _walk_in_place(root: dict[str, Any], node: SubSchema) -> list[SubSchema]:
    """Other subschemas that apply to values of a node, up to a limit; includes the node itself if it is recursive."""
    found: list[SubSchema] = []
    stack = [node]
    while stack and len(found) < _MOST_SUBSCHEMAS:
        part = stack.pop(0)
        if isinstance(part, dict):
            lists = [part[key] for key in ("allOf", "anyOf", "oneOf") if isinstance(part.get(key), list)]
            new = [resolve_pointer(root, part.get("$ref")), *[sub for subs in lists for sub in subs]]
            new = [sub for sub in new if isinstance(sub, dict) and not any(sub is other for other in found)]
            found += new
            stack += new
    return found


def _fail_with(why: str) -> Make:
    def make(draw: Draw) -> Any:
        raise GaveUp(why)

    return make


def _accept_any(value: Any) -> bool:
    return True


def _value_kinds(schema: dict[str, Any]) -> list[str]:
    """The types of values to make for a schema; inferred from its keywords if it names none."""
    kinds = allowed_types(schema)
    if kinds is not None:
        return list(dict.fromkeys(kinds))
    values = allowed_values(schema)
    if values is not None:
        return list(dict.fromkeys(map(_kind_of, values)))
    for words, kind in ((_OBJECT, "object"), (_ARRAY, "array"), (_TEXT, "string"), (_NUMBER, "number")):
        if not words.isdisjoint(schema):
            return [kind]
    return ["string", "integer", "object", "boolean", "array", "null"] if "not" in schema else ["string"]


def _kind_of(value: Any) -> str:
    """The JSON Schema type of a value: 1.0 is an integer."""
    return "integer" if isinstance(value, float) and value.is_integer() else json_type(value)


def _is_kind(value: Any, kind: str) -> bool:
    found = _kind_of(value)
    return found == kind or (found == "integer" and kind == "number")


def _move_into_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with all references pointing into definitions, so that its parts can be checked separately."""
    if all(
        ref.startswith(("#/$defs/", "#/definitions/")) or not ref.startswith("#") for ref in _list_references(schema)
    ):
        return schema
    root = f"#/$defs/{_ROOT.replace(' ', '%20')}"
    inside = map_references(schema, lambda ref: root + ref[1:] if ref[:2] in ("#", "#/") else ref)
    around = {"$schema": inside.pop("$schema")} if "$schema" in inside else {}
    return {**around, "$ref": root, "$defs": {_ROOT: inside}}


def _list_references(node: Any) -> Iterator[str]:
    stack = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if isinstance(item.get("$ref"), str):
                yield item["$ref"]
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
