"""Where a server listens: the socket, its address as people write it, and how many files it may open."""

from __future__ import annotations

import errno
import resource
import socket
from collections.abc import Iterator

import msgspec

from toolyard.app.blocks import HIGHEST_PORT, ServerBlock
from toolyard.model.errors import ConfigError
from toolyard.serving.middleware import is_loopback

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
            # At once: a socket that is bound but does not listen keeps nobody else from the port.
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
        f"port {block.port} is in use at {block.host}; give another with --port, or --auto-port for the next free one"
    )


def _resolved(host: str) -> tuple[socket.AddressFamily, str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot listen at {host!r}: {error}") from None
    # Of `localhost` the form that everybody tries.
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
    # Never lowered: somebody may have asked for more than is needed here.
    target = max(soft, min(most, wanted + _SPARE_FILES)) if soft != resource.RLIM_INFINITY else most
    if soft not in (resource.RLIM_INFINITY, target):
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return max(1, min(wanted, target - _SPARE_FILES))
