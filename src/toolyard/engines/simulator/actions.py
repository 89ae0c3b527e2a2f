"""What an action such as `cancel_order` or `POST /orders/{id}/cancel` changes: the state of the entity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolyard.engines.simulator.profile import Profile
from toolyard.schema.fold import find_ways
from toolyard.schema.subschemas import SubSchema, allowed_values, types_of
from toolyard.words.identifiers import STATES_BY_ACTION, plain_letters

_OPPOSITES = {"deactivate": "activate", "disable": "enable", "reopen": "close", "resume": "pause"}
_OPPOSITES |= {f"un{action}": action for action in ("archive", "block", "lock", "publish")}
_FIRST_STATES = ("new", "open", "pending", "created", "draft", "todo", "active", "queued", "submitted", "scheduled")
"""States of an entity that was just created, likeliest first."""

Node = tuple[dict[str, Any], SubSchema]
"""A schema, with the root that its references are in."""


def shown_fields(profile: Profile) -> dict[str, Node]:
    """The fields of the entity in the result, and in that of the tool that shows one, with their schemas."""
    found: dict[str, Node] = {}
    for one in (profile.reader or profile, profile):
        for name, node in one.entity_path.properties.items() if one.entity_path is not None else ():
            found[name] = one.values.root, node
    return found


def find_changes(action: str, known: Mapping[str, Any], nodes: Mapping[str, Node]) -> dict[str, Any]:
    """The fields of an entity that an action changes: its status, and flags such as `archived` or `is_active`.

    `known` are the values of its fields, `nodes` the schemas of those that results can show.
    """
    states, opposite = STATES_BY_ACTION.get(action, ()), STATES_BY_ACTION.get(_OPPOSITES.get(action, ""), ())
    found: dict[str, Any] = {}
    # A `payment_status` beside a `status` is about something else.
    own = min((name for name in known if plain_letters(name).endswith("status")), key=len, default=None)
    for name in dict.fromkeys((*nodes, *known)):
        letters, old = plain_letters(name), known.get(name)
        if _is_state(letters):
            chosen = _choose(states, nodes.get(name))
            if chosen is None and isinstance(old, str) and name == own and not _choices(nodes.get(name)):
                chosen = next((_spell_like(old, state) for state in states), None)
            found |= {} if chosen is None else {name: chosen}
        elif (flag := letters.removeprefix("is")) in (*states, *opposite) and _is_flag(old, nodes.get(name)):
            found[name] = flag in states
    return found


def first_states(nodes: Mapping[str, Node]) -> dict[str, Any]:
    """The state of a new entity, where its schema lists the states."""
    chosen = {name: _choose(_FIRST_STATES, node) for name, node in nodes.items() if _is_state(plain_letters(name))}
    return {name: state for name, state in chosen.items() if state is not None}


def _is_state(letters: str) -> bool:
    return letters.endswith(("status", "state")) or letters in ("stage", "phase")


def _choices(node: Node | None) -> list[str]:
    ways: Iterable[Any] = () if node is None else find_ways(*node)
    return [value for way in ways for value in allowed_values(way.schema) or () if isinstance(value, str)]


def _choose(states: Iterable[str], node: Node | None) -> str | None:
    by_letters = {plain_letters(choice): choice for choice in reversed(_choices(node))}
    return next((by_letters[state] for state in states if state in by_letters), None)


def _is_flag(old: Any, node: Node | None) -> bool:
    ways: Iterable[Any] = () if node is None else find_ways(*node)
    return isinstance(old, bool) or any("boolean" in types_of(way.schema.get("type")) for way in ways)


def _spell_like(old: str, state: str) -> str:
    """`state` in upper case, or with a capital, if `old` is."""
    return state.upper() if old.isupper() else state.capitalize() if old[:1].isupper() else state
