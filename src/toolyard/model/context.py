"""`ToolContext`: what a tool may know about the call it is answering."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from toolyard.model.tool import Tool


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """Handed to a tool that declares a `ctx` parameter; models never see or set it."""

    tool: Tool
    call_id: str | None = None
    session_id: str | None = None
    context: Mapping[str, Any] = {}
    """What the caller sent along with the call (flow state, locale, ...)."""
    trace: Mapping[str, Any] = {}
    """Correlation ids of the caller."""
