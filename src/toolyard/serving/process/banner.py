"""The banner: what a server serves and requests to try, printed when it starts."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

from toolyard.model.call import ToolCall
from toolyard.model.errors import CallError
from toolyard.model.tool import Effects, Tool
from toolyard.serving.console.form import draft_arguments, make_fields
from toolyard.serving.service import Service, list_problems

_MAX_TRIED = 500
_PREFERRED_TOOL = "echo"
_SANDBOX = {
    "inprocess": "scripts run inside this process, without a sandbox (isolation: inprocess)",
    "rlimits": "scripts run in worker processes, sandbox rlimits: resource limits and file permissions only",
}


def write_banner(service: Service, url: str) -> str:
    """Return the lines that a server prints when it starts. They quote catalogs, so the caller must escape them."""
    count = len(service.yard.tool_registry)
    lines = [
        *list_problems(service.loaded.registry.report),
        f"toolyard serves {count:,} {'tool' if count == 1 else 'tools'} at {url}",
        *([f"console: {url}/console/"] if service.block.page else []),
    ]
    if service.loaded.sandbox != "none":
        lines.append(
            _SANDBOX.get(service.loaded.sandbox, f"scripts run in worker processes, sandbox {service.loaded.sandbox}")
        )
    keys = service.keys
    if keys.required:
        usable = keys.count_usable()
        lines.append(f"API keys are required; {usable:,} {'is' if usable == 1 else 'are'} usable now")
        authorized = ' -H "Authorization: Bearer $TOOLYARD_KEY"'
    else:
        denied = count - len(_list_open(service))
        what = f"every tool but {denied:,} that the policy denies" if denied else "every tool"
        lines.append(f"there are no API keys: anyone on this machine may use {what}")
        authorized = ""
    lines.append("try:")
    lines += [f"  {line}" for line in _suggest_requests(service, url, authorized)]
    return "".join(f"{line}\n" for line in lines)


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
    """Return the name of a tool that can be called, with valid arguments; None if there is none."""
    registry = service.yard.tool_registry
    tools = [tool for tool in _list_open(service)[:_MAX_TRIED] if tool.binding is not None and tool.name.isascii()]
    for tool in sorted(tools, key=lambda tool: _rank_tool(tool, service)):
        drafted = draft_arguments(make_fields(tool.parameters))
        arguments = {name: "hello" if value == "" else value for name, value in drafted.items()}
        try:
            bound = registry.bind(ToolCall(tool.qualified_name, arguments), coerce=False)
        except CallError:
            continue
        return service.names.now.spell_name(bound.tool.qualified_name), arguments
    return None


def _list_open(service: Service) -> list[Tool]:
    """Return the tools that callers without a key may call, by the policy."""
    policy, tools = service.yard.tool_engine.policy, service.yard.tool_registry.all_tools()
    return [tool for tool in tools if policy is None or not policy.always_denies(tool, ())]


def _rank_tool(tool: Tool, service: Service) -> tuple[bool, bool, bool]:
    domain = tool.namespace in service.yard.domains
    return (not (domain and tool.name == _PREFERRED_TOOL), tool.effects is not Effects.READ, not domain)
