"""Makers of arrays and objects."""

from __future__ import annotations

import re
from itertools import chain, islice, repeat
from typing import Any, NamedTuple

from toolyard.engines.simulator.draw import DEEP, LEAVES, TOO_MANY, Check, Draw, GaveUp, Make
from toolyard.engines.simulator.formats import PLAIN_WORDS
from toolyard.engines.simulator.scalars import ID_NAMES, MakerSource, Unreadable, Write, writer_of
from toolyard.model.json_schema import copy_json
from toolyard.schema.compile import compile_schema
from toolyard.schema.fold import find_ways, json_key
from toolyard.schema.subschemas import SubSchema, is_schema, prefix_items
from toolyard.words.identifiers import plain_letters

_USUAL_ITEMS = 3
_MOST_ITEMS = 5000
_DEEPEST = 60
_MOST_REPEATS = 40
"""Consecutive attempts that may yield nothing new."""


class ArrayMaker:
    """Makes arrays of a few items, within the schema's limits, all different if `uniqueItems` is set."""

    def __init__(self, source: MakerSource, schema: dict[str, Any], name: str) -> None:
        front, rest = _item_nodes(schema)
        self._first = [source.maker(part, name) for part in front]
        self._rest = None if rest is False else source.maker(rest, name)
        self._accepts = source.checker(rest)
        self._distinct = schema.get("uniqueItems") is True
        least, most = int(schema.get("minItems", 0)), schema.get("maxItems")
        if isinstance(schema.get("contains"), dict):
            wanted = int(schema.get("minContains", 1))
            if wanted > _MOST_ITEMS:
                raise GaveUp("no array has that many items")
            self._first += [source.maker(schema["contains"], name)] * wanted
        if self._rest is None:
            most = len(self._first) if most is None else min(most, len(self._first))
        self._least, self._most = least, _MOST_ITEMS if most is None else int(most)
        if least > self._most or least > _MOST_ITEMS:
            raise GaveUp("no array has that many items")
        usual = min(max(least, len(self._first), _USUAL_ITEMS), self._most)
        self._usual = min(max(least, 1), usual), usual

    def __call__(self, draw: Draw) -> list[Any]:
        """An array, of the items that are known if they fit."""
        known, draw.known = draw.known, None
        draw.depth = depth = draw.depth + 1
        weight = max(self._least, 1)
        draw.spent += weight
        draw.count_work(weight)
        if draw.spent > TOO_MANY or depth > _DEEPEST:
            raise GaveUp("a value would be too large or too deeply nested")
        if type(known) is list and not self._first and self._least <= len(known) <= self._most:
            draw.depth = depth - 1
            return self._fit_items(known, draw)
        out: list[Any] = []
        lean = depth > DEEP or draw.spent > LEAVES
        count = self._least if lean else draw.between(*self._usual)
        needed = max(self._least, len(self._first))
        for make in islice(chain(self._first, repeat(self._rest)), max(min(len(self._first), self._most), count)):
            if make is None:
                break
            spent = draw.spent
            try:
                out.append(make(draw))
            except GaveUp:
                if len(out) < needed:
                    raise
                draw.depth, draw.spent = depth, spent
                break
        if self._distinct:
            out = self._make_distinct(out, draw)
        draw.depth = depth - 1
        return out

    def _fit_items(self, known: list[Any], draw: Draw) -> list[Any]:
        """The known items, each in a form that the schema allows; raises `GaveUp` if one does not fit."""
        found = [UNFIT if self._rest is None else fit_known(item, self._rest, self._accepts, draw) for item in known]
        if any(item is UNFIT for item in found):
            raise GaveUp("the known value does not fit")
        return found

    def _make_distinct(self, items: list[Any], draw: Draw) -> list[Any]:
        found = {json_key(item): item for item in items}
        same = 0
        while self._rest is not None and len(found) < self._least and same < _MOST_REPEATS:
            draw.count_work(1)
            item = self._rest(draw)
            before = len(found)
            found.setdefault(json_key(item), item)
            same = 0 if len(found) > before else same + 1
        if self._rest is not None and len(found) < self._least:
            _add_variants(found, draw, self._least, self._accepts)
        if len(found) < self._least:
            raise GaveUp("too few different items were found")
        return list(found.values())


def _item_nodes(schema: dict[str, Any]) -> tuple[list[SubSchema], SubSchema]:
    """The schemas of the leading items, one for each position, and of the remaining ones."""
    front, rest = prefix_items(schema)
    if "items" not in schema:
        rest = schema.get("unevaluatedItems")
    return [part for part in front if is_schema(part)], rest if is_schema(rest) else True


def _add_variants(found: dict[str, Any], draw: Draw, least: int, accepts: Check) -> None:
    """Add variants of the items found."""
    known = [item for item in found.values() if isinstance(item, (str, int, float)) and not isinstance(item, bool)]
    for item in known[:_MOST_REPEATS]:
        refused = 0
        for at in range(1, least + 1):
            if len(found) >= least or refused == _MOST_REPEATS:
                break
            draw.count_work(1)
            other = f"{item}{at}" if isinstance(item, str) else item + at
            if accepts(other):
                found.setdefault(json_key(other), other)
            else:
                refused += 1


