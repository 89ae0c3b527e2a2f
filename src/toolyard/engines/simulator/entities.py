"""Entities of a session: `EntityStore` keeps those of one kind, `AnswerWriter` puts them into results.

Fields that a call sends are merged into the known fields of its entity.

All state is JSON in the session, so it is rolled back, forked and stored with it. Each entity has its own key; the
names by which entities are found are kept in pages, so that adding one does not rewrite them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from toolyard.engines.simulator.containers import COMMON_NAMES, is_short, opened_value, spellings_of
from toolyard.engines.simulator.draw import Draw, GaveUp, count_same, encode
from toolyard.engines.simulator.profile import DESCRIPTIVE_PARTS, AnswerPath, Profile, has_own_id
from toolyard.engines.simulator.roles import ID_ENDS, fields_of, noun_of, own_names
from toolyard.engines.simulator.scalars import ID_NAMES
from toolyard.engines.simulator.values import item_node, properties_of
from toolyard.model.errors import ToolFailed
from toolyard.model.json_schema import copy_json
from toolyard.schema.fold import find_ways
from toolyard.schema.subschemas import SubSchema
from toolyard.words.identifiers import plain_letters

Fields = dict[str, Any]
StoredName = list[Any]
"""The number of an entity, and its handles: the values by which it may be requested."""

LINKS = ("uri", "href", "self", "selflink", "url", "location", "link", "links")
"""Where an entity without an id has its link: `/users/7/albums/1001`, or `{"_links": {"self": {"href": ...}}}`."""
_OWN_LINKS = ("self", "selflink", "links")
_DEEPEST = 4
_PAGE = 32
"""Entities per page."""
_ID_ATTEMPTS = 8
"""Attempts to draw an unused id."""


class EntityStore:
    """The entities of one kind and scope."""

    def __init__(self, state: MutableMapping[str, Any], kind: str) -> None:
        self._state = state
        self.kind = kind
        self._index: dict[str, Any] = state.get(kind) or {"next": 1, "live": 0, "gone": [], "written": False}
        self._pages: dict[int, list[StoredName]] = {}

    @property
    def is_written(self) -> bool:
        """True if a call created or removed one, so that no more are invented."""
        return bool(self._index["written"])

    def mark_written(self) -> None:
        """Record that a call created or removed one."""
        self._index["written"] = True
        self._save_index()

    def __len__(self) -> int:
        return int(self._index["live"])

    def numbers(self) -> list[int]:
        """The numbers of existing entities, oldest first."""
        return [number for number, _ in self._live_entries()]

    def next_number(self) -> int:
        """The number of the next entity."""
        number: int = self._index["next"]
        return number

    def find(self, value: Any, fields: tuple[str, ...]) -> int | None:
        """The number of the entity with that handle, the latest of several; former handles are tried last."""
        return _find_entry(reversed(self._live_entries()), str(value), (*fields, ""))

    def has_handle(self, value: Any) -> bool:
        """True if an entity may be requested by that value, whatever the field."""
        return any(str(value) in handles.values() for _, handles in self._live_entries())

    def is_gone(self, value: Any, fields: tuple[str, ...]) -> bool:
        """True if an entity with that handle has been removed."""
        return _find_entry(iter(self._index["gone"]), str(value), (*fields, "")) is not None

    def read(self, number: int) -> Fields:
        """The known fields of an entity."""
        fields: Fields = self._state.get(f"{self.kind}#{number}") or {}
        return fields

    def add(self, fields: Fields, called: dict[str, Any]) -> int:
        """Add an entity; `called` are additional handles."""
        number = self.next_number()
        self._index["next"] = number + 1
        self._index["live"] += 1
        handles = _handles_of(fields, self.kind) | _short_texts(called)
        self._write_page(number, [*self._read_page(number), [number, handles]])
        self._state[f"{self.kind}#{number}"] = fields
        self._save_index()
        return number

    def write(self, number: int, fields: Fields, called: Fields | None = None) -> None:
        """Update an entity; `called` are additional handles, those under `@` for any tool."""
        page = self._read_page(number)
        handles = _handles_of(fields, self.kind) | _short_texts(called or {})
        new = [
            [each, known | handles | ({"": known[""]} if "" in known else {})] if each == number else [each, known]
            for each, known in page
        ]
        if new != page:
            self._write_page(number, new)
        if self.read(number) != fields:
            self._state[f"{self.kind}#{number}"] = fields

    def read_hidden(self, number: int) -> Fields:
        """Fields sent for an entity that were not shown by results so far."""
        fields: Fields = self._state.get(f"{self.kind}#{number} hidden") or {}
        return fields

    def keep_hidden(self, number: int, fields: Fields) -> None:
        """Store the fields sent for an entity that were not shown."""
        if self.read_hidden(number) != fields:
            self._state[f"{self.kind}#{number} hidden"] = fields

    def remove(self, number: int) -> None:
        """Remove an entity, keeping its handles."""
        page = self._read_page(number)
        gone = [[0, handles] for each, handles in page if each == number]
        self._index["gone"] += gone
        self._index["live"] -= len(gone)
        self._write_page(number, [entry for entry in page if entry[0] != number])
        for name in (f"{self.kind}#{number}", f"{self.kind}#{number} hidden"):
            if name in self._state:
                del self._state[name]
        self.mark_written()

    def clear(self) -> None:
        """Remove all entities."""
        for number in self.numbers():
            self.remove(number)
        self.mark_written()

    def mark_gone(self, called: dict[str, Any]) -> None:
        """Record the removal of an entity that did not exist in the session yet."""
        self._index["gone"].append([0, _short_texts(called)])
        self._write_page(0, self._read_page(0))
        self.mark_written()

    def restore(self, value: Any, fields: tuple[str, ...]) -> None:
        """Allow a removed entity to be created again."""
        text = str(value)
        self._index["gone"] = [
            entry for entry in self._index["gone"] if _find_entry(iter([entry]), text, (*fields, "")) is None
        ]
        self._save_index()

    def _live_entries(self) -> list[StoredName]:
        """The numbers of existing entities with their handles, oldest first."""
        return [entry for first in range(0, self.next_number(), _PAGE) for entry in self._read_page(first)]

    def _read_page(self, number: int) -> list[StoredName]:
        """The page of entries that contains that number, or would."""
        at = number // _PAGE
        if at not in self._pages:
            self._pages[at] = self._state.get(f"{self.kind}#page {at}") or []
        return self._pages[at]

    def _write_page(self, number: int, entries: list[StoredName]) -> None:
        at = number // _PAGE
        self._pages[at] = self._state[f"{self.kind}#page {at}"] = entries

    def _save_index(self) -> None:
        self._state[self.kind] = self._index


def limit_count(count: int, profile: Profile) -> int:
    """That many entities, or fewer if there are fewer ids for them."""
    choices = [] if profile.reader is None else profile.reader.key_choices
    return min(count, len(choices)) if choices else count


def store_key(kind: str, scope: Iterable[Any]) -> str:
    """The state key of the entities of one kind with the same parents, however these are spelt."""
    whose = [None if value is None else str(value) for value in scope]
    return f"{kind} {encode(whose).decode()}" if whose else kind


def find_name(fields: Fields, names: tuple[str, ...], kind: str) -> str | None:
    """The likeliest id of an entity, by the first of these fields that it has."""
    handles = _handles_of(fields, kind)
    return next((handles[name] for name in names if name in handles), None)


def _find_entry(entries: Iterator[StoredName], value: str, fields: tuple[str, ...]) -> int | None:
    kept = list(entries)
    for field in fields:
        for number, handles in kept:
            if handles.get(field) == value:
                return int(number)
    return None


def _handles_of(fields: Fields, kind: str) -> dict[str, str]:
    """All values by which an entity may be requested: any short field, since other tools may refer to it by any."""
    inner = [fields[part] for part in DESCRIPTIVE_PARTS if isinstance(fields.get(part), dict)]
    found: dict[str, str] = {}
    for part in (*inner, fields):
        found |= _short_texts(part)
    link = _find_link(fields) if found.keys().isdisjoint(ID_NAMES) else None
    if link is not None:
        *parts, name = link.partition("?")[0].rstrip("/").split("/")
        # A link to something else, such as a webhook's target, is not a handle.
        noun = noun_of(kind.partition(" [")[0].split("/")[1:])
        if not noun or noun in (noun_of([part]) for part in parts[3 if "://" in link else 0 :]):
            found["id"] = name
    return found


def _find_link(fields: Fields) -> str | None:
    """The link of an entity to itself, as a field or among its links."""
    letters = {plain_letters(name): value for name, value in fields.items()}
    for name in LINKS:
        link = letters.get(name)
        if isinstance(link, list):
            link = next((item for item in link if isinstance(item, dict) and item.get("rel") == "self"), None)
        link = _find_link(link) if isinstance(link, dict) else link
        if isinstance(link, str) and "/" in link.rstrip("/"):
            return link
    return None


def _short_texts(values: dict[str, Any]) -> dict[str, str]:
    return {
        plain_letters(name): str(value)
        for name, given in values.items()
        for value in opened_value(given) or (given,)
        if is_short(value)
    }


FIRST_ID = 1000
"""The first id of entities; ids are consecutive."""
_COUNTED = ("id", "pk", "number")
_SUCCESS = {"ok": True, "success": True, "successful": True}
"""Fields that report success."""


class AnswerWriter:
    """Writes the result of one call, and stores what it says about an entity."""

    def __init__(self, profile: Profile, store: EntityStore, seed: int | str, scope: Sequence[Any]) -> None:
        self.profile = profile
        self.store = store
        self.key = encode([seed, store.kind])
        """The seed of entities of this kind and scope, used with their number."""
        self._parents = profile.parents(dict(zip(profile.role.scope, scope, strict=False)))
        """The entity's parents by normalised name."""
        whose = iter(scope)
        parts = profile.role.kind.split("/")[1:]
        self._address = "".join(f"/{next(whose, part) if part == '{}' else part}" for part in parts)
        """The path of the collection."""

    def assign_ids(self, number: int, known: Fields, path: AnswerPath | None) -> Fields:
        """Consecutive ids for fields that allow whole numbers, or any text."""
        values = self.profile.values
        taken = {plain_letters(name) for name in known}
        if self.profile.is_free or path is None:
            return {} if "id" in taken else {"id": self.choose_id(number)}
        noun = plain_letters(self.profile.role.noun)
        found: Fields = {}
        for name, node in path.properties.items():
            letters = plain_letters(name)
            if letters not in taken and (letters in _COUNTED or letters == noun + "id"):
                value = number if letters == "number" else FIRST_ID + number
                if values.checker(node)(value):
                    found[name] = value
                elif letters != "number" and values.is_any_text(node):
                    # Other tools may require a number where this result only declares text.
                    found[name] = str(value)
        return found if self._can_be_asked_for({**known, **found}) else {**found, **self._fit_id(number, path, taken)}

    def drop_unfit_id(self, known: Fields) -> Fields:
        """The fields sent for an entity, without an id by which it could not be requested; it gets another one."""
        if self._can_be_asked_for(known) or self.profile.reader is None:
            return known
        ids = {"id", plain_letters(str(self.profile.reader.role.key))}
        return {name: value for name, value in known.items() if plain_letters(name) not in ids}

    def choose_id(self, number: int) -> Any:
        """The id of an entity that has none: a number, unless the tool that shows it requires another form."""
        reader = self.profile.reader
        if reader is None or reader.role.key is None:
            return FIRST_ID + number
        counted = next(filter(reader.fits_key, (FIRST_ID + number, number)), None)
        if counted is not None:
            return counted
        found: Any = FIRST_ID + number
        handles = _handles_of(self.store.read(number), self.store.kind)
        own = filter(reader.fits_key, [handles[field] for field in reader.role.fields if field in handles])
        with suppress(GaveUp):
            draws = [Draw(self.key + b"%d %d" % (number, again)) for again in range(_ID_ATTEMPTS)]
            shown = filter(reader.fits_key, map(reader.values.maker(reader.shown_key, "id"), draws))
            for found in chain(own, shown, map(reader.key_values.make, draws), reader.key_choices):
                if self.store.find(found, reader.role.fields) in (None, number):
                    return found
        if reader.key_choices and self.profile.role.verb == "create":
            raise ToolFailed(
                f"there can be no further {self.profile.role.noun}: each of the {len(reader.key_choices)} ids is taken",
                hint="delete one first",
                effect="none",
            )
        return found

    def _can_be_asked_for(self, fields: Fields) -> bool:
        """True if the tool that shows such entities accepts one of the created entity's handles."""
        reader, handles = self.profile.reader, _handles_of(fields, self.store.kind)
        if reader is None or reader.role.key is None or self.profile.role.verb != "create":
            return True
        return any(reader.accepts_key(handles[field]) for field in reader.role.fields if field in handles)

    def _fit_id(self, number: int, path: AnswerPath, taken: set[str]) -> Fields:
        """The id in the form of the result, if its reader does not accept any text."""
        reader, letters = self.profile.reader, path.letters
        if reader is None or reader.accepts_key("any text"):
            return {}
        names = [letters[field] for field in reader.role.fields if field in letters and field not in taken]
        ways = spellings_of(self.choose_id(number))
        return {
            name: way for name in names[:1] for way in ways if self.profile.values.checker(path.properties[name])(way)
        }

    def _link_entity(self, number: int, known: Fields, path: AnswerPath) -> Fields:
        """A link to the entity, by its own link field or, if it has no id, by any link field."""
        role, letters = self.profile.role, path.letters
        links = _OWN_LINKS if has_own_id(path.properties, role.noun) else LINKS
        name = next((letters[link] for link in links if link in letters), None)
        if name is None:
            return {}
        called = find_name(known, role.fields or fields_of("id", role.noun), self.store.kind) or FIRST_ID + number
        link = self._fit_link(path.properties[name], f"{self._address}/{called}")
        return {} if link is None else {name: link}

    def _surround_entity(self, number: int, path: AnswerPath) -> Fields:
        """Fields beside the entity in the result: its link, and what was sent beside it."""
        root = self.profile.values.root
        around, known = AnswerPath((), root, properties_of(root, root) or {}), self.store.read(number)
        inside = {*map(plain_letters, path.properties), *COMMON_NAMES}
        beside = {name: value for name, value in known.items() if plain_letters(name) not in inside}
        return {**self._link_entity(number, known, around), **beside}

    def _fit_link(self, node: SubSchema, link: str, depth: int = _DEEPEST) -> Any:
        """The link in the form of that part: text, absolute if others are, or nested in an object or a list."""
        values = self.profile.values
        if not depth:
            return None
        items, properties = item_node(values.root, node), properties_of(values.root, node)
        if items is not None:
            inside = self._fit_link(items, link, depth - 1)
            return [{"rel": "self", **inside}] if isinstance(inside, dict) else None
        if properties is None:
            told = [way.schema for way in find_ways(values.root, node)]
            absolute = any(schema.get("format") == "uri" or b'"http' in encode(schema) for schema in told)
            link = f"https://api.example.com{link}" if absolute else link
            return link if values.checker(node)(link) else None
        letters = {plain_letters(name): name for name in reversed(properties)}
        name = next((letters[inner] for inner in LINKS if inner in letters), None)
        inside = None if name is None else self._fit_link(properties[name], link, depth - 1)
        return None if inside is None else {name: inside}

    def make_entity(self, number: int, known: Fields, path: AnswerPath, fresh: frozenset[str] = frozenset()) -> Any:
        """An entity as one part of a result shows it, stored as shown; fields in `fresh` take precedence."""
        values = self.profile.values
        own = own_names(self.profile.role.noun)
        reader = self.profile.reader
        asked = "" if reader is None else plain_letters(str(reader.role.key))
        # An entity requested by `key` may show that as `contactKey`.
        alike = [name for name, end in own.items() if end == asked and name in path.letters]
        asked = alike[0] if alike and asked not in path.letters else asked
        called = find_name(known, reader.role.fields, self.store.kind) if reader and asked in path.letters else None
        known = {**self._link_entity(number, known, path), **({path.letters[asked]: called} if called else {}), **known}
        well = _SUCCESS if self.profile.role.writes else {}
        echo = {**well, **self._parents, **{plain_letters(name): value for name, value in known.items()}}
        # Fields by which it can be requested must be included.
        ids = [plain_letters(name) for name in path.properties if plain_letters(name).endswith(ID_ENDS)]
        # Nested parts must not get the entity's own id, which is drawn first.
        key = self.key + (b"%d inside" if not echo.keys().isdisjoint(ID_NAMES) else b"%d") % number
        draw = Draw(key, echo, frozenset((*echo, *own.values(), *ids, asked, "metadata")))
        shown = {plain_letters(name) for name in path.properties}
        others = {name: echo[plain] for name, plain in own.items() if plain in echo and plain not in shown}
        draw.known = {**others, **{own[name]: value for name, value in echo.items() if name in own}, **known}
        maker = values.maker(path.node, self.profile.role.noun)
        made = values.make_part(maker, values.checker(path.node), draw)
        value = values.overlay(path.node, made, known, fresh)
        if isinstance(value, dict):
            known = {name: item for name, item in known.items() if name not in made or name in value}
        hidden = self.store.read_hidden(number)
        value = values.overlay(path.node, value, hidden) if hidden else value
        if isinstance(value, dict):
            value = self._name_entity(number, known, value, path)
            # Store fields that this result cannot show, since the result of another tool may.
            self.store.write(number, merge_fields(known, copy_json(value)))
            self._hide_fields(number, {**known, **hidden}, value)
        return value

    def _hide_fields(self, number: int, known: Fields, value: Fields) -> None:
        """Store fields that this result cannot show, for results that can; ids are not stored."""
        there = {plain_letters(name): item for name, item in value.items()}
        pairs = [(name, item, there.get(plain_letters(name), item)) for name, item in known.items()]
        lost = {
            name: item
            for name, item, shown in pairs
            if shown != item and count_same(shown, item) < count_same(item, item)
        }
        self.store.keep_hidden(number, {name: lost[name] for name in lost if not plain_letters(name).endswith(ID_ENDS)})

    def _name_entity(self, number: int, known: Fields, value: Fields, path: AnswerPath) -> Fields:
        """The entity with an id, added even if its schema declares none, since it could not be requested otherwise."""
        role, values = self.profile.role, self.profile.values
        # Once an id has been returned, other names do not replace it.
        reader = self.profile.reader or self.profile
        names = (*reader.role.fields, *fields_of("id", role.noun), *(() if "id" in known else ID_ENDS))
        named = has_own_id(value, role.noun) or find_name(value, names, self.store.kind) is not None
        if role.single or role.verb in ("act", "delete") or (named and self._can_be_asked_for(value)):
            return value
        name = "id" if "id" in known or role.key is None else role.key
        said = known.get(name) or find_name(known, role.fields, self.store.kind) or self.choose_id(number)
        called = {name: said, **value}
        return called if values.checker(path.node)(called) else value

    def show_entity(
        self, number: int, known: Fields, arguments: dict[str, Any], fresh: frozenset[str] = frozenset()
    ) -> Any:
        """A result that contains the entity."""
        path = self.profile.entity_path
        if path is None:
            self.store.write(number, known)
            if self.profile.is_free:
                return self.fit_schema({**known, **self.store.read_hidden(number)}, arguments)
            return self.make_answer(arguments, {**known, **arguments}, whole=known)
        entity = self.make_entity(number, known, path, fresh)
        if not path.names:
            return entity
        return self.wrap_entities(path, [entity], arguments, around=self._surround_entity(number, path))

    def wrap_entities(
        self,
        path: AnswerPath,
        entities: list[Any],
        arguments: dict[str, Any],
        known: Fields | None = None,
        must: frozenset[str] = frozenset(),
        around: Fields | None = None,
    ) -> Any:
        """A result with these entities in place and `around` beside them; invalid ones are replaced."""
        must = must.union(map(plain_letters, path.names))
        whole = path.wrap(entities)
        whole = {**around, **whole} if around and isinstance(whole, dict) else whole
        return self.make_answer(arguments, arguments if known is None else known, must=must, whole=whole)

    def make_answer(
        self,
        arguments: dict[str, Any],
        known: Fields,
        text: bytes | None = None,
        must: frozenset[str] = frozenset(),
        whole: Any = None,
    ) -> Any:
        """A result by the tool's schema, with known values under their names; `whole` is the preferred result."""
        values = self.profile.values
        text = self.profile.prefix + encode(arguments) if text is None else text
        draw = Draw(text, {**_SUCCESS, **{plain_letters(name): value for name, value in known.items()}}, must)
        draw.known = whole
        return values.overlay(values.root, values.make(draw), whole)

    def free_answer(self, value: Any, arguments: dict[str, Any], known: Fields, text: bytes | None = None) -> Any:
        """The value itself if the result may be any object; else a result by the schema, with known values."""
        if not self.profile.is_free:
            return self.make_answer(arguments, known, text)
        return self.fit_schema(value, arguments)

    def fit_schema(self, value: Any, arguments: dict[str, Any]) -> Any:
        """The value if the schema allows it, else another one."""
        return value if self.profile.values.check(value) else self.make_answer(arguments, arguments)


def merge_fields(known: Fields, new: Fields, *, deep: bool = True) -> Fields:
    """Known and new fields merged, spelt as in `new`; with `deep`, nested objects are merged, too."""
    before = {plain_letters(name): value for name, value in known.items()}
    letters = {plain_letters(name) for name in new}
    merged = {name: value for name, value in known.items() if plain_letters(name) not in letters}
    for name, value in new.items():
        old = before.get(plain_letters(name))
        merged[name] = merge_fields(old, value) if deep and isinstance(old, dict) and isinstance(value, dict) else value
    return merged
