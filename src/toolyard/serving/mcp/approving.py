"""Asks an MCP client to decide on a held call: by elicitation, or by an input request in the stateless version.

The person who answers counts as the caller. So clients are asked only under a rule with `self: true`, and the decision
has the rights of the caller's key at /v1/approvals.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from toolyard.calls.approval import Approval
from toolyard.calls.approvals import Approvals
from toolyard.model.errors import ApprovalError
from toolyard.serving.identity import Caller
from toolyard.serving.invoke import find_approval_id
from toolyard.serving.mcp.json_rpc import AskClient, Json, encode
from toolyard.serving.routes.approvals import decider_of

_ELICIT, _QUESTION = "elicitation/create", "approval"
_ID_PREFIX = "toolyard-"
"""Prefix of the ids of questions."""
_LONGEST = 4000
_REASON = {"type": "string", "title": "Reason", "description": "Why; it is kept with the decision."}
_CANCELLED: Json = {"action": "cancel"}


class ClientQuestions:
    """Open questions to one client."""

    def __init__(self) -> None:
        self._waiting: dict[object, asyncio.Future[Json]] = {}

    async def ask(self, send: Callable[[bytes], None], params: Json) -> Json:
        """Send a question with `send`, and return the result of the client's response."""
        number = f"{_ID_PREFIX}{secrets.token_hex(8)}"
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        send(encode({"jsonrpc": "2.0", "id": number, "method": _ELICIT, "params": params}))
        try:
            return await answer
        finally:
            del self._waiting[number]

    def resolve(self, document: Json) -> None:
        """Handle a response of the client. An error counts as `cancel`; responses to unknown questions are ignored."""
        result = document.get("result")
        answer = self._waiting[document["id"]] if self.is_awaited(document) else None
        if answer is not None and not answer.done():
            answer.set_result(result if type(result) is dict else _CANCELLED)

    def is_awaited(self, document: Json) -> bool:
        """True if a message answers an open question."""
        number = document.get("id")
        return type(number) is str and number in self._waiting


def is_answer(document: Json) -> bool:
    """True if a message may answer a question of any worker."""
    return str(document.get("id")).startswith(_ID_PREFIX)


def can_elicit(capabilities: Any) -> bool:
    """True if the capabilities include form elicitation."""
    form = capabilities.get("elicitation") if type(capabilities) is dict else None
    return type(form) is dict and (not form or "form" in form)


async def find_own_approval(approvals: Approvals, caller: Caller) -> Approval | None:
    """The approval of the first held call of a request that its caller may decide on; None if there is none."""
    for approval_id in filter(None, map(find_approval_id, caller.unfinished)):
        with suppress(ApprovalError):
            approval = await approvals.aget(approval_id, decider_of(caller.principal))
            if approval.self_allowed and approval.state == "pending":
                return approval
    return None


async def decide_by_asking(approvals: Approvals, caller: Caller, approval: Approval, ask: AskClient) -> bool:
    """Ask the client until it answers or the approval is decided elsewhere; False if it is still undecided."""
    asking = asyncio.ensure_future(ask(describe_question(approval)))
    waiting = asyncio.ensure_future(approvals.await_for(approval.id, float("inf")))
    try:
        await asyncio.wait({asking, waiting}, return_when=asyncio.FIRST_COMPLETED)
        return waiting.done() or await apply_verdict(approvals, caller, approval.id, asking.result())
    finally:
        asking.cancel()
        waiting.cancel()


async def apply_verdict(approvals: Approvals, caller: Caller, approval_id: str, answer: Any) -> bool:
    """Decide as the client answered; False if that is no decision. A refused decision is left to the call path."""
    action = answer.get("action") if type(answer) is dict else None
    if action not in ("accept", "decline"):
        return False
    content = answer.get("content")
    reason = content.get("reason") if type(content) is dict else None
    decide = approvals.aapprove if action == "accept" else approvals.adeny
    with suppress(ApprovalError):
        told = reason[:2000] if type(reason) is str else None
        await decide(approval_id, told, by=decider_of(caller.principal))
    return True


def describe_question(approval: Approval) -> Json:
    """The parameters of an `elicitation/create`: accepting approves the call, declining denies it."""
    lines = [f"Approve this call of {approval.tool}?", f"arguments: {encode(approval.arguments).decode()}"]
    preview = approval.preview
    if preview is not None and preview.maker is not None:
        lines += [f"predicted by {preview.maker}: {preview.code}", *preview.changes]
    elif preview is not None:
        lines.append(f"cannot be predicted: {preview.why_not}")
    message = "\n".join(lines)
    if len(message) > _LONGEST:
        hidden = f"{len(message) - _LONGEST:,} more characters are NOT shown"
        message = f"{message[:_LONGEST]}...\n{hidden}: look at approval {approval.id} before you accept"
    schema = {"type": "object", "properties": {"reason": _REASON}}
    return {"message": message, "requestedSchema": schema}


def make_input_request(approval: Approval) -> Json:
    """The result that asks a stateless client to repeat the call together with its answer."""
    asked = {_QUESTION: {"method": _ELICIT, "params": {"mode": "form", **describe_question(approval)}}}
    return {"resultType": "input_required", "inputRequests": asked, "requestState": approval.id}


async def apply_input(approvals: Approvals, caller: Caller, params: Json) -> None:
    """Apply the client's answer to `make_input_request`, if the parameters contain one."""
    given, approval_id = params.get("inputResponses"), params.get("requestState")
    if type(given) is dict and type(approval_id) is str:
        await apply_verdict(approvals, caller, approval_id, given.get(_QUESTION))
