"""`ServerWire`: the client of a toolyard server's HTTP API. It runs on event loops; threads use the home loop."""

from __future__ import annotations

import asyncio
import copy
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Self, TypedDict, TypeVar
from urllib.parse import quote

import msgspec

from toolyard.calls.call_path import Settings
from toolyard.constants import VERSION
from toolyard.links.http.client import MAX_ANSWER, HttpLink
from toolyard.links.http.messages import Incoming, retry_after
from toolyard.loop.pacing import backoff_delay
from toolyard.model.bases import Closing
from toolyard.model.call import ToolResult
from toolyard.model.errors import (
    CallError,
    CallTimeout,
    ConfigError,
    DefinitionError,
    Effect,
    ErrorInfo,
    MalformedSource,
    SessionError,
    ToolyardError,
    Unavailable,
    error_class,
)
from toolyard.schema.options import read_arguments

T = TypeVar("T")

MAX_VALUES = 5_000_000
"""Maximum number of JSON values in a response, since parsing many small ones takes longer than sending them."""
MAX_LIST_BYTES, LONGEST_LIST = 1024 * 1024 * 1024, 600.0
"""Bytes and seconds for all pages of one list."""
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_GATEWAYS = frozenset({502, 503, 504})
_SHOWN = 500
_LONGEST_MESSAGE = 10_000


class Envelope(msgspec.Struct, frozen=True):
    """The error in a response of a toolyard server."""

    code: str
    message: str
    retryable: bool = False
    details: dict[str, Any] = {}

    @property
    def hint(self) -> str | None:
        """What to do about the error, if the server said so."""
        hint = self.details.get("hint")
        return hint if isinstance(hint, str) else None


def make_refusal_error(answer: Incoming, url: str, effect: Effect) -> ToolyardError:
    """The exception for an unsuccessful response; `effect` is the effect that the request may have had."""
    envelope = read_envelope(answer)
    if envelope is None:
        return _make_foreign_error(answer, url, effect)
    text = f"{envelope.message[:_SHOWN]}{f' ({envelope.hint[:_SHOWN]})' if envelope.hint else ''}"
    kind = error_class(envelope.code)
    if answer.status in (401, 403) and kind is None:
        remedy = "pass api_key=..." if envelope.code == "auth.missing" else "check the key and its scopes"
        return ConfigError(f"{url} refuses the request: {text} [{envelope.code}]; {remedy}")
    if kind is not None and issubclass(kind, CallError):
        details = {key: value for key, value in envelope.details.items() if key not in ("hint", "effect")}
        message, hint = envelope.message[:_LONGEST_MESSAGE], envelope.hint and envelope.hint[:_LONGEST_MESSAGE]
        happened: Effect = effect if answer.status >= 500 else "none"
        info = ErrorInfo(envelope.code, message, envelope.retryable, effect=happened, hint=hint, details=details)
        return CallError.from_info(info)
    if kind is not None and kind is not DefinitionError:
        return kind(text)
    if envelope.code.startswith("session."):
        return SessionError(text)
    if answer.status == 429 or answer.status >= 500:
        return _make_unavailable(answer, envelope, url, effect)
    if envelope.code == "route.not_found":
        return ConfigError(f"{url} is a server without this part of the API; its version may be another")
    return DefinitionError(f"{url} refuses the request: {text} [{envelope.code}]")


def read_envelope(answer: Incoming) -> Envelope | None:
    """The error in the response; None if it is not from a toolyard server."""
    try:
        body = answer.json()
        return msgspec.convert(body["error"], Envelope)
    except (MalformedSource, msgspec.ValidationError, KeyError, TypeError):
        return None


def _make_unavailable(answer: Incoming, envelope: Envelope, url: str, effect: Effect) -> Unavailable:
    return Unavailable(
        f"{url} cannot answer now: {envelope.message[:_SHOWN]}",
        hint=envelope.hint,
        # A request refused by a rate limit had no effect.
        effect="none" if answer.status == 429 else effect,
        retryable=envelope.retryable or answer.status == 429,
        retry_after=retry_after(answer.header("retry-after"), time.time()),
        details={"status": answer.status, "code": envelope.code},
    )


