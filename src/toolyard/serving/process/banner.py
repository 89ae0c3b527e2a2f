"""What a server says when it starts: what it serves, what it could not load, and three requests to try."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

from toolyard.model.call import ToolCall
from toolyard.model.errors import CallError
from toolyard.model.report import LoadReport
from toolyard.model.tool import Effects, Tool
from toolyard.serving.service import Service

_SHOWN = 20
_TRIED = 500
_PREFERRED = "echo"
_SANDBOX = {
    "inprocess": "scripts run inside this process: nothing holds them (isolation: inprocess)",
    "rlimits": "scripts run in processes of their own, sandbox rlimits: limits only, files as their uid may read",
}


def write_banner(service: Service, url: str) -> str:
    """The lines for a person, each ended; text from catalogs is made visible by whoever prints it."""
    count = len(service.yard.tool_registry)
    lines = [
        *list_problems(service.loaded.report),
        f"toolyard serves {count:,} {'tool' if count == 1 else 'tools'} at {url}",
    ]
    if service.loaded.sandbox != "none":
        lines.append(
            _SANDBOX.get(
                service.loaded.sandbox, f"scripts run in processes of their own, sandbox {service.loaded.sandbox}"
            )
        )
    keys = service.keys
    if keys is not None and keys.required:
        usable = keys.usable()
        lines.append(f"API keys are required; {usable:,} {'is' if usable == 1 else 'are'} usable now")
        authorized = ' -H "Authorization: Bearer $TOOLYARD_KEY"'
    else:
        lines.append("there are no API keys: whoever reaches this address from this machine may use every tool")
        authorized = ""
    lines.append("try:")
    lines += [f"  {line}" for line in _suggest_requests(service, url, authorized)]
    return "".join(f"{line}\n" for line in lines)


def list_problems(report: LoadReport) -> list[str]:
    """One line for each source and definition that is not served, and why."""
    lines = [f"{source.source}: {source.state}: {source.error}" for source in report.sources if source.state != "ok"]
    lines += [f"{item.where}: left out: {item.reason}" for item in report.rejected]
    if len(lines) > _SHOWN:
        lines = [*lines[:_SHOWN], f"... and {len(lines) - _SHOWN:,} more; GET /v1/report lists all"]
    return lines


def _suggest_requests(service: Service, url: str, authorized: str) -> Iterator[str]:
    yield f"curl{authorized} {url}/v1/tools"
    found = _find_example(service)
    if found is None:
        yield f"curl{authorized} {url}/v1/health"
        yield f"curl{authorized} {url}/v1/version"
        return
    name, arguments = found
    body, place = shlex.quote(json.dumps({"args": arguments})), f"{url}/v1/tools/{name}"
    yield f"curl{authorized} {shlex.quote(place)}"
    yield f"curl{authorized} -H 'Content-Type: application/json' -d {body} {shlex.quote(place + ':invoke')}"


def _find_example(service: Service) -> tuple[str, dict[str, Any]] | None:
    """A tool that can be called, and arguments that it takes."""
    registry = service.yard.tool_registry
    tools = [tool for tool in registry.all_tools()[:_TRIED] if tool.binding is not None and tool.name.isascii()]
    for tool in sorted(tools, key=lambda tool: _rank_tool(tool, service)):
        arguments = _make_value(tool.parameters or {})
        if not isinstance(arguments, dict):
            continue
        try:
            bound = registry.bind(ToolCall(tool.qualified_name, arguments), coerce=False)
        except CallError:
            continue
        return service.names.now.spell_name(bound.tool.qualified_name), arguments
    return None


def _rank_tool(tool: Tool, service: Service) -> tuple[bool, bool, bool]:
    domain = tool.namespace in service.yard.domains
    return (not (domain and tool.name == _PREFERRED), tool.effects is not Effects.READ, not domain)


def _make_value(schema: Any) -> Any:
    """A value of that schema in plain cases; whoever asks checks it."""
    if not isinstance(schema, dict):
        return "hello"
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        known = schema.get("properties", {})
        return {name: _make_value(known.get(name)) for name in schema.get("required", ())}
    if kind == "array":
        return [_make_value(schema.get("items"))] * schema.get("minItems", 0)
    if kind in ("integer", "number"):
        return max(1, schema.get("minimum", 1))
    return {"boolean": True, "null": None}.get(kind, "hello")
