"""A model endpoint on loopback with both OpenAI APIs, which makes predefined calls."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from toolyard import ToolCall
from toolyard.dialects import AnthropicDialect

from .yard import TOOLS

Json = dict[str, Any]


class ModelServer:
    """Makes one call per turn, then replies `done`. Received requests are in `requests`."""

    def __init__(self, *calls: ToolCall) -> None:
        # Names and arguments as the adapters encode them.
        self._calls = [AnthropicDialect(TOOLS).format_calls([call])[0]["content"][0] for call in calls]
        self.requests: list[Json] = []

    def __enter__(self) -> Self:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(body)
                answer = json.dumps(outer._complete(body) if "messages" in body else outer._respond(body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def _complete(self, body: Json) -> Json:
        """Chat completions."""
        made = sum(len(message.get("tool_calls") or ()) for message in body["messages"])
        message: Json = {"role": "assistant", "content": "done"}
        for call in self._calls[made : made + 1]:
            function = {"name": call["name"], "arguments": json.dumps(call["input"])}
            message |= {"content": None, "tool_calls": [{"id": call["id"], "type": "function", "function": function}]}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        choices = [{"index": 0, "message": message, "finish_reason": reason}]
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        kind = {"id": "c", "object": "chat.completion", "created": 0, "model": "fake"}
        return {**kind, "choices": choices, "usage": usage}

    def _respond(self, body: Json) -> Json:
        """Responses."""
        made = sum(item.get("type") == "function_call" for item in body["input"])
        # A client that sends the id of the previous response only sends new items.
        made += int((body.get("previous_response_id") or "r0").removeprefix("r"))
        text = {"type": "output_text", "text": "done", "annotations": []}
        item: Json = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
        for call in self._calls[made : made + 1]:
            named = {"name": call["name"], "arguments": json.dumps(call["input"]), "status": "completed"}
            item = {"type": "function_call", "id": f"fc_{made}", "call_id": call["id"], **named}
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, **details}
        so_far = min(made + 1, len(self._calls))
        kind = {"id": f"r{so_far}", "object": "response", "created_at": 0, "model": "fake", "status": "completed"}
        options = {"parallel_tool_calls": False, "tool_choice": "auto", "tools": []}
        return {**kind, **options, "output": [item], "usage": usage}

    def read(self, call_id: str | None) -> str | None:
        """The tool message of a call as text; None if there was none."""
        last = self.requests[-1]
        for told in last.get("messages") or last["input"]:
            if call_id == told.get("tool_call_id") or (
                call_id == told.get("call_id") and told["type"] == "function_call_output"
            ):
                content = told["content"] if "content" in told else told["output"]
                return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
        return None

    @property
    def offered(self) -> list[Json]:
        """The functions offered to the model."""
        return [entry.get("function", entry) for entry in self.requests[0]["tools"]]

    @property
    def last_request(self) -> str:
        """The last request received."""
        return json.dumps(self.requests[-1], ensure_ascii=False)
