"""`anthropic`: `/v1/messages`, where JSON is had by a tool that the model must call."""

from __future__ import annotations

from typing import Any

import msgspec

from toolyard.links.lm.shapes import LMAnswer, LMRequest
from toolyard.links.lm.wire import counted, given, nothing_said, schema_of, text_of

_ANSWER = "answer"
_MAX_TOKENS = 4096
"""The interface has no default of its own."""


class AnthropicWire:
    """The schema is that of a tool's input; the answer is what the tool is called with."""

    path = "/v1/messages"
    key_header = ("x-api-key", "")
    headers = (("anthropic-version", "2023-06-01"),)

    def write(self, request: LMRequest) -> dict[str, Any]:
        """The body of a request."""
        system = "\n\n".join(message.content for message in request.messages if message.role == "system")
        schema = schema_of(request)
        forced: dict[str, Any] = {}
        if schema is not None:
            tool = {"name": _ANSWER, "description": "Gives the answer.", "input_schema": schema}
            forced = {"tools": [tool], "tool_choice": {"type": "tool", "name": _ANSWER}}
        return {
            "model": request.model,
            "max_tokens": request.max_tokens or _MAX_TOKENS,
            **given(system=system or None, temperature=request.temperature),
            "messages": [msgspec.structs.asdict(message) for message in request.messages if message.role != "system"],
            **forced,
            **request.extra,
        }

    def read(self, data: dict[str, Any]) -> LMAnswer:
        """What the tool was called with, as JSON text; without a call, what was said."""
        blocks = data.get("content")
        if not isinstance(blocks, list):
            raise nothing_said("with no content in it")
        blocks = [block for block in blocks if isinstance(block, dict)]
        called = [block.get("input") for block in blocks if block.get("type") == "tool_use"]
        said = "".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text")
        reason = text_of(data.get("stop_reason"))
        return LMAnswer(
            text=msgspec.json.encode(called[0]).decode() if called else said,
            usage=counted(data.get("usage"), "input_tokens", "output_tokens"),
            model=text_of(data.get("model")),
            finish_reason="length" if reason == "max_tokens" else reason,
        )
