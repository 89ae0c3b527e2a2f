"""`Simulator`: generates results of tools without a model or a backend.

`CrudCall` is one call of a tool that creates, shows, lists, changes or deletes entities of a session. `World` holds the
entities that a session has from the beginning; with one, reads never invent entities.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, MutableMapping, Sequence
from functools import cached_property
from threading import Lock
from typing import Any

import msgspec

from toolyard.calls.invocation import Invocation
from toolyard.engines.simulator.actions import find_changes, first_states, shown_fields
from toolyard.engines.simulator.containers import is_short, spellings_of
from toolyard.engines.simulator.draw import Draw, GaveUp, encode
from toolyard.engines.simulator.entities import (
    AnswerWriter,
    EntityStore,
    Fields,
    find_name,
    limit_count,
    merge_fields,
    store_key,
)
from toolyard.engines.simulator.listing import ListingCall
from toolyard.engines.simulator.patch import apply_patch, is_patch
from toolyard.engines.simulator.profile import Profile, has_own_id
from toolyard.engines.simulator.roles import Neighbours, fields_of, find_neighbours, is_own_key, noun_of
from toolyard.engines.simulator.values import SchemaValues, SharedParts
from toolyard.links.lm.config import WorldOptions
from toolyard.model.errors import ConfigError, InvalidOutput, ToolFailed
from toolyard.model.json_schema import copy_json
from toolyard.model.tool import Tool
from toolyard.schema.options import check_keys, option_type, read_value
from toolyard.words.identifiers import plain_letters

_COUNT_NAMES = (
    "created",
    "createdcount",
    "inserted",
    "insertedcount",
    "added",
    "count",
    "total",
    "totalcount",
    "processed",
)
"""Names under which a result reports the number of created entities."""
ENTITIES = 3
"""Default number of entities of each kind in a world."""


class CrudCall:
    """One call of a tool on the entities of a session."""

    def __init__(
        self, profile: Profile, seed: int | str, state: MutableMapping[str, Any], *, closed: bool = False
    ) -> None:
        self._profile = profile
        self._seed = seed
        self._state = state
        self._closed = closed
        """True if only initial and created entities exist, so that none are invented."""

    def answer(self, arguments: dict[str, Any]) -> Any:
        """The result of the call, after applying it to the session's entities."""
        role = self._profile.role
        if role.holder is not None and isinstance(arguments.get(role.holder), dict):
            arguments = {**arguments, **arguments[role.holder]}
            del arguments[role.holder]
        scope = [arguments.get(name) for name in role.scope]
        self._check_parents(scope)
        self._store = EntityStore(self._state, store_key(role.kind, scope))
        self._writer = AnswerWriter(self._profile, self._store, self._seed, scope)
        if role.verb == "create":
            return self._create_one(arguments)
        if role.verb == "list":
            return ListingCall(self._writer, arguments, invents=not self._closed).answer()
        if role.verb == "none" or (role.key is None and not role.single):
            if role.verb == "delete":
                self._delete_several({name: arguments[name] for name in arguments.keys() - self._profile.ignored})
            return self._answer_other(arguments)
        if role.single and role.verb == "get" and set(arguments) - set(role.scope):
            return self._answer_other(arguments)
        return self._answer_one(arguments)

    def _check_parents(self, scope: list[Any]) -> None:
        """Raise an error if a parent was deleted or, in a closed world, never existed; a list is then empty."""
        role = self._profile.role
        outer = role.kind.split("/{}")
        if len(outer) != len(scope) + 1:
            return
        for at, (name, given) in enumerate(zip(role.scope, scope, strict=True)):
            kind = "/{}".join(outer[: at + 1])
            store, noun = EntityStore(self._state, store_key(kind, scope[:at])), noun_of(kind.split("/")[1:])
            fields = fields_of(name, noun)
            gone = store.is_gone(given, fields) and store.find(given, fields) is None
            closed = self._closed and store.is_written and role.verb != "list" and not store.has_handle(given)
            # An `owner` is none of the `/repos`, so it need not be there.
            if gone or (closed and (is_own_key(name, noun) or self._profile.can_show_by(name, kind))):
                raise _absence_error(noun, given, gone=gone)

    def _answer_one(self, arguments: dict[str, Any]) -> Any:
        """Show, change or delete the requested entity."""
        role, store = self._profile.role, self._store
        given = None if role.key is None else arguments.get(role.key)
        key: Any = ONLY_HANDLE if given is None else given
        called, fields = ({"@": ONLY_HANDLE}, ("",)) if given is None else ({str(role.key): given}, role.fields)
        number = store.find(key, fields)
        gone = number is None and store.is_gone(key, fields)
        absent = number is None and self._closed and given is not None
        if (gone or absent) and role.verb != "replace":
            raise _absence_error(role.noun, given, gone=gone)
        if number is None and self._closed and role.verb == "get":
            return self._answer_other(arguments)
        if role.verb == "delete":
            return self._delete_one(arguments, number, called)
        if number is None:
            if gone:
                store.restore(key, fields)
            known = self._fields_by_key(given)
            number = store.add(known, {"@": given, **called})
        else:
            known = merge_fields(self._fields_by_key(given), store.read(number))
        body, fresh = arguments.get(self._profile.body_argument or ""), frozenset[str]()
        if is_patch(body):
            known = apply_patch(known, body)
            store.keep_hidden(number, {})
        elif role.verb in ("update", "replace"):
            reader = self._profile.reader
            name = None if reader is None else find_name(known, reader.role.fields, store.kind)
            # Keep the old id as a handle if this changes it.
            store.write(number, store.read(number), {"@": name or given, **called})
            sent = copy_json(self._profile.sent_fields(arguments))
            known = self._merge_sent(known, sent)
            fresh = frozenset(map(plain_letters, sent))
            hidden = store.read_hidden(number)
            store.keep_hidden(number, {name: hidden[name] for name in hidden if plain_letters(name) not in fresh})
        elif role.verb == "act":
            changed = find_changes(role.action, known, shown_fields(self._profile))
            known, fresh = merge_fields(known, changed), frozenset(map(plain_letters, changed))
        return self._writer.show_entity(number, known, arguments, fresh)

    def _merge_sent(self, known: Fields, sent: Fields) -> Fields:
        """The fields after an update; an object is replaced if old and new fields cannot be combined."""
        merged = merge_fields(known, sent, deep=self._profile.role.verb == "update")
        view = self._profile.reader or self._profile
        for name, value in sent.items():
            if isinstance(value, dict) and merged[name] != value:
                merged[name] = view.choose_shown(name, merged[name], value)
        return merged

    def _create_one(self, arguments: dict[str, Any]) -> Any:
        several, path = self._profile.sent_entities(self._profile.sent_fields(arguments)), self._profile.entity_path
        one = (
            self._profile.list_path is None
            and path is not None
            and has_own_id(path.properties, self._profile.role.noun)
        )
        if several and not one:
            return self._create_all(several, arguments)
        known = self._writer.drop_unfit_id(copy_json(several[0] if several else self._profile.sent_fields(arguments)))
        known = merge_fields(first_states(shown_fields(self._profile)), known)
        number = self._store.add(known, {})
        self._store.mark_written()
        ids = self._writer.assign_ids(number, known, path)
        values = self._profile.values
        named = find_name(known, fields_of("id", self._profile.role.noun), self._store.kind)
        called = named or self._writer.choose_id(number)
        for bare in spellings_of(called) if self._profile.list_path is None else ():
            answer = [bare] if values.root.get("type") == "array" else bare
            # Require an explicit type: without one, a bare id would be accepted where an object is meant.
            if values.root.get("type") in ("integer", "string", "array") and values.check(answer):
                # The result is only the id.
                self._store.write(number, {**known, "id": bare})
                return answer
        return self._writer.show_entity(number, {**ids, **known}, arguments)

    def _create_all(self, several: list[Fields], arguments: dict[str, Any]) -> Any:
        profile, store, writer = self._profile, self._store, self._writer
        path = profile.list_path
        made = []
        for item in several:
            known: Fields = copy_json(item)
            number = store.add(known, {})
            known = {**writer.assign_ids(number, known, path), **known}
            store.write(number, known)
            made.append(known if path is None else writer.make_entity(number, known, path))
        store.mark_written()
        if profile.is_free:
            return writer.fit_schema({"items": made, "count": len(made)}, arguments)
        known = {**arguments, **dict.fromkeys(_COUNT_NAMES, len(made))}
        known["ids"] = known[f"{plain_letters(profile.role.noun)}ids"] = [
            one.get("id") for one in made if isinstance(one, dict)
        ]
        if path is None:
            return writer.make_answer(arguments, known)
        return writer.wrap_entities(path, made, arguments, known)

    def _delete_several(self, arguments: dict[str, Any]) -> None:
        """Remove the entities in a list of ids, or all of them if the arguments select none."""
        role = self._profile.role
        chosen = {name: value for name, value in arguments.items() if name not in role.scope}
        if not chosen:
            self._store.clear()
            self._remove_inner(None)
        for name, ids in chosen.items():
            one = name.removesuffix("s")
            if len(chosen) == 1 and isinstance(ids, list) and has_own_id([one], role.noun):
                for key in filter(is_short, ids):
                    self._remove(self._store.find(key, fields_of(one, role.noun)), {one: key})

    def _remove(self, number: int | None, called: dict[str, Any]) -> Fields:
        """Remove an entity and what is in it; its fields. It need not have been in the session."""
        handle = next(iter(called.values()))
        fields = {} if number is None else self._store.read(number)
        if number is None:
            self._store.mark_gone({"@": handle, **called})
        else:
            self._store.remove(number)
        self._remove_inner({str(handle), find_name(fields, fields_of("id", self._profile.role.noun), self._store.kind)})
        return fields

    def _remove_inner(self, names: Collection[str | None] | None) -> None:
        """Remove what is in the entities of these names, or in all: others with these names must not have it."""
        kind, _, whose = self._store.kind.partition(" [")
        outer = f" [{whose[:-1]}," if whose else " ["
        given = [] if names is None else [encode(name).decode() for name in names if name is not None]
        begins = (outer,) if names is None else tuple(f"{outer}{name}{end}" for name in given for end in "],")
        for key in [key for key in self._state if key.startswith(f"{kind}/{{}}")]:
            if key[key.find(" [") :].startswith(begins):
                del self._state[key]

    def _delete_one(self, arguments: dict[str, Any], number: int | None, called: dict[str, Any]) -> Any:
        fields = self._remove(number, called)
        answer = {"deleted": True} if "@" in called else {**called, "deleted": True}
        return self._writer.free_answer(answer, arguments, {**fields, **arguments, "deleted": True})

    def _answer_other(self, arguments: dict[str, Any]) -> Any:
        """The result of a tool without entities: by its arguments, and if it is not idempotent, by the call count."""
        profile = self._profile
        text = profile.prefix + encode(arguments)
        if profile.role.writes:
            name = f"#calls of {profile.tool.qualified_name}"
            count = self._state.get(name, 0)
            self._state[name] = count + 1
            text += b"%d" % count
        simple = {name: value for name, value in arguments.items() if not isinstance(value, (list, dict))}
        return self._writer.free_answer({"status": "success", **simple}, arguments, arguments, text)

    def _fields_by_key(self, key: Any) -> Fields:
        """The fields of an entity of which only the key is known."""
        profile = self._profile
        role, path, values = profile.role, profile.entity_path or profile.list_path, profile.values
        if key is None:
            return {}
        letters = path.letters if path is not None else {}
        for field in role.fields:
            name = letters.get(field)
            if name is not None and path is not None:
                for spelling in spellings_of(key):
                    if values.checker(path.properties[name])(spelling):
                        return {name: spelling}
        return {"id" if role.key is None or profile.is_free else role.key: key}


