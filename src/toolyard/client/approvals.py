"""`RemoteApprovals`: the approvals of a server, with the methods of those in this process."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from toolyard.calls.approval import Approval, ApprovalState
from toolyard.calls.approvals import ApprovalPage
from toolyard.client.wire import API, ServerWire, make_garbled_error, segment
from toolyard.loop.home import home_loop

_TIMES = ("created", "expires", "decided_at", "used_at")


class RemoteApprovals:
    """Calls that wait for somebody's word at a server: those that the key may see, and may decide on or not."""

    def __init__(self, wire: ServerWire) -> None:
        self._wire = wire

    def list(self, **filters: Any) -> ApprovalPage:
        """Those that fit, newest first; the filters are those of `alist`."""
        return home_loop.run(self.alist(**filters), twin="alist")

    def get(self, approval_id: str) -> Approval:
        """One of them; `UnknownApprovalError` if there is none that the key may see."""
        return home_loop.run(self.aget(approval_id), twin="aget")

    def approve(self, approval_id: str, reason: str | None = None) -> Approval:
        """Let the call run once: whoever waits goes on, or sends the same call again."""
        return home_loop.run(self.aapprove(approval_id, reason), twin="aapprove")

    def deny(self, approval_id: str, reason: str | None = None) -> Approval:
        """Refuse the call."""
        return home_loop.run(self.adeny(approval_id, reason), twin="adeny")

    async def alist(
        self,
        *,
        state: ApprovalState | None = None,
        tool: str | None = None,
        session_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ApprovalPage:
        """`list` for async code."""
        asked = {"state": state, "tool": tool, "session": session_id, "limit": str(limit), "cursor": cursor}
        query = tuple((name, value) for name, value in asked.items() if value is not None)
        body = await self._wire.ask("GET", f"/{API}/approvals", query=query)
        if not isinstance(body, dict) or not isinstance(body.get("approvals"), list):
            raise make_garbled_error(self._wire.url, "none", "something that is no list of approvals")
        return ApprovalPage(tuple(map(self._read, body["approvals"])), body.get("next_cursor"))

    async def aget(self, approval_id: str) -> Approval:
        """`get` for async code."""
        return self._read(await self._wire.ask("GET", _place(approval_id)))

    async def aapprove(self, approval_id: str, reason: str | None = None) -> Approval:
        """`approve` for async code."""
        return await self._decide(f"{_place(approval_id)}:approve", reason)

    async def adeny(self, approval_id: str, reason: str | None = None) -> Approval:
        """`deny` for async code."""
        return await self._decide(f"{_place(approval_id)}:deny", reason)

    async def _decide(self, path: str, reason: str | None) -> Approval:
        return self._read(await self._wire.ask("POST", path, body={} if reason is None else {"reason": reason}))

    def _read(self, shown: Any) -> Approval:
        try:
            times = {name: datetime.fromisoformat(shown[name]).timestamp() for name in _TIMES if name in shown}
            return msgspec.convert({**shown, **times, "owner": "", "self_allowed": shown["self"]}, Approval)
        except (msgspec.ValidationError, KeyError, TypeError, ValueError):
            raise make_garbled_error(self._wire.url, "none", "something that is no approval") from None


def _place(approval_id: str) -> str:
    return f"/{API}/approvals/{segment(approval_id)}"
