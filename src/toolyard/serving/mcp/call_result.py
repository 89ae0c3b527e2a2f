"""What came of a call as MCP tells it."""

from __future__ import annotations

from typing import Any

from toolyard.dialects.mcp import CALL_ID
from toolyard.dialects.payload import error_of, error_value, result_text as text_of, value_text
from toolyard.model.call import CONTENT, ToolResult, blocks_of
from toolyard.serving.mcp.json_rpc import Json, encode
from toolyard.serving.mcp.listing import McpTool

_MAYBE_JSON = frozenset('{["-0123456789tfn \t\r\n')
"""What a JSON text can begin with."""


def make_call_result(result: ToolResult, tool: McpTool | None = None) -> Json:
    """The `CallToolResult` of a call. Blocks travel as they are; a value that is no object is `{"result": value}`."""
    out: Json
    info = None if result.error is None and result.error_info is None else error_of(result)
    if info is not None:
        text = text_of(result, marked=True)
        out = {"content": [{"type": "text", "text": text}], "structuredContent": error_value(info), "isError": True}
    else:
        value = result.result
        blocks = blocks_of(result) if result.metadata else None
        bare = type(value) is dict and (tool is None or not tool.wraps)
        structured = value if bare else {"result": value}
        if blocks is None:
            out = {"content": [{"type": "text", "text": _value_as_text(value)}], "structuredContent": structured}
        elif value is blocks and (tool is None or not tool.has_schema):
            out = {"content": blocks}
        else:
            out = {"content": blocks, "structuredContent": structured}
        out["isError"] = False
    if result.call_id is not None or result.metadata:
        meta = {f"toolyard/{key}": value for key, value in result.metadata.items() if key != CONTENT}
        if result.call_id is not None:
            meta[CALL_ID] = result.call_id
        if meta:
            out["_meta"] = meta
    return out


def _value_as_text(value: Any) -> str:
    if type(value) is str and value[:1] not in _MAYBE_JSON and value.isascii():
        return value
    if type(value) is str:
        return value_text(value)
    return encode(value).decode()
