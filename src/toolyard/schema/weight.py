"""Estimate the cost of judging a value from its schema, in steps of about 25 nanoseconds.

One value is judged by every subschema that applies to it, as often as references and branches lead there. `weigh`
follows them level by level and assumes that the validator caches nothing, which is its worst case: two branches that
lead back to one schema make 2^depth. `measure` returns the size of a value, and `Weight.steps_for` combines both.

Patterns run in linear time, but for a long one each character may cost as much as the whole pattern has positions:
`(a|b)*a(a|b){5000}` on 40,000 letters takes six seconds. A pattern of few positions becomes a table, which is fast. One
with look-around or back-references anywhere but at the start may restart at every character.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Any

import msgspec

from toolyard.model.json_schema import IN_PLACE, TooManyValues, iter_levels
from toolyard.model.tool import Schema
from toolyard.schema.subschemas import References, iter_children, prefix_items

STEPS = 2_000_000
"""The limit for one verdict: at worst 50 milliseconds, far less with real schemas."""
_AT_ONCE_STEPS = STEPS // 8
"""The limit for a verdict that blocks an event loop. One call may need two: for its arguments and its result."""
_MOST_VISITS = 10_000
"""Maximum number of pairs of a schema and a name to follow; anything deeper counts as too deep."""
_HALF_OF_64_BITS = 1 << 63
UNIQUE = 10
"""For each value in a list with unique items, and for each such list around it, since it is hashed every time."""
_META_SCHEMA = 200
_META_SCHEMAS = "//json-schema.org/"
_LIGHT = 20
_LIGHT_LETTERS = 0.4
"""With at most this many steps per character, text of the maximum request size stays within the limit."""
_COMPARING = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})


class Weight(msgspec.Struct, frozen=True):
    """The maximum number of steps for each value, by the depth of the whole value."""

    levels: tuple[int, ...]
    is_bounded: bool
    """True if the cost does not increase beyond the last level."""
    unique: int = 0
    """The number of schemas with `uniqueItems`."""
    is_unique_recursive: bool = False
    compares: bool = False
    """True if the schema compares numbers, which is slow for numbers with many digits."""
    letters: float = 0.0
    """Pattern steps for each character of a text or a name."""
    restarts: float = 0.0
    """Pattern steps for each character multiplied by the length of its text."""

    @property
    def is_light(self) -> bool:
        """True if no request can exceed the limit, even with the maximum number of values."""
        is_quick = self.letters <= _LIGHT_LETTERS and not self.restarts
        return self.is_bounded and self.levels[-1] <= _LIGHT and not self.unique and is_quick

    def steps_per_value(self, depth: int) -> float:
        """Steps for each value of a document with that depth."""
        if depth > len(self.levels) and not self.is_bounded:
            return math.inf
        return self.levels[min(depth, len(self.levels)) - 1]

    def steps_for(self, size: Size) -> float:
        """The maximum number of steps to judge a value of that size."""
        lists = size.depth if self.is_unique_recursive else self.unique
        wide = size.wide * (size.wide_values if self.unique else 1)
        letters = size.letters * (self.letters + self.restarts * size.longest)
        return size.values * (self.steps_per_value(size.depth) + UNIQUE * lists) + wide + letters

    def max_bytes(self) -> int:
        """The maximum length of JSON text that is judged without being measured."""
        if not self.is_bounded or self.is_unique_recursive:
            return 0
        most = int(_AT_ONCE_STEPS // (self.levels[-1] + UNIQUE * self.unique))
        if self.letters:
            most = min(most, int(_AT_ONCE_STEPS / self.letters) // 2)
        if self.restarts:
            most = min(most, math.isqrt(int(_AT_ONCE_STEPS / self.restarts)) // 2)
        # A value takes at least two bytes; very long integers cost more than one value.
        return min(2 * most, 2048 if self.unique else 1 << 16 if self.compares else 2 * most)


class Size(msgspec.Struct):
    """The size of a value."""

    values: int = 0
    depth: int = 0
    wide: int = 0
    """Steps to compare the integers beyond 64 bits once each."""
    wide_values: int = 0
    letters: int = 0
    """Characters of texts and names; only counted if the weight depends on them."""
    longest: int = 0


def measure(value: Any, most_values: int, weight: Weight | None = None) -> Size | None:
    """The size, or None if there are more than `most_values` values. Shared parts count each time they occur."""
    size = Size()
    try:
        for level in iter_levels(value, most_values):
            size.depth += 1
            size.values += len(level)
            kinds = set(map(type, level))
            if int in kinds:
                _count_wide(level if len(kinds) == 1 else [item for item in level if type(item) is int], size)
            if weight is not None and weight.letters:
                _count_letters(level, size)
    except TooManyValues:
        return None
    return size


def _count_letters(level: list[Any], size: Size) -> None:
    names = chain.from_iterable(item for item in level if type(item) is dict)
    lengths = [len(text) for text in chain(level, names) if type(text) is str]
    size.letters += sum(lengths)
    size.longest = max([size.longest, *lengths])


def _count_wide(numbers: Collection[int], size: Size) -> None:
    if max(numbers) >= _HALF_OF_64_BITS or min(numbers) < -_HALF_OF_64_BITS:
        for number in numbers:
            wide = wide_steps(number)
            size.wide += wide
            size.wide_values += wide > 0


def wide_steps(number: int) -> int:
    """Steps to compare an integer beyond 64 bits. Long division makes this quadratic in the number of digits."""
    if -_HALF_OF_64_BITS <= number < _HALF_OF_64_BITS:
        return 0
    return 100 + number.bit_length() ** 2 // 4_000


def own_steps(node: Schema) -> int:
    """The cost of a schema without its subschemas."""
    steps = 2 + len(node.get("required") or ()) + _compared_steps([node["const"]] if "const" in node else [])
    enum = node.get("enum")
    if isinstance(enum, list):
        steps += _compared_steps([value for value in enum if isinstance(value, dict | list)])
    if isinstance(node.get("multipleOf"), float):
        steps += 100
    if "pattern" in node:
        steps += 5
    needs = node.get("dependentRequired")
    if isinstance(needs, dict):
        steps += sum(len(names) for names in needs.values() if isinstance(names, list))
    return steps


def _compared_steps(values: list[Any]) -> int:
    """The cost of comparing a value with all of these."""
    steps, stack = 0, list(values)
    while stack:
        value = stack.pop()
        steps += 110 if isinstance(value, float) else 1 if isinstance(value, str) else 20
        if isinstance(value, dict | list):
            stack.extend(value.values() if isinstance(value, dict) else value)
    return steps


class InPlaceSchemas:
    """Finds the schemas that apply to the same value as another schema."""

    def __init__(self, root: Schema) -> None:
        self.references = References(root)
        self._known: dict[int, list[Schema]] = {}
        self._steps: dict[int, int] = {}
        self._kept: list[Schema] = []

    def schemas_below(self, node: Schema) -> list[Schema]:
        """The schemas that a schema applies to its own value."""
        found = self._known.get(id(node))
        if found is None:
            found = [sub for step, sub in iter_children(node) if step[0] in IN_PLACE and isinstance(sub, dict)]
            for target in self.references.targets(node):
                if isinstance(target, dict):
                    found.append(target)
            if "unevaluatedProperties" in node or "unevaluatedItems" in node:
                found = found * 2  # judged again to find out what they have evaluated
            self._known[id(node)] = found
            self._kept.append(node)
        return found

    def steps(self, node: Schema) -> int:
        """The cost of the schema without its subschemas."""
        found = self._steps.get(id(node))
        if found is None:
            found = self._steps[id(node)] = own_steps(node) + _META_SCHEMA * self.references.leads_out(node)
            self._kept.append(node)
        return found

    def collect_judges(self, starts: dict[int, tuple[Schema, int]]) -> dict[int, tuple[Schema, int]]:
        """All schemas that apply to the value of the given ones, and how many times; cycles are followed once."""
        order: list[Schema] = []
        state: dict[int, bool] = {}
        stack = [(node, False) for node, _ in starts.values()]
        back: set[tuple[int, int]] = set()
        while stack:
            node, done = stack.pop()
            key = id(node)
            if done:
                state[key] = True
                order.append(node)
            elif key not in state:
                state[key] = False
                stack.append((node, True))
                for sub in self.schemas_below(node):
                    if state.get(id(sub)) is False:
                        back.add((key, id(sub)))
                    elif id(sub) not in state:
                        stack.append((sub, False))
        times = {key: count for key, (_, count) in starts.items()}
        for node in reversed(order):
            for sub in self.schemas_below(node):
                if (id(node), id(sub)) not in back:
                    times[id(sub)] = times.get(id(sub), 0) + times[id(node)]
        return {id(node): (node, times[id(node)]) for node in order}


Judges = dict[int, tuple[Schema, int]]
"""The schemas that judge one value, each with its number of times."""
HOLDING = frozenset(
    {
        *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
        *("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"),
    }
)
_LEADING = HOLDING | IN_PLACE


def weigh(schema: Schema | bool, part: Schema | None = None) -> Weight:
    """Estimate the weight of a schema, or a part of it, until no new level appears or one value exceeds the limit."""
    if not isinstance(schema, dict):
        return Weight((1,), is_bounded=True)
    in_place, start = InPlaceSchemas(schema), schema if part is None else part
    nodes = [start, *_iter_reachable(in_place, start)]
    compares = any(not _COMPARING.isdisjoint(node) for node in nodes)
    unique = [node for node in nodes if node.get("uniqueItems") is True]
    patterns = _sum_patterns((node, 1) for node in nodes)
    most = (0.0, 0.0)
    if any(in_place.references.leads_out(node) and _META_SCHEMAS not in node["$ref"] for node in nodes):
        # The validator can resolve the reference and this module cannot, so its cost is unknown.
        return Weight((STEPS,), False, len(unique), True, compares, *patterns)
    recursive = any(node is around for around in unique for node in _iter_reachable(in_place, around))
    frontier: list[tuple[Judges, int]] = [({id(start): (start, 1)}, 0)]
    known: set[frozenset[tuple[int, int]]] = set()
    levels: list[int] = []
    visits = worst = 0
    while frontier:
        following: list[tuple[Judges, int]] = []
        for starts, extra in frontier:
            judges = in_place.collect_judges(starts)
            worst = max(worst, extra + sum(count * in_place.steps(node) for node, count in judges.values()))
            most = _most_patterns(most, judges) if patterns[0] else most
            for members, more in _judges_of_parts(judges):
                if all(_LEADING.isdisjoint(node) for node, _ in members.values()):
                    worst = max(worst, more + sum(count * in_place.steps(node) for node, count in members.values()))
                    most = _most_patterns(most, members) if patterns[0] else most
                    continue
                visits += 1 + len(judges)
                key = frozenset((each, count) for each, (_, count) in members.items())
                if worst * (len(levels) + 1) > STEPS or visits > _MOST_VISITS:
                    return Weight((*levels, worst), False, len(unique), recursive, compares, *patterns)
                if key not in known:
                    known.add(key)
                    following.append((members, more))
        levels.append(worst)
        frontier = following
    return Weight(tuple(levels), True, len(unique), recursive, compares, *most)


def _sum_patterns(nodes: Iterable[tuple[Schema, int]]) -> tuple[float, float]:
    """Pattern steps of all nodes: for each character, and for each character multiplied by the length of its text."""
    letters = restarts = 0.0
    for node, count in nodes:
        pattern, named = node.get("pattern"), node.get("patternProperties")
        for each in chain([pattern] if isinstance(pattern, str) else (), named if isinstance(named, dict) else ()):
            steps = pattern_steps(each)
            letters, restarts = letters + count * steps[0], restarts + count * steps[1]
    return letters, restarts


def _most_patterns(most: tuple[float, float], judges: Judges) -> tuple[float, float]:
    letters, restarts = _sum_patterns(judges.values())
    return max(most[0], letters), max(most[1], restarts)


def _judges_of_parts(judges: Judges) -> Iterator[tuple[Judges, int]]:
    """The schemas for each kind of member and item, with the steps for matching property names."""
    nodes = [(node, count) for node, count in judges.values() if not HOLDING.isdisjoint(node)]
    names: dict[str | None, None] = dict.fromkeys(name for node, _ in nodes for name in node.get("properties") or ())
    patterns = sum(count * len(node.get("patternProperties") or ()) for node, count in nodes)
    for name in (*names, None):
        members: Judges = {}
        for node, count in nodes:
            properties = node.get("properties") or {}
            more = properties[name] if name in properties else node.get("additionalProperties")
            subs = [more, node.get("unevaluatedProperties"), node.get("propertyNames")]
            for sub in [*subs, *(node.get("patternProperties") or {}).values()]:
                _add_judge(members, sub, count)
        if members or patterns:
            yield members, 5 * patterns
    ordered = [(node, count, *prefix_items(node)) for node, count in nodes]
    for index in range(max([len(first) for _, _, first, _ in ordered], default=0) + 1):
        items: Judges = {}
        for node, count, first, rest in ordered:
            own = first[index] if index < len(first) else rest
            for sub in (own, node.get("contains"), node.get("unevaluatedItems")):
                _add_judge(items, sub, count)
        if items:
            yield items, 0


def _add_judge(judges: Judges, sub: Any, count: int) -> None:
    if isinstance(sub, dict):
        judges[id(sub)] = (sub, count + (judges[id(sub)][1] if id(sub) in judges else 0))


def _iter_reachable(in_place: InPlaceSchemas, root: Schema) -> Iterator[Schema]:
    """All schemas reachable from the root; includes the root only if it is recursive."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        subs = [sub for _, sub in iter_children(node) if isinstance(sub, dict)]
        for sub in (*subs, *in_place.schemas_below(node)):
            if id(sub) not in seen:
                seen.add(id(sub))
                stack.append(sub)
                yield sub


