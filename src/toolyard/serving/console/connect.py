"""The Connect screen: what to paste into each client, with the real address of this server."""

from __future__ import annotations

import msgspec
from starlette.requests import Request

from toolyard.serving.console.rendering import CONSOLE, base_url
from toolyard.serving.console.screens import Screen, ScreenSet
from toolyard.serving.console.snippets import Snippet, write_client_snippets
from toolyard.serving.identity import KeyRing


class ConnectPage(msgspec.Struct, frozen=True):
    """Where this server is, and how clients are told."""

    url: str
    mcp_url: str | None
    needs_key: bool
    clients: list[Snippet]


class ConnectScreens(ScreenSet):
    """What others need to know of this server."""

    def __init__(self, keys: KeyRing | None, *, with_mcp: bool) -> None:
        self._keys = keys
        self._with_mcp = with_mcp

    def screens(self) -> tuple[Screen, ...]:
        """One page for all clients."""
        return (Screen(f"{CONSOLE}/connect", "connect.html", self.show_clients, "Connect"),)

    async def show_clients(self, request: Request) -> ConnectPage:
        """`GET /console/connect`."""
        url, needs_key = base_url(request), self._keys is not None and self._keys.required
        clients = write_client_snippets(url, with_key=needs_key, with_mcp=self._with_mcp)
        return ConnectPage(url, f"{url}/mcp" if self._with_mcp else None, needs_key, clients)
