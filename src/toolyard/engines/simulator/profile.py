"""`Profile`: all that is worked out once about a tool that is simulated.

What it seems to do, by its path, its name and its parameters: make, show, list, change or remove something (`Role`);
and where in its answer the entity is, or the list of entities, that it is about (`AnswerPath`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from toolyard.engines.simulator.draw import Make, encode
from toolyard.engines.simulator.scalars import OWN
from toolyard.engines.simulator.values import SchemaValues, item_node, properties_of
from toolyard.model.bindings import RestBinding
from toolyard.model.tool import Effects, Tool
from toolyard.schema.fold import allowed_types
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


ITEM = "[]"
"""In a path: the items of the list that is there."""
_ABOUT = frozenset(("meta", "metadata", "links", "included", "status", "success", "ok", "code", "message", "messages"))
_ABOUT |= {"errors", "error", "warnings", "requestid", "pagination", "jsonapi", "version", "timestamp"}
"""What an answer says beside what it is about."""


class AnswerPath(msgspec.Struct, frozen=True, eq=False):
    """A part of an answer, and the properties and lists that lead to it."""

    names: tuple[str, ...]
    node: SubSchema
    properties: dict[str, SubSchema]
    """Of the entity there, or of those in the list."""

    def wrap(self, entities: list[Any]) -> Any:
        """An answer that has nothing but them, each in its envelope; the first one, where there is no list."""
        front, listed, back = self.names, False, self.names
        if ITEM in self.names:
            at, listed = self.names.index(ITEM), True
            front, back = self.names[:at], self.names[at + 1 :]
        whole: Any = [_nest_value(entity, back) for entity in entities] if listed else entities[0]
        return _nest_value(whole, front)


def _nest_value(value: Any, names: tuple[str, ...]) -> Any:
    for name in reversed(names):
        value = {name: value}
    return value


def find_entity(root: dict[str, Any], noun: str) -> AnswerPath | None:
    """The thing an answer is about: the whole of it, what it wraps, or the only item of a list."""
    path = _open_envelopes(root, root, noun)
    if path is None or not _has_own_id(path.properties, noun):
        listed = find_list(root, noun, among=("data", "result", "results", "items", "response"))
        if listed is not None and (_has_own_id(listed.properties, noun) or find_list(root, noun, among=())):
            return listed
    return path


def _open_envelopes(root: dict[str, Any], node: SubSchema, noun: str) -> AnswerPath | None:
    path: tuple[str, ...] = ()
    while len(path) < _DEEPEST:
        properties = properties_of(root, node)
        if properties is None:
            return None
        wrapped = _wrapped_name(root, properties, noun)
        if wrapped is None:
            return AnswerPath(path, node, properties)
        path, node = (*path, wrapped), properties[wrapped]
    return None


def _wrapped_name(root: dict[str, Any], properties: dict[str, SubSchema], noun: str) -> str | None:
    """The envelope among the properties: called as the thing is, or as envelopes are, or with nothing beside it."""
    if _has_own_id(properties, noun):
        return None
    letters = {plain_letters(name): name for name in reversed(properties)}
    for plain in (*_nouns(noun), *_WRAPPERS):
        name = letters.get(plain)
        if name is not None and properties_of(root, properties[name]):
            return name
    rest = [name for plain, name in letters.items() if plain not in _ABOUT]
    inside = properties_of(root, properties[rest[0]]) if len(rest) == 1 else None
    return rest[0] if inside and _has_own_id(inside, noun) else None


def _nouns(noun: str) -> tuple[str, ...]:
    """What a thing may be called in plain letters: as a whole, and by its last word."""
    return plain_letters(noun), plain_letters(noun.rpartition(" ")[2])


def _has_own_id(properties: Mapping[str, SubSchema], noun: str) -> bool:
    ids = {*OWN, "sha", *[name + end for name in _nouns(noun) if name for end in OWN]}
    return any(plain_letters(name) in ids for name in properties)


def find_list(root: dict[str, Any], noun: str, among: Collection[str] = _LISTS) -> AnswerPath | None:
    """The list of objects that an answer is about; `among` are names of lists of anything."""
    found: list[tuple[int, int, AnswerPath]] = []
    stack: list[tuple[tuple[str, ...], SubSchema]] = [((), root)]
    while stack:
        path, node = stack.pop(0)
        items = item_node(root, node)
        if items is not None:
            inside = _open_envelopes(root, items, noun)
            if inside is not None:
                names = (*path, ITEM, *inside.names)
                listed = AnswerPath(names, inside.node, inside.properties)
                found.append((_rank_path(path, noun, among), len(found), listed))
            continue
        properties = properties_of(root, node) if len(path) < 2 else None
        stack += [((*path, name), sub) for name, sub in (properties or {}).items()]
        if len(stack) > 200:
            break
    if not found:
        return None
    rank, _, best = min(found, key=lambda one: one[:2])
    alone = len(found) == 1 and best.names.index(ITEM) == 1 and _has_id(best) and among is _LISTS
    return best if rank < 3 or alone else None


def is_any_object(schema: dict[str, Any]) -> bool:
    """True if a schema allows any object and says nothing about it."""
    kinds = allowed_types(schema)
    said = ("properties", "allOf", "anyOf", "oneOf", "$ref", "enum", "const", "items", "required", "not", "if")
    free = (kinds is None or "object" in kinds) and not any(key in schema for key in said)
    return free and schema.get("additionalProperties", True) in (True, {}) and "patternProperties" not in schema


def _has_id(path: AnswerPath) -> bool:
    return any(plain_letters(name).endswith(("id", "name", "key")) for name in path.properties)


def _rank_path(path: tuple[str, ...], noun: str, among: Collection[str]) -> int:
    if not path:
        return 0
    last = plain_letters(path[-1])
    if singular(last) in _nouns(noun) or last in _nouns(noun):
        return 0 + len(path) - 1
    return 1 + len(path) - 1 if last in among else 5


_LINKS = frozenset(("by", "for", "with", "from", "in", "of", "to", "using", "via", "on", "at", "as", "and"))
_EMPTY = frozenset(
    ("all", "new", "the", "a", "an", "details", "detail", "info", "information", "my", "one", "multiple")
)
_SEVERAL = frozenset(("batch", "bulk", "many", "several"))
_EMPTY |= _SEVERAL
ID_ENDS = (
    "id",
    "uuid",
    "guid",
    "sid",
    "gid",
    "uid",
    "number",
    "key",
    "slug",
    "code",
    "name",
    "login",
    "ref",
    "arn",
    "handle",
)
_IDS = ("id", "uuid", "sid", "guid", "gid", "uid", "key")
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
        found += ["name", "slug", "label", "login", "username", "fullname", *_IDS, "number", "type"]
    elif rest != name:
        found.append(rest)
    ending = next((end for end in ID_ENDS if name.endswith(end)), None)
    if ending is not None:
        found += [ending, thing + ending]
    return tuple(dict.fromkeys((*found, *_IDS, thing + "id")))


def own_names(noun: str) -> dict[str, str]:
    """What a thing calls itself, by what others call it, in plain letters: `petid` is its `id`."""
    thing, tail = plain_letters(noun), plain_letters(noun.rpartition(" ")[2])
    return {start + end: end for start in (thing, tail) if start for end in ID_ENDS}


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
    verb: CrudVerb = CRUD_BY_METHOD.get(method, "none")
    if after and after not in ("json", "xml"):
        verb = "act"
    elif method == "post":
        verb = _verb_of_post(tool, binding)
    kind, scope = _collection_of(front, named)
    if verb == "get" and lists and not _is_own_key(plain_letters(key), noun):
        return Role("list", kind, noun, scope=scope)
    return Role(verb, kind, noun, key, fields_of(key, noun), scope)


def _is_own_key(letters: str, noun: str) -> bool:
    """False for what says which ones rather than which one: `/buckets/{clusterId}`, `/pets/{type}`."""
    return letters in ID_ENDS or any(letters.startswith(name) or letters.endswith(name) for name in _nouns(noun))


def _verb_of_post(tool: Tool, binding: RestBinding) -> CrudVerb:
    """What a POST on one thing does: changes it by what is sent, unless the name of the tool says otherwise."""
    word = next((word for word in split_identifier(tool.name) if word in CRUD_BY_VERB and word != "post"), "")
    said = CRUD_BY_VERB.get(word, "update")
    if binding.body is None or said in ("act", "list"):
        return "act"
    return "replace" if said == "create" else "update"


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
    if verb in ("create", "delete") and rest[:1] in (["to"], ["from"]):
        return Role("act")  # to what: to something else
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
        for end in ("id", "uuid", "gid", "number", "key", "code", "slug", "sid", "name"):
            if start + end in by_letters:
                return by_letters[start + end]
    for plain in ("id", "uuid", "gid", thing, tail):
        if plain in by_letters:
            return by_letters[plain]
    if loose:
        required = tool.parameters.get("required") or ()
        ids = [name for name in names if name in required and plain_letters(name).endswith(("id", "number"))]
        return ids[0] if len(ids) == 1 else None
    return None


class Profile:
    """What a tool seems to do, who makes its answers, and where the entity is in what it is sent."""

    __slots__ = (
        "body_argument",
        "entity_maker",
        "entity_path",
        "envelope",
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
        self.is_free = values is None or is_any_object(values.root)
        """True if the answer may be any object."""
        self.values = values
        root = None if values is None or self.is_free else values.root
        self.role = role_of(tool, lists=root is not None and find_list(root, "") is not None)
        noun = self.role.noun
        self.list_path: AnswerPath | None = None if root is None else find_list(root, noun)
        self.entity_path: AnswerPath | None = None
        if root is not None and self.role.verb != "list":
            self.entity_path = find_entity(root, noun)
        self.entity_maker = self._maker_of(self.entity_path)
        self.list_maker = self._maker_of(self.list_path)
        self.plain = self.role.verb == "none" and not self.role.writes and not self.is_free
        """True if nothing but the arguments matters."""
        self.body_argument = _find_body(tool)
        self.ignored = _find_ignored(tool)
        self.envelope = self._find_envelope()
        """The names that lead to the entity in the body."""

    def _maker_of(self, path: AnswerPath | None) -> Make | None:
        return None if path is None or self.values is None else self.values.maker(path.node, self.role.noun)

    def _find_envelope(self) -> tuple[str, ...]:
        """In the body: what is called as the thing or as envelopes are, or is all there is, and is no part of it."""
        root = self.tool.parameters
        properties = properties_of(root, root) or {}
        if self.body_argument is not None:
            properties = properties_of(root, properties.get(self.body_argument, True)) or {}
        aside = {*self.role.scope, *self.ignored, self.role.key}
        own = {plain_letters(name) for name in (self.entity_path.properties if self.entity_path is not None else ())}
        wrapped = {plain_letters(name) for name in (self.entity_path.names if self.entity_path is not None else ())}
        found: tuple[str, ...] = ()
        while len(found) < _DEEPEST:
            letters = {plain_letters(name): name for name in properties if name not in aside}
            names = [*_nouns(self.role.noun), *wrapped, *_WRAPPERS, *(letters if len(letters) == 1 else ())]
            opened = next((letters[plain] for plain in names if plain in letters and plain not in own), None)
            inside = None if opened is None else properties_of(root, properties[opened])
            if opened is None or inside is None:
                break
            found, properties = (*found, opened), inside
        return found

    def sent_fields(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the arguments say about a thing: the object they send, if they send one, opened."""
        role, binding = self.role, self.tool.binding
        left_out = {*role.scope, *self.ignored, *([role.key] if role.key is not None else [])}
        found = {name: value for name, value in arguments.items() if name not in left_out}
        for name in (self.body_argument, *self.envelope):
            if isinstance(found.get(name or ""), dict):
                found |= found.pop(name or "")
        if isinstance(binding, RestBinding) and binding.body is not None and not self.envelope:
            found = {binding.body.properties.get(name, name): value for name, value in found.items()}
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