def _absence_error(noun: str, given: Any, *, gone: bool) -> ToolFailed:
    name = f"{noun or 'such thing'}{'' if given is None else f' {given!r}'}"
    return ToolFailed(
        f"there is no {name}: it was deleted" if gone else f"there is no {name}",
        hint="it was removed earlier in this session" if gone else "list the existing ones, or create it",
        effect="none",
    )


_MOST_PROFILES = 20_000
"""Maximum number of cached profiles per namespace."""


class _Namespace:
    """The tools of one namespace, and what was computed for them."""

    def __init__(self, tools: Sequence[Tool] = ()) -> None:
        self.tools = tools
        self.shared = SharedParts()
        self.profiles: dict[int, Profile] = {}

    @cached_property
    def neighbours(self) -> Neighbours:
        """How the tools are related."""
        return find_neighbours(self.tools)


class Simulator:
    """Generates results that conform to a tool's schema, determined by seed, tool, arguments and session history.

    Entities that calls create, change and delete are kept in the session's state, and later calls show them. Related
    tools are recognised by their paths, names and parameters. Thread-safe.

    Without a `world`, requested entities that do not exist are invented, and exist from then on. With one, a session
    starts with a number of entities of each kind (`first_state`), and only these and created ones exist.
    """

    def __init__(self, seed: int | str = 0, *, stateful: bool = True, world: WorldOptions | None = None) -> None:
        self.seed = seed
        self._stateful = stateful
        self.world = None if world is None else _read_world(world, seed)
        if self.world is not None and not stateful:
            raise ConfigError("world: needs stateful; remove stateful: false")
        self._tools: Sequence[Tool] = ()
        self._namespaces: dict[str, _Namespace] = {}
        self._lock = Lock()

    def use_tools(self, tools: Sequence[Tool]) -> None:
        """Set the current tools: the role of a tool may depend on the others in its namespace."""
        if tools is self._tools:
            return
        with self._lock:
            if tools is self._tools:
                return
            found: dict[str, list[Tool]] = {}
            for tool in tools:
                found.setdefault(tool.namespace, []).append(tool)
            # Keep what was computed for unchanged namespaces.
            before = self._namespaces
            self._namespaces = {
                name: before[name] if name in before and before[name].tools == own else _Namespace(own)
                for name, own in found.items()
            }
            self._tools = tools

    def answer(self, invocation: Invocation) -> Any:
        """The result of a call; raises `ToolFailed` if the requested entity does not exist."""
        tool, arguments = invocation.tool, invocation.arguments
        profile = self.profile(tool)
        if profile.plain or not self._stateful:
            return self._value_by_arguments(profile, arguments)
        try:
            closed = self.world is not None
            return CrudCall(profile, self.seed, invocation.state, closed=closed).answer(arguments)
        except GaveUp as error:
            raise _contradiction_error(tool, error) from None

    def first_state(self, tools: Iterable[Tool]) -> dict[str, Any]:
        """The initial state of a session with these tools."""
        if self.world is None:
            return {}
        profiles = [self.profile(tool) for tool in tools]
        return self.world.populate(profile for profile in profiles if profile.role.verb != "none")

    def value(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        """A result for these arguments in a new session."""
        return self._value_by_arguments(self.profile(tool), arguments)

    def profile(self, tool: Tool) -> Profile:
        """The profile of a tool, cached."""
        space = self._namespaces.get(tool.namespace)
        found = None if space is None else space.profiles.get(id(tool))
        if found is not None and found.tool is tool:
            return found
        with self._lock:
            space = self._namespaces.setdefault(tool.namespace, _Namespace())
            made = Profile(tool, self.seed, space.shared, space.neighbours)
            if len(space.profiles) >= _MOST_PROFILES:
                space.shared, space.profiles = SharedParts(), {}
            space.profiles[id(tool)] = made
        return made

    def _value_by_arguments(self, profile: Profile, arguments: dict[str, Any]) -> Any:
        values = profile.values
        try:
            if profile.is_free:
                return CrudCall(profile, self.seed, {}).answer(arguments)
            return values.make(Draw(profile.prefix + encode(arguments), echo_of(arguments) if arguments else None))
        except GaveUp as error:
            raise _contradiction_error(profile.tool, error) from None


def _read_world(world: Any, seed: int | str) -> World:
    wanted = option_type(WorldOptions)
    check_keys(world, wanted.keys, "world")
    given = read_value(wanted, world, "world")
    return World(given.get("seed", seed), given.get("entities", ENTITIES))


def _contradiction_error(tool: Tool, error: GaveUp) -> InvalidOutput:
    return InvalidOutput(
        f"no result of {tool.qualified_name} was found that its output schema allows: {error}",
        hint="check the tool's output_parameters: they contradict themselves, or require too large values",
        effect="none",
    )


def echo_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Values by normalised name, including those nested in an object if their names are unused."""
    found = {}
    inside = None
    for name, value in arguments.items():
        found[plain_letters(name)] = value
        if type(value) is dict:
            inside = {**value, **inside} if inside else value
    if inside:
        for name, value in inside.items():
            found.setdefault(plain_letters(name), value)
    return found


_ORDER = ("create", "get", "list", "update", "replace", "act", "delete")
"""Precedence of tools whose views of an entity differ."""
ONLY_HANDLE = "it"
"""The handle of an entity that is the only one of its kind."""

Scope = tuple[str, ...]
"""Names of the entities that contain others, outermost first."""


class World(msgspec.Struct, frozen=True):
    """How many entities of each kind exist at first, and the seed they are generated from.

    Each looks as if it had been created by a call: it has the fields that a create takes, and all that other tools of
    the kind show of it, so that reads add nothing. Nested entities (`/users/{}/pets`) are distributed among their
    parents; if the parents are unknown, there are none.
    """

    seed: int | str
    entities: int

    def populate(self, profiles: Iterable[Profile]) -> dict[str, Any]:
        """The state that a session begins with."""
        kinds: dict[str, list[Profile]] = {}
        for profile in sorted(profiles, key=lambda profile: _ORDER.index(profile.role.verb)):
            kinds.setdefault(profile.role.kind, []).append(profile)
        state: dict[str, Any] = {}
        places: dict[str, list[Scope]] = {}
        for kind in sorted(kinds, key=lambda kind: (kind.count("{}"), kind)):
            outer = kind.rpartition("/{}")[0]
            scopes: list[Scope] = places.get(outer, []) if "{}" in kind else [()]
            places[kind] = [
                (*scope, name)
                for scope, store in self._distribute_entities(scopes, kinds[kind], state)
                for name in _names_of(store, kinds[kind])
            ]
        return state

    def _distribute_entities(
        self, scopes: list[Scope], profiles: list[Profile], state: dict[str, Any]
    ) -> Iterator[tuple[Scope, EntityStore]]:
        single = all(profile.role.single for profile in profiles)
        for at, scope in enumerate(scopes):
            count = 1 if single else limit_count(len(range(at, self.entities, len(scopes))), profiles[0])
            store = EntityStore(state, store_key(profiles[0].role.kind, scope))
            for _ in range(count):
                self._add_entity(store, profiles, scope, single=single)
            store.mark_written()
            yield scope, store

    def _add_entity(self, store: EntityStore, profiles: list[Profile], scope: Scope, *, single: bool) -> None:
        key = encode([self.seed, store.kind])
        known = _created_fields(profiles[0], key + b"%d" % store.next_number())
        number = store.add(known, {"@": ONLY_HANDLE} if single else {})
        for profile in profiles:
            writer = AnswerWriter(profile, store, self.seed, scope)
            path = profile.entity_path or profile.list_path
            known = {**writer.assign_ids(number, known, path), **known} if not single else known
            store.write(number, known)
            if profile.view is not None:
                try:
                    writer.make_entity(number, known, profile.view)
                except GaveUp:
                    continue  # calls of this tool report why
                known = store.read(number)


def _created_fields(profile: Profile, key: bytes) -> Fields:
    """The fields that a call would send to create one."""
    if profile.role.verb != "create":
        return {}
    try:
        arguments = SchemaValues(profile.tool.parameters or {"type": "object"}).make(Draw(key))
    except GaveUp:
        return {}
    return profile.sent_fields(arguments) if isinstance(arguments, dict) else {}


def _names_of(store: EntityStore, profiles: list[Profile]) -> Iterator[str]:
    """The ids by which nested entities refer to each entity."""
    role = next((profile.role for profile in profiles if profile.role.key is not None), profiles[0].role)
    fields = role.fields or fields_of("id", role.noun)
    for number in store.numbers():
        name = find_name(store.read(number), fields, store.kind)
        if name is not None:
            yield name
