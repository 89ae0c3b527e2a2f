"""`ToolBridge`: the common part of all adapters, which only translate it to their framework.

Names and schemas are valid for every provider. Calls take the regular call path, in the session of the run; a repeated
`call_id` returns the earlier result; errors tell the model what to do about them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, NamedTuple, TypedDict
from uuid import uuid4

from toolyard.calls.batch import CallRequest, Listener
from toolyard.calls.policy import Policy
from toolyard.client.engine import RemoteToolEngine
from toolyard.dialects.anthropic import AnthropicDialect
from toolyard.dialects.payload import error_of, error_value
from toolyard.engines.base import ToolEngine
from toolyard.model import ErrorInfo, Schema, Tool, ToolCall, ToolResult, errors
from toolyard.registry.snapshot import Snapshot

Engine = ToolEngine | RemoteToolEngine

Decision = tuple[bool, str | None]
"""Whether a person approved a held call, and the reason."""
Decide = Callable[[ToolCall, str], Decision | None]
"""Takes a held call and its approval id. Returns the decision, None if nobody was asked, or raises to pause the run."""

CORRECTABLE = frozenset({errors.InvalidArguments.code, errors.UnknownToolError.code})
"""Codes of errors that the model can correct with another call; all others are terminal."""


class OfferedTool(NamedTuple):
    """A tool in a form that every provider accepts."""

    name: str
    description: str
    parameters: Schema
    tool: Tool

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata for programs, not for the model."""
        return {"toolyard": self.tool.qualified_name, "effects": self.tool.effects.value}


class BridgeOptions(TypedDict, total=False):
    """Options of every adapter besides its engine; see `ToolBridge`."""

    namespaces: Collection[str] | None
    session_id: str | None
    notify: Listener | None


class ToolBridge:
    """The tools of an engine for one framework, without those that its policy always denies.

    `namespaces` restricts them further. Calls are recorded in the session `session_id`; else in one for each run that
    the framework identifies, or in one of the bridge. Sessions begin with their first call and stay until `teardown` or
    their ttl. `notify` receives the notices of tools.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        namespaces: Collection[str] | None = None,
        session_id: str | None = None,
        notify: Listener | None = None,
    ) -> None:
        self.engine, self._namespaces, self._notify = engine, namespaces, notify
        self._given_session, self._own_session = session_id, f"run-{uuid4().hex}"
        self._dialect: tuple[Snapshot, AnthropicDialect] | None = None

    @property
    def dialect(self) -> AnthropicDialect:
        """Names of the current tools, by Anthropic's rules, which are the strictest."""
        snapshot, made, wanted = self.engine.tool_registry.snapshot, self._dialect, self._namespaces
        if made is None or made[0] is not snapshot:
            tools = [tool for tool in snapshot.tools if wanted is None or tool.namespace in wanted]
            made = self._dialect = snapshot, AnthropicDialect(tools)
        return made[1]

    def offered_tools(self) -> list[OfferedTool]:
        """The current tools that may be called, one for each overload."""
        policy, every = self._policy, self.dialect.names.tools
        tools = every if policy is None else policy.list_offered(every)
        entries = zip(self.dialect.format_tools(tools), tools, strict=True)
        return [
            OfferedTool(entry["name"], entry["description"], entry["input_schema"], tool) for entry, tool in entries
        ]

    async def answer(
        self, run: object, name: str, arguments: object, call_id: str | None, decide: Decide
    ) -> ToolResult:
        """Answer a model's call by an offered name; `run` is None if the framework does not identify runs."""
        [call] = self.dialect.parse_calls([{"type": "tool_use", "name": name, "input": arguments, "id": call_id}])
        session_id = self._given_session or (self._own_session if run is None else str(run))
        result = await self._send(call, session_id)
        approval = approval_of(result)
        decision = None if approval is None else decide(call, approval)
        if approval is None or decision is None:
            return result
        approvals = self.engine.approvals
        with suppress(errors.ApprovalError):  # decided elsewhere meanwhile, or not for the caller to decide
            await (approvals.aapprove if decision[0] else approvals.adeny)(approval, reason=decision[1])
        return await self._send(call, session_id)

    def may_ask(self, tool: Tool) -> bool:
        """True if calls of the tool may be held; False if the policy is a server's, which is unknown here."""
        policy = self._policy
        return policy is not None and policy.approver is None and policy.may_ask(tool, ())

    @property
    def _policy(self) -> Policy | None:
        return None if isinstance(self.engine, RemoteToolEngine) else self.engine.policy

    async def _send(self, call: ToolCall, session_id: str) -> ToolResult:
        try:
            return await self._send_once(call, session_id)
        except errors.UnknownSessionError:
            with suppress(errors.SessionExistsError):  # created by a concurrent call of the same run
                await self.engine.asetup(session_id)
        return await self._send_once(call, session_id)

    async def _send_once(self, call: ToolCall, session_id: str) -> ToolResult:
        if isinstance(self.engine, RemoteToolEngine):
            return (await self.engine.aexecute(session_id, [call]))[0]
        request = CallRequest(calls=[call], session_id=session_id, replay=True, notify=self._notify)
        return (await self.engine.arun(request))[0]


def approval_of(result: ToolResult) -> str | None:
    """The id of the approval that a held call waits for; None if the call is not held."""
    return None if result.error_info is None else result.error_info.approval_id


def failure_text(result: ToolResult) -> str | None:
    """The text of an error for a model: code, message, effect, hint, and advice; None if there is no error."""
    info = error_of(result)
    return None if info is None else json.dumps({**error_value(info), "advice": _advise(info)}, ensure_ascii=False)


def _advise(info: ErrorInfo) -> str:
    if info.code in CORRECTABLE:
        return "Correct the call and send it again."
    if info.code == errors.Held.code:
        return "The call waits for a person's approval, and has not run."
    if info.effect != "none":
        known = "It took effect" if info.effect == "done" else "It is unknown whether the call took effect"
        return f"{known}: find out what has changed before anything is repeated."
    return "Nothing has changed; it may work later." if info.retryable else "Do not repeat this call."
