"""Pydantic AI: a yard as a toolset.

    agent = Agent("openai:gpt-5", toolsets=[YardToolset(yard.tool_engine)], output_type=[str, DeferredToolRequests])

The session is the conversation: a run, and the runs that continue its messages. A held call ends the run in
`DeferredToolRequests`, with the id of its approval in `metadata`; a run with `DeferredToolResults` decides it.
"""

from __future__ import annotations

import base64
from typing import Any, Unpack

from toolyard.adapters.bridge import CORRECTABLE, BridgeOptions, Decision, Engine, ToolBridge, failure_text
from toolyard.model.call import Block, ToolCall, ToolResult, blocks_of
from toolyard.plugins import missing_extra

try:
    from pydantic_ai import ApprovalRequired, BinaryContent, ModelRetry, RunContext, ToolFailed, ToolReturn
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
    from pydantic_core import SchemaValidator, core_schema
except ImportError as error:
    raise missing_extra("pydantic-ai", __name__, "pydantic_ai") from error

# Arguments are validated and coerced on the call path.
_ANYTHING = SchemaValidator(core_schema.any_schema())


class YardToolset(AbstractToolset[Any]):
    """The tools of an engine; options are those of `ToolBridge`.

    After an invalid call, the model may correct it up to `max_retries` times; None uses the agent's setting.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        max_retries: int | None = None,
        id: str = "toolyard",  # noqa: A002 (as the framework spells it)
        **options: Unpack[BridgeOptions],
    ) -> None:
        self._bridge = ToolBridge(engine, **options)
        self._max_retries = max_retries
        self._id = id

    @property
    def id(self) -> str:
        """Identifies the toolset among those of the agent."""
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The current tools."""
        retries = ctx.max_retries if self._max_retries is None else self._max_retries
        return {
            offered.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=offered.name,
                    description=offered.description,
                    parameters_json_schema=offered.parameters,
                    return_schema=offered.tool.output_parameters or None,
                    metadata=offered.metadata,
                ),
                max_retries=retries,
                args_validator=_ANYTHING,
            )
            for offered in self._bridge.offered_tools()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> ToolReturn[Any]:
        """The result, with the whole `ToolResult` as metadata; errors are raised as the framework's exceptions."""

        def decide(call: ToolCall, approval: str) -> Decision:
            if not ctx.tool_call_approved:
                raise ApprovalRequired(metadata={"approval": approval, "call": call.to_dict()})
            return True, None

        run = ctx.conversation_id or ctx.run_id
        result = await self._bridge.answer(run, name, tool_args, ctx.tool_call_id, decide)
        failure = failure_text(result)
        if failure is None:
            return ToolReturn(_read_value(result), metadata={"toolyard": result.to_dict()})
        raise (
            ModelRetry(failure) if result.error_info and result.error_info.code in CORRECTABLE else ToolFailed(failure)
        )


def _read_value(result: ToolResult) -> Any:
    blocks = blocks_of(result)
    return result.result if blocks is None else [_read_block(block) for block in blocks]


def _read_block(block: Block) -> Any:
    if block.get("type") == "text":
        return block["text"]
    if block.get("type") in ("image", "audio"):
        return BinaryContent(base64.b64decode(block["data"]), media_type=block["mimeType"])
    return block
