"""`toolyard show`: one tool, whole."""

from __future__ import annotations

from typing import Any

import msgspec

from toolyard.cli.output import print_json, print_text
from toolyard.cli.yard import ConfigOption, JsonOption, open_registry
from toolyard.dialects import get_dialect
from toolyard.model.tool import Tool
from toolyard.registry.bind import find


def show(name: str, /, *, config: ConfigOption = None, format: str | None = None, json: JsonOption = False) -> int:  # noqa: A002
    """Show a tool's definition, every overload of it.

    Parameters
    ----------
    name
        Qualified name, or a bare name that only one namespace has.
    format
        Spell it as a provider does: openai, openai-responses, anthropic, gemini or mcp.
    """
    with open_registry(config) as registry:
        found = [candidate.tool for candidate in find(registry.snapshot, name)]
        dialect = get_dialect(format, registry.all_tools()) if format else None
    if dialect is not None:
        print_json(dialect.format_tools(found))
    elif json:
        print_json([describe(tool) for tool in found])
    else:
        for tool in found:
            _print(tool)
    return 0


def describe(tool: Tool) -> dict[str, Any]:
    """The definition with the two hashes that identify it."""
    return {
        **tool.to_dict(qualified=True),
        "fingerprint": tool.fingerprint,
        "definition_hash": tool.definition_hash,
        "binding": None if tool.binding is None else type(tool.binding).__name__,
    }


def _print(tool: Tool) -> None:
    print_text(f"{tool.qualified_name}  ({tool.effects.value}, fingerprint {tool.fingerprint[:12]})")
    if tool.description:
        print_text(f"\n{tool.description}\n")
    for title, schema in (("parameters", tool.parameters), ("output_parameters", tool.output_parameters)):
        print_text(f"{title}:\n{msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()}")
    if tool.source:
        print_text(f"source: {tool.source}")
