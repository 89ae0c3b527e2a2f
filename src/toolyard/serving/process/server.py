"""`serve`: one process that listens, answers, and stops without losing what it has begun."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from types import FrameType
from typing import Any, cast

import msgspec
import uvicorn
from starlette.types import ASGIApp

from toolyard.app.blocks import ServerBlock
from toolyard.app.config import Config
from toolyard.model.errors import ConfigError
from toolyard.serving.app import create_app
from toolyard.serving.process.listening import BACKLOG, Address, address_of, listen, room_for_connections, write_banner
from toolyard.serving.process.protocol import ConnectionLimit, DeadlineProtocol
from toolyard.serving.process.workers import tell_manager
from toolyard.serving.request_log import capture_logs
from toolyard.serving.service import Service, build_service, reload_sources, settle_memory

Ready = Callable[[Address, str], None]
"""Called once the server accepts: where it listens, and what to tell a person."""

_RECORDING_SECONDS = 5.0
"""For cancelled calls to be recorded and answered."""
_log = logging.getLogger(__name__)


def serve(
    config: Config,
    block: ServerBlock,
    *,
    ready: Ready,
    listener: socket.socket | None = None,
    lifeline: socket.socket | None = None,
    make_app: Callable[[Service], ASGIApp] = create_app,
) -> bool:
    """Answer until a SIGTERM or SIGINT; a SIGHUP loads the sources again. False if the start failed.

    `listener` is an open socket to use instead of a new one. `lifeline` is a socket whose other end belongs to
    the process that started this one: when it closes, the server stops.
    """
    with ExitStack() as stack:
        stack.enter_context(capture_logs(block.log))
        hangups = stack.enter_context(_collect_hangups())
        # The port first: whether it is free is known at once, and loading may take a while.
        listener = stack.enter_context(listener or listen(block))
        address = address_of(listener)
        block = msgspec.structs.replace(block, port=address.port)
        service = build_service(config, block)
        stack.callback(service.yard.close)
        check_exposure(service, address)
        limit = ConnectionLimit(room_for_connections(block.max_connections))
        if service.metrics is not None:
            service.metrics.watch("connections", lambda: len(limit.open))
        server = Server(
            *(_make_uvicorn_config(make_app(service), block, limit), service),
            ready=lambda: ready(address, write_banner(service, address.url)),
            hangups=hangups,
            lifeline=lifeline,
        )
        try:
            server.run([listener])
        except SystemExit:
            # uvicorn's way of saying that the app refused to start; it has been logged.
            return False
    return True


@contextlib.contextmanager
def _collect_hangups() -> Iterator[list[int]]:
    """Signals that ask to load the sources again; one that comes while they load is heeded afterwards."""
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = signal.signal(signal.SIGHUP, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGHUP, before)


def check_exposure(service: Service, address: Address) -> None:
    """Refuse to listen where other machines can connect while no key is required."""
    if address.is_private or service.keys.usable():
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
        # Any client could claim another address with such headers.
        proxy_headers=False,
        server_header=False,
    )


class Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready, ends with 0 when told to stop, and waits for what it cancels."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        *,
        ready: Callable[[], None],
        hangups: list[int],
        lifeline: socket.socket | None = None,
    ) -> None:
        super().__init__(config)
        self._service = service
        self._ready = ready
        self._lifeline = lifeline
        self._hangups = hangups
        self._reloading: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, and say so."""
        await super().startup(sockets)
        settle_memory()
        if self._lifeline is not None:
            asyncio.get_running_loop().add_reader(self._lifeline, self._other_end_speaks)
        self._ready()

    def _other_end_speaks(self) -> None:
        assert self._lifeline is not None
        if not self._lifeline.recv(64):
            asyncio.get_running_loop().remove_reader(self._lifeline)
            self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop in order; a second SIGINT stops at once. To be told to stop is no failure, so the signal ends here."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        if self._hangups and (self._reloading is None or self._reloading.done()):
            self._hangups.clear()
            self._reloading = asyncio.create_task(reload_sources(self._service.loaded))
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, let what runs come to its end, cancel what does not, and wait until that is recorded."""
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        if self._lifeline is None:
            tell_manager("STOPPING=1")
        # Streams that only wait for news would be waited for.
        self._service.end_waits()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if not await self._ended(self._service.block.shutdown_timeout):
            tasks = list(self.server_state.tasks)
            _log.warning("%d requests did not end in time and are cancelled", len(tasks))
            for task in tasks:
                task.cancel()
            await self._ended(_RECORDING_SECONDS)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await self.lifespan.shutdown()

    async def _ended(self, seconds: float) -> bool:
        """Whether everything that runs came to an end in that time."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while self.server_state.tasks or self.server_state.connections:
            if clock() >= until or self.force_exit:
                # Connections whose clients do not read on may be dropped.
                return not self.server_state.tasks
            await asyncio.sleep(0.02)
        return True
