"""Where a server listens: the socket, its address, how many files it may open, and what it says when it starts."""

from __future__ import annotations

import errno
import json
import resource
import shlex
import socket
from collections.abc import Iterator
from typing import Any

import msgspec

from toolyard.app.blocks import HIGHEST_PORT, ServerBlock
from toolyard.model.call import ToolCall
from toolyard.model.errors import CallError, ConfigError
from toolyard.model.tool import Effects, Tool
from toolyard.serving.console.form import form_fields, skeleton
from toolyard.serving.middleware import is_loopback
from toolyard.serving.service import Service, list_problems

BACKLOG = 4096
_TRIES = 100
_SPARE_FILES = 256
"""What a process opens beside its connections: the store, the tools' own files, threads that wait."""
_MOST_FILES = 1 << 20


class Address(msgspec.Struct, frozen=True):
    """Where a socket listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """What to type into a browser on this machine; a server that listens everywhere is here too."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - a comparison
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def is_private(self) -> bool:
        """True if only this machine can reach it."""
        return is_loopback(self.host)


def address_of(listener: socket.socket) -> Address:
    """Where it really listens, whatever was asked for."""
    host, port = listener.getsockname()[:2]
    return Address(host, port)


def listen(block: ServerBlock) -> socket.socket:
    """A socket that listens where the block says; a `ConfigError` says what else to try."""
    family, host = _resolved(block.host)
    for port in _ports(block):
        # Named as TCP, or asyncio does not switch off the delay of small packets on its connections.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            # At once: a socket that is bound but does not listen keeps no other process from the port.
            listener.listen(BACKLOG)
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                reason = error.strerror or str(error)
                raise ConfigError(f"cannot listen at {block.host} port {port}: {reason}") from None
    if block.auto_port:
        raise ConfigError(f"no port from {block.port} on is free at {block.host}; give another with --port")
    raise ConfigError(
        f"port {block.port} is in use at {block.host}; give another with --port, 0 for any that is free; "
        "`toolyard serve` has --auto-port for the next free one"
    )


def _resolved(host: str) -> tuple[socket.AddressFamily, str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot listen at {host!r}: {error}") from None
    # Of `localhost` the form that every client tries.
    family, _, _, _, address = min(found, key=lambda item: item[0] != socket.AF_INET)
    return family, str(address[0])


def _ports(block: ServerBlock) -> Iterator[int]:
    yield block.port
    if block.auto_port and block.port:
        yield from range(block.port + 1, min(block.port + _TRIES, HIGHEST_PORT + 1))


def room_for_connections(wanted: int) -> int:
    """Raise the limit of open files as far as it goes; how many connections that allows, `wanted` at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else hard
    # Never lowered: the operator may have set more than is needed here.
    target = max(soft, min(most, wanted + _SPARE_FILES)) if soft != resource.RLIM_INFINITY else most
    if soft not in (resource.RLIM_INFINITY, target):
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return max(1, min(wanted, target - _SPARE_FILES))


_TRIED = 500
_PREFERRED = "echo"
_SANDBOX = {
    "inprocess": "scripts run inside this process: nothing holds them (isolation: inprocess)",
    "rlimits": "scripts run in worker processes, sandbox rlimits: limits only, files as their uid may read",
}


def write_banner(service: Service, url: str) -> str:
    """The lines for a person, each ended; the caller that prints them escapes text from catalogs."""
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
        usable = keys.usable()
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
    """A tool that can be called, and arguments that it takes."""
    registry = service.yard.tool_registry
    tools = [tool for tool in _list_open(service)[:_TRIED] if tool.binding is not None and tool.name.isascii()]
    for tool in sorted(tools, key=lambda tool: _rank_tool(tool, service)):
        drafted = skeleton(form_fields(tool.parameters))
        arguments = {name: "hello" if value == "" else value for name, value in drafted.items()}
        try:
            bound = registry.bind(ToolCall(tool.qualified_name, arguments), coerce=False)
        except CallError:
            continue
        return service.names.now.spell_name(bound.tool.qualified_name), arguments
    return None


def _list_open(service: Service) -> list[Tool]:
    """The tools that the policy does not deny to callers without a key."""
    policy, tools = service.yard.tool_engine.policy, service.yard.tool_registry.all_tools()
    return [tool for tool in tools if policy is None or not policy.always_denies(tool, ())]


def _rank_tool(tool: Tool, service: Service) -> tuple[bool, bool, bool]:
    domain = tool.namespace in service.yard.domains
    return (not (domain and tool.name == _PREFERRED), tool.effects is not Effects.READ, not domain)
