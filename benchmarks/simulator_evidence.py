"""Locates an entity in requests and results, independently of the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolyard.engines.simulator.profile import Profile
from toolyard.engines.simulator.roles import Role, nouns_of
from toolyard.engines.simulator.values import SchemaValues
from toolyard.model.bindings import RestBinding
from toolyard.schema.fold import find_ways
from toolyard.words.identifiers import plain_letters, singular

Path = tuple[str, ...]
_ABOUT = frozenset(("metadata", "meta", "attributes", "properties", "sys", "system", "info"))
"""Parts of an entity that may contain its name."""
LINKS = ("uri", "href", "self", "selflink", "url", "location", "link", "links")
"""Fields with the URL of an entity that has no id."""
_IDS = ("id", "uuid", "guid", "sid", "gid", "uid", "pk")
_DEEPEST = 4
_LOOKS = 3000


def own_values(thing: dict[str, Any]) -> dict[str, Any]:
    """Values by normalised name, including those of its metadata."""
    inner = [value for name, value in thing.items() if plain_letters(name) in _ABOUT and isinstance(value, dict)]
    found = {plain_letters(name): open_value(value) for part in (*inner, thing) for name, value in part.items()}
    link = read_link(found)
    if link and not any(is_name(found.get(name)) for name in _IDS):
        found["id"] = link.rstrip("/").rpartition("/")[2]
    return found


def open_value(value: Any) -> Any:
    """The value without its envelope, if it has one."""
    return value["value"] if isinstance(value, dict) and value.keys() == {"value"} else value


def read_link(found: Any) -> str:
    """The URL that an entity gives as its own, from whose path its id can be read; empty if none."""
    for name in LINKS:
        link = found.get(name)
        if isinstance(link, list):
            link = next((item for item in link if isinstance(item, dict) and item.get("rel") == "self"), None)
        if isinstance(link, dict):
            link = read_link({plain_letters(inner): value for inner, value in link.items()})
        if isinstance(link, str) and "/" in link.rstrip("/"):
            return link
    return ""


def is_name(value: Any) -> bool:
    """Whether the value can identify an entity."""
    return isinstance(value, (str, int)) and not isinstance(value, bool) and value != ""


def body_of(profile: Profile, arguments: dict[str, Any]) -> Any:
    """The part of a request about the entity: its body, or all arguments that do not identify it or its parent."""
    binding = profile.tool.binding
    if isinstance(binding, RestBinding) and binding.body is not None:
        if binding.body.argument is not None:
            return arguments.get(binding.body.argument)
        names = binding.body.properties
        return _open_brackets({names[name]: value for name, value in arguments.items() if name in names})
    aside = {*profile.role.scope, *profile.ignored, profile.role.key}
    rest = {name: value for name, value in arguments.items() if name not in aside}
    body = profile.body_argument
    return {**rest, **rest.pop(body)} if body in rest and isinstance(rest[body], dict) else rest


def _open_brackets(form: dict[str, Any]) -> dict[str, Any]:
    """Turn form fields such as `track[title]` into an object `track`."""
    found: dict[str, Any] = {}
    for name, value in form.items():
        outer, bracket, rest = name.partition("[")
        inner = rest.partition("]")[0]
        if bracket and inner and isinstance(found.setdefault(outer, {}), dict):
            found[outer][inner] = value
        else:
            found[name] = value
    return found


def sent_entity(body: Any, names: Any, noun: str) -> dict[str, Any]:
    """The part of a body that has most of these names; nested parts count for half as much per level.

    Of the parts beside each other, one with the name of the entity is the entity: the other may hold its old values.
    """
    letters = {plain_letters(name) for name in names}
    found: tuple[float, dict[str, Any]] = (-1.0, {})
    level = [body[0] if isinstance(body, list) and body else body]
    for depth in range(3):
        parts = [part for part in level if isinstance(part, dict)]
        for part in parts:
            count = len(letters.intersection(map(plain_letters, part))) / 2**depth
            found = (count, part) if count > found[0] else found
        below: list[tuple[str, dict[str, Any]]] = []
        for part in parts:
            for name, value in part.items():
                inside = value[0] if isinstance(value, list) and value else value
                # An envelope has no siblings, or shares more than one name with the result.
                if isinstance(inside, dict) and (len(part) == 1 or len(letters & {*map(plain_letters, inside)}) > 1):
                    below.append((name, inside))
        level = [value for name, value in below if plain_letters(name) in nouns_of(noun)] or [pair[1] for pair in below]
    return found[1]


def locate_entity(result: Any, role: Role) -> tuple[Path, dict[str, Any]]:
    """The outermost object of a result that has an identifying field of the role, and its path.

    Of several, prefers one named like the entity; objects about other entities come last.
    """
    nouns = nouns_of(role.noun)

    def order(pair: tuple[Path, Any]) -> int:
        name = plain_letters(pair[0][-1]) if pair[0] else ""
        return 0 if name in nouns or singular(name) in nouns else 2 if name in _ABOUT else 1

    if isinstance(result, (str, int)) and not isinstance(result, bool):
        return (), {"id": result}  # nothing but what to call it by
    if isinstance(result, list) and result and is_name(result[0]):
        return ("[]",), {"id": result[0]}
    level: list[tuple[Path, Any]] = [(("[]",), result[0]) if isinstance(result, list) and result else ((), result)]
    for _ in range(_DEEPEST):
        objects = [(path, value) for path, value in level if isinstance(value, dict)]
        objects.sort(key=order)
        for path, value in objects:
            own = own_values(value)
            if any(is_name(inner) and name in role.fields for name, inner in own.items()):
                # The address of an answer is that of the one in it.
                inside = [name for name in value if isinstance(value[name], dict) and "id" in value[name]]
                name = next((name for name in inside if str(value[name]["id"]) == own.get("id")), None)
                # So is what stands beside one that is called as the thing is and has an id of its own.
                if own.keys().isdisjoint(_IDS):
                    name = next((name for name in inside if plain_letters(name) in nouns), name)
                return (path, value) if name is None else ((*path, name), value[name])
        level = [((*path, name), inner) for path, value in objects for name, inner in value.items()]
        level += [((*path, "[]"), inner[0]) for path, inner in level if isinstance(inner, list) and inner]
    return (), result if isinstance(result, dict) else {}


def open_part(path: Path, thing: dict[str, Any], body: Any) -> tuple[Path, dict[str, Any]]:
    """The part of an entity with its own data, if that has more of the names sent than its surroundings."""
    letters = set(map(plain_letters, body)) if isinstance(body, dict) else set()
    around = len(letters.intersection(map(plain_letters, thing)))
    for name, part in thing.items():
        about = isinstance(part, dict) and plain_letters(name) in _ABOUT - letters
        if about and len(letters.intersection(map(plain_letters, part))) > around:
            return (*path, name), part
    return path, thing


def _walk_objects(result: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every object in a result, with its path."""
    stack: list[tuple[Path, Any]] = [((), result)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, list):
            stack += [((*path, "[]"), item) for item in value]
        elif isinstance(value, dict):
            yield path, value
            stack += [((*path, name), item) for name, item in value.items()]