def _make_foreign_error(answer: Incoming, url: str, effect: Effect) -> ToolyardError:
    status = answer.status
    if status in _GATEWAYS or status == 429:
        return Unavailable(
            f"{url} cannot be reached: a server in between answers with {status}",
            effect="none" if status == 429 else effect,
            retry_after=retry_after(answer.header("retry-after"), time.time()),
            details={"status": status},
        )
    if 300 <= status < 400:
        return ConfigError(f"{url} redirects ({status}), which is not followed; give the final address")
    if status == 401 or status == 403:
        return ConfigError(f"{url} refuses the request ({status}), and not as a toolyard server does")
    return ConfigError(f"{url} answers with {status}, and not as a toolyard server does; is the address right?")


API = "v1"
REQUEST_SECONDS = 30.0
LONGEST_PAUSE = 10.0
"""Longest pause in seconds before a retry; if the server asks for more, its error is raised immediately."""


class WireOptions(TypedDict, total=False):
    """Options that the remote registry and engine pass to their `ServerWire`."""

    api_key: str | None
    max_bytes: int
    verify: bool | str
    retries: int
    retry_delay: float


class ListBudget:
    """Limits the pages of one list, so that a server that never ends it is stopped."""

    def __init__(self) -> None:
        self._left = MAX_LIST_BYTES
        self._until = time.monotonic() + LONGEST_LIST

    def spend(self, size: int) -> str | None:
        """Count a page of that many bytes; returns the limit that is exceeded, if any."""
        self._left -= size
        if self._left < 0:
            return f"{MAX_LIST_BYTES:,} bytes"
        return f"{LONGEST_LIST:g} s" if time.monotonic() > self._until else None


