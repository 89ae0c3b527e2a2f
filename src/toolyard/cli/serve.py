"""`toolyard serve`: the tools over HTTP; `toolyard open`: in a browser; `toolyard mcp`: for one client, over stdio."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import msgspec
from cyclopts import Parameter

from toolyard.app.blocks import McpBlock, ServerBlock
from toolyard.app.config import Config
from toolyard.cli.options import YARD, YardOptions
from toolyard.cli.output import print_json, print_text, visible, warn
from toolyard.cli.yard import read_named
from toolyard.model.errors import ConfigError
from toolyard.schema.options import read_option
from toolyard.serving import require_serving
from toolyard.sources.domains import DEFAULT_DOMAINS, DOMAINS_VARIABLE

if TYPE_CHECKING:
    from toolyard.serving.process.listening import Address
    from toolyard.serving.service import Service


_SCRIPTS = "scripts"
_PART = re.compile(r"(?<=\.py):.*")
_WATCH_SECONDS = 0.5
_HOST, _PORT = "TOOL_REGISTRY_HOST", "TOOL_REGISTRY_PORT"

Host = Annotated[
    str | None,
    Parameter(
        help="Host name or IP address to listen on. An address that other machines can reach requires an API key."
    ),
]
Port = Annotated[int | None, Parameter(help="Port to listen on; 0 for any free port.")]
Domains = Annotated[str | None, Parameter(help="Domains to serve, separated by commas; without a config: core.")]
AutoPort = Annotated[
    bool | None, Parameter(negative="--no-auto-port", help="Use the next free port if this one is taken.")
]
Processes = Annotated[
    int | None, Parameter(help="Number of worker processes; more than one needs a sqlite or postgres `sessions` block.")
]
Strict = Annotated[
    bool | None, Parameter(negative="--no-strict", help="Refuse to start if anything could not be loaded.")
]
Log = Annotated[str | None, Parameter(help="Format of the request log: text, json or off.")]
Watch = Annotated[bool, Parameter(help="Reload scripts, functions and catalogs when their files change.")]
Inherited = Annotated[int | None, Parameter(show=False)]
"""A file descriptor that this command passes to the workers it starts."""


def serve(
    *,
    host: Host = None,
    port: Port = None,
    domains: Domains = None,
    auto_port: AutoPort = None,
    workers: Processes = None,
    strict: Strict = None,
    log: Log = None,
    watch: Watch = False,
    fd: Inherited = None,
    link: Inherited = None,
    options: YardOptions = YARD,
) -> int:
    """Serve the tools over HTTP until stopped. Prints one line of JSON with the address when it is ready.

    Flags take precedence over the environment (TOOL_REGISTRY_HOST, TOOL_REGISTRY_PORT, TOOL_REGISTRY_DOMAINS), which
    takes precedence over the config's `server` block. SIGTERM stops after running calls have ended; SIGHUP reloads the
    sources.
    """
    given = {"host": host, "port": port, "auto_port": auto_port, "workers": workers}
    given |= {"domains": domains, "strict": strict, "log": log}
    path, read, block = _read_server("serve", options, given)
    if watch:
        read = _watch_sources(read, is_worker=link is not None)
    if fd is not None and link is not None:
        return _run_worker(read, block, fd, link)
    if block.workers > 1:
        loudness = [f"--{flag}" for flag in ("quiet", "verbose") if getattr(options, flag)]
        return _run_workers(
            read, block, [*_list_worker_arguments(path, block), *(["--watch"] if watch else []), *loudness]
        )
    from toolyard.serving.process.server import serve as run

    out = sys.stdout
    # Standard output contains only the address, so redirect what tools print.
    with redirect_stdout(sys.stderr):
        return 0 if run(read, block, ready=lambda address, text: _announce_address(address, block, text, out)) else 1


def _read_server(
    verb: str, options: YardOptions, flags: Mapping[str, Any], *, over_http: bool = True
) -> tuple[Path | None, Config, ServerBlock]:
    """The file that a verb serves, the config in it, and the server settings."""
    # Ignore SIGHUP until there is something to reload, since its default action would end the process.
    if threading.current_thread() is threading.main_thread():
        # Not SIG_IGN, which child processes would inherit.
        signal.signal(signal.SIGHUP, lambda number, frame: None)
    require_serving(f"toolyard {verb}", over_http=over_http)
    path, read = read_named(options.config)
    return path, read, apply_overrides(read.server, flags, os.environ, alone=path is None)


def apply_overrides(
    block: ServerBlock, flags: Mapping[str, Any], env: Mapping[str, str], *, alone: bool
) -> ServerBlock:
    """The block with the settings of flags and environment; `alone`: without a config, the core domain is served."""
    changes: dict[str, Any] = {}
    if alone and block.domains is None:
        changes["domains"] = DEFAULT_DOMAINS
    if env.get(_HOST):
        changes["host"] = env[_HOST]
    if env.get(_PORT):
        if not env[_PORT].strip().isdecimal():
            raise ConfigError(f"{_PORT}: must be the number of a port, not {env[_PORT]!r}")
        changes["port"] = read_option(ServerBlock, "port", int(env[_PORT]), _PORT)
    if env.get(DOMAINS_VARIABLE):
        changes["domains"] = read_option(ServerBlock, "domains", env[DOMAINS_VARIABLE], DOMAINS_VARIABLE)
    return msgspec.structs.replace(block, **{**changes, **_read_flags(ServerBlock, flags)})


def _read_flags(struct: type[msgspec.Struct], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the flags that were given, as the struct has them."""
    given = {name: value for name, value in flags.items() if value is not None}
    return {name: read_option(struct, name, value, f"--{name.replace('_', '-')}") for name, value in given.items()}