def find_entities(result: Any, fields: Path, called: list[str]) -> list[tuple[Path, dict[str, Any]]]:
    """Objects anywhere in a result with one of these ids or names."""
    found = []
    for path, value in _walk_objects(result):
        own = own_values(value)
        if any(str(own[field]) in called for field in fields if field in own):
            found.append((path, value))
    return sorted(found, key=lambda pair: len(pair[0]))


def find_alike(result: Any, sent: dict[str, Any], fields: Path) -> list[tuple[Path, dict[str, Any]]]:
    """List items without an identifying field that have the values sent."""
    found = []
    for path, value in _walk_objects(result):
        own = own_values(value)
        shared = [own[plain_letters(name)] == one for name, one in sent.items() if plain_letters(name) in own]
        if path[-1:] == ("[]",) and own.keys().isdisjoint(fields) and len(shared) > 1 and all(shared):
            found.append((path, value))
    return found


def names_of(values: SchemaValues, node: Any) -> dict[str, Any]:
    """The properties that the schema allows for objects of a part."""
    found: dict[str, Any] = {}
    for way in find_ways(values.root, node):
        properties = way.schema.get("properties")
        for name, sub in (properties if isinstance(properties, dict) else {}).items():
            found.setdefault(name, sub)
    return found


def items_of(values: SchemaValues, node: Any) -> Any:
    """The item schema of a part; None if it is not an array."""
    for way in find_ways(values.root, node):
        if isinstance(way.schema.get("items"), dict):
            return way.schema["items"]
    return None


