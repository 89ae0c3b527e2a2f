"""OpenAI Agents: a yard as function tools.

    agent = Agent(name="clerk", tools=make_function_tools(yard.tool_engine))

The session is the trace's group (`RunConfig(group_id=...)`), or else its trace, which a resumed run keeps; without
tracing, one for each call of `make_function_tools`. A held call interrupts the run, and `RunState.approve` decides it.
"""

from __future__ import annotations

from typing import Any, Unpack

from toolyard.adapters.bridge import BridgeOptions, Decision, Engine, OfferedTool, ToolBridge, approval_of, failure_text
from toolyard.dialects.payload import result_text
from toolyard.model.call import Block, ToolCall, ToolResult, blocks_of
from toolyard.plugins import missing_extra

try:
    from agents import FunctionTool, RunContextWrapper, ToolOutputImage, ToolOutputText
    from agents.tool_context import ToolContext
    from agents.tracing import get_current_trace
except ImportError as error:
    raise missing_extra("openai-agents", __name__, "agents") from error


def make_function_tools(engine: Engine, **options: Unpack[BridgeOptions]) -> list[FunctionTool]:
    """The engine's current tools; options are those of `ToolBridge`."""
    bridge = ToolBridge(engine, **options)
    return [_make_tool(bridge, offered) for offered in bridge.offered_tools()]


def _make_tool(bridge: ToolBridge, offered: OfferedTool) -> FunctionTool:
    async def invoke(ctx: ToolContext[Any], arguments: str) -> Any:
        def decide(_call: ToolCall, _approval: str) -> Decision | None:
            return (True, None) if ctx.is_tool_approved(offered.name, ctx.tool_call_id) is True else None

        return _read_result(await bridge.answer(_run_name(), offered.name, arguments, ctx.tool_call_id, decide))

    async def needs_approval(_ctx: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        # A call that is not held runs here already; `invoke` then gets its result from the session.
        result = await bridge.answer(_run_name(), offered.name, arguments, call_id, lambda _call, _approval: None)
        return approval_of(result) is not None

    return FunctionTool(
        name=offered.name,
        description=offered.description,
        params_json_schema=offered.parameters,
        on_invoke_tool=invoke,
        strict_json_schema=False,
        needs_approval=needs_approval if bridge.may_ask(offered.tool) else False,
    )


def _run_name() -> str | None:
    trace = get_current_trace()
    if trace is None or trace.trace_id == "no-op":
        return None
    return str(getattr(trace, "group_id", None) or trace.trace_id)


def _read_result(result: ToolResult) -> Any:
    blocks = None if result.is_error else blocks_of(result)
    if blocks is None:
        return failure_text(result) or result_text(result)
    return [_read_block(block) for block in blocks]


def _read_block(block: Block) -> ToolOutputText | ToolOutputImage:
    if block.get("type") == "image":
        return ToolOutputImage(image_url=f"data:{block['mimeType']};base64,{block['data']}")
    return ToolOutputText(text=block["text"] if block.get("type") == "text" else str(block))
