"""`Profile`: all that is worked out once about a tool that is simulated.

What it seems to do (`Role`), and where the entity is that it is about: in what is sent, inside of which envelopes, and
in the answer, alone or in a list (`AnswerPath`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec

from toolyard.engines.simulator.containers import COMMON, is_short, spellings_of
from toolyard.engines.simulator.draw import Draw, GaveUp, count_same, encode
from toolyard.engines.simulator.roles import (
    ALONE,
    THINGS,
    Neighbours,
    noun_of,
    nouns_of,
    own_names,
    role_of,
    verb_by_name,
)
from toolyard.engines.simulator.scalars import OWN
from toolyard.engines.simulator.values import SchemaValues, SharedParts, item_node, properties_of
from toolyard.model.bindings import RestBinding
from toolyard.model.tool import Tool
from toolyard.schema.fold import allowed_types, find_ways
from toolyard.schema.subschemas import SubSchema, allowed_values
from toolyard.words.identifiers import CrudVerb, plain_letters, singular, split_identifier

_ENVELOPES = ("data", "result", "response", "payload")
"""What nothing but an envelope is called."""
_WRAPPERS = (*_ENVELOPES, "item", "record", "resource", "object", "value", "body", "content")
_LISTS = frozenset(("items", "data", "results", "values", "records", "entries", "list", "resources", "content"))
_LISTS |= {"objects", "rows", "result", "response", "elements", "hits", "matches", "members", "value", "documents"}
_LISTS |= {"successes", "succeeded", "created"}
_FILTERS = frozenset(("filter", "filters", "query", "where", "criteria", "sort", "orderby", "limit", "offset"))
"""What is sent to say which things are wanted, or how many."""
_MAKING = frozenset(("create", "add", "insert", "register"))
"""Words of a name that say that something is made, whatever else it says: `get_or_create_user`."""
_DEEPEST = 4


ITEM = "[]"
"""In a path: the items of the list that is there."""
_ABOUT = frozenset(("meta", "metadata", "links", "included", "status", "success", "ok", "code", "message", "messages"))
_ABOUT |= {"errors", "error", "warnings", "requestid", "pagination", "jsonapi", "version", "timestamp"}
"""What an answer says beside what it is about."""
_RESULT = _ABOUT | {"type", "statuscode"}
"""What is said of how a call went."""
PARTS = ("metadata", "attributes", "properties", "meta", "sys", "info")
"""Parts of a thing that are about itself, in which its name may be."""


class AnswerPath(msgspec.Struct, frozen=True, eq=False):
    """A part of an answer, and the properties and lists that lead to it."""

    names: tuple[str, ...]
    node: SubSchema
    properties: dict[str, SubSchema]
    """Of the entity there, or of those in the list."""

    @property
    def letters(self) -> dict[str, str]:
        """The names of the properties by their plain letters; of several that have the same, the first."""
        return {plain_letters(name): name for name in reversed(self.properties)}

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
    if path is None or not has_own_id(path.properties, noun):
        listed = find_list(root, noun, among=("data", "result", "results", "items", "response"))
        named = find_list(root, noun, among=())
        contents = _tell_contents(root, root)
        if listed is not None and not (
            has_own_id(listed.properties, noun) and _is_envelope("data", listed.properties, contents)
        ):
            listed = None  # the `items` of an order are its parts
        if named is not None and path is not None and not _is_envelope("data", named.properties, contents):
            named = None  # and so are the `relatedOrders`
        if named is not None or listed is not None:
            return named or listed
        alone = find_list(root, noun)
        if alone is not None and has_own_id(alone.properties, noun) and contents == [alone.names[0]]:
            return alone
    return path


def _is_list(root: dict[str, Any], noun: str) -> bool:
    """Whether an answer is about several things, and not about one that has lists in it."""
    one = _open_envelopes(root, root, noun)
    return find_list(root, noun) is not None and (one is None or not has_own_id(one.properties, noun))


def _tell_contents(root: dict[str, Any], node: SubSchema) -> list[str]:
    """The properties of an answer that are not about the answer itself."""
    letters = {name: plain_letters(name) for name in properties_of(root, node) or ()}
    return [name for name, plain in letters.items() if plain not in _ABOUT and not plain.startswith("total")]


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
    if has_own_id(properties, noun) and len(properties) > 1:
        return None  # but `{"Id": {"id": 7}}` holds an id in an envelope of its own
    letters = {plain_letters(name): name for name in reversed(properties)}
    rest = {plain: name for plain, name in letters.items() if plain not in _ABOUT}
    for plain in (*nouns_of(noun), *_WRAPPERS):
        inside = properties_of(root, properties[letters[plain]]) if plain in letters else None
        named = plain in _ENVELOPES and has_own_id(inside or (), noun)
        if inside and (named or plain == nouns_of(noun)[0] or _is_envelope(plain, inside, rest)):
            return letters[plain]
    for plain, name in rest.items():
        inside = properties_of(root, properties[name])
        alike = plain.endswith(nouns_of(noun)[1] or " ") and _is_envelope("data", inside or (), rest)
        if inside and has_own_id(inside, noun) and (len(rest) == 1 or alike):
            return name
    about = letters.get("metadata")
    inside = properties_of(root, properties[about]) if about is not None else None
    beside = {plain: name for plain, name in letters.items() if name != about}
    large = inside and (len(inside) > len(properties) or (beside.keys() <= _RESULT and _has_id(inside)))
    if large and "name" not in letters and all(_is_scalar(root, properties[name]) for name in beside.values()):
        return about  # where only texts and numbers stand beside it, none a name, it is not about anything else
    return None


def _is_scalar(root: dict[str, Any], node: SubSchema) -> bool:
    kinds = [allowed_types(way.schema) for way in find_ways(root, node)]
    return any(each is not None and {"object", "array"}.isdisjoint(each) for each in kinds)


def _is_envelope(name: str, inside: Collection[str], all_names: Collection[str]) -> bool:
    """Whether what is called as envelopes are is one, and no part like others: `content` is one of a comment's many."""
    beside = len(all_names) - 1
    return len(inside) >= beside if name in _ENVELOPES else len(inside) > 2 * beside


