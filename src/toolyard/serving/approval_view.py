"""`ApprovalView`: lists, shows and decides approvals for a caller, by the same rules on every wire."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from toolyard.calls.approval import ANONYMOUS, Approval, Decider, check_decider
from toolyard.calls.approvals import Approvals
from toolyard.model.errors import ApprovalError, DefinitionError
from toolyard.serving.http_fault import make_invalid_cursor
from toolyard.serving.identity import Principal


class ApprovalView:
    """The approvals of an engine, as callers with and without a key may see and decide them."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    async def list_page(self, principal: Principal, **filters: Any) -> dict[str, Any]:
        """Return a page of the approvals the principal may see; `filters` are those of `Approvals.list`."""
        decider = decider_of(principal)
        try:
            page = await self._approvals.alist(by=decider, **filters)
        except DefinitionError:
            raise make_invalid_cursor() from None
        shown: dict[str, Any] = {"approvals": [self._show(approval, decider) for approval in page.approvals]}
        return shown if page.cursor is None else {**shown, "next_cursor": page.cursor}

    async def show(self, principal: Principal, approval_id: str, seconds: float = 0.0) -> dict[str, Any]:
        """Return one approval as JSON, waiting up to `seconds` for it to be decided."""
        decider = decider_of(principal)
        return self._show(await self._approvals.await_for(approval_id, seconds, decider), decider)

    async def decide(
        self, principal: Principal, approval_id: str, verdict: Literal["approve", "deny"], reason: str | None = None
    ) -> dict[str, Any]:
        """Approve or deny one; raises `ApprovalError` if the principal may not, or if it can no longer be decided."""
        decider = decider_of(principal)
        decide = self._approvals.aapprove if verdict == "approve" else self._approvals.adeny
        return self._show(await decide(approval_id, decider, reason), decider)

    def _show(self, approval: Approval, decider: Decider) -> dict[str, Any]:
        obstacle = self._approvals.obstacle(approval)
        return {
            **write_approval(approval),
            **({} if obstacle is None else {"obstacle": obstacle}),
            "may_decide": approval.state == "pending" and _may_decide(approval, decider),
        }


def write_approval(approval: Approval) -> dict[str, Any]:
    """Return an approval as JSON, without the fields that must not leave this machine."""
    kept_here = ("owner", "yard")  # a key's id, and a path of this machine
    shown = {name: value for name, value in approval.to_dict().items() if value is not None and name not in kept_here}
    shown["self"] = shown.pop("self_allowed")
    return shown


def decider_of(principal: Principal) -> Decider:
    """Return the `Decider` for a principal. Callers without a key share one, so they cannot decide their own calls."""
    if principal.key_id is None:
        return Decider(name=ANONYMOUS, approves=lambda namespace: True)
    approves = partial(principal.scopes.allows, "approve")
    return Decider(name=principal.name, owner=principal.key_id, keys=principal.policy_keys, approves=approves)


def _may_decide(approval: Approval, decider: Decider) -> bool:
    try:
        check_decider(approval, decider)
    except ApprovalError:
        return False
    return True