def node_at(values: SchemaValues, path: Path) -> Any:
    """The schema of a part of a result; True if unconstrained."""
    node: Any = values.root
    for name in path:
        node = items_of(values, node) if name == "[]" else names_of(values, node).get(name)
        if node is None:
            return True
    return node


def answers_with_id(profile: Profile, fields: Path, *, listed: bool = False) -> bool:
    """Whether a result may have one of these fields, inside a list or outside of any."""
    if profile.is_free or profile.values.root.get("type") in ("integer", "string"):
        return True
    looks = 0
    items = items_of(profile.values, profile.values.root)
    # For a single entity, a list of one is accepted too.
    level = [(False, profile.values.root if listed or items is None else items)]
    for _ in range(_DEEPEST):
        below: list[tuple[bool, Any]] = []
        for inside, node in level:
            looks += 1
            if looks > _LOOKS:
                return False
            items = items_of(profile.values, node)
            below += [(True, items)] if items is not None else []
            names = names_of(profile.values, node)
            if inside == listed and any(plain_letters(name) in (*fields, *LINKS) for name in names):
                return True
            below += [(inside, sub) for sub in names.values()]
        level = below
    return False


def lost_values(values: SchemaValues | None, sent: Any, shown: Any, node: Any, path: str = "") -> Iterator[str]:
    """Paths where a result lacks a value sent, although its schema allows it there."""
    if isinstance(sent, dict) and values is not None and open_value(sent) is not sent and not names_of(values, node):
        sent, shown = open_value(sent), open_value(shown)
    if isinstance(sent, dict):
        names = {} if values is None else names_of(values, node)
        known = names or (shown if isinstance(shown, dict) else {})
        theirs = {plain_letters(name): name for name in known}
        for name, value in sent.items():
            their = name if name in known else theirs.get(plain_letters(name))
            if their is not None:
                inner = shown.get(their) if isinstance(shown, dict) else None
                yield from lost_values(values, value, inner, names.get(their, True), f"{path}/{their}")
    elif isinstance(sent, list) and isinstance(shown, list) and len(sent) == len(shown):
        items = True if values is None else items_of(values, node)
        for at, (one, other) in enumerate(zip(sent, shown, strict=True)):
            yield from lost_values(values, one, other, True if items is None else items, f"{path}/{at}")
    elif not _same(sent, shown) and (
        values is None or any(values.checker(node)(way) for way in (sent, _number(sent), *_spell_text(sent)))
    ):
        yield f"{path}: {str(sent)[:30]!r} sent, {str(shown)[:30]!r} shown"


def _spell_text(sent: Any) -> list[str]:
    """Text forms of a scalar value; none for lists and objects, whose form is unknown."""
    return [] if sent is None or isinstance(sent, (list, dict)) else [str(sent)]


def _same(sent: Any, shown: Any) -> bool:
    return bool(sent == shown) or str(sent).lower() == str(shown).lower() or _number(sent) == _number(shown)


def _number(value: Any) -> Any:
    try:
        return int(value) if float(value).is_integer() else float(value)
    except (TypeError, ValueError, OverflowError):
        return value
