"""`serve`: runs one server process, prints its banner, and shuts it down without losing requests in progress."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shlex
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

import msgspec
import uvicorn
from starlette.types import ASGIApp

from toolyard.app.blocks import ServerBlock
from toolyard.app.config import Config
from toolyard.model.call import ToolCall
from toolyard.model.errors import CallError, ConfigError
from toolyard.model.tool import Effects, Tool
from toolyard.serving.app import create_app
from toolyard.serving.console.form import draft_arguments, make_fields
from toolyard.serving.monitoring import capture_logs
from toolyard.serving.process.listening import BACKLOG, Address, address_of, listen, raise_file_limit
from toolyard.serving.process.protocol import ConnectionLimit, DeadlineProtocol
from toolyard.serving.process.workers import notify_systemd
from toolyard.serving.service import Service, build_service, freeze_memory, list_problems, reload_sources

_RECORDING_SECONDS = 5.0
"""Seconds for cancelled calls to be recorded and answered."""
_log = logging.getLogger(__name__)


def serve(
    config: Config,
    block: ServerBlock,
    *,
    ready: Callable[[Address, str], None],
    listener: socket.socket | None = None,
    lifeline: socket.socket | None = None,
    make_app: Callable[[Service], ASGIApp] = create_app,
) -> bool:
    """Serve until SIGTERM or SIGINT; SIGHUP reloads the sources. Return False if the start failed.

    `ready` is called once the server accepts connections, with its address and the banner. `listener` is an open socket
    to use instead of a new one. `lifeline` is a socket whose other end belongs to the process that started this one:
    when it closes, the server stops.
    """
    with ExitStack() as stack:
        stack.enter_context(capture_logs(block.log))
        hangups = stack.enter_context(_collect_hangups())
        # Open the port first: a port in use should fail at once, and loading may take a while.
        listener = stack.enter_context(listener or listen(block))
        address = address_of(listener)
        block = msgspec.structs.replace(block, port=address.port)
        service = build_service(config, block)
        stack.callback(service.yard.close)
        check_exposure(service, address)
        limit = ConnectionLimit(raise_file_limit(block.max_connections))
        if service.metrics is not None:
            service.metrics.watch_gauge("connections", lambda: len(limit.open))
        server = Server(
            *(_make_uvicorn_config(make_app(service), block, limit), service),
            ready=lambda: ready(address, write_banner(service, address.url)),
            hangups=hangups,
            lifeline=lifeline,
            has_new_config=_follow_config(config),
        )
        try:
            server.run([listener])
        except SystemExit:
            # uvicorn exits when the application fails to start; the error has been logged.
            return False
    return True


@contextlib.contextmanager
def _collect_hangups() -> Iterator[list[int]]:
    """Collect SIGHUP signals, which request a reload, in a list. One that arrives during a reload causes another."""
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = signal.signal(signal.SIGHUP, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGHUP, before)


def _follow_config(config: Config) -> Callable[[], bool]:
    """A function that says whether the config file has changed since; False for a source that is served without one."""
    path, is_source = Path(config.where), any(loader.where == config.where for loader in config.loaders)

    def read_stamp() -> tuple[int, int] | None:
        with contextlib.suppress(OSError):
            found = path.stat()
            return None if is_source else (found.st_mtime_ns, found.st_size)
        return None

    before = read_stamp()
    return lambda: read_stamp() != before


def check_exposure(service: Service, address: Address) -> None:
    """Raise `ConfigError` if other machines can connect and there is no usable API key."""
    if address.is_private or service.keys.count_usable():
        return
    where = "a sqlite or postgres `sessions` block in the config, and then " if not service.records.shared else ""
    raise ConfigError(
        f"{address.host} can be reached from other machines, and there is no usable API key; make one first "
        f"({where}`toolyard key create NAME --scope '*:*'`), or listen at 127.0.0.1"
    )


def _make_uvicorn_config(app: ASGIApp, block: ServerBlock, limit: ConnectionLimit) -> uvicorn.Config:
    protocol = partial(DeadlineProtocol, block=block, limit=limit)
    return uvicorn.Config(
        cast(Any, app),
        http=cast(type[asyncio.Protocol], protocol),
        loop="asyncio",
        ws="none",
        lifespan="on",
        interface="asgi3",
        backlog=BACKLOG,
        timeout_keep_alive=cast(int, block.idle_timeout),
        log_config=None,
        log_level="warning",
        access_log=False,
        # Any client could forge its address with such headers.
        proxy_headers=False,
        server_header=False,
    )


class Server(uvicorn.Server):
    """uvicorn's server with a ready callback, reloads, a lifeline, and a shutdown that waits for cancelled requests."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        *,
        ready: Callable[[], None],
        hangups: list[int],
        lifeline: socket.socket | None = None,
        has_new_config: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(config)
        self._service = service
        self._ready = ready
        self._lifeline = lifeline
        self._hangups = hangups
        self._has_new_config = has_new_config
        self._reloading: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start accepting connections, then call `ready`."""
        await super().startup(sockets)
        freeze_memory()
        if self._lifeline is not None:
            asyncio.get_running_loop().add_reader(self._lifeline, self._read_lifeline)
        self._ready()

    def _read_lifeline(self) -> None:
        assert self._lifeline is not None
        if not self._lifeline.recv(64):
            asyncio.get_running_loop().remove_reader(self._lifeline)
            self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down gracefully; a second SIGINT stops at once. The signal is not re-raised, so the exit status is 0."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Start a reload if SIGHUP was received. uvicorn calls this ten times a second."""
        if self._hangups and (self._reloading is None or self._reloading.done()):
            self._hangups.clear()
            if self._has_new_config():
                _log.warning("the config file has changed since the start, and is only read then; restart to use it")
            self._reloading = asyncio.create_task(reload_sources(self._service.loaded))
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, wait for running requests, cancel those that take too long, and let them be recorded."""
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        if self._lifeline is None:
            notify_systemd("STOPPING=1")
        # Open streams and waits for approvals would otherwise delay the shutdown.
        self._service.end_waits()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if not await self._wait_for_requests(self._service.block.shutdown_timeout):
            tasks = list(self.server_state.tasks)
            _log.warning("%d requests did not end in time and are cancelled", len(tasks))
            for task in tasks:
                task.cancel()
            await self._wait_for_requests(_RECORDING_SECONDS)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await self.lifespan.shutdown()

    async def _wait_for_requests(self, seconds: float) -> bool:
        """Wait for all requests and connections to end; True if the requests did in that time."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while self.server_state.tasks or self.server_state.connections:
            if clock() >= until or self.force_exit:
                # Connections that are still open, but have no request, may be dropped.
                return not self.server_state.tasks
            await asyncio.sleep(0.02)
        return True


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
