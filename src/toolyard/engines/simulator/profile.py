"""`Profile`: all that is worked out once about a tool that is simulated.

What it seems to do, by its path, its name and its parameters: make, show, list, change or remove something (`Role`);
and where in its answer the entity is, or the list of entities, that it is about (`AnswerPath`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from toolyard.engines.simulator.draw import Make, encode
from toolyard.engines.simulator.values import SchemaValues
from toolyard.model.bindings import RestBinding
from toolyard.model.tool import Effects, Tool
from toolyard.schema.fold import allowed_types, find_ways
from toolyard.schema.subschemas import SubSchema
from toolyard.words.identifiers import plain_letters, split_identifier
from toolyard.words.plurals import singular
from toolyard.words.verbs import CRUD_BY_METHOD, CRUD_BY_VERB, CrudVerb

_WRAPPERS = (
    "data",
    "result",
    "response",
    "item",
    "payload",
    "record",
    "resource",
    "object",
    "value",
    "body",
    "content",
)
_LISTS = frozenset(("items", "data", "results", "values", "records", "entries", "list", "resources", "content"))
_LISTS |= {"objects", "rows", "result", "response", "elements", "hits", "matches", "members", "value", "documents"}
_DEEPEST = 3


class AnswerPath(msgspec.Struct, frozen=True, eq=False):
    """A part of an answer, and the properties that lead to it."""

    names: tuple[str, ...]
    node: SubSchema
    properties: dict[str, SubSchema]
    """Of the entity there, or of those in the list."""


def find_entity(values: SchemaValues, noun: str) -> AnswerPath | None:
    """The thing an answer is about: the whole of it, or what it wraps."""
    node: SubSchema = values.root
    path: tuple[str, ...] = ()
    while len(path) < _DEEPEST:
        properties = _properties_of(values, node)
        if properties is None:
            return None
        wrapped = _wrapped_name(values, properties, noun)
        if wrapped is None:
            return AnswerPath(path, node, properties)
        path, node = (*path, wrapped), properties[wrapped]
    return None


def _wrapped_name(values: SchemaValues, properties: dict[str, SubSchema], noun: str) -> str | None:
    letters = {plain_letters(name): name for name in reversed(properties)}
    if any(plain in letters for plain in ("id", "uuid", "sid", "sha", plain_letters(noun) + "id")):
        return None
    for plain in (plain_letters(noun), plain_letters(noun.rpartition(" ")[2]), *_WRAPPERS):
        name = letters.get(plain)
        if name is not None and _properties_of(values, properties[name]):
            return name
    return None


def find_list(values: SchemaValues, noun: str) -> AnswerPath | None:
    """The list of objects that an answer is about."""
    found: list[tuple[int, int, AnswerPath]] = []
    stack: list[tuple[tuple[str, ...], SubSchema]] = [((), values.root)]
    while stack:
        path, node = stack.pop(0)
        items = _item_node(values, node)
        if items is not None:
            inside = _properties_of(values, items)
            if inside is not None:
                found.append((_rank_path(path, noun), len(found), AnswerPath(path, items, inside)))
            continue
        properties = _properties_of(values, node) if len(path) < 2 else None
        stack += [((*path, name), sub) for name, sub in (properties or {}).items()]
        if len(stack) > 200:
            break
    if not found:
        return None
    best = min(found, key=lambda one: one[:2])
    alone = len(best[2].names) == 0 or best[0] < 3 or (len(found) == 1 and len(best[2].names) == 1 and _has_id(best[2]))
    return best[2] if alone else None


def is_any_object(values: SchemaValues) -> bool:
    """True if a schema allows any object and says nothing about it."""
    schema = values.root
    kinds = allowed_types(schema)
    said = ("properties", "allOf", "anyOf", "oneOf", "$ref", "enum", "const", "items", "required", "not", "if")
    free = (kinds is None or "object" in kinds) and not any(key in schema for key in said)
    return free and schema.get("additionalProperties", True) in (True, {}) and "patternProperties" not in schema


def _has_id(path: AnswerPath) -> bool:
    return any(plain_letters(name).endswith(("id", "name", "key")) for name in path.properties)


def _rank_path(path: tuple[str, ...], noun: str) -> int:
    if not path:
        return 0
    last = plain_letters(path[-1])
    thing, tail = plain_letters(noun), plain_letters(noun.rpartition(" ")[2])
    if singular(last) in (thing, tail) or last in (thing, tail):
        return 0 + len(path) - 1
    return 1 + len(path) - 1 if last in _LISTS else 5


def _item_node(values: SchemaValues, node: SubSchema) -> SubSchema | None:
    for way in find_ways(values.root, node):
        kinds = allowed_types(way.schema)
        items = way.schema.get("items")
        if isinstance(items, dict) and (kinds is None or "array" in kinds):
            return items
    return None


def _properties_of(values: SchemaValues, node: SubSchema) -> dict[str, Any] | None:
    """What an object there has; None if there is no object, or nothing is said about it."""
    for way in find_ways(values.root, node):
        kinds = allowed_types(way.schema)
        properties = way.schema.get("properties")
        if isinstance(properties, dict) and properties and (kinds is None or "object" in kinds):
            return properties
    return None


_LINKS = frozenset(("by", "for", "with", "from", "in", "of", "to", "using", "via", "on", "at", "as", "and"))
_EMPTY = frozenset(
    ("all", "new", "the", "a", "an", "details", "detail", "info", "information", "my", "one", "multiple")
)
_SEVERAL = frozenset(("batch", "bulk", "many", "several"))
_EMPTY |= _SEVERAL
_ID_ENDS = ("id", "uuid", "guid", "sid", "number", "key", "slug", "code", "name", "login", "ref", "arn", "handle")
_IDS = ("id", "uuid", "sid", "guid", "key")
_PARAMETER = re.compile(r"\{([^{}]+)\}")


class Role(msgspec.Struct, frozen=True):
    """What a tool does with things of one kind."""

    verb: CrudVerb = "none"
    kind: str = ""
    """Which things; the same for all tools that deal with them."""
    noun: str = ""
    """What to call one of them."""
    key: str | None = None
    """The argument that says which one."""
    fields: tuple[str, ...] = ()
    """Where such a thing has what the key says, in plain letters, the likeliest first."""
    scope: tuple[str, ...] = ()
    """Arguments that say whose things."""
    single: bool = False
    """True if there is only one thing of that kind, for each scope."""
    writes: bool = False
    """True if calling it twice is not the same as calling it once."""


def role_of(tool: Tool, *, lists: bool) -> Role:
    """What the tool seems to do; `lists` says that its output has a list of objects in it."""
    binding = tool.binding
    role = (
        _role_by_path(tool, binding, lists)
        if isinstance(binding, RestBinding)
        else _role_by_name(tool, tool.name, "", lists)
    )
    writes = tool.effects is Effects.WRITE or role.verb in ("create", "act")
    return msgspec.structs.replace(role, kind=f"{tool.namespace}/{role.kind}", writes=writes)


def fields_of(key: str, noun: str) -> tuple[str, ...]:
    """Properties in which a thing may have what an argument calls it by."""
    name, thing = plain_letters(key), plain_letters(noun)
    found = [name]
    rest = name.removeprefix(thing) if thing else name
    if rest == "" or name in ("username", "user"):
        found += ["name", "slug", "login", "username", "fullname", *_IDS, "number", "type"]
    elif rest != name:
        found.append(rest)
    ending = next((end for end in _ID_ENDS if name.endswith(end)), None)
    if ending is not None:
        found += [ending, thing + ending]
    if ending in _IDS or ending is None:
        found += [*_IDS, thing + "id"]
    return tuple(dict.fromkeys(found))


def own_names(noun: str) -> dict[str, str]:
    """What a thing calls itself, by what others call it, in plain letters: `petid` is its `id`."""
    thing, tail = plain_letters(noun), plain_letters(noun.rpartition(" ")[2])
    return {start + end: end for start in (thing, tail) if start for end in _ID_ENDS}


def _role_by_path(tool: Tool, binding: RestBinding, lists: bool) -> Role:
    parts = [part for part in binding.path.split("/") if part]
    method = binding.method.lower()
    if method == "post" and len(parts) > 1 and parts[-1].lower() in _SEVERAL:
        parts.pop()
    if not parts:
        return Role()
    named = {item.name: item.argument for item in binding.parameters if item.location == "path"}
    last = _PARAMETER.findall(parts[-1])
    if not last:
        return _role_by_last_word(tool, parts, method, lists, named)
    after = parts[-1].rpartition("}")[2].lstrip(":.")
    front = parts[:-1]
    noun = _noun_of(front) or plain_letters(last[-1])
    key = named.get(last[-1])
    if key is None:
        return Role()
    verb: CrudVerb = (
        "act" if method == "post" or (after and after not in ("json", "xml")) else CRUD_BY_METHOD.get(method, "none")
    )
    kind, scope = _collection_of(front, named)
    return Role(verb, kind, noun, key, fields_of(key, noun), scope)


def _collection_of(parts: list[str], named: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    kind = "/".join("{}" if "{" in part else part for part in parts)
    names = [name for part in parts for name in _PARAMETER.findall(part)]
    return kind, tuple(named[name] for name in names if name in named)


def _noun_of(parts: list[str]) -> str:
    plain = [part for part in parts if "{" not in part]
    return (
        " ".join([*split_identifier(plain[-1])[:-1], singular(split_identifier(plain[-1])[-1])])
        if plain and split_identifier(plain[-1])
        else ""
    )


def _role_by_last_word(tool: Tool, parts: list[str], method: str, lists: bool, named: Mapping[str, str]) -> Role:
    """A path that ends in a word: all things of a kind, or something that is done."""
    words = split_identifier(parts[-1])
    spoken = [word for word in words if word in CRUD_BY_VERB]
    if spoken and (len(words) > 1 or method == "post" or spoken[0] in ("search", "find", "list")):
        front, scope = _collection_of(parts[:-1], named)
        if len(parts) > 1 and "{" in parts[-2] and CRUD_BY_VERB[spoken[0]] in ("act", "get", "update"):
            item = _role_by_path(tool, _drop_last_part(tool.binding, parts), lists)
            return msgspec.structs.replace(item, verb="act" if method != "get" else item.verb)
        role = _role_by_name(tool, parts[-1], _noun_of(parts[:-1]), lists)
        kind = front if role.noun == _noun_of(parts[:-1]) else f"{front}/{role.noun}".lstrip("/")
        return msgspec.structs.replace(role, kind=kind, scope=scope)
    kind, scope = _collection_of(parts, named)
    noun = _noun_of(parts)
    if method == "get":
        return Role("list" if lists else "get", kind, noun, scope=scope, single=not lists)
    if method == "post":
        return Role("create", kind, noun, scope=scope)
    key = _find_key(tool, noun, loose=False) if method in ("put", "patch", "delete") else None
    if key is not None and key not in scope:
        return Role(CRUD_BY_METHOD.get(method, "none"), kind, noun, key, fields_of(key, noun), scope)
    return Role(CRUD_BY_METHOD.get(method, "none"), kind, noun, scope=scope, single=True)


def _drop_last_part(binding: Any, parts: list[str]) -> RestBinding:
    shorter: RestBinding = msgspec.structs.replace(binding, path="/" + "/".join(parts[:-1]))
    return shorter


def _role_by_name(tool: Tool, name: str, context: str, lists: bool) -> Role:
    words = split_identifier(name)
    at = next(
        (index for index in (0, len(words) - 1, *range(len(words))) if words and words[index] in CRUD_BY_VERB),
        None,
    )
    if at is None:
        return Role()
    verb = CRUD_BY_VERB[words[at]]
    rest = words[:at] + words[at + 1 :]
    cut = next((index for index, word in enumerate(rest) if word in _LINKS), len(rest))
    thing = [word for word in rest[:cut] if word not in _EMPTY and word not in ("id", "list")]
    plural = bool(thing) and singular(thing[-1]) != thing[-1]
    noun = " ".join([*thing[:-1], singular(thing[-1])]) if thing else context
    if not noun:
        return Role()
    key = _find_key(tool, noun, loose=verb in ("delete", "update", "replace", "act"))
    if verb == "get" and (lists or (plural and key is None) or "all" in rest or "list" in rest) and key is None:
        verb = "list"
    if verb == "list" and not lists and tool.output_parameters.get("properties"):
        verb = "get"
    if verb in ("get", "delete", "update", "replace", "act") and key is None:
        return Role("act" if verb == "act" else "none")
    keyed = verb not in ("create", "list")
    return Role(verb, noun, noun, key if keyed else None, fields_of(key, noun) if keyed and key else ())


def _find_key(tool: Tool, noun: str, *, loose: bool) -> str | None:
    """The argument that says which thing is meant."""
    properties = tool.parameters.get("properties")
    names = [str(name) for name in properties] if isinstance(properties, dict) else []
    by_letters: dict[str, str] = {plain_letters(name): name for name in reversed(names)}
    thing = plain_letters(noun)
    tail = plain_letters(noun.rpartition(" ")[2])
    for start in (thing, tail):
        for end in ("id", "uuid", "number", "key", "code", "slug", "sid", "name"):
            if start + end in by_letters:
                return by_letters[start + end]
    for plain in ("id", "uuid", thing, tail):
        if plain in by_letters:
            return by_letters[plain]
    if loose:
        required = tool.parameters.get("required") or ()
        ids = [name for name in names if name in required and plain_letters(name).endswith(("id", "number"))]
        return ids[0] if len(ids) == 1 else None
    return None


class Profile:
    """What a tool seems to do, and who makes its answers."""

    __slots__ = (
        "body_argument",
        "entity_maker",
        "entity_path",
        "ignored",
        "is_free",
        "list_maker",
        "list_path",
        "plain",
        "prefix",
        "role",
        "tool",
        "values",
    )

    def __init__(self, tool: Tool, seed: int | str) -> None:
        self.tool = tool
        self.prefix = encode([seed, tool.qualified_name])
        values = SchemaValues(tool.output_parameters) if tool.output_parameters else None
        self.is_free = values is None or is_any_object(values)
        """True if the answer may be any object."""
        self.values = values
        shown = None if values is None or self.is_free else values
        lists = shown is not None and find_list(shown, "") is not None
        self.role = role_of(tool, lists=lists)
        noun = self.role.noun
        self.list_path: AnswerPath | None = None if shown is None else find_list(shown, noun)
        if self.role.verb == "list":
            self.entity_path: AnswerPath | None = None
        else:
            self.entity_path = None if shown is None else find_entity(shown, noun)
        self.entity_maker: Make | None = None
        if values is not None and self.entity_path is not None:
            self.entity_maker = values.maker(self.entity_path.node, noun)
        self.list_maker: Make | None = None
        if values is not None and self.list_path is not None:
            self.list_maker = values.maker(self.list_path.node, noun)
        self.plain = self.role.verb == "none" and not self.role.writes and not self.is_free
        """True if nothing but the arguments matters."""
        self.body_argument = _find_body(tool)
        self.ignored = _find_ignored(tool)

    def sent_fields(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the arguments say about a thing: the object they send, if they send one, opened."""
        role = self.role
        left_out = {*role.scope, *self.ignored, *([role.key] if role.key is not None else [])}
        found = {name: value for name, value in arguments.items() if name not in left_out}
        body = found.get(self.body_argument) if self.body_argument is not None else None
        if isinstance(body, dict):
            del found[str(self.body_argument)]
            found |= body
        if role.key is None:
            return found
        # It keeps its name, whatever the body says.
        return {name: value for name, value in found.items() if plain_letters(name) not in role.fields}


_CREDENTIALS = frozenset(("apikey", "accesstoken", "authtoken", "token", "authorization", "auth", "password", "secret"))


def _find_ignored(tool: Tool) -> frozenset[str]:
    """Arguments that are about the call, not about what it deals with."""
    properties = tool.parameters.get("properties")
    found = (
        {name for name in properties if plain_letters(name) in _CREDENTIALS} if isinstance(properties, dict) else set()
    )
    binding = tool.binding
    if isinstance(binding, RestBinding):
        places = ("header", "cookie") if binding.body is None else ("header", "cookie", "query")
        found = {item.argument for item in binding.parameters if item.location in places}
    return frozenset(found)


def _find_body(tool: Tool) -> str | None:
    """The argument that is the thing itself."""
    binding = tool.binding
    if isinstance(binding, RestBinding):
        return binding.body.argument if binding.body is not None else None
    properties = tool.parameters.get("properties")
    objects = [
        name
        for name, node in (properties.items() if isinstance(properties, dict) else ())
        if isinstance(node, dict) and node.get("type") == "object"
    ]
    return objects[0] if len(objects) == 1 else None
