"""What is compared of a value: its kind, which is all about it but where it is.

Values are many and kinds of them few, so a value is a path and a kind, and what a tool has is kept by column: one list
of paths, one of kinds. Kinds are plain tuples until somebody looks at one, because making them is what reading
definitions takes longest for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple

from toolyard.insight.dataflow.facets import Claim, Facets, Owners, Phrase, claim, counted_out
from toolyard.insight.dataflow.settle import Schema
from toolyard.insight.dataflow.vocabulary import SCOPED

_MAX_TEXT = 160
ITEMS, MANY = 6, 12
"""The first bits of the kinds of items, and of whether there are many; those before are the kinds of a value."""

KindRow = tuple[bool, bool, str, str, int, str, frozenset[str] | None, str, Phrase, bool, Owners, int]
"""A `Kind` as a plain tuple."""


class Kind(NamedTuple):
    """What is compared of a value; equal for values that need not be told apart."""

    required: bool
    """Of what is taken; what is given is there or not."""
    state: bool
    """Whether it is told of something rather than tells what it is."""
    spoken: str
    """Its name in words."""
    description: str
    shape: int
    """The kinds of a value, of its items, and whether it is one of many: `ITEMS` and `MANY` say which bits."""
    format: str
    enum: frozenset[str] | None
    attribute: str
    """What it is."""
    own: Phrase
    """Whose it is as far as its name says."""
    generic: bool
    """Whether many unrelated things have such a value."""
    owners: Owners
    """Whose it is by everything else; empty where that is `own`."""
    role: int
    """`OUTPUT`, `HANDLE` and `MADE`, as far as they are so."""

    @property
    def text(self) -> str:
        """What the text signal is computed from."""
        return text_of(self.spoken, self.description)

    @property
    def facets(self) -> Facets:
        """What it is and whose, each with a weight."""
        claims: list[Claim] = []
        claim(claims, self.attribute, self.own, self.generic, self.owners, self.role)
        found = counted_out(claims)
        return Facets(tuple(found), tuple(found.values()), self.attribute in SCOPED)


def text_of(spoken: str, description: str) -> str:
    """What values are compared by: the name, and the beginning of the description in one line."""
    line = description[:_MAX_TEXT]
    if not line.isprintable() or "  " in line or line[:1] == " " or line[-1:] == " ":
        # Not only plain blanks, one at a time.
        line = " ".join(description[: 2 * _MAX_TEXT].split())[:_MAX_TEXT]
    return f"{spoken}: {line}" if line else spoken


def types_of(shape: int) -> tuple[int, int, int]:
    """The kinds of a value, of its items, and whether it is one of many."""
    return shape & _KINDS, shape >> ITEMS & _KINDS, shape >> MANY


_KINDS = (1 << ITEMS) - 1


def picked(*names: str) -> Callable[[KindRow], Any]:
    """What takes these out of a kind, as long as it is a plain tuple."""
    return itemgetter(*map(Kind._fields.index, names))


class Values(NamedTuple):
    """What one tool gives, or what it takes, by column."""

    paths: list[str]
    needed: list[bool]
    """Whether a call cannot do without it."""
    kinds: list[KindRow]

    def texts(self) -> list[str]:
        """What each is compared by."""
        return [Kind._make(kind).text for kind in self.kinds]

    def only(self, wanted: Sequence[bool]) -> Values:
        """Those that are wanted."""
        return Values(*(list(compress(column, wanted)) for column in self))  # type: ignore[arg-type]

    def by_path(self) -> dict[str, Kind]:
        """To look at them."""
        return dict(zip(self.paths, map(Kind._make, self.kinds), strict=True))


class Given(NamedTuple):
    """What one tool gives, as its schema says: most is never asked for, and not looked at any closer."""

    schema: Schema
    noun: Phrase
    """What the tool is about."""
    gone: frozenset[Phrase]
    """Names of values that stand for nothing once the tool was called."""


class Told(NamedTuple):
    """What one tool gives and takes."""

    given: Given
    inputs: Values
    required: int
    """How many values a call cannot do without."""
    text: str
    """What tools are compared by."""