def _watch_sources(config: Config, *, is_worker: bool = False) -> Config:
    """The config with every script directory watched; a thread, in the parent of all workers, watches other files."""
    loaders = [
        msgspec.structs.replace(entry, options={**entry.options, "watch": True}) if entry.type == _SCRIPTS else entry
        for entry in config.loaders
    ]
    named = [entry.options.get(key) for entry in loaders for key in ("target", "path", "spec")]
    places = [config.base / _PART.sub("", name) for name in named if isinstance(name, str)]
    files = [path for path in places if path.is_file()]
    if files and not is_worker:
        look = (files, [_stamp_file(path) for path in files])
        threading.Thread(target=_watch_files, args=look, name="toolyard-watch", daemon=True).start()
    if not files and all(entry.type != _SCRIPTS for entry in loaders):
        warn("--watch: there is nothing to watch; no source is a file, or a directory of scripts")
    return msgspec.structs.replace(config, loaders=loaders)


def _watch_files(paths: list[Path], seen: list[object]) -> None:
    """Reload the sources, by a SIGHUP to this process, whenever one of the files changes."""
    while True:
        time.sleep(_WATCH_SECONDS)
        before, seen = seen, [_stamp_file(path) for path in paths]
        if seen != before:
            os.kill(os.getpid(), signal.SIGHUP)


def _stamp_file(path: Path) -> object:
    with suppress(OSError):
        found = path.stat()
        return found.st_mtime_ns, found.st_ino, found.st_size
    return None


def _list_worker_arguments(path: Path | None, block: ServerBlock) -> list[str]:
    """The arguments for a worker, so that its settings are the same after `apply_overrides`."""
    chosen = [] if path is None else [str(path)]
    domains = [] if block.domains is None else ["--domains", ",".join(block.domains)]
    strict = "--strict" if block.strict else "--no-strict"
    return ["serve", *chosen, "--host", block.host, "--port", str(block.port), *domains, strict, "--log", block.log]


def _run_workers(read: Config, block: ServerBlock, arguments: list[str]) -> int:
    from toolyard.serving.process.listening import address_of, listen
    from toolyard.serving.process.workers import WorkerPool, check_shared, own_command

    check_shared(read)
    with listen(block) as listener:
        address = address_of(listener)
        workers = WorkerPool(own_command(arguments), listener, block, say=warn)
        return 0 if workers.run(lambda text: _announce_address(address, block, text, sys.stdout)) else 1


