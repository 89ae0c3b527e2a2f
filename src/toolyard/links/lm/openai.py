"""`openai`: `/chat/completions`, which vLLM, llama.cpp, LM Studio and many others speak too."""

from __future__ import annotations

from typing import Any

import msgspec

from toolyard.links.lm.shapes import LMAnswer, LMRequest
from toolyard.links.lm.wire import counted, given, nothing_said, text_of


class OpenAIWire:
    """Schemas go by `response_format`."""

    path = "/chat/completions"
    key_header = ("authorization", "Bearer ")
    headers: tuple[tuple[str, str], ...] = ()

    def write(self, request: LMRequest) -> dict[str, Any]:
        """The body of a request."""
        return {
            "model": request.model,
            "messages": [msgspec.structs.asdict(message) for message in request.messages],
            **given(
                response_format=request.response_format,
                temperature=request.temperature,
                max_tokens=request.max_tokens,
                seed=request.seed,
            ),
            **request.extra,
        }

    def read(self, data: dict[str, Any]) -> LMAnswer:
        """The first choice; a refusal is what the model said, too."""
        choices = data.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        message = first.get("message") if isinstance(first, dict) else None
        if not isinstance(first, dict) or not isinstance(message, dict):
            raise nothing_said("with no choice in it")
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(text_of(part.get("text")) for part in content if isinstance(part, dict))
        return LMAnswer(
            text=text_of(content) or text_of(message.get("refusal")),
            usage=counted(data.get("usage"), "prompt_tokens", "completion_tokens"),
            model=text_of(data.get("model")),
            finish_reason=text_of(first.get("finish_reason")),
        )
