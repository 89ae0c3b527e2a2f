"""`Profile`: all that is worked out once about a tool that is simulated."""

from __future__ import annotations

from typing import Any

from toolyard.engines.simulator.draw import encode, plain_letters
from toolyard.engines.simulator.leaves import Make
from toolyard.engines.simulator.places import Place, is_free, list_in, thing_in
from toolyard.engines.simulator.roles import role_of
from toolyard.engines.simulator.values import Values
from toolyard.model.bindings import RestBinding
from toolyard.model.tool import Tool


class Profile:
    """What a tool seems to do, and who makes its answers."""

    __slots__ = (
        "aside",
        "body",
        "free",
        "list",
        "list_maker",
        "plain",
        "prefix",
        "role",
        "thing",
        "thing_maker",
        "tool",
        "values",
    )

    def __init__(self, tool: Tool, seed: int | str) -> None:
        self.tool = tool
        self.prefix = encode([seed, tool.qualified_name])
        values = Values(tool.output_parameters) if tool.output_parameters else None
        self.free = values is None or is_free(values)
        """True if the answer may be any object."""
        self.values = values
        shown = None if values is None or self.free else values
        lists = shown is not None and list_in(shown, "") is not None
        self.role = role_of(tool, lists=lists)
        noun = self.role.noun
        self.list: Place | None = None if shown is None else list_in(shown, noun)
        if self.role.verb == "list":
            self.thing: Place | None = None
        else:
            self.thing = None if shown is None else thing_in(shown, noun)
        self.thing_maker: Make | None = None
        if values is not None and self.thing is not None:
            self.thing_maker = values.maker(self.thing.node, noun)
        self.list_maker: Make | None = None
        if values is not None and self.list is not None:
            self.list_maker = values.maker(self.list.node, noun)
        self.plain = self.role.verb == "none" and not self.role.writes and not self.free
        """True if nothing but the arguments matters."""
        self.body = _body_of(tool)
        self.aside = _aside(tool)

    def sent(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the arguments say about a thing: the object they send, if they send one, opened."""
        role = self.role
        left_out = {*role.scope, *self.aside, *([role.key] if role.key is not None else [])}
        found = {name: value for name, value in arguments.items() if name not in left_out}
        body = found.get(self.body) if self.body is not None else None
        if isinstance(body, dict):
            del found[str(self.body)]
            found |= body
        if role.key is None:
            return found
        # It keeps its name, whatever the body says.
        return {name: value for name, value in found.items() if plain_letters(name) not in role.fields}


_CREDENTIALS = frozenset(("apikey", "accesstoken", "authtoken", "token", "authorization", "auth", "password", "secret"))


def _aside(tool: Tool) -> frozenset[str]:
    """Arguments that are about the call, not about what it deals with."""
    properties = tool.parameters.get("properties")
    found = (
        {name for name in properties if plain_letters(name) in _CREDENTIALS} if isinstance(properties, dict) else set()
    )
    binding = tool.binding
    if isinstance(binding, RestBinding):
        places = ("header", "cookie") if binding.body is None else ("header", "cookie", "query")
        found = {item.argument for item in binding.parameters if item.location in places}
    return frozenset(found)


def _body_of(tool: Tool) -> str | None:
    """The argument that is the thing itself."""
    binding = tool.binding
    if isinstance(binding, RestBinding):
        return binding.body.argument if binding.body is not None else None
    properties = tool.parameters.get("properties")
    objects = [
        name
        for name, node in (properties.items() if isinstance(properties, dict) else ())
        if isinstance(node, dict) and node.get("type") == "object"
    ]
    return objects[0] if len(objects) == 1 else None
