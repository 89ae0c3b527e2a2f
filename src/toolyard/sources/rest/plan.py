"""What is known of one operation once its document is read, and what is made of it on demand."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from toolyard.model.bindings import RestBinding, RestBody, RestScheme
from toolyard.sources.rest.assembly import Assembly, strip
from toolyard.sources.rest.bodies import RequestBody
from toolyard.sources.rest.parameters import OperationParameter
from toolyard.sources.rest.schemas import Node, SchemaPart

BODY = "body"
"""The argument that is the whole body."""


class Plan:
    """One operation, its arguments named."""

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
    """Arguments and the properties of the body they become."""

    def __init__(self, assembly: Assembly, method: str, path: str) -> None:
        self.assembly = assembly
        self.method = method
        self.path = path

    def parts(self) -> list[SchemaPart]:
        """The schemas the input is made of."""
        found = [parameter.part for parameter in self.arguments.values()]
        return [*found, self.body.part] if self.body is not None else found

    def own_count(self) -> int:
        """Subschemas that are in no component, of the input and the output together."""
        found = sum([parameter.part.count for parameter in self.arguments.values()])
        found += self.body.part.count if self.body is not None else 0
        return found + (self.output.count if self.output is not None else 0)

    def binding(self) -> RestBinding:
        """How the operation is reached."""
        return RestBinding(
            method=self.method,
            path=self.path,
            base_url=self.base_url,
            parameters=tuple([parameter.bound(name) for name, parameter in self.arguments.items()]),
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

    def parameters(self) -> Node:
        """The input schema."""
        return self.input()[0]

    def output_parameters(self) -> Node:
        """The output schema; empty if nothing is known of the answer."""
        return self.answer()[0]

    def input(self) -> tuple[Node, list[str]]:
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
        # Every argument has its place in the request; there is none for others.
        root["additionalProperties"] = False
        return self.assembly.put_together(root, targets, "request")

    def _body_arguments(self, body: RequestBody, root: Node) -> list[str]:
        """Add the arguments of the body; the names of those that must be given."""
        properties = root["properties"]
        if body.properties is None:
            properties[self.whole] = strip(body.node, "request")
            return [self.whole] if body.sent else []
        for argument, name in self.properties.items():
            properties[argument] = strip(body.properties[name], "request")
        names = {name: argument for argument, name in self.properties.items()}
        required = [names[name] for name in body.required]
        if body.sent:
            return required
        if required:
            # Without a body nothing of it is required; with any of it, all that is.
            root["dependentRequired"] = {
                argument: others
                for argument in self.properties
                if (others := [name for name in required if name != argument])
            }
        return []

    def answer(self) -> tuple[Node, list[str]]:
        """The output schema, and the components that did not fit into it."""
        if self.output is None:
            return {}, []
        root, targets, hops = self.output.node, self.output.refs, 0
        while type(root) is dict and len(root) == 1 and "$ref" in root and hops < 16:
            # The component itself, so that a reader sees at once what is answered.
            part = targets[root["$ref"][8:]]
            root, targets, hops = part.node, part.refs, hops + 1
        if type(root) is not dict:
            return ({} if root else {"not": {}}), []
        return self.assembly.put_together(strip(root, "response"), targets, "response")