_TABLE = 6
"""Up to this many positions, the table is always small."""
_TABLE_STEPS = 0.4
_POSITION_STEPS = 3
_RESTARTS = 80
"""Characters that a restarting pattern passes in one step."""

PATTERN_TOKEN = re.compile(
    r"\\(?:[pPux]\{[^}]*\}|k<[^>]*>|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:[:=!>]|<[=!]|P?<\w+>|[a-zA-Z-]*:?))?"
    r"|\{(?P<least>\d+)(?P<more>,?)(?P<most>\d*)\}|.",
    re.DOTALL,
)
_LOOKS = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k<")
_LOOKS_FIRST = re.compile(r"\^(?:\(\?[=!](?:\\[^1-9k]|\[(?:\\.|[^\]\\])*\]|[^()\\\[])*\))+")


@lru_cache(maxsize=1024)
def pattern_steps(pattern: str) -> tuple[float, float]:
    """Steps for each character, and steps for each character multiplied by the length of the text."""
    positions = count_positions(pattern)
    steps = _TABLE_STEPS if positions <= _TABLE else float(_POSITION_STEPS * positions)
    first = _LOOKS_FIRST.match(pattern)
    if _LOOKS.search(pattern, first.end() if first else 0):
        return steps, positions / _RESTARTS
    return steps, 0.0


def count_positions(pattern: str) -> int:
    """The number of characters that the pattern describes one by one, with counted repetitions expanded."""
    groups, last = [0], 0
    for token in PATTERN_TOKEN.finditer(pattern):
        text = token.group()
        if token["least"] is not None:
            times = max(int(token["most"] or token["least"]) + (token["more"] != "" and not token["most"]), 1)
            groups[-1] += last * (times - 1)
            last *= times
        elif text[0] == "(":
            groups.append(0)
        elif text == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif text not in "*+?|^$":
            last = 1
            groups[-1] += 1
    return sum(groups)
