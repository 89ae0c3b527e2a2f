"""Facets: what a value is and whose, as `id of user` with a weight.

A value makes few claims, such as to be the `id` of `service plan`, and each stands for many facets: `id of plan` a
little less, and of an input `uuid of service plan`, which will do. Claims are what is made for each value; facets are
counted out for those that are told apart, and by arrays where there are many.
"""

from __future__ import annotations

from typing import NamedTuple

from toolyard.insight.dataflow.vocabulary import CONTENT, HANDLES, SAME, STATE

Phrase = tuple[str, ...]
"""Words of an entity, the one that counts last: `("service", "plan")`."""
Owners = tuple[tuple[Phrase, float], ...]
"""Whose a value may be, and how much each counts."""
Claim = tuple[str, Phrase, float]
"""What it is (an attribute, or the name of a group of them), whose, and its weight."""
Member = tuple[str, float, float]
"""An attribute of a group; its weight, and what the whole counts for then."""

OUTPUT, HANDLE, MADE = 1, 2, 4
"""What is known of a value besides its name: that it is given, that it may stand for an entity by its name alone, and
that it is the name of what is about to be made."""

NOBODY: Phrase = ()
"""The owner of what is the same whosoever it is."""
_KNOWN_ALONE = CONTENT | {"uuid"}
ALONE = _KNOWN_ALONE | {"login"}
"""Names that say enough without an owner, though many things have them."""

# Names of groups begin with a space, which no attribute does.
_ASKED = " a handle"
HANDED = " id or name"
_LIKE: dict[str, str] = {}
"""For attributes of inputs that others will do for, the group of all."""
_GROUPS: dict[str, list[Member]] = {
    _ASKED: [(handle, weight, 1.0) for handle, weight in HANDLES.items()],
    HANDED: [("id", 0.75, 1.0), ("name", 0.6, 1.0)],
}
for (_first, _second), _weight in SAME.items():
    _LIKE[_second] = f" like {_second}"
    _GROUPS.setdefault(_LIKE[_second], [(_second, 1.0, 1.0)]).append((_first, 1.0, _weight))


class Facets(NamedTuple):
    """What a value is and whose, each with a weight."""

    keys: tuple[str, ...]
    weights: tuple[float, ...]
    scoped: bool
    """Whether it means something only where it comes from: an id, but not a city."""


def claim(claims: list[Claim], attribute: str, own: Phrase, generic: bool, owners: Owners, role: int) -> None:
    """Add what a value says to be. `own` is whose it is by its name; `owners`, if any, by all that says so."""
    output = role & OUTPUT
    named = attribute if output else _LIKE.get(attribute, attribute)
    if generic or own:
        scale = 0.9 if attribute in STATE else 1.0
        if role & MADE:
            # The name of what is about to be made is nobody's yet.
            scale *= 0.55
        if owners:
            for owner, weight in owners:
                claims.append((named, owner, weight * scale))
        elif own:
            claims.append((named, own, scale))
    if not generic:
        claims.append((named, NOBODY, 0.95 if not own else 0.7))
        if role & HANDLE:
            words = (*own, attribute)
            claims.append((HANDED if output else _ASKED, words, 1.0))
            if not output and attribute in HANDLES:
                claims.append((named, words, HANDLES[attribute]))
        if output and not own:
            for owner, weight in owners:
                claims.append((attribute, owner, 0.9 * weight))
    elif attribute in _KNOWN_ALONE:
        # An identifier that is good whatever it identifies; a text is a text.
        claims.append((named, NOBODY, 0.8))
    if attribute == "login":
        claims.append((named, ("user",), 0.92))


def members_of(name: str) -> list[Member]:
    """The attributes that a claim is about; most are about one."""
    return _GROUPS.get(name) or [(name, 1.0, 1.0)]


def parts_of(owner: Phrase) -> list[str]:
    """`service plan`, `plan` and `serviceplan`."""
    if len(owner) < 2:
        return [owner[0] if owner else ""]
    return [" ".join(owner), *[" ".join(owner[cut:]) for cut in range(1, min(len(owner), 4))], "".join(owner)]


SHARES = ((1.0,), (1.0,), (1.0, 0.85, 0.95), (1.0, 0.85, 0.75, 0.95), (1.0, 0.85, 0.75, 0.75, 0.95))
"""What each part counts for, by the number of words; the last for all that are longer."""


def shares_of(owner: Phrase) -> tuple[float, ...]:
    """What each of the parts of an owner counts for."""
    return SHARES[min(len(owner), len(SHARES) - 1)]


def counted_out(claims: list[Claim]) -> dict[str, float]:
    """The facets that claims stand for, of one value; where there are many, `tables` does the same with arrays."""
    facets: dict[str, float] = {}
    for name, owner, weight in claims:
        for attribute, share, rest in members_of(name):
            for phrase, part in zip(parts_of(owner), shares_of(owner), strict=True):
                key = f"{attribute} of {phrase}" if phrase else attribute
                facets[key] = max(facets.get(key, 0.0), weight * share * part * rest)
    return facets