def _run_worker(read: Config, block: ServerBlock, fd: int, link: int) -> int:
    from toolyard.serving.process.server import serve as run
    from toolyard.serving.process.workers import send_banner

    with socket.socket(fileno=link) as parent:
        listener = socket.socket(fileno=fd)
        with redirect_stdout(sys.stderr):
            done = run(read, block, ready=lambda _, text: send_banner(parent, text), listener=listener, lifeline=parent)
    return 0 if done else 1


def _announce_address(address: Address, block: ServerBlock, text: str, out: TextIO) -> None:
    import json

    from toolyard.serving.process.workers import notify_systemd

    notify_systemd("READY=1")
    sys.stderr.write("".join(f"{visible(line)}\n" for line in text.splitlines()))
    sys.stderr.flush()
    line = {"url": address.url, "host": address.host, "port": address.port, "pid": os.getpid()}
    # The parent process may no longer be there to read it.
    with suppress(BrokenPipeError):
        out.write(json.dumps({**line, "workers": block.workers}) + "\n")
        out.flush()


Exposed = Annotated[
    str | None,
    Parameter(help="`all`: clients see every tool. `search`: clients see two tools that find and call the others."),
]
Names = Annotated[
    str | None, Parameter(help="Names of tools: qualified, or `bare`: without the namespace where that is unique.")
]
Sessions = Annotated[
    bool | None, Parameter(negative="--no-sessions", help="Add tools that open, fork and close sessions.")
]


def mcp(
    *,
    expose: Exposed = None,
    names: Names = None,
    sessions: Sessions = None,
    domains: Domains = None,
    strict: Strict = None,
    log: Log = None,
    options: YardOptions = YARD,
) -> int:
    """Serve the tools to the MCP client that started this, until it closes standard input; SIGHUP reloads them.

    Standard output carries only the protocol; the output of tools and the log go to standard error.
    """
    given = {"domains": domains, "strict": strict, "log": log}
    _, read, block = _read_server("mcp", options, given, over_http=False)
    changes = _read_flags(McpBlock, {"expose": expose, "names": names, "sessions": sessions})
    block = msgspec.structs.replace(block, mcp=msgspec.structs.replace(block.mcp, **changes))
    from toolyard.serving.mcp.stdio import take_streams
    from toolyard.serving.monitoring import capture_logs
    from toolyard.serving.service import build_service, list_problems

    reading, writing = take_streams()
    with capture_logs(block.log):
        service = build_service(read, block)
        for line in list_problems(service.yard.tool_registry.report):
            warn(line)
        try:
            asyncio.run(_serve_stdio(service, reading, writing))
        finally:
            service.yard.close()
    return 0


async def _serve_stdio(service: Service, reading: int, writing: int) -> None:
    from toolyard.serving.mcp.stdio import serve_stdio
    from toolyard.serving.service import freeze_memory, reload_sources

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    reloads: set[asyncio.Task[None]] = set()

    def reload() -> None:
        task = loop.create_task(reload_sources(service.loaded))
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    loop.add_signal_handler(signal.SIGHUP, reload)
    await service.start()
    freeze_memory()
    try:
        await serve_stdio(service.mcp, reading, writing, stop)
    finally:
        await service.stop()


def open(  # noqa: A001 - the verb's name
    *,
    browser: Annotated[bool, Parameter(negative="--no-browser", help="Open a browser.")] = True,
    port: Annotated[int, Parameter(help="Port to listen on; 0 for any free port.")] = 0,
    options: YardOptions = YARD,
) -> int:
    """Serve the tools to this machine only, and open the console in a browser, until stopped.

    Prints the console's URL when it is ready.
    """
    given = {"host": "127.0.0.1", "port": port, "log": "off"}
    _, read, block = _read_server("open", options, given)
    block = msgspec.structs.replace(block, page=True, workers=1)
    from toolyard.serving.process.server import serve

    out = sys.stdout

    def show(address: Address, text: str) -> None:
        url = f"{address.url}/console/tools"
        with redirect_stdout(out):
            print_json({"url": url}) if options.json else print_text(url)
            out.flush()
        if browser:
            # Some browsers block the process that opens them until they are closed.
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    # Standard output contains only the address, so redirect what tools print.
    with redirect_stdout(sys.stderr):
        return 0 if serve(read, block, ready=show) else 1
