"""A tool's own schema: its root, and under `$defs` the components it reaches, as its direction sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from toolyard.model.errors import InvalidSchemaError
from toolyard.schema.budget import DEFAULT_BUDGET, check_budget, subschemas
from toolyard.sources.rest.schemas import Node, SchemaPart

Direction = Literal["request", "response"]

_UNSEEN: dict[Direction, str] = {"request": "readOnly", "response": "writeOnly"}
_MAX_COUNT = DEFAULT_BUDGET.nodes * 9 // 10
"""Subschemas of one tool's schema. What assembly adds to those counted when converting fits in the rest."""
_MAX_FAN_OUT = DEFAULT_BUDGET.fan_out // 4
_SURE_FAN_OUT = DEFAULT_BUDGET.fan_out // 20
"""Where references run in circles the count depends on where it begins, but not by this much."""

EVERYTHING = "everything"
"""Listed as left open when not even the schema around the components is small enough."""


class Assembly:
    """Puts schemas together from the parts of one document; components are stripped once a direction."""

    def __init__(self) -> None:
        self._seen: dict[tuple[SchemaPart, Direction], Any] = {}
        self._fan_out: dict[SchemaPart, int] = {}
        self._proven = False

    def all_fit(self, total: int, branching: Sequence[SchemaPart]) -> bool:
        """Whether every schema that can be made of these parts is surely within the budget."""
        worst = max([self.fan_out(part) for part in branching], default=0)
        self._proven = total <= _MAX_COUNT and worst <= _SURE_FAN_OUT
        return total <= _MAX_COUNT and worst <= _MAX_FAN_OUT

    def fits(self, parts: Iterable[SchemaPart]) -> bool:
        """Whether a schema of these parts is surely within the budget."""
        return sum([part.weight if part.weight >= 0 else self._weigh(part) for part in parts]) <= _MAX_COUNT

    def _weigh(self, part: SchemaPart) -> int:
        if not part.name:
            # A schema of an operation: the components it names are weighed once for all operations.
            targets = part.refs.values()
            onward = sum([target.weight if target.weight >= 0 else self._weigh(target) for target in targets])
            part.weight = part.count + onward
            return part.weight
        known = {part, *part.refs.values()}
        queue = list(known)
        total = 0
        for reached in queue:
            total += reached.count
            if reached.inline and self.fan_out(reached) > _MAX_FAN_OUT:
                total = _MAX_COUNT + 1
            if total > _MAX_COUNT:
                break
            for target in reached.refs.values():
                if target not in known:
                    known.add(target)
                    queue.append(target)
        part.weight = total
        return total

    def fan_out(self, part: SchemaPart) -> int:
        """How many subschemas may judge one value, components counted as often as they do; an upper bound.

        A component that leads back to one still being computed adds nothing, as in the budget's own count.
        """
        costs = self._fan_out
        if part in costs:
            return costs[part]
        stack = [(part, False)]
        entered: set[SchemaPart] = set()
        while stack:
            item, done = stack.pop()
            if done:
                costs[item] = item.count + sum([costs.get(target, 0) for target in item.inline])
            elif item not in costs and item not in entered:
                entered.add(item)
                stack.append((item, True))
                stack.extend([(target, False) for target in item.inline])
        return costs[part]

    def put_together(
        self, root: Node, targets: Mapping[str, SchemaPart], direction: Direction
    ) -> tuple[Node, list[str]]:
        """The root with its `$defs`, and the names of components that had to be left open.

        `targets` holds at least what the root refers to directly.
        """
        chosen, left = self._choose(root, targets, direction)
        definitions = dict(chosen)
        for name in left:
            definitions[name] = {}
        schema = {**root, "$defs": definitions} if definitions else root
        try:
            if not self._proven:
                check_budget(schema)
        except InvalidSchemaError:
            return _reduce_schema(root, list(definitions))
        return schema, left

    def _choose(
        self, root: Node, targets: Mapping[str, SchemaPart], direction: Direction
    ) -> tuple[list[tuple[str, Any]], list[str]]:
        """Components breadth first, so that what is left open, if anything, lies deepest."""
        queue = [targets[name] for name in references(root)]
        known = set(queue)
        chosen: list[tuple[str, Any]] = []
        left: list[str] = []
        total = 0
        for part in queue:
            total += part.count
            if total > _MAX_COUNT:
                left.append(part.name)
                total -= part.count
                continue
            chosen.append((part.name, self.view(part, direction)))
            for target in part.refs.values():
                if target not in known:
                    known.add(target)
                    queue.append(target)
        return chosen, left

    def view(self, part: SchemaPart, direction: Direction) -> Any:
        """The component without what the other direction alone may see."""
        if not part.directed:
            return part.node
        key = (part, direction)
        if key not in self._seen:
            self._seen[key] = strip(part.node, direction)
        return self._seen[key]


def _reduce_schema(root: Node, names: list[str]) -> tuple[Node, list[str]]:
    """What is left of a schema over the budget: without components, else without all but the names of properties."""
    schema: Node = {**root, "$defs": {name: {} for name in names}} if names else root
    try:
        check_budget(schema)
    except InvalidSchemaError:
        kept: Node = {key: root[key] for key in ("type", "required", "additionalProperties") if key in root}
        properties = root.get("properties", {})
        if len(properties) > _MAX_COUNT:
            return ({"type": root["type"]} if "type" in root else {}), [EVERYTHING]
        schema = {**kept, "properties": {name: {} for name in properties}} if properties else {}
        if type(schema.get("additionalProperties")) is dict:
            del schema["additionalProperties"]
        return schema, [EVERYTHING]
    return schema, names


def references(node: Node) -> list[str]:
    """Names of the components a schema refers to itself."""
    found: dict[str, None] = {}
    stack: list[Any] = [node]
    while stack:
        item = stack.pop()
        if type(item) is dict:
            ref = item.get("$ref")
            if type(ref) is str:
                found[ref[8:]] = None
            stack.extend([sub for _, sub in subschemas(item)])
    return list(found)


def strip(node: Any, direction: Direction) -> Any:
    """A schema without the properties that the other direction alone may see."""
    if type(node) is not dict:
        return node
    hidden = _flagged_properties(node, _UNSEEN[direction])
    out: Node = {}
    for key, value in node.items():
        if key == "properties":
            out[key] = {name: strip(sub, direction) for name, sub in value.items() if name not in hidden}
        elif key == "required" and hidden:
            if kept := [name for name in value if name not in hidden]:
                out[key] = kept
        elif key in ("allOf", "anyOf", "oneOf", "prefixItems"):
            out[key] = [_drop_required(strip(sub, direction), hidden) for sub in value]
        elif key in ("items", "additionalProperties", "not"):
            out[key] = strip(value, direction)
        else:
            out[key] = value
    return out


def _flagged_properties(node: Node, flag: str) -> set[str]:
    """Names of the properties with the flag, in the schema itself and in what it is all of."""
    found: set[str] = set()
    for item in (node, *node.get("allOf", ())):
        properties = item.get("properties", {}) if type(item) is dict else {}
        found.update([name for name, sub in properties.items() if type(sub) is dict and sub.get(flag) is True])
    return found


def _drop_required(node: Any, hidden: set[str]) -> Any:
    if not hidden or type(node) is not dict or hidden.isdisjoint(node.get("required", ())):
        return node
    kept = [name for name in node["required"] if name not in hidden]
    return {**{key: value for key, value in node.items() if key != "required"}, **({"required": kept} if kept else {})}
