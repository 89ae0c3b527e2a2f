"""`Plan`: the arguments of one operation, from which the schemas of its tool are made on demand.

`Assembly` builds the schemas of a tool: the root, and under `$defs` the components it reaches, without properties that
the direction (request or response) hides. Arguments keep their names on the wire, and are renamed if two locations use
the same name.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, count
from typing import Any, Literal

from msgspec.structs import replace

from toolyard.model.bindings import RestBody, RestParameter
from toolyard.model.errors import InvalidSchemaError
from toolyard.model.json_schema import copy_json
from toolyard.model.tool import DeferredTool, Schema
from toolyard.schema.admission import DEFAULT_BUDGET, SchemaBudget, check_budget
from toolyard.schema.subschemas import iter_children
from toolyard.sources.rest.bodies import RequestBody
from toolyard.sources.rest.requests import OperationParameter
from toolyard.sources.rest.schemas import Node, SchemaPart

Direction = Literal["request", "response"]

_HIDDEN_BY: dict[Direction, str] = {"request": "readOnly", "response": "writeOnly"}
_MAX_COUNT = DEFAULT_BUDGET.nodes * 9 // 10
"""Maximum number of subschemas in the schema of a tool. The rest of the budget is for what assembly adds."""
_MAX_CHECKED = 2_000_000
"""Maximum number of subschemas that are checked per document; beyond it, schemas are reduced without a check."""
_SURE_FAN_OUT = DEFAULT_BUDGET.fan_out // 20
"""In cyclic references the count depends on where it starts, but not by this factor."""

EVERYTHING = "everything"
"""Reported as left open if even the schema without components is too large."""


class Assembly:
    """Builds schemas from the parts of one document; components are stripped once for each direction."""

    def __init__(self) -> None:
        self._stripped: dict[tuple[SchemaPart, Direction], Any] = {}
        self._copies: dict[int, tuple[Any, Any]] = {}
        self._fan_out: dict[SchemaPart, int] = {}
        self._has_small_fan_out = False
        """True if no value is judged by too many subschemas in any combination, so counting them is enough."""
        self._checked = 0

    @property
    def is_exhausted(self) -> bool:
        """True if checking more schemas of this document would take too long."""
        return self._checked > _MAX_CHECKED

    def check_fan_out(self, branching: Sequence[SchemaPart], parts: Iterable[SchemaPart]) -> None:
        """Check once for all tools whether these parts can make too many subschemas judge one value.

        The bound of `fan_out` is cheap and imprecise; if it is inconclusive, all parts are checked as the budget would
        check them in every tool.
        """
        worst = max([self.fan_out(part) for part in branching], default=0)
        self._has_small_fan_out = worst <= _SURE_FAN_OUT or _is_fan_out_small(parts)

    def fan_out(self, part: SchemaPart) -> int:
        """An upper bound of the number of subschemas that judge one value, components counted each time they apply.

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

    def build_schema(
        self, root: Node, targets: Mapping[str, SchemaPart], direction: Direction, *, reduced: bool
    ) -> tuple[Node, list[str]]:
        """The root with its `$defs`, and the names of components that were left open; all of them if `reduced`.

        `targets` must contain at least what the root refers to directly.
        """
        chosen, left, total = self._choose_parts(root, targets, direction)
        definitions = dict(chosen)
        for name in left:
            definitions[name] = {}
        schema = {**root, "$defs": definitions} if definitions else root
        if self._has_small_fan_out and total <= _MAX_COUNT:
            return schema, left
        if reduced:
            return _reduce_schema(root, list(definitions))
        self._checked += total
        try:
            check_budget(schema)
        except InvalidSchemaError:
            return _reduce_schema(root, list(definitions))
        return schema, left

    def copy_schema(self, schema: Node) -> Node:
        """A copy for callers. Components are copied once for all tools, since calls are not judged by these copies."""
        return {
            key: {name: self._copy_part(node) for name, node in value.items()} if key == "$defs" else copy_json(value)
            for key, value in schema.items()
        }

    def _copy_part(self, node: Any) -> Any:
        known = self._copies.get(id(node))
        if known is None:
            known = node, copy_json(node)
            if node:
                self._copies[id(node)] = known
        return known[1]

    def _choose_parts(
        self, root: Node, targets: Mapping[str, SchemaPart], direction: Direction
    ) -> tuple[list[tuple[str, Any]], list[str], int]:
        """Components breadth first, so that the deepest are left open if necessary; and the number of subschemas."""
        names, own = list_references(root)
        queue = [targets[name] for name in names]
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
            chosen.append((part.name, self.strip_part(part, direction)))
            for target in part.refs.values():
                if target not in known:
                    known.add(target)
                    queue.append(target)
        return chosen, left, total + own

    def strip_part(self, part: SchemaPart, direction: Direction) -> Any:
        """The component without properties that only the other direction has."""
        if not part.directed:
            return part.node
        key = (part, direction)
        if key not in self._stripped:
            self._stripped[key] = strip_direction(part.node, direction)
        return self._stripped[key]


