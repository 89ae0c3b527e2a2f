"""Microsoft Agent Framework: a yard as function tools.

    agent = Agent(client, tools=make_function_tools(yard.tool_engine))

The session is the `AgentSession`, or else one for each call of `make_function_tools`. Tools whose calls the policy may
hold have the approval mode `always_require`: the run ends in an approval request, whose answer decides the approval.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from toolyard.adapters.bridge import BridgeOptions, Decision, Engine, OfferedTool, ToolBridge, failure_text
from toolyard.dialects.payload import result_text
from toolyard.model.call import Block, ToolCall, ToolResult, blocks_of
from toolyard.plugins import missing_extra

try:
    from agent_framework import Content, FunctionInvocationContext, FunctionTool
    from pydantic import BaseModel
except ImportError as error:
    raise missing_extra("agent-framework", __name__, "agent_framework") from error


def make_function_tools(engine: Engine, **options: Unpack[BridgeOptions]) -> list[FunctionTool]:
    """The engine's current tools; options are those of `ToolBridge`."""
    bridge = ToolBridge(engine, **options)
    return [YardFunctionTool(bridge, offered) for offered in bridge.offered_tools()]


class YardFunctionTool(FunctionTool):
    """A tool of a yard. Its arguments are passed to the call path unchanged."""

    def __init__(self, bridge: ToolBridge, offered: OfferedTool) -> None:
        async def call(ctx: FunctionInvocationContext | None = None, **arguments: Any) -> Any:
            return await self.invoke(arguments=arguments, context=ctx)

        self._bridge = bridge
        super().__init__(
            name=offered.name,
            description=offered.description,
            input_model=offered.parameters,
            func=call,
            approval_mode="always_require" if bridge.may_ask(offered.tool) else "never_require",
            additional_properties=offered.metadata,
        )

    async def invoke(
        self,
        *,
        arguments: BaseModel | Mapping[str, Any] | None = None,
        context: FunctionInvocationContext | None = None,
        tool_call_id: str | None = None,
        skip_parsing: bool = False,
        **kwargs: Any,
    ) -> Any:
        """The text for the model; with `skip_parsing`, the whole result as plain data."""
        given = context.arguments if arguments is None and context is not None else arguments
        plain = given.model_dump() if isinstance(given, BaseModel) else {**(given or {}), **kwargs}
        # The framework passes an id, and calls such a tool only after approval; direct calls by programs have no id.
        is_approved = self.approval_mode == "always_require" and tool_call_id is not None

        def decide(_call: ToolCall, _approval: str) -> Decision | None:
            return (True, None) if is_approved else None

        run = context.session.session_id if context is not None and context.session is not None else None
        result = await self._bridge.answer(run, self.name, plain, tool_call_id, decide)
        return result.to_dict() if skip_parsing else _read_result(result)


def _read_result(result: ToolResult) -> list[Content]:
    blocks = None if result.is_error else blocks_of(result)
    if blocks is not None:
        return [_read_block(block) for block in blocks]
    return [Content.from_text(failure_text(result) or result_text(result))]


def _read_block(block: Block) -> Content:
    if block.get("type") in ("image", "audio"):
        return Content.from_uri(f"data:{block['mimeType']};base64,{block['data']}", media_type=block["mimeType"])
    return Content.from_text(block["text"] if block.get("type") == "text" else str(block))
