"""`ollama`: `/api/chat`."""

from __future__ import annotations

from typing import Any

import msgspec

from toolyard.links.lm.shapes import LMAnswer, LMRequest
from toolyard.links.lm.wire import counted, given, nothing_said, text_of


class OllamaWire:
    """Schemas go by `format`, numbers by `options`."""

    path = "/api/chat"
    key_header = ("authorization", "Bearer ")
    headers: tuple[tuple[str, str], ...] = ()

    def write(self, request: LMRequest) -> dict[str, Any]:
        """The body of a request."""
        extra = dict(request.extra)
        own = extra.pop("options", {})
        options = {
            **given(temperature=request.temperature, num_predict=request.max_tokens, seed=request.seed),
            **(own if isinstance(own, dict) else {}),
        }
        return {
            "model": request.model,
            "messages": [msgspec.structs.asdict(message) for message in request.messages],
            "stream": False,
            **given(format=_format(request), options=options or None),
            **extra,
        }

    def read(self, data: dict[str, Any]) -> LMAnswer:
        """What the message says."""
        message = data.get("message")
        if not isinstance(message, dict):
            raise nothing_said("with no message in it")
        return LMAnswer(
            text=text_of(message.get("content")),
            usage=counted(data, "prompt_eval_count", "eval_count"),
            model=text_of(data.get("model")),
            finish_reason=text_of(data.get("done_reason")),
        )


def _format(request: LMRequest) -> Any:
    form = request.response_format
    if form is None:
        return None
    return form["json_schema"]["schema"] if form["type"] == "json_schema" else "json"
