"""`Role`: what a tool seems to do with entities, derived from its path, name and parameters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from toolyard.engines.simulator.scalars import ID_NAMES
from toolyard.engines.simulator.values import is_any_object
from toolyard.model.bindings import RestBinding
from toolyard.model.tool import Effects, Tool
from toolyard.schema.fold import find_ways
from toolyard.words.identifiers import (
    CRUD_BY_METHOD,
    CRUD_BY_VERB,
    STATES_BY_ACTION,
    CrudVerb,
    is_plural,
    plain_letters,
    singular,
    split_identifier,
)

_PREPOSITIONS = frozenset(("by", "for", "with", "from", "in", "of", "to", "using", "via", "on", "at", "as", "and"))
_BATCH_WORDS = frozenset(("batch", "bulk", "many", "several"))
_FILLER_WORDS = _BATCH_WORDS | {"all", "new", "the", "a", "an", "details", "detail", "info", "information", "my", "one"}
_FILLER_WORDS |= {"multiple"}
ID_ENDS = (*ID_NAMES, "identifier", "number", "key", "slug", "code", "name", "login", "ref", "arn", "handle", "sha")
_IDS = (*ID_NAMES, "key")
_NAMES = ("name", "slug", "label", "login", "username", "fullname")
GENERIC_NOUNS = ("entity", "object", "resource", "record")
"""Names that may stand for any entity."""
_NOUN_LIKE_VERBS = frozenset(
    ("book", "schedule", "open", "post", "upload", "place", "start", "issue", "reserve", "index")
)
_NOUN_LIKE_VERBS |= {"archive", "pay", "run", "transfer", "merge"}
"""Verbs that also begin names of entities: `/merge_requests`, `/pay-runs`."""
_PATH_VERBS = {"create": "post", "get": "get", "update": "patch", "delete": "delete"}
"""The methods that verbs in paths stand for: `/events/view/{id}`, `/get/domain/{id}`."""
_PATH_ACTIONS = STATES_BY_ACTION.keys() - {"refund"}
"""Actions in paths: `/orders/{id}/refund` may also make a refund."""
_PARAMETER = re.compile(r"\{([^{}]+)\}")
_ODATA_KEY = re.compile(r"\(('?)(\{[^{}]+\})\1\)")
"""A key in OData's syntax: `/Products({id})`."""


class Neighbours(msgspec.Struct, frozen=True):
    """Related tools."""

    readers: Mapping[str, Tool] = {}
    """The tool that shows one entity, by kind."""
    changed: Collection[str] = ()
    """Kinds of which one entity can be changed."""
    collections: Mapping[str, Tool] = {}
    """The tool that gets what is at the path of a kind."""
    spoken: Collection[str] = ()
    """The beginnings of paths, as kinds, that end in a verb."""


NO_NEIGHBOURS = Neighbours()


def find_neighbours(tools: Iterable[Tool]) -> Neighbours:
    """The neighbours that the paths of these tools imply."""
    readers: dict[str, Tool] = {}
    changed: set[str] = set()
    written: set[str] = set()
    plain: list[tuple[str, Tool, RestBinding]] = []
    collections: dict[str, Tool] = {}
    bound = [(tool, tool.binding) for tool in tools if isinstance(tool.binding, RestBinding)]
    fronts = {front for _, binding in bound for _, front in _list_verbs(binding.path)}
    # One verb alone may be a thing: `/users/{id}/view/{view}`. Beside another one it is a verb.
    beside = Counter(front.rpartition("/")[0] for front in fronts)
    spoken = frozenset(front for front in fronts if beside[front.rpartition("/")[0]] > 1)
    for tool, given in bound:
        binding = drop_verb(given, spoken)
        parts = _split_path(binding.path)
        is_item = bool(parts) and parts[-1].endswith("}")
        kind = _full_kind(tool, _collection_of(parts[:-1] if is_item else parts, {})[0])
        if binding.method.upper() != "GET":
            (changed if is_item else written).add(kind)
        elif is_item:
            readers.setdefault(kind, tool)
        else:
            plain.append((kind, tool, binding))
    for kind, tool, binding in plain:
        selects = kind in written and _requires_key(tool, binding)
        (readers if selects else collections).setdefault(kind, tool)
    return Neighbours(readers, changed, collections, spoken)