def _is_fan_out_small(parts: Iterable[SchemaPart]) -> bool:
    """Whether no value is judged by too many subschemas, checked for all parts of a document at once."""
    # Component names contain no spaces, so these keys are free for schemas of operations.
    nodes = {part.name or f"schema {number}": part.node for number, part in enumerate(parts)}
    try:
        check_budget({"$defs": nodes}, SchemaBudget(nodes=sys.maxsize, fan_out=_SURE_FAN_OUT))
    except InvalidSchemaError:
        return False
    return True


def _reduce_schema(root: Node, names: list[str]) -> tuple[Node, list[str]]:
    """A smaller version of a schema over the budget: without components, or with nothing but property names."""
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


def list_references(node: Node) -> tuple[list[str], int]:
    """Names of the components that a schema itself refers to, and its number of subschemas."""
    found: dict[str, None] = {}
    stack: list[Any] = [node]
    count = 0
    while stack:
        item = stack.pop()
        count += 1
        if type(item) is dict:
            ref = item.get("$ref")
            if type(ref) is str:
                found[ref[8:]] = None
            stack.extend([sub for _, sub in iter_children(item)])
    return list(found), count


def strip_direction(node: Any, direction: Direction) -> Any:
    """A schema without the properties that only the other direction has."""
    if type(node) is not dict:
        return node
    hidden = _flagged_properties(node, _HIDDEN_BY[direction])
    out: Node = {}
    for key, value in node.items():
        if key == "properties":
            out[key] = {name: strip_direction(sub, direction) for name, sub in value.items() if name not in hidden}
        elif key == "required" and hidden:
            if kept := [name for name in value if name not in hidden]:
                out[key] = kept
        elif key in ("allOf", "anyOf", "oneOf", "prefixItems"):
            out[key] = [_drop_required(strip_direction(sub, direction), hidden) for sub in value]
        elif key in ("items", "additionalProperties", "not"):
            out[key] = strip_direction(value, direction)
        else:
            out[key] = value
    return out


def _flagged_properties(node: Node, flag: str) -> set[str]:
    """Names of the properties with the flag, in the schema itself and in its `allOf`."""
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


BODY = "body"
"""The argument for a body that is a single argument."""