def has_own_id(properties: Iterable[str], noun: str) -> bool:
    """Whether a thing says by which id it is called."""
    starts = [start for name in nouns_of(noun) if name for start in (name, f"{name}s")]
    ids = {*OWN, "sha", *[f"{thing}id" for thing in THINGS]}
    ids |= {start + end for start in starts for end in (*OWN, "key", "identifier", "number")}
    return any(plain_letters(name) in ids for name in properties)


def find_list(
    root: dict[str, Any], noun: str, among: Collection[str] = _LISTS, node: SubSchema | None = None
) -> AnswerPath | None:
    """The list of objects that an answer, or one form of it, is about; `among` are names of lists of anything."""
    found: list[tuple[int, int, AnswerPath]] = []
    stack: list[tuple[tuple[str, ...], SubSchema]] = [((), root if node is None else node)]
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
    alone = len(found) == 1 and best.names.index(ITEM) == 1 and _has_id(best.properties) and among is _LISTS
    return best if rank < 3 or alone else None


def is_any_object(schema: dict[str, Any]) -> bool:
    """True if a schema allows any object and says nothing about it."""
    kinds = allowed_types(schema)
    said = ("allOf", "anyOf", "oneOf", "$ref", "enum", "const", "items", "required", "not", "if")
    free = (kinds is None or "object" in kinds) and not any(key in schema for key in said)
    free = free and not schema.get("properties")
    return free and schema.get("additionalProperties", True) in (True, {}) and "patternProperties" not in schema


def _has_id(properties: Iterable[str]) -> bool:
    return any(plain_letters(name).endswith(("id", "name", "key")) for name in properties)


def _rank_path(path: tuple[str, ...], noun: str, among: Collection[str]) -> int:
    if not path:
        return 0
    last = plain_letters(path[-1])
    if singular(last) in nouns_of(noun) or last in nouns_of(noun):
        return 0 + len(path) - 1
    if noun and singular(last).endswith(nouns_of(noun)[1]):
        return 2 + len(path) - 1  # `createdOrders`
    return 1 + len(path) - 1 if last in among else 5


