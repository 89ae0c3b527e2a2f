"""A yard over HTTP and MCP: `toolyard.serving.asgi(yard)` is an ASGI application to serve or to mount in another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolyard.plugins import require_extra

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from toolyard.app.blocks import ServerBlock
    from toolyard.app.toolyard import Toolyard

__all__ = ["asgi", "require_serving"]


_OVER_HTTP = ("uvicorn", "httptools", "jinja2", "prometheus_client")


def require_serving(purpose: str, *, over_http: bool = True) -> None:
    """Raise `ConfigError` unless everything a server needs is installed, including modules that are imported lazily."""
    require_extra("serve", purpose, "starlette", *(_OVER_HTTP if over_http else ()))


def asgi(yard: Toolyard, block: ServerBlock | None = None) -> Starlette:
    """Return the Starlette application of an open yard; see `toolyard.serving.app.asgi`."""
    require_serving("toolyard.serving")
    # Imported late: commands that only manage keys need no web framework.
    from toolyard.serving.app import asgi as create

    return create(yard, block)
