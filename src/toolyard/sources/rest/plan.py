"""`Plan`: everything known of one operation after reading its document, from which its tool is made on demand.

`Assembly` builds the schemas of a tool: the root, and under `$defs` the components it reaches, without properties that
the direction (request or response) hides. Arguments keep their names on the wire, and are renamed if two locations use
the same name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from msgspec.structs import replace

from toolyard.model.bindings import RestBinding, RestBody, RestScheme
from toolyard.model.errors import InvalidSchemaError
from toolyard.model.names import copied
from toolyard.model.tool import DeferredTool, Schema
from toolyard.schema.admission import DEFAULT_BUDGET, SchemaBudget, check_budget
from toolyard.schema.subschemas import iter_children
from toolyard.sources.rest.bodies import RequestBody
from toolyard.sources.rest.parameters import OperationParameter
from toolyard.sources.rest.schemas import Node, SchemaPart

Direction = Literal["request", "response"]

_UNSEEN: dict[Direction, str] = {"request": "readOnly", "response": "writeOnly"}
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
        self._seen: dict[tuple[SchemaPart, Direction], Any] = {}
        self._shown: dict[int, tuple[Any, Any]] = {}
        self._fan_out: dict[SchemaPart, int] = {}
        self._tame = False
        """True if no value is judged by too many subschemas in any combination, so counting them is enough."""
        self._checked = 0

    @property
    def is_exhausted(self) -> bool:
        """True if checking more schemas of this document would take too long."""
        return self._checked > _MAX_CHECKED

    def judge_parts(self, branching: Sequence[SchemaPart], parts: Iterable[SchemaPart]) -> None:
        """Check once for all tools whether these parts can make too many subschemas judge one value.

        The bound of `fan_out` is cheap and imprecise; if it is inconclusive, all parts are checked as the budget would
        check them in every tool.
        """
        worst = max([self.fan_out(part) for part in branching], default=0)
        self._tame = worst <= _SURE_FAN_OUT or _is_tame(parts)

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

    def put_together(
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
        if self._tame and total <= _MAX_COUNT:
            return schema, left
        if reduced:
            return _reduce_schema(root, list(definitions))
        self._checked += total
        try:
            check_budget(schema)
        except InvalidSchemaError:
            return _reduce_schema(root, list(definitions))
        return schema, left

    def show(self, schema: Node) -> Node:
        """A copy for callers. Components are copied once for all tools, since calls are not judged by these copies."""
        return {
            key: {name: self._show_part(node) for name, node in value.items()} if key == "$defs" else copied(value)
            for key, value in schema.items()
        }

    def _show_part(self, node: Any) -> Any:
        known = self._shown.get(id(node))
        if known is None:
            known = node, copied(node)
            if node:
                self._shown[id(node)] = known
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
            chosen.append((part.name, self.view(part, direction)))
            for target in part.refs.values():
                if target not in known:
                    known.add(target)
                    queue.append(target)
        return chosen, left, total + own

    def view(self, part: SchemaPart, direction: Direction) -> Any:
        """The component without properties that only the other direction has."""
        if not part.directed:
            return part.node
        key = (part, direction)
        if key not in self._seen:
            self._seen[key] = strip_direction(part.node, direction)
        return self._seen[key]


def _is_tame(parts: Iterable[SchemaPart]) -> bool:
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
    hidden = _flagged_properties(node, _UNSEEN[direction])
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
    """One operation, with its arguments named."""

    description = ""
    whole_description: str | None = None
    """The full description, if it had to be truncated."""
    reduced = False
    """True if its schemas are built without components, unless they are sure to fit."""
    base_url = ""
    body: RequestBody | None = None
    whole = BODY
    output: SchemaPart | None = None
    security: tuple[tuple[str, ...], ...] = ()
    schemes: Mapping[str, RestScheme] = MappingProxyType({})
    accepts: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    arguments: Mapping[str, OperationParameter] = MappingProxyType({})
    properties: Mapping[str, str] = MappingProxyType({})
    """Arguments, with the properties of the body that they become."""

    def __init__(self, assembly: Assembly, method: str, path: str) -> None:
        self.assembly = assembly
        self.method = method
        self.path = path

    def binding(self) -> RestBinding:
        """The binding of the operation."""
        return RestBinding(
            method=self.method,
            path=self.path,
            base_url=self.base_url,
            parameters=tuple([replace(parameter.sent, argument=name) for name, parameter in self.arguments.items()]),
            body=self._bound_body(),
            security=self.security,
            schemes=dict(self.schemes),
            accepts=self.accepts,
            named=self.named,
            origins=self.origins,
            allowed=self.allowed,
        )

    def _bound_body(self) -> RestBody | None:
        body = self.body
        if body is None:
            return None
        return RestBody(
            media_type=body.media_type,
            argument=self.whole if body.properties is None else None,
            properties=dict(self.properties),
            parts=body.parts,
            required=body.sent,
            binary=body.binary,
        )

    def input_schema(self) -> tuple[Node, list[str]]:
        """The input schema, and the components that did not fit into it."""
        properties: Node = {name: parameter.node for name, parameter in self.arguments.items()}
        required = [name for name, parameter in self.arguments.items() if parameter.required]
        targets: dict[str, SchemaPart] = {}
        for parameter in self.arguments.values():
            targets.update(parameter.part.refs)
        root: Node = {"type": "object", "properties": properties}
        if self.body is not None:
            targets.update(self.body.targets)
            required += self._body_arguments(self.body, root)
        if required:
            root["required"] = required
        # Every argument has a place in the request, so others are rejected.
        root["additionalProperties"] = False
        return self.assembly.put_together(root, targets, "request", reduced=self.reduced)

    def _body_arguments(self, body: RequestBody, root: Node) -> list[str]:
        """Add the arguments of the body; returns the names of the required ones."""
        properties = root["properties"]
        if body.properties is None:
            properties[self.whole] = strip_direction(body.node, "request")
            return [self.whole] if body.sent else []
        for argument, name in self.properties.items():
            properties[argument] = strip_direction(body.properties[name], "request")
        names = {name: argument for argument, name in self.properties.items()}
        required = [names[name] for name in body.required]
        if body.sent:
            return required
        if required:
            # Without a body none of them is required; with any of them, all required ones are.
            root["dependentRequired"] = {
                argument: others
                for argument in self.properties
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
        return self.assembly.put_together(shown, targets, "response", reduced=self.reduced)


def name_arguments(plan: Plan, parameters: Iterable[OperationParameter], body: RequestBody | None) -> list[str]:
    """Assign an argument to every parameter and every property of the body; returns the renames as text.

    If several have the same name, the path parameter keeps it; the others become `name_in_query`, `name_in_header`,
    `name_in_cookie` and `name_in_body`.
    """
    given = list(parameters)
    inside = [] if body is None else list(body.properties) if body.properties is not None else [BODY]
    names = [parameter.sent.name for parameter in given] + inside
    plan.body = body
    if len(set(names)) == len(names):
        plan.arguments = {parameter.sent.name: parameter for parameter in given}
        if body is not None and body.properties is not None:
            plan.properties = {name: name for name in inside}
        return []
    return _tell_apart(plan, given, inside, names)


def _tell_apart(plan: Plan, given: list[OperationParameter], inside: list[str], names: list[str]) -> list[str]:
    shared = {name for name in names if names.count(name) > 1}
    taken = set(names)
    renamed: list[str] = []

    def choose(name: str, place: str) -> str:
        if name not in shared or place == "path":
            return name
        wanted = argument = f"{name}_in_{place}"
        number = 2
        while argument in taken:
            argument = f"{wanted}_{number}"
            number += 1
        taken.add(argument)
        renamed.append(f"{place} {name!r} is the argument {argument!r}: another place uses the name too")
        return argument

    plan.arguments = {choose(parameter.sent.name, parameter.sent.location): parameter for parameter in given}
    if plan.body is not None and plan.body.properties is None:
        plan.whole = choose(BODY, "body")
    else:
        plan.properties = {choose(name, "body"): name for name in inside}
    return renamed


class RestTool(DeferredTool, frozen=True, kw_only=True, dict=True, eq=False):
    """The tool of one operation. Building its schemas and binding cannot fail, since they were built once at load."""

    plan: Plan

    def make_schema(self, field: str) -> Schema:
        """Built from the document's own parts, which callers never get."""
        made = self.plan.input_schema() if field == "parameters" else self.plan.output_schema()
        return made[0]

    # Two threads may both build one of these; either result can be used.
    @cached_property  # type: ignore[misc]
    def parameters(self) -> Schema:
        """The input schema, built on first access."""
        return self.plan.assembly.show(self.plan.input_schema()[0])

    @cached_property  # type: ignore[misc]
    def output_parameters(self) -> Schema:
        """The output schema, built on first access."""
        return self.plan.assembly.show(self.plan.output_schema()[0])

    @cached_property  # type: ignore[misc]
    def binding(self) -> RestBinding:
        """The binding, built on first access."""
        return self.plan.binding()
