"""The listening socket of a server, its address, the limit of open files, and the banner."""

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
from toolyard.serving.console.form import draft_arguments, make_fields
from toolyard.serving.middleware import is_loopback
from toolyard.serving.service import Service, list_problems

BACKLOG = 4096
_TRIES = 100
_SPARE_FILES = 256
"""File descriptors reserved for everything but connections: the store, files of tools, pipes of threads."""
_MOST_FILES = 1 << 20


class Address(msgspec.Struct, frozen=True):
    """The address of a listening socket."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The URL for a browser on this machine, also for a server that listens on all interfaces."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - a comparison
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def is_private(self) -> bool:
        """True if it is a loopback address."""
        return is_loopback(self.host)


def address_of(listener: socket.socket) -> Address:
    """Return the actual address of a listening socket."""
    host, port = listener.getsockname()[:2]
    return Address(host, port)


def listen(block: ServerBlock) -> socket.socket:
    """Return a listening socket for the block's host and port; raises `ConfigError` if none can be opened."""
    family, host = _resolved(block.host)
    for port in _ports(block):
        # asyncio sets TCP_NODELAY only on connections of sockets whose protocol is given as TCP.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            # Listen at once: with SO_REUSEADDR, another process can still bind a port that is only bound.
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
    # Prefer IPv4 for `localhost`, because every client tries that.
    family, _, _, _, address = min(found, key=lambda item: item[0] != socket.AF_INET)
    return family, str(address[0])


def _ports(block: ServerBlock) -> Iterator[int]:
    yield block.port
    if block.auto_port and block.port:
        yield from range(block.port + 1, min(block.port + _TRIES, HIGHEST_PORT + 1))


def room_for_connections(wanted: int) -> int:
    """Raise the limit of open files as needed; return the number of connections it allows, at most `wanted`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else hard
    # Never lower the limit: the operator may have set a higher one.
    target = max(soft, min(most, wanted + _SPARE_FILES)) if soft != resource.RLIM_INFINITY else most
    if soft not in (resource.RLIM_INFINITY, target):
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return max(1, min(wanted, target - _SPARE_FILES))


_TRIED = 500
_PREFERRED = "echo"
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
    """Return the name of a tool that can be called, with valid arguments; None if there is none."""
    registry = service.yard.tool_registry
    tools = [tool for tool in _list_open(service)[:_TRIED] if tool.binding is not None and tool.name.isascii()]
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
    return (not (domain and tool.name == _PREFERRED), tool.effects is not Effects.READ, not domain)
