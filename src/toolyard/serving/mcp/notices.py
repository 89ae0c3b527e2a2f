"""`NoticeRelay`: progress and log lines of a running tool, sent to the MCP client as notifications."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from toolyard.dialects.mcp_protocol import encode_notification
from toolyard.model.call import Notice, Progress, ToolCall
from toolyard.serving.mcp.json_rpc import RANK, Json

SendMessage = Callable[[bytes], None]
"""Sends a notification to the client; called on the event loop."""

_MAX_REPR = 10_000


class NoticeRelay:
    """Converts a tool's notices to notifications. May be called from any thread."""

    __slots__ = ("_last", "_level", "_loop", "_send", "_thread", "_token")

    def __init__(self, send: SendMessage, token: str | int | None, level: int | None) -> None:
        self._send = send
        self._token = token
        self._level = level
        self._last = float("-inf")
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def __call__(self, call: ToolCall, notice: Notice) -> None:
        """Send a notice, if the client wants it."""
        try:
            message = self._encode_progress(notice) if isinstance(notice, Progress) else self._encode_log(notice)
        except Exception:  # noqa: BLE001 - an invalid notice must not make the call fail
            message = self._encode_invalid(notice)
        if message is None:
            return
        if threading.get_ident() == self._thread:
            self._send(message)
            return
        try:
            self._loop.call_soon_threadsafe(self._send, message)
        except RuntimeError:
            # The loop is closed, so the client is gone.
            return

    def _encode_progress(self, notice: Progress) -> bytes | None:
        # MCP requires that progress increases with each notification.
        if self._token is None or not notice.progress > self._last:
            return None
        self._last = notice.progress
        params: Json = {"progressToken": self._token, "progress": notice.progress}
        if notice.total is not None:
            params["total"] = notice.total
        if notice.message is not None:
            params["message"] = notice.message
        return encode_notification("notifications/progress", params)

    def _encode_log(self, notice: Any) -> bytes | None:
        if self._level is None or RANK.get(notice.level, 0) < self._level:
            return None
        params: Json = {"level": notice.level, "data": notice.data}
        if notice.logger is not None:
            params["logger"] = notice.logger
        return encode_notification("notifications/message", params)

    def _encode_invalid(self, notice: Notice) -> bytes | None:
        """A log line with the repr of data that is not JSON; None for invalid progress."""
        if isinstance(notice, Progress):
            return None
        try:
            shown = repr(notice.data)
        except Exception:  # noqa: BLE001 - as above
            shown = f"<{type(notice.data).__name__}>"
        data = shown[:_MAX_REPR].encode("utf-8", "backslashreplace").decode()
        level = notice.level if isinstance(notice.level, str) and notice.level in RANK else "info"
        return encode_notification("notifications/message", {"level": level, "data": data})
