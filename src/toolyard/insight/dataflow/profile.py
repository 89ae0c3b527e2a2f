"""What is compared of a tool: the values that it gives and takes, with name, type, text and meaning.

Of outputs only what some input asks for is looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple

from toolyard.insight.dataflow.names import (
    Name,
    asked_of,
    owner_in,
    read_name,
    read_words,
    remembered,
    tool_nouns,
    words_of,
)
from toolyard.insight.dataflow.paths import Holder, Leaf, Walk, needed_of
from toolyard.insight.dataflow.schema_fold import BOOLEAN, SCALAR, Schema
from toolyard.insight.dataflow.value_meanings import (
    ALONE,
    GONE,
    HANDED,
    HANDLE,
    MADE,
    MAKERS,
    OUTPUT,
    PEOPLE,
    SCOPED,
    WEAK_WRAPPERS,
    WRAPPERS,
    Claim,
    Facets,
    Owners,
    Phrase,
    add_claim,
    counted_out,
    members_of,
)
from toolyard.model.tool import Tool


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
        add_claim(claims, self.attribute, self.own, self.generic, self.owners, self.role)
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


def pick_fields(*names: str) -> Callable[[KindRow], Any]:
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


_MAX_TOOL_TEXT = 200
_MAX_READ = 240


class _Place(NamedTuple):
    """All that the surroundings of a value say."""

    inner: Phrase
    """The entity that holds it."""
    wrapper: Phrase
    """The container nearer to it that may be more than a wrapper."""
    hint: Phrase
    noun: Phrase
    owners: Owners
    """What they come to."""
    around: Phrase
    spoken: str


def told_of(tool: Tool) -> Told:
    """All that is compared of a tool."""
    nouns = tool_nouns(tool.name)
    noun = nouns[-1] if nouns else ()
    words = words_of(tool.name)
    maker = not MAKERS.isdisjoint(words[:2])
    inputs = _Reader(asked_of(tool.name) or noun, 0, maker=maker)
    walk = Walk(tool.parameters, read_name, inputs.take)
    walk.run()
    needed = needed_of(walk.required)
    # The id that came in goes out again, and stands for nothing any more.
    gone = frozenset() if GONE.isdisjoint(words[:2]) else frozenset(words_of(_last_step(path)) for path in inputs.paths)
    text = f"{' '.join(words)}. {_read_beginning(tool.description)}"
    return Told(Given(tool.output_parameters, noun, gone), inputs.values(needed), len(needed), text)


def outputs_of(given: Given, asked: WantedInputs | None = None) -> Values:
    """What a tool gives; only what may be asked for, if that is known."""
    outputs = _Reader(given.noun, OUTPUT)
    Walk(given.schema, read_name if asked is None else asked.__getitem__, outputs.take).run(required=False)
    found = outputs.values()
    if given.gone:
        found = found.only([words_of(_last_step(path)) not in given.gone for path in found.paths])
    return found


def _last_step(path: str) -> str:
    return path.rpartition(".")[2]


class _Reader:
    """Puts down what is compared of values as they are met."""

    __slots__ = ("_maker", "_noun", "_side", "kinds", "paths")

    def __init__(self, noun: Phrase, side: int, *, maker: bool = False) -> None:
        self._noun = noun
        self._side = side
        self._maker = maker
        self.paths: list[str] = []
        self.kinds: list[KindRow] = []

    def values(self, needed: frozenset[str] = frozenset()) -> Values:
        """All that was put down."""
        paths = self.paths
        return Values(paths, [path in needed for path in paths] if needed else [False] * len(paths), self.kinds)

    def take(self, holder: Holder, prefix: str, whole: str | None, leaves: list[Leaf]) -> None:
        """Put down values that are side by side."""
        side, maker = self._side, self._maker and not holder.parents
        many = 1 << MANY if holder.lists else 0
        place: _Place | None = None
        nearby: Owners = ()
        around: Phrase = ()
        near = ""
        for name, known, kinds, items, form, enum, description, required in leaves:
            if not name:
                known = read_words(self._noun)
                if known is None:
                    continue
            if items and known[7]:
                known = read_words(known[7]) or known
            spoken, alone, attribute, own, generic, state, tells, _, asked = known
            told = owner_in(description[:_MAX_READ]) if tells and description else ()
            if own:
                owners = _told_owners(told, own) if told else ()
            else:
                if place is None:
                    place = _read_place(holder, self._noun)
                    nearby, around, near = place[4:]
                owners = _find_owners(told, *place[:4]) if told else nearby
                if generic and not owners and attribute not in ALONE:
                    continue
            if asked is not None and not is_asked(owners, asked):
                continue
            if alone and around:
                spoken = f"{near} {spoken}" if spoken not in around else near
            role = side
            if not kinds & BOOLEAN and (not side or items & SCALAR):
                role |= HANDLE
            if maker and tells and not own:
                role |= MADE
            self.paths.append(prefix + name if whole is None else whole)
            shape = kinds | items << ITEMS | many
            row = (required, state, spoken, description, shape, form, enum, attribute, own, generic, owners, role)
            self.kinds.append(row)


def _read_place(holder: Holder, noun: Phrase) -> _Place:
    inner, wrapper = _find_containers(holder.parents)
    hint = _read_entity(words_of(holder.hint)) if holder.hint else ()
    around = inner or noun
    spoken = " ".join(dict.fromkeys(around)) if len(around) > 1 else around[0] if around else ""
    owners = _find_owners((), inner, wrapper, hint, noun)
    return tuple.__new__(_Place, (inner, wrapper, hint, noun, owners, around, spoken))


def _told_owners(told: Phrase, own: Phrase) -> Owners:
    """Whose value it is where both its name and its description name an entity."""
    # `request_id`, described as the id of a check, is rather the check's.
    return ((own, 1.0 if told[-1] in own else 0.85), (told, 0.9))


def _find_owners(told: Phrase, inner: Phrase, wrapper: Phrase, hint: Phrase, noun: Phrase) -> Owners:
    """Whose value it is where its name does not say so, by everything else: (phrase, how much it counts)."""
    found: list[tuple[Phrase, float]] = []
    if told:
        found.append((told, 0.97))
    if inner:
        found.append((inner, 0.97))
    if wrapper:
        found.append((wrapper, 0.85))
    if hint and hint != inner:
        found.append((hint, 0.9))
    if noun and not inner:
        found.append((noun, 0.88 if not told else 0.75))
    for owner, _ in found:
        if owner[-1] in PEOPLE:
            found.append((("user",), 0.88))
            break
    return tuple(found)


@remembered(65536)
def _find_containers(parents: tuple[str, ...]) -> tuple[Phrase, Phrase]:
    """The entity that holds a value, and the container nearer to it that may be more than a wrapper."""
    wrapper: Phrase = ()
    for name in reversed(parents):
        words = words_of(name)
        entity = _read_entity(words)
        if entity:
            return entity, wrapper
        if words and words[-1] in WEAK_WRAPPERS and not wrapper:
            wrapper = words
    return (), wrapper


@remembered(65536)
def _read_entity(words: Phrase) -> Phrase:
    """A container's name as an entity; empty if it only wraps."""
    kept = tuple(word for word in words if not word.isdigit())
    return () if not kept or (kept[-1] in WRAPPERS and len(kept) == 1) else kept


def _read_beginning(description: str) -> str:
    """The first words of a tool's description."""
    some = " ".join(description[: 2 * _MAX_TOOL_TEXT].split())
    if len(some) < _MAX_TOOL_TEXT and len(description) > 2 * _MAX_TOOL_TEXT:
        # Mostly blank.
        some = " ".join(description.split())
    return some[:_MAX_TOOL_TEXT]
