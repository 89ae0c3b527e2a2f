"""What a value is (`id`) and whose it is (`user`), read from its name, its surroundings and its description.

Both are written as facets: `id of user` with a weight. A value can feed another where they share a facet, as well as
their weights say. `user_id`, `user.id`, `users[].id` and the `id` of `get_user` all have that one.
"""

from __future__ import annotations

from typing import NamedTuple

from toolyard.insight.dataflow.asked import Asked, is_asked
from toolyard.insight.dataflow.descriptions import owner_in
from toolyard.insight.dataflow.facets import ALONE, HANDLE, MADE, OUTPUT, Owners, Phrase
from toolyard.insight.dataflow.kinds import ITEMS, MANY, Given, KindRow, Told, Values
from toolyard.insight.dataflow.memo import remembered
from toolyard.insight.dataflow.names import asked_of, named, spelled, tool_nouns
from toolyard.insight.dataflow.paths import Holder, Leaf, Walk, needed_of
from toolyard.insight.dataflow.settle import BOOLEAN, SCALAR
from toolyard.insight.dataflow.vocabulary import GONE, MAKERS, PEOPLE, WEAK_WRAPPERS, WRAPPERS
from toolyard.insight.dataflow.words import words_of
from toolyard.model.tool import Tool

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
    walk = Walk(tool.parameters, named, inputs.take)
    walk.run()
    needed = needed_of(walk.required)
    # The id that came in goes out again, and stands for nothing any more.
    gone = frozenset() if GONE.isdisjoint(words[:2]) else frozenset(words_of(_last(path)) for path in inputs.paths)
    text = f"{' '.join(words)}. {_beginning(tool.description)}"
    return Told(Given(tool.output_parameters, noun, gone), inputs.values(needed), len(needed), text)


def outputs_of(given: Given, asked: Asked | None = None) -> Values:
    """What a tool gives; only what may be asked for, if that is known."""
    outputs = _Reader(given.noun, OUTPUT)
    Walk(given.schema, named if asked is None else asked.__getitem__, outputs.take).run(required=False)
    found = outputs.values()
    if given.gone:
        found = found.only([words_of(_last(path)) not in given.gone for path in found.paths])
    return found


def _last(path: str) -> str:
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
                known = spelled(self._noun)
                if known is None:
                    continue
            if items and known[7]:
                known = spelled(known[7]) or known
            spoken, alone, attribute, own, generic, state, tells, _, asked = known
            told = owner_in(description[:_MAX_READ]) if tells and description else ()
            if own:
                owners = _told_owners(told, own) if told else ()
            else:
                if place is None:
                    place = _place(holder, self._noun)
                    nearby, around, near = place[4:]
                owners = _owners(told, *place[:4]) if told else nearby
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


def _place(holder: Holder, noun: Phrase) -> _Place:
    inner, wrapper = _around(holder.parents)
    hint = _entity(words_of(holder.hint)) if holder.hint else ()
    around = inner or noun
    spoken = " ".join(dict.fromkeys(around)) if len(around) > 1 else around[0] if around else ""
    owners = _owners((), inner, wrapper, hint, noun)
    return tuple.__new__(_Place, (inner, wrapper, hint, noun, owners, around, spoken))


def _told_owners(told: Phrase, own: Phrase) -> Owners:
    """Whose value it is where both its name and its description name an entity."""
    # `request_id`, described as the id of a check, is rather the check's.
    return ((own, 1.0 if told[-1] in own else 0.85), (told, 0.9))


def _owners(told: Phrase, inner: Phrase, wrapper: Phrase, hint: Phrase, noun: Phrase) -> Owners:
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
def _around(parents: tuple[str, ...]) -> tuple[Phrase, Phrase]:
    """The entity that holds a value, and the container nearer to it that may be more than a wrapper."""
    wrapper: Phrase = ()
    for name in reversed(parents):
        words = words_of(name)
        entity = _entity(words)
        if entity:
            return entity, wrapper
        if words and words[-1] in WEAK_WRAPPERS and not wrapper:
            wrapper = words
    return (), wrapper


@remembered(65536)
def _entity(words: Phrase) -> Phrase:
    """A container's name as an entity; empty if it only wraps."""
    kept = tuple(word for word in words if not word.isdigit())
    return () if not kept or (kept[-1] in WRAPPERS and len(kept) == 1) else kept


def _beginning(description: str) -> str:
    """The first words of a tool's description."""
    some = " ".join(description[: 2 * _MAX_TOOL_TEXT].split())
    if len(some) < _MAX_TOOL_TEXT and len(description) > 2 * _MAX_TOOL_TEXT:
        # Mostly blank.
        some = " ".join(description.split())
    return some[:_MAX_TOOL_TEXT]
