"""`Profile`: all that is worked out once about a tool that is simulated."""

from __future__ import annotations

from typing import Any

from toolyard.engines.simulator.answer_paths import AnswerPath, find_entity, find_list, is_any_object
from toolyard.engines.simulator.draw import encode
from toolyard.engines.simulator.roles import role_of
from toolyard.engines.simulator.scalars import Make
from toolyard.engines.simulator.values import SchemaValues
from toolyard.model.bindings import RestBinding
from toolyard.model.tool import Tool
from toolyard.words.identifiers import plain_letters


class Profile:
    """What a tool seems to do, and who makes its answers."""

    __slots__ = (
        "body_argument",
        "entity_maker",
        "entity_path",
        "ignored",
        "is_free",
        "list_maker",
        "list_path",
        "plain",
        "prefix",
        "role",
        "tool",
        "values",
    )

    def __init__(self, tool: Tool, seed: int | str) -> None:
        self.tool = tool
        self.prefix = encode([seed, tool.qualified_name])
        values = SchemaValues(tool.output_parameters) if tool.output_parameters else None
        self.is_free = values is None or is_any_object(values)
        """True if the answer may be any object."""
        self.values = values
        shown = None if values is None or self.is_free else values
        lists = shown is not None and find_list(shown, "") is not None
        self.role = role_of(tool, lists=lists)
        noun = self.role.noun
        self.list_path: AnswerPath | None = None if shown is None else find_list(shown, noun)
        if self.role.verb == "list":
            self.entity_path: AnswerPath | None = None
        else:
            self.entity_path = None if shown is None else find_entity(shown, noun)
        self.entity_maker: Make | None = None
        if values is not None and self.entity_path is not None:
            self.entity_maker = values.maker(self.entity_path.node, noun)
        self.list_maker: Make | None = None
        if values is not None and self.list_path is not None:
            self.list_maker = values.maker(self.list_path.node, noun)
        self.plain = self.role.verb == "none" and not self.role.writes and not self.is_free
        """True if nothing but the arguments matters."""
        self.body_argument = _find_body(tool)
        self.ignored = _find_ignored(tool)

    def sent_fields(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the arguments say about a thing: the object they send, if they send one, opened."""
        role = self.role
        left_out = {*role.scope, *self.ignored, *([role.key] if role.key is not None else [])}
        found = {name: value for name, value in arguments.items() if name not in left_out}
        body = found.get(self.body_argument) if self.body_argument is not None else None
        if isinstance(body, dict):
            del found[str(self.body_argument)]
            found |= body
        if role.key is None:
            return found
        # It keeps its name, whatever the body says.
        return {name: value for name, value in found.items() if plain_letters(name) not in role.fields}


_CREDENTIALS = frozenset(("apikey", "accesstoken", "authtoken", "token", "authorization", "auth", "password", "secret"))


def _find_ignored(tool: Tool) -> frozenset[str]:
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


def _find_body(tool: Tool) -> str | None:
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