COMMON_NAMES = frozenset(
    ("id", "name", "type", "status", "title", "description", "value", "key", "code", "url", "count", "total", "number")
)
"""Names with a different meaning in every object, so that values are not carried over between levels."""
_FAULTS = frozenset(("error", "errors", "errormessage", "errorcode", "failure", "fault", "faults"))
"""Properties that are absent if a call succeeds."""
_NULL_ATTEMPTS = 3
"""Attempts to make a value other than null."""
_ECHO_DEPTH = 3
"""Levels to which known values are copied by name."""
_UPPER_LEVELS = 2
"""Levels at which most optional properties are included."""
_LEFT_OUT_ABOVE, _LEFT_OUT_BELOW = 32, 128
"""Of 256 optional properties, how many are left out at upper levels, and below."""
_MOST_PROPERTIES = 5000
"""Maximum number of properties without a name in the schema."""


class ObjectField(NamedTuple):
    """A property of an object."""

    name: str
    key: str
    """The name as normalised by `plain_letters`."""
    make: Make
    always: bool
    accepts: Check


def object_maker(source: MakerSource, schema: dict[str, Any]) -> Make:
    """Make objects with all required properties, most optional ones, and known values under their names."""
    fields = _read_fields(source, schema)
    least, most = schema.get("minProperties", 0), schema.get("maxProperties")
    if least > _MOST_PROPERTIES:
        raise GaveUp("no object has that many properties")
    extras = _Extras(source, schema)
    wanted = 2 if extras.meant and not fields else 0
    weight = 1 + len(fields)

    def make(draw: Draw) -> dict[str, Any]:
        known, given = None, draw.known
        if given is not None:
            known, draw.known = _known_fields(given), None
        draw.depth = depth = draw.depth + 1
        draw.spent = spent = draw.spent + weight
        draw.count_work(weight)
        if spent > TOO_MANY or depth > _DEEPEST:
            raise GaveUp("a value would be too large or too deeply nested")
        echo = draw.echo
        lean = depth > DEEP or spent > LEAVES
        left_out = _LEFT_OUT_ABOVE if depth <= _UPPER_LEVELS else _LEFT_OUT_BELOW
        out: dict[str, Any] = {}
        for name, key, maker, always, accepts in fields:
            if known is not None and key in known:
                value = fit_known(known[key], maker, accepts, draw)
                if value is not UNFIT:
                    out[name] = value
                    continue
            if echo is not None and key in echo and depth <= _ECHO_DEPTH and (depth == 1 or key not in COMMON_NAMES):
                value = echo[key]
                if accepts(value):
                    out[name] = copy_json(value)
                    continue
            must, sure = key in draw.must, always or spent < 0
            if must or sure or (not lean and draw.byte() >= left_out):
                try:
                    out[name] = make_some(maker, draw) if must else maker(draw)
                except GaveUp:
                    if sure:
                        raise
                    draw.depth, draw.spent = depth, spent
        if wanted or least or most is not None:
            if wanted and type(given) is dict:
                extras.keep(out, draw, given)
            _fill_count(out, draw, fields, extras, (0 if lean else wanted, least, most))
        draw.depth = depth - 1
        return out

    return make


def make_some(maker: Make, draw: Draw) -> Any:
    """A value other than null, unless several attempts give nothing else."""
    for _ in range(_NULL_ATTEMPTS):
        value = maker(draw)
        if value is not None:
            break
    return value


def fit_known(value: Any, make: Make, accepts: Check, draw: Draw) -> Any:
    """A known value in a form that this part allows: respelt, completed, or replaced by its id; else `UNFIT`."""
    spellings = (*spellings_of(value), *([] if value is None else [[value]]))
    if type(value) is not dict or accepts(value):
        spelling = next(filter(accepts, spellings), UNFIT)
        if spelling is not UNFIT:
            return copy_json(spelling)
    depth, spent = draw.depth, draw.spent
    draw.known = value
    try:
        made = make(draw)
    except GaveUp:
        draw.depth, draw.spent, made = depth, spent, None
    draw.known = None
    fits = type(made) is dict or (type(made) is list and type(value) is list)
    # An object is replaced by its id only where no object is allowed.
    return made if fits and accepts(made) else copy_json(next(filter(accepts, spellings), UNFIT))


def _known_fields(known: Any) -> dict[str, Any] | None:
    """Known values by normalised name; a value that is not an object is taken as an id."""
    if type(known) is dict:
        return {plain_letters(name): value for name, value in known.items()}
    return dict.fromkeys(ID_NAMES, known) if type(known) in (str, int) else None


def spellings_of(value: Any) -> tuple[Any, ...]:
    """Other forms of a value: as is, as a number, as text, and for an object its id or wrapped value."""
    if isinstance(value, dict):
        return (value, *[item for name, item in value.items() if plain_letters(name) in ID_NAMES], *opened_value(value))
    if isinstance(value, str):
        numeric = _NUMERAL.fullmatch(value)
        return (
            (value, float(value) if "." in value else int(value))
            if numeric
            else (value, value == "true")
            if value in _FLAGS
            else (value,)
        )
    if isinstance(value, bool):
        return (value, str(value).lower(), int(value))
    return (value, str(value)) if isinstance(value, (int, float)) else (value,)


