"""`Profile`: everything about a simulated tool that is computed once.

That is what the tool seems to do (`Role`), and where its entity is: in the arguments, within which envelopes, and in
the result, alone or in a list (`AnswerPath`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec

from toolyard.engines.simulator.containers import COMMON_NAMES, is_short, spellings_of
from toolyard.engines.simulator.draw import Draw, GaveUp, count_same, encode
from toolyard.engines.simulator.roles import (
    GENERIC_NOUNS,
    NO_NEIGHBOURS,
    Neighbours,
    noun_by_path,
    nouns_of,
    own_names,
    role_of,
    verb_by_name,
)
from toolyard.engines.simulator.scalars import ID_NAMES
from toolyard.engines.simulator.values import SchemaValues, SharedParts, is_any_object, item_node, properties_of
from toolyard.model.bindings import RestBinding
from toolyard.model.tool import Tool
from toolyard.schema.fold import find_ways, is_scalar
from toolyard.schema.subschemas import SubSchema, allowed_values
from toolyard.words.identifiers import CrudVerb, plain_letters, singular, split_identifier

_ENVELOPES = ("data", "result", "response", "payload")
"""Names that are used only for envelopes."""
_WRAPPERS = (*_ENVELOPES, "item", "record", "resource", "object", "value", "body", "content")
_LIST_NAMES = frozenset(("items", "data", "results", "values", "records", "entries", "list", "resources", "content"))
_LIST_NAMES |= {"objects", "rows", "result", "response", "elements", "hits", "matches", "members", "value", "documents"}
_LIST_NAMES |= {"successes", "succeeded", "created"}
_FILTERS = frozenset(("filter", "filters", "query", "where", "criteria", "sort", "orderby", "limit", "offset"))
"""Arguments that select entities, or limit their number."""
_CREATE_VERBS = frozenset(("create", "add", "insert", "register"))
"""Verbs that mean creation wherever they occur in a name: `get_or_create_user`."""
_DEEPEST = 4

ITEM = "[]"
"""In a path: the items of a list."""
_RESULT_INFO = frozenset(
    ("meta", "metadata", "links", "included", "status", "success", "ok", "code", "message", "messages")
)
_RESULT_INFO |= {"errors", "error", "warnings", "requestid", "pagination", "jsonapi", "version", "timestamp"}
"""Fields of a result that are not about its entity."""
_OUTCOME_NAMES = _RESULT_INFO | {"type", "statuscode"}
"""Fields that report the outcome of a call."""
DESCRIPTIVE_PARTS = ("metadata", "attributes", "properties", "meta", "sys", "info")
"""Parts of an entity that describe the entity itself, and may contain its name."""


class AnswerPath(msgspec.Struct, frozen=True, eq=False):
    """A part of a result, and the path of properties and lists that leads to it."""

    names: tuple[str, ...]
    node: SubSchema
    properties: dict[str, SubSchema]
    """The properties of the entity there, or of those in the list."""

    @property
    def letters(self) -> dict[str, str]:
        """The names of the properties by normalised name; the first of several with the same one."""
        return {plain_letters(name): name for name in reversed(self.properties)}

    def wrap(self, entities: list[Any]) -> Any:
        """A result that contains only these entities, each in its envelope; only the first if it has no list."""
        found = entities
        for name in reversed(self.names):
            found = [found] if name == ITEM else [{name: value} for value in found]
        return found[0]


def find_entity(root: dict[str, Any], noun: str) -> AnswerPath | None:
    """The entity in a result: the whole result, the content of an envelope, or the only item of a list."""
    path = _open_envelopes(root, root, noun)
    if path is None or not has_own_id(path.properties, noun):
        listed = find_list(root, noun, among=("data", "result", "results", "items", "response"))
        named = find_list(root, noun, among=())
        contents = _content_names(root, root)
        if listed is not None and not (
            has_own_id(listed.properties, noun) and _is_envelope("data", listed.properties, contents)
        ):
            listed = None  # the `items` of an order are parts of it
        inner = named is not None and named.names.index(ITEM) > 1 and plain_letters(named.names[0]) not in _WRAPPERS
        if named is not None and path is not None and (inner or not _is_envelope("data", named.properties, contents)):
            named = None  # as are `relatedOrders`, and the `templates` in a `spec`
        if named is not None or listed is not None:
            return named or listed
        alone = find_list(root, noun)
        if alone is not None and has_own_id(alone.properties, noun) and contents == [alone.names[0]]:
            return alone
    return path


def _is_list(root: dict[str, Any], noun: str) -> bool:
    """True if a result is about several entities, not about one that contains lists."""
    one = _open_envelopes(root, root, noun)
    return find_list(root, noun) is not None and (one is None or not has_own_id(one.properties, noun))


def _content_names(root: dict[str, Any], node: SubSchema) -> list[str]:
    """The properties of a result, without metadata about the result."""
    letters = {name: plain_letters(name) for name in properties_of(root, node) or ()}
    return [name for name, plain in letters.items() if plain not in _RESULT_INFO and not plain.startswith("total")]


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
    """The property that is an envelope: named like the entity or like an envelope, or the only one."""
    if has_own_id(properties, noun) and len(properties) > 1:
        return None  # though in `{"Id": {"id": 7}}` the id itself is wrapped
    letters = {plain_letters(name): name for name in reversed(properties)}
    rest = {plain: name for plain, name in letters.items() if plain not in _RESULT_INFO}
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
    large = inside and (len(inside) > len(properties) or (beside.keys() <= _OUTCOME_NAMES and _has_id(inside)))
    if large and "name" not in letters and all(is_scalar(root, properties[name]) for name in beside.values()):
        return about  # only scalars beside it, and no name among them
    return None


def _is_envelope(name: str, inside: Collection[str], all_names: Collection[str]) -> bool:
    """True if a part with the name of an envelope is one: `content` may also be a part of a comment."""
    beside = len(all_names) - 1
    return len(inside) >= beside if name in _ENVELOPES else len(inside) > 2 * beside


def has_own_id(properties: Iterable[str], noun: str) -> bool:
    """True if the properties include the entity's own id."""
    starts = [start for name in nouns_of(noun) if name for start in (name, f"{name}s")]
    ids = {*ID_NAMES, "sha", *[f"{thing}id" for thing in GENERIC_NOUNS]}
    ids |= {start + end for start in starts for end in (*ID_NAMES, "key", "identifier", "number")}
    return any(plain_letters(name) in ids for name in properties)