def _requires_key(tool: Tool, binding: RestBinding) -> bool:
    """True for a GET that selects one entity by a required argument beside its path: `/keys?id={id}`."""
    if tool.output_parameters.get("type") == "array":
        return False  # it lists those with that id
    key = _find_key(tool, noun_of(_split_path(binding.path)), loose=False)
    return key in (tool.parameters.get("required") or ()) and f"{{{key}}}" not in binding.path


def _list_verbs(path: str) -> Iterator[tuple[int, str]]:
    """The verbs that are parts of a path: the place of each, and the path up to it, as a kind."""
    parts = _split_path(path)
    for at, part in enumerate(parts):
        if CRUD_BY_VERB.get(part) in _PATH_VERBS and part not in _NOUN_LIKE_VERBS:
            yield at, _collection_of(parts[: at + 1], {})[0]


def drop_verb(binding: RestBinding, spoken: Collection[str]) -> RestBinding:
    """The binding without the verb before the last part of its path, if it has one, but with the method for it."""
    parts = _split_path(binding.path)
    at = next((at for at, front in _list_verbs(binding.path) if front in spoken), len(parts))
    if at + 1 >= len(parts):
        return binding
    method = _PATH_VERBS[CRUD_BY_VERB[parts.pop(at)]]
    if binding.method.upper() == "GET" and method != "get":
        return binding  # a GET changes nothing, whatever its path says
    if method == "post" and parts[-1].endswith("}"):
        parts.pop()  # what it is added to: `/attributes/add/{event}`
    return msgspec.structs.replace(binding, method=method, path="/" + "/".join(parts))


def _split_path(path: str) -> list[str]:
    """The parts of a path, without the format of the response."""
    path = _ODATA_KEY.sub(r"/\2", path.removesuffix(".json").removesuffix(".xml"))
    parts = [part for part in path.split("/") if part]
    # `/users/all` is about the users.
    return parts[:-1] if parts[1:] and parts[-1] == "all" and "{" not in parts[-2] else parts


class Role(msgspec.Struct, frozen=True):
    """What a tool does with entities of one kind."""

    verb: CrudVerb = "none"
    kind: str = ""
    """The kind of entity; the same for all tools that work with it."""
    noun: str = ""
    """The singular name of an entity."""
    key: str | None = None
    """The argument that selects the entity."""
    fields: tuple[str, ...] = ()
    """Normalised names of fields that may contain the key, likeliest first."""
    scope: tuple[str, ...] = ()
    """Arguments that select the parents of the entity."""
    single: bool = False
    """True if there is only one entity of that kind in each scope."""
    writes: bool = False
    """True if the tool is not idempotent."""
    action: str = ""
    """For `act`, the verb: `cancel`."""
    holder: str | None = None
    """The argument that has the key in it, and is the entity as a whole: `PUT /pets` with `{"pet": {"id": 7}}`."""


def nouns_of(noun: str) -> tuple[str, ...]:
    """Normalised names of an entity: as a whole, and its last word."""
    return plain_letters(noun), plain_letters(noun.rpartition(" ")[2])


def role_of(tool: Tool, *, lists: bool, neighbours: Neighbours = NO_NEIGHBOURS) -> Role:
    """The role of a tool; `lists` is true if its result contains a list of objects."""
    if isinstance(tool.binding, RestBinding):
        role = _role_by_path(tool, drop_verb(tool.binding, neighbours.spoken), lists, neighbours)
    else:
        role = _role_by_name(tool, tool.name, "", lists)
    if role.verb == "act" and tool.effects is Effects.READ:
        role = Role()
    writes = tool.effects is Effects.WRITE or role.verb in ("create", "act")
    action = _find_action(tool) if role.verb == "act" else ""
    return msgspec.structs.replace(role, kind=_full_kind(tool, role.kind), writes=writes, action=action)


def _find_action(tool: Tool) -> str:
    """The first verb of an action at the end of the path, or in the name."""
    end = tool.binding.path.rpartition("/")[2] if isinstance(tool.binding, RestBinding) else ""
    words = (*split_identifier(end.rpartition("}")[2]), *split_identifier(tool.name))
    return next((word for word in words if word in STATES_BY_ACTION), "")


