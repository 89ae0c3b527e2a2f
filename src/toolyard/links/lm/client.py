"""`LMClient`: one interface to language models of any provider.

A request passes through: journal -> concurrency limit -> rate limits -> attempts with retries -> usage ledger.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from toolyard.links.lm.config import LMConfig, read_lm_config
from toolyard.links.lm.shapes import LMAnswer, LMRequest, Message, UsageLedger
from toolyard.loop.pacing import TokenBucket, backoff_delay
from toolyard.model.bases import Closing
from toolyard.model.errors import CallError, CallTimeout, Unavailable
from toolyard.sessions.gate import Gate

if TYPE_CHECKING:
    from toolyard.links.lm.providers import HttpBackend, LlamaBackend


_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_LONGEST_RETRY_AFTER = 60.0
"""The longest `Retry-After`, in seconds, that a request without a deadline waits for."""
_DEFAULT_ANSWER_TOKENS = 256
"""Tokens reserved for an answer when `max_tokens` is not set."""


class LMClient(Closing):
    """Asks the model of an `lm_config`; safe to share between tasks, threads and event loops.

    `sleep` and `clock` are replaceable for tests. Close the client to release its connections and the journal.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | LMConfig,
        *,
        where: str = "lm_config",
        sleep: Callable[[float], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config if isinstance(config, LMConfig) else read_lm_config(config, where)
        self.ledger = UsageLedger(self.config.prices)
        """Requests, tokens and cost by model."""
        self._sleep = sleep or _sleep
        self._clock = clock
        self._concurrency = Gate(self.config.max_concurrent)
        self._limits = RateLimits(self.config.requests_per_minute, self.config.tokens_per_minute, clock)
        self._backend = _make_backend(self.config)
        self._journal = None
        if self.config.journal is not None:
            from toolyard.links.lm.journal import LMJournal

            self._journal = LMJournal(self.config.journal, self.config.type)

    def request(self, messages: tuple[Message, ...], response_format: dict[str, Any] | None = None) -> LMRequest:
        """Create a request with the model and sampling settings of the config."""
        config = self.config
        return LMRequest(
            model=config.model,
            messages=messages,
            response_format=response_format,
            temperature=config.temperature,
            max_tokens=config.max_tokens,
            seed=config.seed,
            extra=config.extra,
        )

    async def complete(self, request: LMRequest, *, deadline: float | None = None) -> LMAnswer:
        """Return the model's answer; `CallError` if there is none by `deadline`, a `time.monotonic()` value."""
        answer = None if self._journal is None else await self._journal.find(request)
        if answer is not None:
            self.ledger.add(request.model, answer)
        else:
            try:
                answer = await self._ask_with_retries(request, deadline)
            except CallError as error:
                # Asking a model changes nothing, so whatever failed, there was no effect.
                error.info = msgspec.structs.replace(error.info, effect="none")
                raise
            # Count it before keeping it: it is paid for even if another process was first or the disk is full.
            self.ledger.add(request.model, answer)
            if self._journal is not None:
                answer = await self._journal.store(request, answer)
        return answer

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must never appear in logs or errors."""
        return self.config.secrets

    def close(self) -> None:
        """Close the connections and the journal."""
        self._backend.close()
        self._close_journal()

    async def aclose(self) -> None:
        """Async version of `close`."""
        await self._backend.aclose()
        self._close_journal()

    def __repr__(self) -> str:
        return f"<LMClient {self.config.type} {self.config.model}>"

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    async def _ask_with_retries(self, request: LMRequest, deadline: float | None) -> LMAnswer:
        if not await self._concurrency.aenter(deadline):
            raise Unavailable(
                "the language model was not asked before the deadline: as many requests as allowed are under way",
                hint="try again later, or raise max_concurrent of lm_config",
            )
        try:
            attempt = 1
            while True:
                # Outside the `try`: running out of time here must not pause the other requests.
                tokens = await self._await_rates(request, deadline)
                try:
                    limit = self._clock() + self.config.timeout
                    answer = await self._backend.complete(request, limit if deadline is None else min(limit, deadline))
                    self._limits.settle(tokens, answer.usage.prompt + answer.usage.completion)
                    return answer
                except CallError as error:
                    pause = self._pause_before_retry(request, error, attempt, deadline)
                    if pause is None:
                        raise
                await self._sleep(pause)
                attempt += 1
        finally:
            self._concurrency.leave()

    async def _await_rates(self, request: LMRequest, deadline: float | None) -> int:
        """Wait for the rate limits; return the number of tokens reserved."""
        tokens = 0
        if self.config.tokens_per_minute is not None:
            tokens = request.likely_tokens + (request.max_tokens or _DEFAULT_ANSWER_TOKENS)
        wait = self._limits.reserve(tokens, deadline)
        if wait > 0:
            try:
                await self._sleep(wait)
            except BaseException:
                self._limits.cancel(tokens)
                raise
        return tokens

    def _pause_before_retry(
        self, request: LMRequest, error: CallError, attempt: int, deadline: float | None
    ) -> float | None:
        """Seconds until the next attempt; None if the request should not be retried."""
        if not error.info.retryable or isinstance(error, CallTimeout) or attempt > self.config.retries:
            return None
        most = _LONGEST_RETRY_AFTER if deadline is None else deadline - self._clock()
        pause = error.info.retry_after
        if pause is None:
            # Jitter derived from the request: requests that failed together retry at different times.
            at = 8 * ((attempt - 1) % 8)
            chance = int(request.key[at : at + 8], 16) / 2**32
            pause = backoff_delay(attempt, _FIRST_PAUSE, _LONGEST_PAUSE, chance=chance)
        else:
            # Cap the shared pause: one server's `Retry-After` of a day must not block requests without a deadline.
            self._limits.pause(pause if pause < most else min(pause, _LONGEST_RETRY_AFTER))
        return pause if pause < most else None


async def _sleep(seconds: float) -> None:
    import asyncio  # not needed by processes that never ask a model

    await asyncio.sleep(seconds)


def _make_backend(config: LMConfig) -> HttpBackend | LlamaBackend:
    from toolyard.links.lm.providers import HttpBackend, LlamaBackend

    return LlamaBackend(config) if config.type == "llama" else HttpBackend(config)


_MINUTE = 60.0


class RateLimits:
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

    def cancel(self, tokens: int) -> None:
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