class Plan:
    """The arguments of one operation, from which the schemas and the binding of its tool are made."""

    def __init__(
        self,
        assembly: Assembly,
        parameters: Sequence[OperationParameter],
        body: RequestBody | None,
        output: SchemaPart | None,
    ) -> None:
        self.assembly = assembly
        self.output = output
        self.reduced = False
        """True if its schemas are built without components, unless they are sure to fit."""
        self._body = body
        inside = [] if body is None else [BODY] if body.properties is None else list(body.properties)
        places: list[tuple[str, str]] = [(parameter.wire.location, parameter.wire.name) for parameter in parameters]
        names, self.renamed = name_arguments([*places, *(("body", name) for name in inside)])
        self._arguments = dict(zip(names, parameters, strict=False))
        self._body_arguments = dict(zip(names[len(parameters) :], inside, strict=True))
        """Arguments with the properties of the body that they become, or the one that is the whole body."""

    def rest_parameters(self) -> tuple[RestParameter, ...]:
        """How each argument that is not in the body is sent."""
        return tuple([replace(parameter.wire, argument=name) for name, parameter in self._arguments.items()])

    def rest_body(self) -> RestBody | None:
        """How the arguments in the body are sent."""
        body = self._body
        if body is None:
            return None
        is_whole = body.properties is None
        return RestBody(
            media_type=body.media_type,
            argument=next(iter(self._body_arguments)) if is_whole else None,
            properties={} if is_whole else self._body_arguments,
            parts=body.parts,
            required=body.is_required,
            binary=body.binary,
        )

    def input_schema(self) -> tuple[Node, list[str]]:
        """The input schema, and the components that did not fit into it."""
        properties: Node = {name: parameter.node for name, parameter in self._arguments.items()}
        required = [name for name, parameter in self._arguments.items() if parameter.required]
        targets: dict[str, SchemaPart] = {}
        for parameter in self._arguments.values():
            targets.update(parameter.part.refs)
        root: Node = {"type": "object", "properties": properties}
        if self._body is not None:
            targets.update(self._body.targets)
            required += self._add_body_arguments(self._body, root)
        if required:
            root["required"] = required
        # Every argument has a place in the request, so others are rejected.
        root["additionalProperties"] = False
        return self.assembly.build_schema(root, targets, "request", reduced=self.reduced)

    def _add_body_arguments(self, body: RequestBody, root: Node) -> list[str]:
        """Add the arguments of the body; returns the names of the required ones."""
        for argument, name in self._body_arguments.items():
            node = body.node if body.properties is None else body.properties[name]
            root["properties"][argument] = strip_direction(node, "request")
        if body.properties is None:
            return list(self._body_arguments) if body.is_required else []
        names = {name: argument for argument, name in self._body_arguments.items()}
        required = [names[name] for name in body.required]
        if body.is_required:
            return required
        if required:
            # Without a body none of them is required; with any of them, all required ones are.
            root["dependentRequired"] = {
                argument: others
                for argument in self._body_arguments
                if (others := [name for name in required if name != argument])
            }
        return []

    def output_schema(self) -> tuple[Node, list[str]]:
        """The output schema, empty if the response is unknown, and the components that did not fit into it."""
        if self.output is None:
            return {}, []
        root, targets, hops = self.output.node, self.output.refs, 0
        while type(root) is dict and len(root) == 1 and "$ref" in root and hops < 16:
            # Inline the component, so that the root shows what is returned.
            part = targets[root["$ref"][8:]]
            root, targets, hops = part.node, part.refs, hops + 1
        if type(root) is not dict:
            return ({} if root else {"not": {}}), []
        shown = strip_direction(root, "response")
        return self.assembly.build_schema(shown, targets, "response", reduced=self.reduced)


def name_arguments(given: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """A distinct argument for each pair of location and name, and the renames as text.

    If several have the same name, the path parameter keeps it; the others become `name_in_query`, `name_in_header`,
    `name_in_cookie` and `name_in_body`.
    """
    uses = Counter(name for _, name in given)
    taken = set(uses)
    arguments: list[str] = []
    renamed: list[str] = []
    for place, name in given:
        argument = name
        if uses[name] > 1 and place != "path":
            wanted = f"{name}_in_{place}"
            numbered = (f"{wanted}_{number}" for number in count(2))
            argument = next(free for free in chain([wanted], numbered) if free not in taken)
            taken.add(argument)
            renamed.append(f"{place} {name!r} is the argument {argument!r}: another place uses the name too")
        arguments.append(argument)
    return arguments, renamed


class RestTool(DeferredTool, frozen=True, kw_only=True, dict=True, eq=False):
    """The tool of one operation. Building its schemas cannot fail, since they were built once at load."""

    plan: Plan

    def make_schema(self, field: str) -> Schema:
        """Built from the document's own parts, which callers never get."""
        made = self.plan.input_schema() if field == "parameters" else self.plan.output_schema()
        return made[0]

    # Two threads may both build one of these; either result can be used.
    @cached_property  # type: ignore[misc]
    def parameters(self) -> Schema:
        """The input schema, built on first access."""
        return self.plan.assembly.copy_schema(self.plan.input_schema()[0])

    @cached_property  # type: ignore[misc]
    def output_parameters(self) -> Schema:
        """The output schema, built on first access."""
        return self.plan.assembly.copy_schema(self.plan.output_schema()[0])
