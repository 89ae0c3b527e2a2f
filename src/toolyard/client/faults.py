"""What a server refused, as the exceptions an engine and a registry in this process would raise."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from toolyard.links.http.link import HttpAnswer
from toolyard.model.errors import (
    CallError,
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

_GATEWAYS = frozenset({502, 503, 504})
_SHOWN = 500


class Envelope(msgspec.Struct, frozen=True):
    """The error in an answer that is one of toolyard's."""

    code: str
    message: str
    retryable: bool = False
    details: dict[str, Any] = {}

    @property
    def hint(self) -> str | None:
        """What to do about it, if the server said so."""
        hint = self.details.get("hint")
        return hint if isinstance(hint, str) else None


def make_refusal_error(answer: HttpAnswer, url: str, effect: Effect) -> ToolyardError:
    """The exception for an answer that is no success; `effect` is what the request may have done all the same."""
    envelope = read_envelope(answer)
    if envelope is None:
        return _make_foreign_error(answer, url, effect)
    text = f"{envelope.message[:_SHOWN]}{f' ({envelope.hint[:_SHOWN]})' if envelope.hint else ''}"
    if answer.status in (401, 403):
        remedy = "pass api_key=..." if envelope.code == "auth.missing" else "check the key and its scopes"
        return ConfigError(f"{url} refuses the request: {text} [{envelope.code}]; {remedy}")
    kind = error_class(envelope.code)
    if kind is not None and issubclass(kind, CallError):
        return CallError.from_info(_read_info(envelope, effect if answer.status >= 500 else "none"))
    if kind is not None and kind is not DefinitionError:
        return kind(text)
    if envelope.code.startswith("session."):
        return SessionError(text)
    if answer.status == 429 or answer.status >= 500:
        return _make_unavailable(answer, envelope, url, effect)
    if envelope.code == "route.not_found":
        return ConfigError(f"{url} is a server without this part of the API; its version may be another")
    return DefinitionError(f"{url} refuses the request: {text} [{envelope.code}]")


def _read_info(envelope: Envelope, effect: Effect) -> ErrorInfo:
    details = {key: value for key, value in envelope.details.items() if key not in ("hint", "effect")}
    return ErrorInfo(
        envelope.code, envelope.message, envelope.retryable, effect=effect, hint=envelope.hint, details=details
    )


def read_envelope(answer: HttpAnswer) -> Envelope | None:
    """The error of the answer; None if no toolyard server wrote it."""
    try:
        body = answer.json()
        return msgspec.convert(body["error"], Envelope)
    except (MalformedSource, msgspec.ValidationError, KeyError, TypeError):
        return None


def retry_after(answer: HttpAnswer) -> float | None:
    """The seconds a server asks to wait; None if it does not say, or says it as a date."""
    try:
        seconds = float(answer.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def make_garbled_error(url: str, effect: Effect, what: str) -> Unavailable:
    """An answer that says success and something that is not in the API."""
    return Unavailable(
        f"{url} answered with {what}; it is no toolyard server, or something in between changed the answer",
        retryable=False,
        effect=effect,
    )


def _make_unavailable(answer: HttpAnswer, envelope: Envelope, url: str, effect: Effect) -> Unavailable:
    return Unavailable(
        f"{url} cannot answer now: {envelope.message[:_SHOWN]}",
        hint=envelope.hint,
        # Nothing is run for a request that is one too many.
        effect="none" if answer.status == 429 else effect,
        retryable=envelope.retryable or answer.status == 429,
        retry_after=retry_after(answer),
        details={"status": answer.status, "code": envelope.code},
    )


def _make_foreign_error(answer: HttpAnswer, url: str, effect: Effect) -> ToolyardError:
    status = answer.status
    if status in _GATEWAYS or status == 429:
        return Unavailable(
            f"{url} cannot be reached: a server in between answers with {status}",
            effect="none" if status == 429 else effect,
            retry_after=retry_after(answer),
            details={"status": status},
        )
    if 300 <= status < 400:
        return ConfigError(f"{url} redirects ({status}), which is not followed; give the final address")
    if status == 401 or status == 403:
        return ConfigError(f"{url} refuses the request ({status}), and not as a toolyard server does")
    return ConfigError(f"{url} answers with {status}, and not as a toolyard server does; is the address right?")
