"""Facets: what a value is and whose, as keys by which outputs and inputs are matched."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from toolyard.insight.dataflow import sorts
from toolyard.insight.dataflow.names import CACHE_SIZE, SCOPED, STATE, Phrase

Owners = tuple[tuple[Phrase, float], ...]
"""The possible owners of a value, with weights."""
Claim = tuple[str, Phrase, float]
"""An attribute or group of attributes, its owner, and a weight."""
Member = tuple[str, float, float]
"""An attribute of a group, its weight, and the factor applied to the whole claim."""

OUTPUT, HANDLE, FOREIGN = 1, 2, 4
"""Role bits: it is an output; its name alone may identify an entity; it comes only from another namespace."""

_USER: Phrase = ("user",)
NOBODY: Phrase = ()
"""The owner of values that mean the same for every owner."""

# Names of groups begin with a space, which no attribute does.
_INPUT_HANDLE = " a handle"
OUTPUT_HANDLE = " id or name"
_GROUP_BY_ATTRIBUTE: dict[str, str] = {}
"""For input attributes that other attributes may satisfy, the group of all of them."""
_GROUPS: dict[str, list[Member]] = {
    _INPUT_HANDLE: [(handle, weight, 1.0) for handle, weight in sorts.HANDLES.items()],
    OUTPUT_HANDLE: [("id", 0.75, 1.0), ("name", 0.6, 1.0)],
}
for (_first, _second), _weight in sorts.SYNONYMS.items():
    _GROUP_BY_ATTRIBUTE[_second] = f" like {_second}"
    _GROUPS.setdefault(_GROUP_BY_ATTRIBUTE[_second], [(_second, 1.0, 1.0)]).append((_first, 1.0, _weight))


class Facets(NamedTuple):
    """The facets of a value, with weights."""

    keys: tuple[str, ...]
    weights: tuple[float, ...]
    scoped: float
    """How far the value is meaningful only within its source: 1 for an id, 0 for a city."""


@lru_cache(CACHE_SIZE)
def compute_facets(attribute: str, name_owner: Phrase, generic: bool, owners: Owners, role: int) -> Facets:
    """Compute the facets of a value.

    `name_owner` is the owner in its name; `owners`, if any, come from all other evidence.
    """
    facets: dict[str, float] = {}
    output = role & OUTPUT
    for name, owner, weight in _list_claims(attribute, name_owner, generic, owners, role):
        parts = list_spellings(owner, output)
        for member, share, rest in _GROUPS.get(name) or [(name, 1.0, 1.0)]:
            for phrase, part in parts:
                key = f"{member} of {phrase}" if phrase else member
                facets[key] = max(facets.get(key, 0.0), weight * share * part * rest)
    scoped = 0.0 if attribute in sorts.SORTS or role & FOREIGN else 1.0 if attribute in SCOPED else 0.5
    return Facets(tuple(facets), tuple(facets.values()), scoped)


def _list_claims(attribute: str, name_owner: Phrase, generic: bool, owners: Owners, role: int) -> list[Claim]:
    claims: list[Claim] = []
    output = role & OUTPUT
    named = attribute if output else _GROUP_BY_ATTRIBUTE.get(attribute, attribute)
    if attribute in sorts.SORTS:
        _, single_word, owned = sorts.SORTS[attribute]
        claims.append((named, NOBODY, (single_word if output else 1.0) * (owned if name_owner else 1.0)))
    if generic or name_owner:
        scale = 0.9 if attribute in STATE else 1.0
        for owner, weight in owners or ((name_owner, 1.0),) if name_owner or owners else ():
            claims.append((named, owner, weight * scale))
            if owner[-1] in sorts.PERSONS:
                claims.append((named, _USER, 0.88 * weight * scale))
    if not generic:
        claims.append((named, NOBODY, 0.95 if not name_owner else 0.7))
        if role & HANDLE:
            handle, words = OUTPUT_HANDLE if output else _INPUT_HANDLE, (*name_owner, attribute)
            claims.append((handle, words, 1.0))
            if attribute in sorts.PERSONS:
                claims.append((handle, _USER, 1.0))
            if not output and attribute in sorts.HANDLES:
                claims.append((named, words, sorts.HANDLES[attribute]))
        if output and not name_owner:
            claims += [(attribute, owner, 0.9 * weight) for owner, weight in owners]
    elif attribute == "uuid":
        # A uuid is unique whatever it identifies.
        claims.append((named, NOBODY, 0.8))
    if attribute == "login":
        claims.append((named, _USER, 0.92))
    elif attribute in _NAMES_AND_QUERIES:
        known = [(owner[-1], weight) for owner, weight in owners or ((name_owner, 1.0),) if owner]
        claims += _list_general_claims(attribute, known, role)
    return claims


_NAMES_AND_QUERIES = frozenset(("name", "query", "title"))


def _list_general_claims(attribute: str, known: list[tuple[str, float]], role: int) -> list[Claim]:
    """Claims without an owner: what names and titles of things mean in general, and what people are searched by."""
    output = role & OUTPUT
    if attribute == "name" and output:
        return [(sorts.NAME_SORTS[last], NOBODY, 0.85 * weight) for last, weight in known if last in sorts.NAME_SORTS]
    if attribute == "query" and not output and any(sorts.NAME_SORTS.get(last) == "full name" for last, _ in known):
        return [("email", NOBODY, 0.85)]
    if attribute == "title" and (output or role & FOREIGN) and not any(last in sorts.TITLED for last, _ in known):
        return [("subject", NOBODY, 0.75 if output else 0.85)]
    return []


def list_spellings(owner: Phrase, output: int) -> list[tuple[str, float]]:
    """The spellings of an owner: `service plan`, `serviceplan` and, as the more general kind, `plan`.

    Qualifiers must not contradict. So an output `service plan` also counts as a `plan`, and an input `service plan`
    also accepts `a plan`, a key that only outputs called just `plan` have.
    """
    if not owner:
        return [("", 1.0)]
    whole = " ".join(owner)
    found = [(whole, 1.0)]
    if output:
        found.append((f"a {whole}", 1.0))
    if len(owner) > 1:
        found.append(("".join(owner), 0.95))
        for cut in range(1, min(len(owner), 4)):
            tail = " ".join(owner[cut:])
            found.append((tail if output else f"a {tail}", TAIL_WEIGHTS[cut - 1]))
    return found


TAIL_WEIGHTS = (0.9, 0.8, 0.8)
"""Weights of names that leave out one, two or three leading words."""