class ServerWire(Closing):
    """Authenticated requests with safe retries and strictly validated responses.

    Every request that may change something carries an `Idempotency-Key`, which is the same for all its attempts, so
    that the server runs it only once. Retried are requests lost in transit, and those refused for overload (429) unless
    the server asks for a pause longer than `LONGEST_PAUSE`.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout: float = REQUEST_SECONDS,
        max_bytes: int = MAX_ANSWER,
        verify: bool | str = True,
        retries: int = 2,
        retry_delay: float = 0.2,
    ) -> None:
        headers = {} if api_key is None else {"authorization": f"Bearer {_check_key(api_key)}"}
        self.link = HttpLink(url, headers=headers, timeout=timeout, max_bytes=max_bytes, verify=verify)
        self.url, self.timeout = self.link.url, self.link.timeout
        """The server's URL, and the default timeout in seconds."""
        read_arguments(Settings, retries=retries, retry_delay=retry_delay)
        self.retries = retries
        self.retry_delay = retry_delay

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: tuple[tuple[str, str], ...] = (),
        body: Mapping[str, Any] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - of all attempts together
        budget: ListBudget | None = None,
    ) -> Any:
        """Send a request, with retries, and return the JSON of the response, None if it is empty; raises otherwise."""
        from toolyard.dialects.telemetry import carry_trace

        headers = carry_trace({})
        if method != "GET":
            headers["idempotency-key"] = secrets.token_hex(16)
        if body is not None:
            headers["content-type"] = "application/json"
        written = None if body is None else write_json(body)
        send = partial(self.link.asend, method, path, query=query, body=written, headers=headers)
        answer, again = await self._send_repeatedly(send, self.timeout if timeout is None else timeout)
        effect: Effect = "none" if method == "GET" else "unknown"
        if again and method == "DELETE" and answer.status == 404:
            # Deleted by the attempt whose response was lost.
            return None
        if not 200 <= answer.status < 300:
            raise make_refusal_error(answer, self.url, effect)
        if answer.status == 204:
            return None
        exceeded = None if budget is None else budget.spend(len(answer.body))
        if exceeded is not None:
            raise self.make_garbled_error(f"a list that goes on for more than {exceeded}", effect)
        # Commas within strings are excluded only if there are many.
        if answer.body.count(b",") > MAX_VALUES and _TEXT.sub(b"", answer.body).count(b",") > MAX_VALUES:
            raise self.make_garbled_error(f"more than {MAX_VALUES:,} values at once", effect)
        try:
            return answer.json(f"answer of {self.url}")
        except MalformedSource:
            raise self.make_garbled_error("something that is not JSON", effect) from None

    def read(self, body: Any, kind: type[T], otherwise: str) -> T:
        """The body of a response as that type; an error with the text `otherwise` if it is none."""
        try:
            return msgspec.convert(body, kind)
        except msgspec.ValidationError:
            raise self.make_garbled_error(otherwise) from None

    def read_results(self, body: Any, count: int) -> list[ToolResult]:
        """The results in a response to so many calls."""
        try:
            results = [ToolResult.from_dict(item) for item in body["results"]]
        except (DefinitionError, KeyError, TypeError, AttributeError):
            raise self.make_garbled_error("results of another form", "unknown") from None
        if len(results) != count:
            raise self.make_garbled_error(f"{len(results)} results for {count} calls", "unknown")
        return results

    def make_garbled_error(self, what: str, effect: Effect = "none") -> Unavailable:
        """The error for a successful response that does not conform to the API."""
        return Unavailable(
            f"{self.url} answered with {what}; it is not a toolyard server, or a proxy changed the response",
            retryable=False,
            effect=effect,
        )

    def with_timeout(self, seconds: float | None) -> Self:
        """The same connections with another default timeout, if one is given."""
        wire = copy.copy(self)
        wire.timeout = self.timeout if seconds is None else seconds
        return wire

    async def _send_repeatedly(self, send: Callable[..., Awaitable[Incoming]], seconds: float) -> tuple[Incoming, bool]:
        """The response, and whether an earlier attempt may have arrived as well."""
        until = time.monotonic() + seconds
        effect: Effect = "none"
        for attempt in range(self.retries + 1):
            wait = backoff_delay(attempt + 1, self.retry_delay)
            try:
                answer = await send(timeout=max(until - time.monotonic(), 0.001))
            except (Unavailable, CallTimeout) as error:
                effect = "unknown" if effect == "unknown" else error.info.effect
                repeatable = isinstance(error, Unavailable) and error.info.retryable
                if attempt == self.retries or not repeatable or wait >= until - time.monotonic():
                    # An earlier attempt may have had an effect although this one did not arrive.
                    error.info = msgspec.structs.replace(error.info, effect=effect)
                    raise
            else:
                asked = retry_after(answer.header("retry-after"), time.time())
                wait = wait if asked is None else asked
                room = min(LONGEST_PAUSE, until - time.monotonic())
                if answer.status != 429 or attempt == self.retries or wait >= room:
                    return answer, effect == "unknown"
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    async def greet(self) -> None:
        """Check that this is a toolyard server with our version of the API."""
        info = await self.ask("GET", f"/{API}/version")
        if not isinstance(info, dict) or not isinstance(info.get("supported_api_versions"), list):
            raise ConfigError(f"{self.url} is not a toolyard server; check the address")
        spoken = info["supported_api_versions"]
        if API not in spoken:
            shown = ", ".join(str(name)[:20] for name in spoken[:5])
            raise ConfigError(
                f"{self.url} speaks {shown} of the API, and toolyard {VERSION} speaks {API}; "
                f"the server's version is {str(info.get('service_version'))[:40]}"
            )

    def close(self) -> None:
        """Close the connections."""
        self.link.close()

    async def aclose(self) -> None:
        """`close` for async code."""
        await self.link.aclose()

    def __repr__(self) -> str:
        return f"ServerWire({self.url!r})"


def quote_segment(text: str) -> str:
    """The text as one segment of a URL path."""
    # Unescaped, a segment of dots would be resolved.
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


def write_json(value: Any) -> bytes:
    """The value as JSON; raises `ConfigError` if it is not JSON."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError):
        raise ConfigError("values sent to a server must be JSON: text, numbers, arrays and objects") from None


def _check_key(key: object) -> str:
    if not isinstance(key, str) or not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError("an API key is printable ASCII text without spaces")
    return key
