"""Approvals: `ApprovalView` lists, shows and decides them by the same rules on every wire; and these over HTTP."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from toolyard.calls.approval import (
    ANONYMOUS,
    Approval,
    ApprovalState,
    Decider,
    Outcome,
    Preview,
    WantedState,
    check_decider,
)
from toolyard.calls.approvals import Approvals
from toolyard.model.call import Mode
from toolyard.model.errors import ApprovalError, DefinitionError
from toolyard.serving.identity import Principal
from toolyard.serving.invoke import read_wait_seconds
from toolyard.serving.query import CURSOR, QueryParameter, limit_parameter, make_invalid_cursor, query_limit, query_str
from toolyard.serving.routing import BODY, JsonResponse, caller_of, operation, or_default, path_value, read_json
from toolyard.serving.wire_types import DateTime, Json, Shape


class DecisionBody(Shape):
    """A decision on an approval; the `reason` is shown to the caller."""

    reason: Annotated[str, Meta(max_length=2000)] | UnsetType = UNSET


class ApprovalShape(Shape):
    """The approval of a held call. Secrets in its arguments are redacted."""

    id: str
    state: ApprovalState
    state_words: str
    tool: str
    definition_hash: str
    digest: str
    arguments: Json
    mode: Mode
    caller: str
    session_id: str
    rule: str
    rule_number: int
    approvers: list[str]
    self: bool
    created: DateTime
    expires: DateTime
    is_own: bool
    """Whether this key made the call. Keys may have the same name, so `caller` does not tell."""
    may_decide: bool
    """Whether this key may approve or deny it."""
    call_id: str | UnsetType = UNSET
    decided_at: DateTime | UnsetType = UNSET
    decided_by: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    used_at: DateTime | UnsetType = UNSET
    obstacle: str | UnsetType = UNSET
    """Why the call could not run even if approved."""
    preview: Preview | UnsetType = UNSET
    outcome: Outcome | UnsetType = UNSET


class ApprovalListing(Shape):
    """A page of the approvals that this key may see, newest first."""

    approvals: list[ApprovalShape]
    next_cursor: str | UnsetType = UNSET


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
        return self._show(await decide(approval_id, reason, by=decider), decider)

    def _show(self, approval: Approval, decider: Decider) -> dict[str, Any]:
        obstacle = self._approvals.obstacle(approval)
        return {
            **write_approval(approval),
            **({} if obstacle is None else {"obstacle": obstacle}),
            "is_own": decider.is_caller_of(approval),
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


_QUERY = (
    QueryParameter("state", {"type": "string", "enum": list(get_args(WantedState))}, "Only approvals in this state."),
    QueryParameter("tool", {"type": "string", "minLength": 1}, "Only approvals of this tool, by its qualified name."),
    QueryParameter("session", {"type": "string", "minLength": 1}, "Only approvals of calls in this session."),
    limit_parameter("Approvals"),
    CURSOR,
)


_APPROVAL_PATH = "/v1/approvals/{approval_id}"
_DECISION_OPTIONS: dict[str, Any] = {
    "body": DecisionBody,
    "answers": {200: ApprovalShape},
    "errors": (403, 404, 409),
    "body_needed": False,
}


class ApprovalRoutes:
    """Lists, shows and decides approvals. The permission check is shared by all faces.

    No verb is required: callers see the approvals of their own calls, and may decide them if the rule allows it.
    """

    def __init__(self, view: ApprovalView, longest_wait: float) -> None:
        self._view = view
        self._longest_wait = longest_wait

    @operation(
        *("GET /v1/approvals", "List approvals"),
        answers={200: ApprovalListing},
        query=_QUERY,
        heavy=True,
    )
    async def list_approvals(self, request: Request) -> Response:
        """Approvals of the caller's own calls and those that the key may decide, newest first."""
        page = await self._view.list_page(
            caller_of(request).principal,
            state=query_str(request, "state"),
            tool=query_str(request, "tool"),
            session_id=query_str(request, "session"),
            limit=query_limit(request),
            cursor=query_str(request, "cursor"),
        )
        return JsonResponse(page)

    @operation(f"GET {_APPROVAL_PATH}", "Get an approval", answers={200: ApprovalShape}, errors=(404,))
    async def show_approval(self, request: Request) -> Response:
        """The call, what it would change, and its outcome. `Prefer: wait=30` waits for the decision."""
        caller = caller_of(request)
        seconds = min(read_wait_seconds(caller), self._longest_wait)
        shown = await self._view.show(caller.principal, path_value(request), seconds)
        headers = {"preference-applied": f"wait={int(seconds)}"} if seconds else None
        return JsonResponse(shown, headers=headers)

    @operation(f"POST {_APPROVAL_PATH}:approve", "Approve a call", **_DECISION_OPTIONS)
    async def approve(self, request: Request) -> Response:
        """The call may then run once.

        Approving does not run it: the waiting request continues, or the caller sends the call again.
        """
        return await self._decide(request, "approve")

    @operation(f"POST {_APPROVAL_PATH}:deny", "Deny a call", **_DECISION_OPTIONS)
    async def deny(self, request: Request) -> Response:
        """Deny the call, and the same call sent again, until the approval would have expired."""
        return await self._decide(request, "deny")

    async def _decide(self, request: Request, verdict: Literal["approve", "deny"]) -> Response:
        body = (await read_json(request, DecisionBody))[0] if request.scope[BODY] else DecisionBody()
        principal, reason = caller_of(request).principal, or_default(body.reason, None)
        return JsonResponse(await self._view.decide(principal, path_value(request), verdict, reason))