class Profile:
    """What a tool seems to do, who makes its answers, and where the entity is in what it is sent."""

    def __init__(
        self, tool: Tool, seed: int | str, shared: SharedParts | None = None, neighbours: Neighbours = ALONE
    ) -> None:
        self.tool = tool
        self._beside = seed, shared, neighbours
        self.prefix = encode([seed, tool.qualified_name])
        self.values = SchemaValues(tool.output_parameters, shared)
        self.is_free = is_any_object(self.values.root)
        """True if the answer may be any object."""
        root = None if self.is_free else self.values.root
        noun = noun_of(tool.binding.path.split("/")) if isinstance(tool.binding, RestBinding) else ""
        self.role = role_of(tool, lists=root is not None and _is_list(root, noun), neighbours=neighbours)
        noun = self.role.noun
        self.list_path: AnswerPath | None = None if root is None else find_list(root, noun)
        self.entity_path: AnswerPath | None = None
        if root is not None and self.role.verb != "list":
            self.entity_path = find_entity(root, noun)
        if root is not None and self.role.verb == "create" and self.list_path is None:
            # Where one or several are made, one form of the answer has the one, and another has several.
            forms = [find_list(root, noun, node=way.schema) for way in find_ways(root, root)]
            self.list_path = next((path for path in forms if path is not None), None)
        if self.role.verb == "create" and self._is_lookup():
            verb: CrudVerb = "list" if self.list_path is not None else "none"
            self.role = msgspec.structs.replace(self.role, verb=verb, writes=False)
        self._kept = frozenset(self.role.fields)
        """What no update changes, in plain letters."""
        shown = self.entity_path.properties if self.entity_path is not None else {}
        nameless = {"name"} == {"name", *self.role.fields}.intersection(map(plain_letters, shown))
        if self.role.key is not None and (nameless or self.role.verb == "delete"):
            # It has no id at all, so that its name is what it can be asked for by; who deletes it shows nothing.
            self.role = msgspec.structs.replace(self.role, fields=(*self.role.fields, "name"))
        self.plain = self.role.verb == "none" and not self.role.writes and not self.is_free
        """True if nothing but the arguments matters."""
        self.body_argument = _find_body(tool)
        self.ignored = _find_ignored(tool)
        self.envelope = self._find_envelope()
        """The names that lead to the entity in the body."""

    @cached_property
    def reader(self) -> Profile | None:
        """Who shows one of the things that this tool makes or changes, if that is another tool."""
        seed, shared, neighbours = self._beside
        tool = neighbours.readers.get(self.role.kind)
        return None if tool is None or tool is self.tool else Profile(tool, seed, shared, neighbours)

    @cached_property
    def shown(self) -> dict[str, frozenset[str] | None]:
        """What the thing has, in plain letters, as the answer or who shows one has it: what is inside, or None."""
        reader = self.reader if self.role.verb in ("create", "update", "replace") else None
        return {**(reader._own_parts if reader is not None else {}), **self._own_parts}

    @cached_property
    def _own_parts(self) -> dict[str, frozenset[str] | None]:
        root, found = self.values.root, {}
        for name, node in self.entity_path.properties.items() if self.entity_path is not None else ():
            inside = frozenset(map(plain_letters, properties_of(root, node) or ()))
            found[plain_letters(name)] = None if _is_scalar(root, node) else inside
        return found

    def choose_shown(self, name: str, merged: Any, sent: Any) -> Any:
        """What is known of a part after an update: old and new, unless the answer could not show the new then."""
        path = self.entity_path
        node = True if path is None else path.properties.get(path.letters.get(plain_letters(name), ""), True)

        def count_shown(way: Any) -> int:
            draw = Draw(b"")
            draw.known = way
            with suppress(GaveUp):
                return count_same(self.values.maker(node, name)(draw), sent)
            return 0

        return merged if self.values.checker(node)(merged) else max((merged, sent), key=count_shown)

    @cached_property
    def key_values(self) -> SchemaValues:
        """What the argument may be that says which thing is meant."""
        root, key = self.tool.parameters, self.role.key
        around = {name: value for name, value in root.items() if name in ("$schema", "$defs", "definitions")}
        return SchemaValues({**around, "allOf": [(root.get("properties") or {}).get(key, True)]})

    @cached_property
    def key_choices(self) -> list[Any]:
        """All that the argument may be, where a list says so."""
        root = self.key_values.root
        return [value for way in find_ways(root, root) for value in allowed_values(way.schema) or ()]

    def accepts_key(self, value: Any) -> bool:
        """Whether a thing that is called so can be asked for."""
        return is_short(value) and any(map(self.key_values.check, spellings_of(value)))

    @cached_property
    def shown_key(self) -> SubSchema:
        """What the answer has as the thing's own id; anything, where it has none."""
        letters = self.entity_path.letters if self.entity_path is not None else {}
        names = (letters[field] for field in self.role.fields if field in letters)
        name = next((name for name in names if has_own_id([name], self.role.noun)), None)
        return True if name is None or self.entity_path is None else self.entity_path.properties[name]

    def fits_key(self, value: Any) -> bool:
        """Whether a thing that is called so can be asked for, and says of itself that it is called so."""
        return self.accepts_key(value) and any(map(self.values.checker(self.shown_key), spellings_of(value)))

    def _is_lookup(self) -> bool:
        """Whether what is sent by POST asks for things and makes none: it says so, and no one thing comes back."""
        binding, path = self.tool.binding, self.entity_path
        if not isinstance(binding, RestBinding) or not _MAKING.isdisjoint(split_identifier(self.tool.name)):
            return False
        if path is not None and ITEM not in path.names and has_own_id(path.properties, self.role.noun):
            return False
        body = _find_body(self.tool)
        properties = properties_of(self.tool.parameters, self.tool.parameters) or {}
        asked = properties if body is None else properties_of(self.tool.parameters, properties.get(body, True)) or {}
        filters = not _FILTERS.isdisjoint(map(plain_letters, asked)) and self.list_path is not None
        said = verb_by_name(self.tool, binding.path)
        if said == "list" and self.list_path is None and self.reader is not None:
            return False  # `index_document` puts one into an index
        return said in ("get", "list") or (filters and said != "create" and self.reader is None)

    @property
    def view(self) -> AnswerPath | None:
        """Where the tool shows entities."""
        return self.list_path if self.role.verb == "list" else self.entity_path

    def parents(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Whose entities are meant, by names in plain letters that mean nothing else in an entity."""
        own = own_names(self.role.noun)
        return {
            plain_letters(name): arguments[name]
            for name in self.role.scope
            if arguments.get(name) is not None and plain_letters(name) not in COMMON and plain_letters(name) not in own
        }

    def _find_envelope(self) -> tuple[str, ...]:
        """In the body: what is called as the thing or as envelopes are, or is all there is, and is no part of it."""
        root = self.tool.parameters
        properties = properties_of(root, root) or {}
        if self.body_argument is not None:
            properties = properties_of(root, properties.get(self.body_argument, True)) or {}
        aside = {*self.role.scope, *self.ignored, self.role.key}
        # A text or a number that is shown under the name of an object that is sent is something else.
        own = {name for name, inside in self.shown.items() if inside is not None}
        wrapped = {plain_letters(name) for name in (self.entity_path.names if self.entity_path is not None else ())}
        found: tuple[str, ...] = ()
        while len(found) < _DEEPEST:
            letters = {plain_letters(name): name for name in properties if name not in aside}
            names = [*nouns_of(self.role.noun), *wrapped, *_WRAPPERS, *(letters if len(letters) == 1 else ())]
            opened = next((plain for plain in names if plain in letters and plain not in own), "")
            inside = properties_of(root, properties[letters[opened]]) if opened else None
            sure = opened in wrapped or opened == nouns_of(self.role.noun)[0]
            if inside is None or not (sure or (opened not in PARTS and _is_envelope(opened, inside, letters))):
                break
            found, properties = (*found, letters[opened]), inside
        self._sendable = frozenset(map(plain_letters, properties))
        return found

    def sent_fields(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the arguments say about a thing: the object they send, if they send one, opened."""
        role, binding = self.role, self.tool.binding
        left_out = {*role.scope, *self.ignored, *([role.key] if role.key is not None else [])}
        found = {name: value for name, value in arguments.items() if name not in left_out}
        for name in (self.body_argument, *self.envelope):
            if isinstance(found.get(name or ""), dict):
                found |= found.pop(name or "")
        for name, value in list(found.items()):
            if isinstance(value, dict) and len(value) > 1:
                found = self._lift_fields(found, name)
        if isinstance(binding, RestBinding) and binding.body is not None and not self.envelope:
            found = self._open_brackets({binding.body.properties.get(name, name): found[name] for name in found})
        if role.key is not None:
            # A list of those to be changed has the one that is meant.
            found = next(iter(self.sent_entities(found)), found)
            # It keeps its name, whatever the body says.
            found = {name: value for name, value in found.items() if plain_letters(name) not in self._kept}
        return self._sink_fields(found)

    @cached_property
    def _main_part(self) -> tuple[str, frozenset[str]]:
        """`attributes`, or a part like it, of a thing that has most of itself there; and what is inside."""
        parts = ((name, self.shown.get(name) or frozenset()) for name in PARTS)
        return next((part for part in parts if part[1] and len(part[1]) >= len(self.shown)), ("", frozenset()))

    def _sink_fields(self, sent: dict[str, Any]) -> dict[str, Any]:
        """What is sent, with that in the main part which the thing shows there, unless the part itself can be sent."""
        part, inside = self._main_part
        sunk = {name: value for name, value in sent.items() if plain_letters(name) in inside}
        if not sunk or part in self._sendable:
            return sent
        return {**{name: value for name, value in sent.items() if name not in sunk}, part: sunk}

    def _lift_fields(self, sent: dict[str, Any], name: str) -> dict[str, Any]:
        """What is sent, with that of an object inside which the thing has and the object, as it shows it, has not."""
        # What the answer itself shows: one tool may show what is sent within an object, and another the object.
        shown, letters = self._own_parts or self.shown, plain_letters(name)
        own = shown.get(letters) or ()
        inside = {plain_letters(inner): inner for inner in sent[name]}
        if (letters in shown and not own) or not inside.keys().isdisjoint(OWN):
            return sent
        lifted = [plain for plain in inside if plain in shown and plain not in own]
        if len(lifted) == len(inside) and letters not in shown:
            return {**sent[name], **sent}
        if 2 * len(lifted) < len(inside) or len(set(lifted) - COMMON) < 2:
            return sent
        return {**{inside[plain]: sent[name][inside[plain]] for plain in lifted}, **sent}

    def _open_brackets(self, form: dict[str, Any]) -> dict[str, Any]:
        """The fields of a form whose names say where they belong: `track[title]` is the title of a track."""
        found: dict[str, Any] = {}
        for name, value in form.items():
            outer, _, rest = name.partition("[")
            inner = rest.partition("]")[0]
            if inner and plain_letters(outer) in (*nouns_of(self.role.noun), *_WRAPPERS):
                found[inner] = value
            elif inner and isinstance(found.setdefault(outer, {}), dict):
                found[outer][inner] = value
            else:
                found[name.removesuffix("[]")] = value
        return found

    def sent_entities(self, sent: dict[str, Any]) -> list[dict[str, Any]]:
        """The entities themselves, where several are sent: the body is a list, `labels` or `new_labels`."""
        names, path = nouns_of(self.role.noun), self.entity_path
        listed = path is not None and ITEM in path.names
        # A thing that has an id and shows such a list has it as a part.
        own = not listed and has_own_id(self.shown, self.role.noun)
        parts: Collection[str] = self._main_part[1].union(self.shown) if own else ()
        for name, value in sent.items():
            if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
                letters = plain_letters(name)
                several = listed or letters in _LISTS or singular(letters).endswith(names[1:])
                alone = len(sent) == 1 and several and letters not in parts
                # Beside one in its envelope, others are something else.
                named = letters != names[0] and singular(letters) == names[0] and letters not in parts
                named = named and (len(sent) == 1 or not self.envelope)
                # What is sent under the name under which the answer lists what was made is that.
                named = named or (listed and path is not None and letters == plain_letters(path.names[0]))
                if name == self.body_argument or alone or named:
                    return value
        return []


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
