"""The Approvals screens: calls that wait for somebody's word, what each would change, and deciding on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from toolyard.calls.approval import ApprovalState
from toolyard.model.context import Notify
from toolyard.serving.approval_view import ApprovalView
from toolyard.serving.console.rendering import CONSOLE, item_path, redirect
from toolyard.serving.console.screens import Form, Screen, ScreenSet, Shown
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.identity import Principal
from toolyard.serving.routing import caller_of, path_value, query_str

_PATH, _TEMPLATE = f"{CONSOLE}/approvals", "approvals.html"
_PAGE = 50


class ApprovalsPage(msgspec.Struct, frozen=True):
    """The inbox: those that wait, or those in another state, newest first."""

    state: str
    """Empty for all of them."""
    states: tuple[str, ...]
    approvals: list[dict[str, Any]]
    next_cursor: str | None
    notice: str = ""


class ApprovalScreens(ScreenSet):
    """What waits for a person; who may see and decide is asked where every face asks."""

    def __init__(self, view: ApprovalView, *, is_asked: bool) -> None:
        self._view = view
        self._is_asked = is_asked

    def screens(self) -> tuple[Screen, ...]:
        """The inbox, and one page for each; nobody is led there if no rule asks."""
        label = "Approvals" if self._is_asked else ""
        return (
            Screen(_PATH, _TEMPLATE, self.show_approvals, label, heavy=True),
            Screen(f"{_PATH}/{{approval_id}}", "approval.html", self.show_approval),
        )

    def forms(self) -> tuple[Form, ...]:
        """Approve and deny."""
        return (Form(f"{_PATH}/{{approval_id}}", self.decide),)

    async def show_approvals(self, request: Request) -> ApprovalsPage:
        """`GET /console/approvals`; `?state=` for those that wait no more."""
        state = query_str(request, "state")
        return await self._make_page(caller_of(request).principal, state, query_str(request, "cursor"))

    async def show_approval(self, request: Request) -> dict[str, Any]:
        """`GET /console/approvals/{id}`."""
        return await self._view.show(caller_of(request).principal, path_value(request))

    async def decide(self, request: Request, form: Mapping[str, str], notify: Notify) -> Shown | Response:
        """`POST /console/approvals/{id}`: what came of it stands in the inbox, or on the approval's own page."""
        verdict = form.get("verdict")
        if verdict not in ("approve", "deny"):
            raise HttpFault(400, "request.invalid_form", "choose approve or deny")
        choice: Literal["approve", "deny"] = "approve" if verdict == "approve" else "deny"
        principal, approval_id = caller_of(request).principal, path_value(request)
        decided = await self._view.decide(principal, approval_id, choice, form.get("reason") or None)
        if form.get("from") != "inbox":
            return redirect(item_path("approvals", approval_id))
        notice = f"{decided['tool']} is {decided['state']}."
        return Shown(_TEMPLATE, await self._make_page(principal, None, None, notice))

    async def _make_page(
        self, principal: Principal, state: str | None, cursor: str | None, notice: str = ""
    ) -> ApprovalsPage:
        states: tuple[str, ...] = get_args(ApprovalState)
        wanted = "pending" if state is None else state
        if wanted and wanted not in states:
            raise HttpFault(400, "request.invalid_query", f"state must be one of {', '.join(states)}")
        page = await self._view.list_page(principal, state=wanted or None, limit=_PAGE, cursor=cursor)
        return ApprovalsPage(wanted, states, page["approvals"], page.get("next_cursor"), notice)
