"""`toolyard show`: one tool, whole."""

from __future__ import annotations

from typing import Any

import msgspec

from toolyard.cli.output import print_json, print_text, warn
from toolyard.cli.yard import ConfigOption, JsonOption, SkipOption, open_registry
from toolyard.dialects import get_dialect
from toolyard.model.tool import Tool
from toolyard.registry.bind import find


def show(
    name: str,
    /,
    *,
    config: ConfigOption = None,
    skip_bad: SkipOption = False,
    format: str | None = None,  # noqa: A002 - the option is called --format
    json: JsonOption = False,
) -> int:
    """Show a tool's definition, every overload of it.

    Parameters
    ----------
    name
        Qualified name, or a bare name that only one namespace has.
    format
        Spell it as a provider does: openai, openai-responses, anthropic, gemini or mcp. What the provider
        cannot be told is listed on standard error.
    """
    with open_registry(config, skip_bad=skip_bad) as registry:
        found = [candidate.tool for candidate in find(registry.snapshot, name)]
        tools = registry.all_tools()
    if format:
        dialect = get_dialect(format, tools)
        print_json(dialect.format_tools(found))
        for line in dialect.report:
            warn(f"{line.tool}{line.pointer}: {line.change}")
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
        print_text(f"{title}: {_pretty(schema)}")
    for field in ("version", "tags", "aliases", "metadata", "source"):
        value = getattr(tool, field)
        if value:
            print_text(f"{field}: {value if isinstance(value, str) else _pretty(value)}")
    if tool.binding is not None:
        print_text(f"binding: {type(tool.binding).__name__}")
    print_text("")


def _pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
