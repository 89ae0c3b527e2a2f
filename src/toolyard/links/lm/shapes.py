"""What is asked of a language model and what it answers, whoever runs it; how fast it may be asked, and what it cost.

Limits and costs are those of all threads and loops of a process.
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
    """One turn of a conversation."""

    role: Role
    content: str


class LMRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation to continue.

    `response_format` is `{"type": "json_object"}` or `{"type": "json_schema", "json_schema": {"name", "schema"}}`;
    None asks for text. What is None is left to the model's server. `extra` goes into the body as it is.
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
        """A hash of all of it: equal for equal requests, in every process."""
        return hashlib.sha256(_encode(self)).hexdigest()

    @property
    def likely_tokens(self) -> int:
        """About as many tokens as the messages are; only the model's own server knows exactly."""
        return sum(likely_tokens(message.content) for message in self.messages)


class Usage(msgspec.Struct, frozen=True):
    """Tokens, as the server counted them."""

    prompt: int = 0
    completion: int = 0


class LMAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model said."""

    text: str
    usage: Usage = Usage()
    model: str = ""
    """As the server calls it."""
    finish_reason: str = ""
    """`length` if it was cut off; else in the server's words."""
    cached: bool = False
    """True if it comes out of the journal and nobody was asked."""


def likely_tokens(text: str) -> int:
    """About as many tokens as a message of this text is."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return size // _BYTES_A_TOKEN + _TOKENS_A_MESSAGE


_MINUTE = 60.0


class Limits:
    """Both buckets, and a pause that a server asked for."""

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
        """Take one request of so many tokens and say how many seconds to wait before it is made.

        `Unavailable`, and nothing is taken, if that would be past the deadline.
        """
        with self._lock:
            now = self._clock()
            waits = [self._paused_until - now, 0.0]
            pairs = [(self._requests, 1), (self._tokens, tokens)]
            waits += [bucket.seconds_until(amount, now) for bucket, amount in pairs if bucket is not None]
            wait = max(waits)
            if deadline is not None and now + wait > deadline:
                raise Unavailable(
                    f"as many requests and tokens as allowed went to the language model; room comes in {wait:.3g} s",
                    hint="try again later, or raise requests_per_minute and tokens_per_minute of lm_config",
                    retry_after=wait,
                )
            for bucket, amount in pairs:
                if bucket is not None:
                    bucket.take(amount, now)
            return wait

    def settle(self, reserved: int, used: int) -> None:
        """Put right what was reserved by an estimate."""
        if self._tokens is not None and used:
            with self._lock:
                self._tokens.take(used - reserved, self._clock())

    def give_back(self, tokens: int) -> None:
        """Put back what was reserved for a request that was not made after all."""
        with self._lock:
            for bucket, amount in ((self._requests, 1), (self._tokens, tokens)):
                if bucket is not None:
                    bucket.take(-amount, self._clock())

    def pause(self, seconds: float) -> None:
        """Let nobody ask for so long: the server said so."""
        with self._lock:
            self._paused_until = max(self._paused_until, self._clock() + seconds)

    def _make_bucket(self, per_minute: int | None) -> TokenBucket | None:
        """A minute's worth may go at once."""
        return None if per_minute is None else TokenBucket(per_minute / _MINUTE, per_minute, self._clock())


_MILLION = 1_000_000


class Spent(msgspec.Struct, frozen=True):
    """Of one model."""

    requests: int = 0
    """Answered by its server."""
    cached: int = 0
    """Answered by the journal, which costs nothing."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    money: float = 0.0
    """In whatever the prices are in."""


class UsageLedger:
    """Counts answers; may be read at any time, from any thread."""

    def __init__(self, prices: tuple[float, float] = (0.0, 0.0)) -> None:
        self._prices = prices
        self._lock = threading.Lock()
        self._spent: dict[str, Spent] = {}

    def add(self, model: str, answer: LMAnswer) -> None:
        """Count one answer, under the name by which the model was asked for."""
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
        """By model, sorted by name."""
        with self._lock:
            return dict(sorted(self._spent.items()))