def fields_of(key: str, noun: str) -> tuple[str, ...]:
    """Fields of an entity that may contain the value of an argument."""
    name, thing = plain_letters(key), plain_letters(noun)
    if name.endswith(("ids", "identifiers")):
        name = name.removesuffix("s")  # one of several
    found = [name]
    rest = name.removeprefix(thing) if thing else name
    if rest == "" or name in ("username", "user"):
        found += [plain_letters(noun.rpartition(" ")[2]), *_NAMES, *_IDS, "number", "type"]
    elif rest != name:
        found.append(rest)
    ending = max((end for end in ID_ENDS if name.endswith(end)), key=len, default=None)
    starts = [thing, plain_letters(noun.rpartition(" ")[2]), *GENERIC_NOUNS]
    if ending is not None:
        found += [ending, *[start + ending for start in starts]]
    return tuple(dict.fromkeys((*found, *_IDS, *[start + "id" for start in starts])))


def own_names(noun: str) -> dict[str, str]:
    """An entity's own field names by the names that other entities use, normalised: `petid` is its `id`."""
    thing, tail = plain_letters(noun), plain_letters(noun.rpartition(" ")[2])
    return {start + end: end for start in (thing, tail) if start for end in ID_ENDS}


def _role_by_path(tool: Tool, binding: RestBinding, lists: bool, neighbours: Neighbours) -> Role:
    parts = _split_path(binding.path)
    method = binding.method.lower()
    several = method == "post" and len(parts) > 1 and parts[-1].lower() in _BATCH_WORDS
    # If a batch can be shown, the batch is the entity that is created.
    if several and _full_kind(tool, _collection_of(parts, {})[0]) not in neighbours.readers:
        parts.pop()
    named = {item.name: item.argument for item in binding.parameters if item.location == "path"}
    last = _PARAMETER.findall(parts[-1]) if parts else []
    if not last:
        return _role_by_last_word(tool, binding, parts, lists, named, neighbours)
    after = parts[-1].rpartition("}")[2].lstrip(":.")
    front = parts[:-1]
    noun = noun_of(front) or plain_letters(last[-1])
    key = named.get(last[-1])
    if key is None:
        return Role()
    verb: CrudVerb = CRUD_BY_METHOD.get(method, "none")
    if after:
        verb = "act"
    elif method == "post":
        verb = _verb_of_post(tool, binding)
    kind, scope = _collection_of(front, named)
    sure = is_own_key(key, noun) or _full_kind(tool, kind) in neighbours.changed
    if verb == "get" and lists and not sure:
        return Role("list", kind, noun, scope=scope)
    return Role(verb, kind, noun, key, fields_of(key, noun), scope)


def is_own_key(key: str, noun: str) -> bool:
    """False for keys that select several entities: `/buckets/{clusterId}`, `/pets/{type}`."""
    letters = plain_letters(key)
    stem = letters.removesuffix(max((end for end in ID_ENDS if letters.endswith(end)), key=len, default=""))
    short = len(stem) > 3 and nouns_of(noun)[0].endswith(stem)  # `/usergroups/{groupId}`
    return (
        short
        or letters in ID_ENDS
        or any(name and (letters.startswith(name) or letters.endswith(name)) for name in nouns_of(noun))
    )


def _verb_of_post(tool: Tool, binding: RestBinding) -> CrudVerb:
    """The verb of a POST on one entity: an update, unless the name of the tool says otherwise."""
    said = verb_by_name(tool, binding.path)
    if binding.body is None or said in ("act", "list"):
        return "act"
    return "replace" if said == "create" else "update"


def verb_by_name(tool: Tool, path: str) -> CrudVerb:
    """The verb of a tool by the first verb in its name."""
    # Words of the path are names of entities: `/transfers/{transfer}`, `/value_lists/{value_list}`.
    things = {singular(word) for part in path.split("/") for word in split_identifier(part)}
    spoken = [word for word in split_identifier(tool.name) if word in CRUD_BY_VERB and singular(word) not in things]
    return CRUD_BY_VERB.get(next((word for word in spoken if word != "post"), ""), "none")


def _full_kind(tool: Tool, kind: str) -> str:
    return f"{tool.namespace}/{kind}".rstrip("/")