def find_list(
    root: dict[str, Any], noun: str, among: Collection[str] = _LIST_NAMES, node: SubSchema | None = None
) -> AnswerPath | None:
    """The list of objects that a result, or one variant of it, is about; `among` are generic names of lists."""
    found: list[tuple[int, int, AnswerPath]] = []
    stack: list[tuple[tuple[str, ...], SubSchema]] = [((), root if node is None else node)]
    while stack:
        path, node = stack.pop(0)
        items = item_node(root, node)
        if items is not None:
            inside = _open_envelopes(root, items, noun)
            if inside is not None:
                listed = AnswerPath((*path, ITEM, *inside.names), inside.node, inside.properties)
                found.append((_rank_path(path, noun, among), len(found), listed))
            continue
        properties = properties_of(root, node) if len(path) < 2 else None
        stack += [((*path, name), sub) for name, sub in (properties or {}).items()]
        if len(stack) > 200:
            break
    if not found:
        return None
    rank, _, best = min(found, key=lambda one: one[:2])
    alone = len(found) == 1 and best.names.index(ITEM) == 1 and _has_id(best.properties) and among is _LIST_NAMES
    return best if rank < 3 or alone else None


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
    """What a tool seems to do, the maker of its results, and where the entity is in its arguments."""

    def __init__(
        self, tool: Tool, seed: int | str, shared: SharedParts | None = None, neighbours: Neighbours = NO_NEIGHBOURS
    ) -> None:
        self.tool = tool
        self._beside = seed, shared, neighbours
        self.prefix = encode([seed, tool.qualified_name])
        self.values = SchemaValues(tool.output_parameters, shared)
        self.is_free = is_any_object(self.values.root)
        """True if the result may be any object."""
        root = None if self.is_free else self.values.root
        lists = root is not None and _is_list(root, noun_by_path(tool, neighbours))
        self.role = role_of(tool, lists=lists, neighbours=neighbours)
        noun = self.role.noun
        self.list_path: AnswerPath | None = None if root is None else find_list(root, noun)
        self.entity_path = None if root is None or self.role.verb == "list" else find_entity(root, noun)
        if root is not None and self.role.verb == "create" and self.list_path is None:
            # Where one or several can be created, the result has a variant for each.
            forms = [find_list(root, noun, node=way.schema) for way in find_ways(root, root)]
            self.list_path = next((path for path in forms if path is not None), None)
        if self.role.verb == "create" and self._is_lookup():
            verb: CrudVerb = "list" if self.list_path is not None else "none"
            self.role = msgspec.structs.replace(self.role, verb=verb, writes=False)
        if self.role.single and self.role.verb in ("update", "replace", "delete") and self._changes_several():
            verb = "delete" if self.role.verb == "delete" else "act"
            self.role = msgspec.structs.replace(self.role, verb=verb, single=False)
        self._kept = frozenset(self.role.fields)
        """Normalised names of fields that no update changes."""
        shown = self.entity_path.properties if self.entity_path is not None else {}
        nameless = {"name"} == {"name", *self.role.fields}.intersection(map(plain_letters, shown))
        if self.role.key is not None and (nameless or self.role.verb != "get"):
            # The entity has no id, so it is requested by name; a change may not show its fields.
            self.role = msgspec.structs.replace(self.role, fields=(*self.role.fields, "name"))
        self.plain = self.role.verb == "none" and not self.role.writes and not self.is_free
        """True if the result depends on nothing but the arguments."""
        self.body_argument = _find_body(tool)
        self.ignored = _find_call_arguments(tool)
        self.envelope = self._find_envelope()
        """The names that lead to the entity in the body."""

    @cached_property
    def reader(self) -> Profile | None:
        """The profile of another tool that shows one such entity, if this tool creates or changes them."""
        return self._find_beside(self._beside[2].readers, self.role.kind)

    def _find_beside(self, tools: Mapping[str, Tool], kind: str) -> Profile | None:
        """The profile of the tool for a kind among others."""
        tool = tools.get(kind)
        return None if tool is None or tool is self.tool else Profile(tool, *self._beside)

    def can_show_by(self, name: str, kind: str) -> bool:
        """True if another tool shows one entity of that kind by an argument of that name."""
        reader = self._find_beside(self._beside[2].readers, kind)
        return reader is not None and reader.role.key == name

    def _changes_several(self) -> bool:
        """True for a change of a collection, such as `PATCH /pets`; `PUT /settings` may change the only ones."""
        listing = None if self.reader is None else self._find_beside(self._beside[2].collections, self.role.kind)
        return listing is not None and listing.role.verb == "list"

    @cached_property
    def shown(self) -> dict[str, frozenset[str] | None]:
        """The normalised fields of the entity in this result or the reader's, each with those nested in it, or None."""
        reader = self.reader if self.role.verb in ("create", "update", "replace") else None
        return {**(reader._own_parts if reader is not None else {}), **self._own_parts}

    @cached_property
    def _own_parts(self) -> dict[str, frozenset[str] | None]:
        root, found = self.values.root, {}
        for name, node in self.entity_path.properties.items() if self.entity_path is not None else ():
            inside = frozenset(map(plain_letters, properties_of(root, node) or ()))
            found[plain_letters(name)] = None if is_scalar(root, node) else inside
        return found

    def choose_shown(self, name: str, merged: Any, sent: Any) -> Any:
        """The value of a part after an update: old and new merged, or the new one if only that can be shown."""
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
        """Values allowed for the argument that selects the entity."""
        root, key = self.tool.parameters, self.role.key
        around = {name: value for name, value in root.items() if name in ("$schema", "$defs", "definitions")}
        return SchemaValues({**around, "allOf": [(root.get("properties") or {}).get(key, True)]})

    @cached_property
    def key_choices(self) -> list[Any]:
        """All values of that argument, if its schema enumerates them."""
        root = self.key_values.root
        return [value for way in find_ways(root, root) for value in allowed_values(way.schema) or ()]

    def accepts_key(self, value: Any) -> bool:
        """True if an entity with that id can be requested."""
        return is_short(value) and any(map(self.key_values.check, spellings_of(value)))

    @cached_property
    def shown_key(self) -> SubSchema:
        """The schema of the entity's id in the result; `True` if there is none."""
        letters = self.entity_path.letters if self.entity_path is not None else {}
        names = (letters[field] for field in self.role.fields if field in letters)
        name = next((name for name in names if has_own_id([name], self.role.noun)), None)
        return True if name is None or self.entity_path is None else self.entity_path.properties[name]

    def fits_key(self, value: Any) -> bool:
        """True if an entity with that id can be requested, and can show it in the result."""
        return self.accepts_key(value) and any(map(self.values.checker(self.shown_key), spellings_of(value)))

    def _is_lookup(self) -> bool:
        """True if a POST is a search: its name or filters suggest so, and it does not return a single entity."""
        binding, path = self.tool.binding, self.entity_path
        if not isinstance(binding, RestBinding) or not _CREATE_VERBS.isdisjoint(split_identifier(self.tool.name)):
            return False
        if path is not None and ITEM not in path.names and has_own_id(path.properties, self.role.noun):
            return False
        body = _find_body(self.tool)
        properties = properties_of(self.tool.parameters, self.tool.parameters) or {}
        asked = properties if body is None else properties_of(self.tool.parameters, properties.get(body, True)) or {}
        filters = not _FILTERS.isdisjoint(map(plain_letters, asked)) and self.list_path is not None
        said = verb_by_name(self.tool, binding.path)
        if said == "list" and self.list_path is None and self.reader is not None:
            return False  # `index_document` adds one to an index
        return said in ("get", "list") or (filters and said != "create" and self.reader is None)

    @property
    def view(self) -> AnswerPath | None:
        """The part of the result that shows entities."""
        return self.list_path if self.role.verb == "list" else self.entity_path

    def parents(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The parents of the entity by normalised name, without names that mean something else in the entity."""
        own = own_names(self.role.noun)
        return {
            plain_letters(name): arguments[name]
            for name in self.role.scope
            if arguments.get(name) is not None
            and plain_letters(name) not in COMMON_NAMES
            and plain_letters(name) not in own
        }

    def _find_envelope(self) -> tuple[str, ...]:
        """The path to the entity in the body, through envelopes that are not parts of the entity itself."""
        root = self.tool.parameters
        properties = properties_of(root, root) or {}
        if self.body_argument is not None:
            properties = properties_of(root, properties.get(self.body_argument, True)) or {}
        aside = {*self.role.scope, *self.ignored, self.role.key}
        # A scalar shown under the same name as an object that is sent is something else.
        own = {name for name, inside in self.shown.items() if inside is not None}
        wrapped = {plain_letters(name) for name in (self.entity_path.names if self.entity_path is not None else ())}
        found: tuple[str, ...] = ()
        while len(found) < _DEEPEST:
            letters = {plain_letters(name): name for name in properties if name not in aside}
            names = [*nouns_of(self.role.noun), *wrapped, *_WRAPPERS, *(letters if len(letters) == 1 else ())]
            opened = next((plain for plain in names if plain in letters and plain not in own), "")
            inside = properties_of(root, properties[letters[opened]]) if opened else None
            sure = opened in wrapped or opened == nouns_of(self.role.noun)[0]
            if inside is None or not (
                sure or (opened not in DESCRIPTIVE_PARTS and _is_envelope(opened, inside, letters))
            ):
                break
            found, properties = (*found, letters[opened]), inside
        self._sendable = frozenset(map(plain_letters, properties))
        return found

    def sent_fields(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The fields of an entity in the arguments, taken out of its envelopes."""
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
            # In a list of entities to change, use the one that is meant.
            found = next(iter(self.sent_entities(found)), found)
            # It keeps its id, whatever the body says.
            found = {name: value for name, value in found.items() if plain_letters(name) not in self._kept}
        return self._sink_fields(found)

    @cached_property
    def _main_part(self) -> tuple[str, frozenset[str]]:
        """The part that holds most of an entity's fields, such as `attributes`, and the fields in it."""
        parts = ((name, self.shown.get(name) or frozenset()) for name in DESCRIPTIVE_PARTS)
        return next((part for part in parts if part[1] and len(part[1]) >= len(self.shown)), ("", frozenset()))

    def _sink_fields(self, sent: dict[str, Any]) -> dict[str, Any]:
        """The fields sent, moved into the main part if they are shown there, unless that part can be sent itself."""
        part, inside = self._main_part
        sunk = {name: value for name, value in sent.items() if plain_letters(name) in inside}
        if not sunk or part in self._sendable:
            return sent
        return {**{name: value for name, value in sent.items() if name not in sunk}, part: sunk}

    def _lift_fields(self, sent: dict[str, Any], name: str) -> dict[str, Any]:
        """The fields sent, moving up fields of a nested object that the entity shows at its top level."""
        # Compare with this tool's own result, since tools differ in whether they show the object or its fields.
        shown, letters = self._own_parts or self.shown, plain_letters(name)
        own = shown.get(letters) or ()
        inside = {plain_letters(inner): inner for inner in sent[name]}
        lifted = [plain for plain in inside if plain in shown and plain not in own]
        few = len(set(lifted) - COMMON_NAMES) < 2
        beside = {plain_letters(other) for other in sent if other != name} & shown.keys() - COMMON_NAMES
        # What has an id, or the name of a scalar, is another entity, unless it alone covers most of this one.
        another = (letters in shown and not own) or not inside.keys().isdisjoint(ID_NAMES)
        if another and (few or beside or 2 * len(lifted) <= len(shown)):
            return sent
        if len(lifted) == len(inside) and not own:
            return {**sent[name], **sent, **({name: sent[name][name]} if name in sent[name] else {})}
        if few or 2 * len(lifted) < len(inside):
            return sent
        return {**{inside[plain]: sent[name][inside[plain]] for plain in lifted}, **sent}

    def _open_brackets(self, form: dict[str, Any]) -> dict[str, Any]:
        """The fields of a form with nested names resolved: `track[title]` is the title of a track."""
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
        """The entities, if several are sent: the body is a list, or has one named `labels` or `new_labels`."""
        names, path = nouns_of(self.role.noun), self.entity_path
        listed = path is not None and ITEM in path.names
        # In an entity that has an id and shows such a list, the list is a part of it.
        own = not listed and has_own_id(self.shown, self.role.noun)
        parts: Collection[str] = self._main_part[1].union(self.shown) if own else ()
        for name, value in sent.items():
            if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
                letters = plain_letters(name)
                several = listed or letters in _LIST_NAMES or singular(letters).endswith(names[1:])
                alone = len(sent) == 1 and several and letters not in parts
                # Beside an entity in its envelope, a list is something else.
                named = letters != names[0] and singular(letters) == names[0] and letters not in parts
                named = named and (len(sent) == 1 or not self.envelope)
                # A list with the name under which the result lists created entities holds the entities.
                named = named or (listed and path is not None and letters == plain_letters(path.names[0]))
                if name == self.body_argument or alone or named:
                    return value
        return []


_CREDENTIALS = frozenset(("apikey", "accesstoken", "authtoken", "token", "authorization", "auth", "password", "secret"))


def _find_call_arguments(tool: Tool) -> frozenset[str]:
    """Arguments about the call itself, such as credentials."""
    found = {name for name in tool.parameters.get("properties") or () if plain_letters(name) in _CREDENTIALS}
    binding = tool.binding
    if isinstance(binding, RestBinding):
        places = ("header", "cookie") if binding.body is None else ("header", "cookie", "query")
        found = {item.argument for item in binding.parameters if item.location in places}
    return frozenset(found)


def _find_body(tool: Tool) -> str | None:
    """The argument that contains the whole entity."""
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
