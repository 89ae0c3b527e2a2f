"""`RemoteApprovals`: the calls that wait for approval on a server."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from toolyard.calls.approval import TIMES, Approval, ApprovalState
from toolyard.calls.approvals import ApprovalPage
from toolyard.client.wire import API, ServerWire, quote_segment
from toolyard.loop.home import home_loop


class _Page(msgspec.Struct):
    approvals: list[Any]
    next_cursor: str | None = None


class RemoteApprovals:
    """Calls that wait for approval on a server, as far as the API key may see them."""

    def __init__(self, wire: ServerWire) -> None:
        self._wire = wire

    async def alist(
        self,
        *,
        state: ApprovalState | None = None,
        tool: str | None = None,
        session_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> ApprovalPage:
        """A page of the matching approvals, newest first."""
        wanted = {"state": state, "tool": tool, "session": session_id, "limit": str(limit), "cursor": cursor}
        query = tuple((name, value) for name, value in wanted.items() if value is not None)
        body = await self._wire.ask("GET", f"/{API}/approvals", query=query)
        page = self._wire.read(body, _Page, "something other than a list of approvals")
        return ApprovalPage(tuple(map(self._read_approval, page.approvals)), page.next_cursor)

    list = home_loop.sync_twin(alist)

    async def aget(self, approval_id: str) -> Approval:
        """A single approval; raises `UnknownApprovalError` if there is none that the key may see."""
        return self._read_approval(await self._wire.ask("GET", _path(approval_id)))

    get = home_loop.sync_twin(aget)

    async def aapprove(self, approval_id: str, reason: str | None = None) -> Approval:
        """Allow the call to run once: a waiting caller continues, any other repeats the call."""
        return await self._decide(f"{_path(approval_id)}:approve", reason)

    approve = home_loop.sync_twin(aapprove)

    async def adeny(self, approval_id: str, reason: str | None = None) -> Approval:
        """Refuse the call."""
        return await self._decide(f"{_path(approval_id)}:deny", reason)

    deny = home_loop.sync_twin(adeny)

    async def _decide(self, path: str, reason: str | None) -> Approval:
        body = {} if reason is None else {"reason": reason}
        return self._read_approval(await self._wire.ask("POST", path, body=body))

    def _read_approval(self, shown: Any) -> Approval:
        try:
            times = {name: datetime.fromisoformat(shown[name]).timestamp() for name in TIMES if name in shown}
            return msgspec.convert({**shown, **times, "owner": "", "self_allowed": shown["self"]}, Approval)
        except (msgspec.ValidationError, KeyError, TypeError, ValueError):
            raise self._wire.make_garbled_error("something other than an approval") from None


def _path(approval_id: str) -> str:
    return f"/{API}/approvals/{quote_segment(approval_id)}"
