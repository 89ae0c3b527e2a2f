"""LangChain and LangGraph: a yard as a toolkit.

    agent = create_agent(model, YardToolkit(yard.tool_engine).get_tools(), checkpointer=InMemorySaver())

The session is the thread (`configurable.thread_id`), or else one for each toolkit. In a graph, a held call is an
`interrupt` in the format of LangChain's `HumanInTheLoopMiddleware`, with the id of its approval; `Command(resume=...)`
decides it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from toolyard.adapters.bridge import BridgeOptions, Decision, Engine, ToolBridge, failure_text
from toolyard.dialects.payload import result_text
from toolyard.loop.home import home_loop
from toolyard.model.call import Block, ToolCall, blocks_of
from toolyard.plugins import missing_extra

try:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool, BaseToolkit, StructuredTool, ToolException
except ImportError as error:
    raise missing_extra("langchain", __name__, "langchain_core") from error

Answer = tuple[str | list[Block], dict[str, Any]]
"""What the model reads, and the whole result as the message's artifact; failures have none."""

_IN_GRAPH = "__pregel_scratchpad"


class YardTool(StructuredTool):
    """A tool of a yard. Its arguments are passed to the call path unchanged, whatever their names."""

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (tool_input, tool_call_id), {}


class YardToolkit(BaseToolkit):
    """The tools of an engine; options are those of `ToolBridge`."""

    def __init__(self, engine: Engine, **options: Unpack[BridgeOptions]) -> None:
        super().__init__()
        self._bridge = ToolBridge(engine, **options)

    def get_tools(self) -> list[BaseTool]:
        """The current tools."""
        return [
            _make_tool(
                self._bridge,
                name=offered.name,
                description=offered.description,
                args_schema=offered.parameters,
                metadata=offered.metadata,
            )
            for offered in self._bridge.offered_tools()
        ]


def _make_tool(bridge: ToolBridge, *, name: str, **words: Any) -> YardTool:
    async def acall(arguments: Any, call_id: str | None, config: RunnableConfig) -> Answer:
        placed = config.get("configurable", {})

        def decide(call: ToolCall, approval: str) -> Decision | None:
            return _pause_graph(call, approval) if _IN_GRAPH in placed else None

        result = await bridge.answer(placed.get("thread_id"), name, arguments, call_id, decide)
        failure = failure_text(result)
        if failure is not None:
            raise ToolException(failure)
        blocks = blocks_of(result)
        content = result_text(result) if blocks is None else [_read_block(block) for block in blocks]
        return content, result.to_dict()

    def call(arguments: Any, call_id: str | None, config: RunnableConfig) -> Answer:
        return home_loop.run(acall(arguments, call_id, config), twin="ainvoke")

    return YardTool(
        name=name,
        func=call,
        coroutine=acall,
        response_format="content_and_artifact",
        handle_tool_error=True,
        **words,
    )


def _pause_graph(call: ToolCall, approval: str) -> Decision:
    """Interrupt the graph; when it is resumed, return the decision."""
    from langgraph.types import interrupt

    request = {"name": call.name, "args": call.arguments, "description": f"It waits for approval {approval}."}
    review = {"action_name": call.name, "allowed_decisions": ["approve", "reject"]}
    answer = interrupt({"approval": approval, "action_requests": [request], "review_configs": [review]})
    decision = answer["decisions"][0] if isinstance(answer, Mapping) and answer.get("decisions") else answer
    if isinstance(decision, Mapping):
        return decision.get("type") == "approve", decision.get("message")
    return decision is True, None


def _read_block(block: Block) -> Block:
    if block.get("type") in ("image", "audio"):
        return {"type": block["type"], "base64": block["data"], "mime_type": block["mimeType"]}
    return block if block.get("type") == "text" else {"type": "text", "text": str(block)}
