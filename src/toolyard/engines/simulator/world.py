"""`World`: the entities that a session has from the beginning, where reads find things and never make them up.

There are as many of each kind as was asked for, each as if it had been created: its fields are those that a create
takes, completed by what every tool of the kind shows of it, so that no read has anything to add. Entities inside of
others (`/users/{}/pets`) are shared out among those; where nothing tells what they are inside of, there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from toolyard.engines.simulator.draw import Draw, GaveUp, encode
from toolyard.engines.simulator.entities import AnswerWriter, EntityStore, Fields, find_name, store_key
from toolyard.engines.simulator.profile import Profile
from toolyard.engines.simulator.roles import fields_of
from toolyard.engines.simulator.values import SchemaValues

_ORDER = ("create", "get", "list", "update", "replace", "act", "delete")
"""Whose view of an entity counts, where views differ: the first ones."""
ONLY = "it"
"""What the one entity is called of which there is only one."""

Scope = tuple[str, ...]
"""Names of the entities that others are inside of, the outermost first."""


class World(msgspec.Struct, frozen=True):
    """How many entities of each kind there are at first, and what they are drawn from."""

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
                for scope, store in self._share_out(scopes, kinds[kind], state)
                for name in _names_of(store, kinds[kind])
            ]
        return state

    def _share_out(
        self, scopes: list[Scope], profiles: list[Profile], state: dict[str, Any]
    ) -> Iterator[tuple[Scope, EntityStore]]:
        single = all(profile.role.single for profile in profiles)
        for at, scope in enumerate(scopes):
            count = 1 if single else len(range(at, self.entities, len(scopes)))
            store = EntityStore(state, store_key(profiles[0].role.kind, scope))
            for _ in range(count):
                self._add_entity(store, profiles, scope, single=single)
            store.mark_written()
            yield scope, store

    def _add_entity(self, store: EntityStore, profiles: list[Profile], scope: Scope, *, single: bool) -> None:
        number = store.add({}, {"@": ONLY} if single else {})
        key = encode([self.seed, store.kind])
        known = _created_fields(profiles[0], key + b"%d" % number)
        for profile in profiles:
            writer = AnswerWriter(
                profile, store, key, profile.parents(dict(zip(profile.role.scope, scope, strict=False)))
            )
            path = profile.entity_path or profile.list_path
            known = {**writer.assign_ids(number, known, path), **known} if not single else known
            store.write(number, known)
            for path, maker in profile.views():
                try:
                    writer.make_entity(number, known, maker, path)
                except GaveUp:
                    continue  # whoever asks this tool is told why
                known = store.read(number)


def _created_fields(profile: Profile, key: bytes) -> Fields:
    """What a call that creates one would send."""
    if profile.role.verb != "create":
        return {}
    try:
        arguments = SchemaValues(profile.tool.parameters or {"type": "object"}).make(Draw(key))
    except GaveUp:
        return {}
    return profile.sent_fields(arguments) if isinstance(arguments, dict) else {}


def _names_of(store: EntityStore, profiles: list[Profile]) -> Iterator[str]:
    """What those inside of each entity call it by."""
    role = next((profile.role for profile in profiles if profile.role.key is not None), profiles[0].role)
    fields = role.fields or fields_of("id", role.noun)
    for number in store.numbers():
        name = find_name(store.read(number), fields)
        if name is not None:
            yield name
