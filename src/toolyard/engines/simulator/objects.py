"""Makers of objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolyard.engines.simulator.draw import DEEP, LEAVES, TOO_MANY, Draw, GaveUp, plain_letters
from toolyard.engines.simulator.later import built
from toolyard.engines.simulator.leaves import OWN, Check, Make
from toolyard.engines.simulator.merge import Node, flat
from toolyard.engines.simulator.patterns import Unreadable, Write, writer_of
from toolyard.engines.simulator.picks import Pick
from toolyard.engines.simulator.shapes import Field, Properties
from toolyard.engines.simulator.words import PLAIN_WORDS
from toolyard.model.json_words import copied
from toolyard.schema import compile_schema

if TYPE_CHECKING:
    from toolyard.engines.simulator.values import Values

COMMON = frozenset(
    ("id", "name", "type", "status", "title", "description", "value", "key", "code", "url", "count", "total", "number")
)
"""Names that mean something else in every object."""
_FAULTS = frozenset(("error", "errors", "errormessage", "errorcode", "failure", "fault", "faults"))
"""What is not there when a call goes well."""
ECHOED = 3
"""Levels in which a value is repeated under its name."""
UPPER = 2
"""Levels in which most of what is not required is there."""
SELDOM, OFTEN = 32, 128
"""Of 256, how many are left out there, and further down."""
_DEEPEST = 60
_LARGEST = 5000
"""Properties that are ever asked for without being named."""
_NONE = Pick((None,))


def object_maker(values: Values, schema: dict[str, Any]) -> Make:
    """Objects with what is required, most of what is not, and what is known already under its name."""
    fields = _fields(values, schema)
    careful = _careful(values, schema, fields)
    counted = "minProperties" in schema or "maxProperties" in schema
    if counted or not fields:
        return careful
    by_key = {key: (name, accepts) for name, key, _, _, accepts in reversed(fields)}
    make = _quick(fields, by_key, careful)
    values.shapes[make] = Properties(fields, by_key)
    return make


def _careful(values: Values, schema: dict[str, Any], fields: list[Field]) -> Make:
    """Objects that are only as large as they can be, property by property."""
    least, most = schema.get("minProperties", 0), schema.get("maxProperties")
    if least > _LARGEST:
        raise GaveUp("no object has that many properties")
    extras = _Extras(values, schema)
    wanted = 2 if extras.meant and not fields else 0
    plain = not wanted and not least and most is None
    weight = 1 + len(fields)

    def make(draw: Draw) -> dict[str, Any]:
        draw.depth = depth = draw.depth + 1
        draw.spent = spent = draw.spent + weight
        draw.worked(weight)
        if spent > TOO_MANY or depth > _DEEPEST:
            raise GaveUp("a value needs too many others")
        echo = draw.echo
        lean = depth > DEEP or spent > LEAVES
        out: dict[str, Any] = {}
        for name, key, maker, always, accepts in fields:
            if echo is not None and key in echo and depth <= ECHOED and (depth == 1 or key not in COMMON):
                value = echo[key]
                if accepts(value):
                    out[name] = copied(value)
                    continue
            if always or spent < 0 or key in draw.must:
                out[name] = maker(draw)
            elif not lean and draw.byte() >= (SELDOM if depth <= UPPER else OFTEN):
                try:
                    out[name] = maker(draw)
                except GaveUp:
                    draw.depth, draw.spent = depth, spent
        if not plain:
            _fill(out, draw, fields, extras, (0 if lean else wanted, least, most))
        draw.depth = depth - 1
        return out

    return make


def _quick(fields: list[Field], by_key: dict[str, tuple[str, Check]], careful: Make) -> Make:
    """Objects of which there is room for all; what can be picked by a number is picked at once."""
    weight = 1 + len(fields)
    found: _Row | None = None

    def make(draw: Draw) -> dict[str, Any]:
        nonlocal found
        depth, spent = draw.depth + 1, draw.spent + weight
        if depth > DEEP or spent > LEAVES or spent < 0:
            return careful(draw)  # type: ignore[no-any-return]
        draw.depth, draw.spent = depth, spent
        row = found
        if row is None:
            row = found = _Row(fields)
        byte = draw.byte
        made = {name: values[byte()] for name, values in row.all}
        for name, maker in row.needed:
            made[name] = maker(draw)
        if row.optional:
            _choose(made, draw, row.optional, (depth, spent))
        echo = draw.echo
        if echo is not None and depth <= ECHOED:
            known = draw.told.get(make)
            if known is None or depth == 1:
                known = draw.told[make] = known_of(by_key, echo, depth)
            if known:
                put(made, known)
        draw.depth = depth - 1
        return made

    return make


class _Row:
    """The properties of an object by how they are made."""

    __slots__ = ("all", "needed", "optional")

    def __init__(self, fields: list[Field]) -> None:
        makers = [built(maker) for _, _, maker, _, _ in fields]
        pairs = list(zip(fields, makers, strict=True))
        self.all = tuple((field[0], maker.row if isinstance(maker, Pick) else _NONE.row) for field, maker in pairs)
        """A place for each, so that they come in their order."""
        self.needed = tuple((field[0], maker) for field, maker in pairs if field[3] and not isinstance(maker, Pick))
        self.optional = tuple(
            (field[0], field[1], None if isinstance(maker, Pick) else maker) for field, maker in pairs if not field[3]
        )


def _choose(
    made: dict[str, Any], draw: Draw, optional: tuple[tuple[str, str, Make | None], ...], at: tuple[int, int]
) -> None:
    """Make what need not be there, and take some of it away."""
    byte, must = draw.byte, draw.must
    limit = SELDOM if at[0] <= UPPER else OFTEN
    for name, key, maker in optional:
        if byte() < limit and key not in must:
            del made[name]
        elif maker is not None:
            try:
                made[name] = maker(draw)
            except GaveUp:
                draw.depth, draw.spent = at
                del made[name]


def known_of(fields: dict[str, tuple[str, Check]], echo: dict[str, Any], depth: int) -> tuple[tuple[str, Any], ...]:
    """What is known already of these properties, if they take it."""
    found = []
    for key, value in echo.items():
        field = fields.get(key)
        if field is not None and (depth == 1 or key not in COMMON) and field[1](value):
            found.append((field[0], value))
    return tuple(found)


def put(made: dict[str, Any], known: tuple[tuple[str, Any], ...]) -> None:
    """Put what is known into an object."""
    for name, value in known:
        made[name] = value if type(value) is str else copied(value)


def _fields(values: Values, schema: dict[str, Any]) -> list[Field]:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    required = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    nodes: dict[str, Node] = {**properties}
    for name in required:
        if name not in nodes:
            nodes[name] = _undeclared(schema, name)
    found: list[Field] = []
    needed = frozenset(required)
    for name, node in nodes.items():
        if node is False or (isinstance(node, dict) and "$ref" not in node and not flat(values.root, node)):
            if name in needed:
                raise GaveUp(f"{name} is required and cannot be")
            continue
        key = plain_letters(name)
        if key in _FAULTS and name not in needed:
            continue
        always = name in needed or key in OWN
        found.append((name, key, values.maker(node, name), always, values.checker(node)))
    return found


def _undeclared(schema: dict[str, Any], name: str) -> Node:
    """What a name that is not among the properties has to be."""
    patterns = schema.get("patternProperties")
    if isinstance(patterns, dict):
        for pattern, node in patterns.items():
            if compile_schema({"pattern": pattern}).is_valid(name) and isinstance(node, (dict, bool)):
                return node
    rest = schema.get("additionalProperties", True)
    return rest if isinstance(rest, (dict, bool)) else True


def _fill(
    out: dict[str, Any], draw: Draw, fields: list[Field], extras: _Extras, counts: tuple[int, int, int | None]
) -> None:
    """Add or take away properties until there are as many as asked for."""
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
        draw.worked(1)
        extras.add(out, draw)
    if len(out) < least:
        raise GaveUp("too few names were found for an object")


class _Extras:
    """Properties that a schema allows without naming them."""

    def __init__(self, values: Values, schema: dict[str, Any]) -> None:
        names = schema.get("propertyNames")
        self._names = values.maker({"type": "string", "allOf": [names]}, "key") if isinstance(names, dict) else None
        self._allowed = values.checker(names) if isinstance(names, (dict, bool)) else None
        self._kinds: list[tuple[Write | None, Make]] = []
        self._declared = frozenset(schema.get("properties") or ())
        patterns = schema.get("patternProperties")
        for pattern, node in (patterns if isinstance(patterns, dict) else {}).items():
            try:
                self._kinds.append((writer_of(pattern), values.maker(node, "")))
            except Unreadable:
                continue
        rest = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        self.meant = bool(self._kinds) or isinstance(rest, dict)
        """True if it is what the object is for."""
        if rest is not False and not (self._kinds and rest is None):
            self._kinds.append((None, values.maker(rest if isinstance(rest, dict) else True, "value")))

    def add(self, out: dict[str, Any], draw: Draw) -> None:
        """Add one, if a name is found for it."""
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
