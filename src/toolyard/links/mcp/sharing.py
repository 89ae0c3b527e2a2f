"""Links that are shared: whoever asks for the same server in the same way gets the same connection."""

from __future__ import annotations

import os
import threading

from toolyard.links.mcp.limits import Handlers, LinkLimits
from toolyard.links.mcp.link import McpLink
from toolyard.model.bindings import McpServer

_Key = tuple[McpServer, LinkLimits, Handlers]

_LOCK = threading.Lock()
_LINKS: dict[_Key, tuple[McpLink, int]] = {}


def lease(
    server: McpServer,
    *,
    limits: LinkLimits = LinkLimits(),  # noqa: B008 - frozen
    handlers: Handlers = Handlers(),  # noqa: B008 - frozen
) -> McpLink:
    """The link to this server that everybody shares; give it back when it is not needed any more."""
    key = _key(server, limits, handlers)
    with _LOCK:
        link, count = _LINKS.get(key) or (McpLink(server, limits=limits, handlers=handlers), 0)
        _LINKS[key] = (link, count + 1)
        return link


def give_back(link: McpLink) -> None:
    """Let go of a leased link; the last one to do so closes it, and waits for that."""
    if _returned(link):
        link.close()


async def agive_back(link: McpLink) -> None:
    """`give_back` for async code."""
    if _returned(link):
        await link.aclose()


def _returned(link: McpLink) -> bool:
    """Whether nobody has it any more."""
    key = _key(link.server, link.limits, link.handlers)
    with _LOCK:
        kept, count = _LINKS.get(key, (None, 0))
        if kept is not link:
            return False
        if count > 1:
            _LINKS[key] = (link, count - 1)
            return False
        del _LINKS[key]
        return True


def _key(server: McpServer, limits: LinkLimits, handlers: Handlers) -> _Key:
    return (server, limits, handlers)


def _in_child() -> None:
    # Whoever has a link has it in the child, too; the links themselves begin anew there.
    global _LOCK
    _LOCK = threading.Lock()


os.register_at_fork(after_in_child=_in_child)
