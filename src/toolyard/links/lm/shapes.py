"""Requests and answers of language models, independent of the provider; rate limits and the usage ledger.

Limits and ledger cover all threads and event loops that share a client.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from toolyard.loop.pacing import TokenBucket
from toolyard.model.errors import Unavailable

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


_MINUTE = 60.0


class Limits:
    """Token buckets for requests and tokens, and a pause requested by the server. Thread safe."""

    def __init__(
        self,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._requests = self._make_bucket(requests_per_minute)
        self._tokens = self._make_bucket(tokens_per_minute)
        self._paused_until = 0.0

    def reserve(self, tokens: int, deadline: float | None) -> float:
        """Reserve one request and its tokens; return the seconds to wait before sending it.

        Raises `Unavailable` and reserves nothing if the wait would pass the deadline.
        """
        with self._lock:
            now = self._clock()
            waits = [self._paused_until - now, 0.0]
            pairs = [(self._requests, 1), (self._tokens, tokens)]
            waits += [bucket.seconds_until(amount, now) for bucket, amount in pairs if bucket is not None]
            wait = max(waits)
            if deadline is not None and now + wait > deadline:
                raise Unavailable(
                    f"the rate limit of the language model is used up; the next request is possible in {wait:.3g} s",
                    hint="try again later, or raise requests_per_minute and tokens_per_minute of lm_config",
                    retry_after=wait,
                )
            for bucket, amount in pairs:
                if bucket is not None:
                    bucket.take(amount, now)
            return wait

    def settle(self, reserved: int, used: int) -> None:
        """Replace the estimated number of tokens by the actual one."""
        if self._tokens is not None and used:
            with self._lock:
                self._tokens.take(used - reserved, self._clock())

    def give_back(self, tokens: int) -> None:
        """Undo `reserve` for a request that was not sent."""
        with self._lock:
            for bucket, amount in ((self._requests, 1), (self._tokens, tokens)):
                if bucket is not None:
                    bucket.take(-amount, self._clock())

    def pause(self, seconds: float) -> None:
        """Delay all requests by at least so many seconds, as requested by the server."""
        with self._lock:
            self._paused_until = max(self._paused_until, self._clock() + seconds)

    def _make_bucket(self, per_minute: int | None) -> TokenBucket | None:
        """A bucket that allows a minute's worth in one burst; None without a limit."""
        return None if per_minute is None else TokenBucket(per_minute / _MINUTE, per_minute, self._clock())


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
