"""What all inputs together ask for, so that of all that is given most need not be looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from toolyard.insight.dataflow.names import Name, read_name
from toolyard.insight.dataflow.value_meanings import ALONE, HANDED, Claim, Owners, Phrase, members_of


class WantedInputs(dict[str, Name | None]):
    """What inputs ask for: by the name of an output what that says, or None if nobody asks for any value called so.

    It may say yes to what will not do. It never says no to what shares a facet with an input.
    """

    def __init__(self, claims: Iterable[Claim]) -> None:
        owners: defaultdict[str, set[Phrase]] = defaultdict(set)
        for name, owner, _ in claims:
            owners[name].add(owner)
        self._ends: defaultdict[str, set[str]] = defaultdict(set)
        """For each attribute that is asked for, how the owners end, whose it is to be."""
        for name, some in owners.items():
            ends = {end for owner in some for end in ends_of(owner)}
            for attribute, _, _ in members_of(name):
                self._ends[attribute] |= ends
        self._handed = set().union(*(self._ends.get(attribute, ()) for attribute, _, _ in members_of(HANDED)))

    def __missing__(self, name: str) -> Name | None:
        known = read_name(name)
        found = self[name] = self._look_up(known) if known else None
        return found

    def _look_up(self, name: Name) -> Name | None:
        _, _, attribute, own, generic, _, tells, listed, _ = name
        if listed:
            # What it is depends on whether it is a list.
            return name
        ends = self._ends.get(attribute)
        if not generic:
            return name if ends or self._handed.intersection(ends_of((*own, attribute))) else None
        if ends is None:
            return None
        if attribute in ALONE or (own and ends.intersection(ends_of(own))):
            return name
        # Whose it is may yet be said by its surroundings, or by its description.
        return tuple.__new__(Name, (*name[:-1], ends)) if tells or not own else None


def ends_of(owner: Phrase) -> tuple[str, ...]:
    """How it ends, and how it is written in one word: equal parts of two owners have one of these in common."""
    if len(owner) < 2:
        return owner or ("",)
    return owner[-1], "".join(owner)


def is_asked(owners: Owners, ends: Collection[str]) -> bool:
    """Whether any of the owners ends so."""
    for owner, _ in owners:  # noqa: SIM110 - a generator takes twice as long
        if owner[-1] in ends or "".join(owner) in ends:
            return True
    return False
