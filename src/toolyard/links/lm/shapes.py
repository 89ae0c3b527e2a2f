"""Requests and answers of language models, independent of the provider, and the ledger of what they cost.

`find_json` finds JSON in an answer: alone, in a fenced block or among prose, after any `<think>` section.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal

import msgspec

from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_json

Role = Literal["system", "user", "assistant"]

_encode = msgspec.json.Encoder(order="deterministic").encode
_BYTES_A_TOKEN = 4
_TOKENS_A_MESSAGE = 4


class Message(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: Role
    content: str


class LMRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation to continue.

    `response_format` is `{"type": "json_object"}` or `{"type": "json_schema", "json_schema": {"name", "schema"}}`; None
    asks for text. Settings that are None are left to the server. `extra` is merged into the request body.
    """

    model: str
    messages: tuple[Message, ...]
    response_format: dict[str, Any] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    extra: dict[str, Any] = {}

    @property
    def key(self) -> str:
        """A hash of the whole request: equal for equal requests, in every process."""
        return hashlib.sha256(_encode(self)).hexdigest()

    @property
    def likely_tokens(self) -> int:
        """Estimated tokens of the messages; only the server knows the exact number."""
        return sum(likely_tokens(message.content) for message in self.messages)


class Usage(msgspec.Struct, frozen=True):
    """Tokens as counted by the server."""

    prompt: int = 0
    completion: int = 0


class LMAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answer."""

    text: str
    usage: Usage = Usage()
    model: str = ""
    """The model's name as reported by the server."""
    finish_reason: str = ""
    """`length` if the answer was cut off; else the server's own value."""
    cached: bool = False
    """True if the answer comes from the journal and no request was sent."""


def likely_tokens(text: str) -> int:
    """Estimated tokens of a message with this text."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return size // _BYTES_A_TOKEN + _TOKENS_A_MESSAGE


_MILLION = 1_000_000


class Spent(msgspec.Struct, frozen=True):
    """The usage of one model."""

    requests: int = 0
    """Requests answered by the server."""
    cached: int = 0
    """Requests answered by the journal, at no cost."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    money: float = 0.0
    """In the currency of the configured prices."""


class UsageLedger:
    """Counts answers and their cost. Thread safe."""

    def __init__(self, prices: tuple[float, float] = (0.0, 0.0)) -> None:
        self._prices = prices
        self._lock = threading.Lock()
        self._spent: dict[str, Spent] = {}

    def add(self, model: str, answer: LMAnswer) -> None:
        """Count one answer under the requested model name."""
        with self._lock:
            old = self._spent.get(model, Spent())
            if answer.cached:
                self._spent[model] = msgspec.structs.replace(old, cached=old.cached + 1)
                return
            prompt, completion = answer.usage.prompt, answer.usage.completion
            self._spent[model] = Spent(
                old.requests + 1,
                old.cached,
                old.prompt_tokens + prompt,
                old.completion_tokens + completion,
                old.money + (prompt * self._prices[0] + completion * self._prices[1]) / _MILLION,
            )

    @property
    def spent(self) -> dict[str, Spent]:
        """Usage by model, sorted by name."""
        with self._lock:
            return dict(sorted(self._spent.items()))


_FENCED = re.compile(r"```[a-zA-Z]*[ \t\r]*\n(.*?)```", re.DOTALL)
_THOUGHT = "</think>"
_BEGINS = re.compile(r"[{\[]")
_PLACES = 16
"""Positions at which a JSON value is tried."""


def strip_thought(text: str) -> str:
    """The text after the last `</think>`."""
    return text.rpartition(_THOUGHT)[2].strip()


def find_json(text: str, kind: type = object) -> Any:
    """Return the first JSON value of that kind; `MalformedSource` for the whole text if there is none.

    The whole text is returned if it is JSON, whatever its kind.
    """
    said = strip_thought(text)
    try:
        return parse_json(said, what="answer")
    except MalformedSource as error:
        refusal = error
    for candidate in _list_candidates(said):
        with suppress(MalformedSource):
            value = parse_json(candidate, what="answer")
            if isinstance(value, kind):
                return value
    raise refusal


def _list_candidates(said: str) -> Iterator[str]:
    yield from (match[1] for match in _FENCED.finditer(said))
    decoder = json.JSONDecoder()
    for _, match in zip(range(_PLACES), _BEGINS.finditer(said), strict=False):
        with suppress(ValueError, RecursionError):
            yield said[match.start() : decoder.raw_decode(said, match.start())[1]]
