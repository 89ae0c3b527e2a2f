"""The listening socket of a server, its address, and the limit of open files."""

from __future__ import annotations

import errno
import resource
import socket

import msgspec

from toolyard.app.blocks import HIGHEST_PORT, ServerBlock
from toolyard.model.errors import ConfigError
from toolyard.serving.middleware import is_loopback

BACKLOG = 4096
_MAX_PORTS = 100
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
    family, host = _resolve_host(block.host)
    more = (
        range(block.port + 1, min(block.port + _MAX_PORTS, HIGHEST_PORT + 1)) if block.auto_port and block.port else ()
    )
    for port in (block.port, *more):
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


def _resolve_host(host: str) -> tuple[socket.AddressFamily, str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot listen at {host!r}: {error}") from None
    # Prefer IPv4 for `localhost`, because every client tries that.
    family, _, _, _, address = min(found, key=lambda item: item[0] != socket.AF_INET)
    return family, str(address[0])


def raise_file_limit(wanted: int) -> int:
    """Raise the limit of open files as needed; return the number of connections it allows, at most `wanted`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else hard
    # Never lower the limit: the operator may have set a higher one.
    target = max(soft, min(most, wanted + _SPARE_FILES)) if soft != resource.RLIM_INFINITY else most
    if soft not in (resource.RLIM_INFINITY, target):
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return max(1, min(wanted, target - _SPARE_FILES))