def is_short(value: Any) -> bool:
    """True if the value can be an id or a name."""
    return isinstance(value, (str, int)) and not isinstance(value, bool) and 0 < len(str(value)) <= _LONGEST


def opened_value(value: Any) -> tuple[Any, ...]:
    """The content of a value in an envelope such as `{"name": {"value": "Ann"}}`."""
    return (value["value"],) if isinstance(value, dict) and value.keys() == {"value"} else ()


_FLAGS = ("true", "false")
_NUMERAL = re.compile(r"[0-9]{1,15}(\.[0-9]{1,6})?")
_LONGEST = 100
"""Maximum characters of an id or a name."""
UNFIT: Any = object()


def _read_fields(source: MakerSource, schema: dict[str, Any]) -> list[ObjectField]:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    required = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    nodes: dict[str, SubSchema] = {**properties}
    for name in required:
        if name not in nodes:
            nodes[name] = _undeclared_node(schema, name)
    found: list[ObjectField] = []
    needed = frozenset(required)
    for name, node in nodes.items():
        if node is False or (isinstance(node, dict) and "$ref" not in node and not find_ways(source.root, node)):
            if name in needed:
                raise GaveUp(f"{name} is required and cannot be")
            continue
        key = plain_letters(name)
        if key in _FAULTS and name not in needed:
            continue
        always = name in needed or key in ID_NAMES
        found.append(ObjectField(name, key, source.maker(node, name), always, source.checker(node)))
    return found


def _undeclared_node(schema: dict[str, Any], name: str) -> SubSchema:
    """The schema of a property that is not declared by name."""
    patterns = schema.get("patternProperties")
    if isinstance(patterns, dict):
        for pattern, node in patterns.items():
            if compile_schema({"pattern": pattern}).is_valid(name) and is_schema(node):
                return node
    rest = schema.get("additionalProperties", True)
    return rest if is_schema(rest) else True


def _fill_count(
    out: dict[str, Any], draw: Draw, fields: list[ObjectField], extras: _Extras, counts: tuple[int, int, int | None]
) -> None:
    """Add or remove properties until their number is within the limits."""
    wanted, least, most = counts
    if most is not None:
        for name, _, _, always, _ in reversed(fields):
            if len(out) > most and not always:
                out.pop(name, None)
        wanted = min(wanted, most)
    for name, _, maker, _, _ in fields:
        if len(out) < least and name not in out:
            out[name] = maker(draw)
    for _ in range(20 * max(wanted, least)):
        if len(out) >= max(wanted, least):
            return
        draw.count_work(1)
        extras.add(out, draw)
    if len(out) < least:
        raise GaveUp("too few names were found for an object")


class _Extras:
    """Properties that a schema allows without declaring their names."""

    def __init__(self, source: MakerSource, schema: dict[str, Any]) -> None:
        names = schema.get("propertyNames")
        self._names = source.maker({"type": "string", "allOf": [names]}, "key") if isinstance(names, dict) else None
        self._allowed = source.checker(names) if is_schema(names) else None
        self._kinds: list[tuple[Write | None, Make]] = []
        self._declared = frozenset(schema.get("properties") or ())
        patterns = schema.get("patternProperties")
        for pattern, node in (patterns if isinstance(patterns, dict) else {}).items():
            try:
                self._kinds.append((writer_of(pattern), source.maker(node, "")))
            except Unreadable:
                continue
        rest = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        self.meant = bool(self._kinds) or isinstance(rest, dict)
        """True if the object is meant to hold such properties."""
        self._accepts: Check | None = None
        if rest is not False and not (self._kinds and rest is None):
            self._accepts = source.checker(rest if isinstance(rest, dict) else True)
            self._kinds.append((None, source.maker(rest if isinstance(rest, dict) else True, "value")))

    def keep(self, out: dict[str, Any], draw: Draw, known: dict[str, Any]) -> None:
        """Add known values that are allowed as such properties."""
        for name, item in islice(known.items(), _MOST_PROPERTIES):
            value = fit_known(item, self._kinds[-1][1], self._accepts, draw) if self._accepts is not None else UNFIT
            # A plain value is not turned into an object that merely has it as its id.
            unlike = value is UNFIT or (type(value) is dict and type(item) is not dict)
            if not unlike and (self._allowed is None or self._allowed(name)):
                out[name] = value

    def add(self, out: dict[str, Any], draw: Draw) -> None:
        """Add one property, if an allowed name is found for it."""
        if not self._kinds:
            return
        write, maker = self._kinds[draw.below(len(self._kinds))]
        if write is not None:
            name = write(draw, 4, False)
        elif self._names is not None:
            name = self._names(draw)
        else:
            name = PLAIN_WORDS[draw.below(len(PLAIN_WORDS))]
            name = f"{name}_{len(out)}" if name in out else name
        if name in out or name in self._declared or (self._allowed is not None and not self._allowed(name)):
            return
        out[name] = maker(draw)