def _collection_of(parts: list[str], named: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    kind = "/".join("{}" if "{" in part else part for part in parts)
    names = [name for part in parts for name in _PARAMETER.findall(part)]
    return kind, tuple(named[name] for name in names if name in named)


def noun_of(parts: Iterable[str]) -> str:
    """The singular name of the entities that a path leads to."""
    plain = [part for part in parts if "{" not in part]
    words = split_identifier(plain[-1]) if plain else []
    return " ".join([*words[:-1], *map(singular, words[-1:])])


def noun_by_path(tool: Tool, neighbours: Neighbours) -> str:
    """The singular name of the entities that the path of a tool leads to; empty without a path."""
    binding = tool.binding
    return noun_of(_split_path(drop_verb(binding, neighbours.spoken).path)) if isinstance(binding, RestBinding) else ""


def _role_by_last_word(
    tool: Tool, binding: RestBinding, parts: list[str], lists: bool, named: Mapping[str, str], neighbours: Neighbours
) -> Role:
    """The role for a path that ends in a word: a collection, or an action."""
    words = split_identifier(parts[-1]) if parts else []
    method = binding.method.lower()
    kind, scope = _collection_of(parts, named)
    spoken = [word for word in words if word in CRUD_BY_VERB or word in _PATH_ACTIONS]
    asked = [word for word in spoken if CRUD_BY_VERB.get(word) in ("get", "list")]
    if method == "get":
        spoken = asked
    if (len(words) > 1 and words[0] in _NOUN_LIKE_VERBS and is_plural(words[-1])) or (
        _full_kind(tool, kind) in (neighbours.changed if asked == words else neighbours.readers)
    ):
        spoken = []
    if spoken and (len(words) > 1 or method == "post" or spoken[0] in ("search", "find", "list")):
        front, scope = _collection_of(parts[:-1], named)
        if len(parts) > 1 and "{" in parts[-2] and CRUD_BY_VERB.get(spoken[0], "act") in ("act", "get", "update"):
            item = _role_by_path(tool, _drop_last_part(binding, parts), lists, neighbours)
            return msgspec.structs.replace(item, verb="act" if method != "get" else item.verb)
        role = _role_by_name(tool, parts[-1], noun_of(parts[:-1]), lists)
        if role.key in scope and "{" not in parts[-2]:
            role = Role("act")  # the body selects them: `POST /suites/{id}/variables/remove`
        kind = front if role.noun == noun_of(parts[:-1]) else f"{front}/{role.noun}".lstrip("/")
        return msgspec.structs.replace(role, kind=kind, scope=scope)
    noun = noun_of(parts)
    reader = neighbours.readers.get(_full_kind(tool, kind))
    asked_by_key = method in ("put", "patch", "delete") or reader is tool
    key = _find_key(tool, noun, loose=False) if asked_by_key else None
    if method == "get" and (key is None or (lists and not is_own_key(key, noun))):
        lists = lists or (reader is not None and _may_list(tool.output_parameters))
        return Role("list" if lists else "get", kind, noun, scope=scope, single=not lists)
    if method == "post":
        # `POST /notifications/all` is for those that there are.
        concerns_all = binding.path.endswith("/all") and parts[-1] != "all"
        return Role("act" if concerns_all else "create", kind, noun, scope=scope)
    if key is None and method == "put" and reader is not None:
        key = _find_reader_key(tool, reader)
    if key is not None and key not in scope:
        return Role(CRUD_BY_METHOD.get(method, "none"), kind, noun, key, fields_of(key, noun), scope)
    holder, key = _find_inner_key(tool, noun) if method in ("put", "patch") and reader is not None else (None, None)
    if key is not None:
        return Role(CRUD_BY_METHOD[method], kind, noun, key, fields_of(key, noun), scope, holder=holder)
    return Role(CRUD_BY_METHOD.get(method, "none"), kind, noun, scope=scope, single=True)


def _may_list(root: dict[str, Any]) -> bool:
    """True for an array that may list things, be it only by their names, and for any object; not for one of arrays."""
    if root.get("type") != "array":
        return is_any_object(root)
    return all(way.schema.get("type") != "array" for way in find_ways(root, root.get("items", True)))


def _find_reader_key(tool: Tool, reader: Tool) -> str | None:
    """The argument by which the reader selects the entity, if this tool has one of that name: `PUT /users`."""
    selected = _PARAMETER.findall(reader.binding.path)[-1:] if isinstance(reader.binding, RestBinding) else []
    return next((name for name in selected if name in (tool.parameters.get("properties") or ())), None)


def _drop_last_part(binding: RestBinding, parts: list[str]) -> RestBinding:
    return msgspec.structs.replace(binding, path="/" + "/".join(parts[:-1]))


def _role_by_name(tool: Tool, name: str, context: str, lists: bool) -> Role:
    words = split_identifier(name)
    at = next(
        (index for index in (0, len(words) - 1, *range(len(words))) if words and words[index] in CRUD_BY_VERB),
        None,
    )
    if words and words[0] in STATES_BY_ACTION:
        at = 0
    if at is None:
        return Role()
    verb = CRUD_BY_VERB.get(words[at], "act")
    rest = words[:at] + words[at + 1 :]
    cut = next((index for index, word in enumerate(rest) if word in _PREPOSITIONS), len(rest))
    if verb in ("create", "delete") and rest[:1] in (["to"], ["from"]):
        return Role("act")  # it changes something else
    thing = [word for word in rest[:cut] if word not in _FILLER_WORDS and word not in ("id", "list")]
    plural = bool(thing) and singular(thing[-1]) != thing[-1]
    noun = " ".join([*thing[:-1], singular(thing[-1])]) if thing else context
    if not noun:
        return Role()
    key, holder = _find_key(tool, noun, loose=verb in ("delete", "update", "replace", "act")), None
    if key is None and verb in ("update", "replace"):
        holder, key = _find_inner_key(tool, noun)
    if verb == "get" and (lists or (plural and key is None) or "all" in rest or "list" in rest) and key is None:
        verb = "list"
    if verb == "list" and not lists and tool.output_parameters.get("properties"):
        verb = "get"
    if verb in ("get", "delete", "update", "replace", "act") and key is None:
        return Role("act" if CRUD_BY_VERB.get(words[at]) == "act" else "none")
    keyed = verb not in ("create", "list")
    return Role(verb, noun, noun, key if keyed else None, fields_of(key, noun) if keyed and key else (), holder=holder)


def _find_key(tool: Tool, noun: str, *, loose: bool) -> str | None:
    """The argument that selects the entity."""
    properties = tool.parameters.get("properties")
    names = [str(name) for name in properties] if isinstance(properties, dict) else []
    found = _pick_key(names, noun)
    if found is not None and not _properties_of(tool, found) and not _takes_array(tool, found):
        return found
    if loose:
        required = tool.parameters.get("required") or ()
        ids = [name for name in names if name in required and plain_letters(name).endswith(("id", "number"))]
        return ids[0] if len(ids) == 1 else None
    return None


def _pick_key(names: Iterable[str], noun: str) -> str | None:
    """The name that is likeliest for the key of an entity."""
    by_letters = {plain_letters(name): name for name in reversed(list(names))}
    for start in nouns_of(noun):
        for end in ("id", "uuid", "gid", "number", "key", "code", "slug", "sid", "name"):
            if start + end in by_letters:
                return by_letters[start + end]
    return next((by_letters[plain] for plain in ("id", "uuid", "gid", *nouns_of(noun)) if plain in by_letters), None)


def _find_inner_key(tool: Tool, noun: str) -> tuple[str | None, str | None]:
    """The argument that is an entity as a whole, and the name of the key in it."""
    for name in tool.parameters.get("properties") or ():
        key = _pick_key(_properties_of(tool, name), noun) if plain_letters(name) in (*nouns_of(noun), "body") else None
        if key is not None:
            return name, key
    return None, None


def _takes_array(tool: Tool, name: str) -> bool:
    """True for an argument that is always an array, so that it selects several."""
    node = tool.parameters["properties"][name]
    return all(way.schema.get("type") == "array" for way in find_ways(tool.parameters, node))


def _properties_of(tool: Tool, name: str) -> list[str]:
    """The properties of an argument that is an object."""
    node = tool.parameters["properties"][name]
    return [inner for way in find_ways(tool.parameters, node) for inner in way.schema.get("properties") or ()]
