"""Reads responses: a value by content type, or the error that a status stands for."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from toolyard.links.http.auth_entry import suggest_auth, write_yaml_flow
from toolyard.links.http.messages import (
    RETRYABLE,
    SAFE_METHODS,
    Incoming,
    bare_media_type,
    charset_of,
    media_kind,
    retry_after,
    status_phrase,
)
from toolyard.model.bindings import RestScheme
from toolyard.model.errors import CallError, Effect, MalformedSource, ToolFailed, Unavailable
from toolyard.parsing import parse_json
from toolyard.words.redactor import Redactor

EXCERPT = 2048
"""Characters of an error response that are shown."""
_MAX_READ = 8 * EXCERPT
_MAX_QUOTE = 300
_OK, _REDIRECT, _FAULT, _SERVER_FAULT = 200, 300, 400, 500
_SEE_OTHER = 303
_REFUSALS = frozenset({401, 403})
_WITHOUT_EFFECT = frozenset({304, 307, 308})
_UNTYPED = frozenset({"", "text/plain", "application/octet-stream", "binary/octet-stream", "text/javascript"})
"""Types that servers declare for JSON by mistake."""
_MESSAGE_KEYS = ("message", "detail", "error_description", "title", "error", "reason", "description")


class ExpectedAnswer:
    """What is known beforehand about the responses of an operation."""

    __slots__ = ("auth", "json", "method", "needs", "what")

    def __init__(
        self,
        method: str,
        where: str,
        accepts: Sequence[str],
        security: Sequence[Sequence[str]] = (),
        schemes: Mapping[str, RestScheme] = MappingProxyType({}),
    ) -> None:
        self.method = method
        first = next((schemes.get(name) for names in security for name in names), None)
        auth = suggest_auth(first, "${{API_{}}}".format)
        self.auth = "" if auth is None or len(text := write_yaml_flow(auth)) > _MAX_QUOTE else f", auth: {text}"
        """Config that would satisfy the security scheme, for hints; empty if unknown or too long."""
        self.needs = " or ".join(" with ".join(names) for names in security if names)
        """The security schemes that the specification requires, in words."""
        self.json = bool(accepts) and all(media_kind(item) == "json" and "*" not in item for item in accepts)
        """True if every successful response is JSON."""
        self.what = f"{method} {where}"

    @property
    def done(self) -> Effect:
        """The effect of a call with a successful response."""
        return "none" if self.method in SAFE_METHODS else "done"


def read_answer(incoming: Incoming, expected: ExpectedAnswer, secrets: Sequence[str], clock: float) -> Any:
    """The value; raises the error that the status or an unreadable body stands for."""
    if not _OK <= incoming.status < _REDIRECT:
        raise make_error(incoming, expected, secrets, clock)
    body = incoming.body
    if not body or expected.method == "HEAD":
        return None
    stated = incoming.header("content-type")
    name = bare_media_type(stated)
    kind = media_kind(stated) if name else "binary"
    if kind == "json":
        return _read_json(body, stated, expected, incoming, secrets)
    if expected.json:
        if name in _UNTYPED:
            return _read_json(body, stated, expected, incoming, secrets)
        raise _unreadable_answer(f"{name or 'no type'}, not JSON", expected, incoming, secrets)
    if not name:
        return _read_untyped(body)
    if kind in ("text", "form"):
        return body.decode(charset_of(stated) or "utf-8", "replace")
    return {"media_type": name, "base64": base64.b64encode(body).decode()}


def _read_json(body: bytes, stated: str, expected: ExpectedAnswer, incoming: Incoming, secrets: Sequence[str]) -> Any:
    charset = charset_of(stated)
    try:
        if charset is None or charset in ("utf-8", "ascii"):
            return parse_json(body, what="answer")
        return parse_json(body.decode(charset), what="answer")
    except UnicodeError:
        problem = f"not text in {charset}, as it says"
    except MalformedSource as error:
        problem = f"not JSON: {error}"
    # Raised outside of the handler, so that the unreadable text is not chained to it.
    raise _unreadable_answer(problem, expected, incoming, secrets)


def _read_untyped(body: bytes) -> Any:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"media_type": "application/octet-stream", "base64": base64.b64encode(body).decode()}
    if text.lstrip()[:1] in ("{", "["):
        try:
            return parse_json(text, what="answer")
        except MalformedSource:
            return text
    return text


def _unreadable_answer(
    problem: str, expected: ExpectedAnswer, incoming: Incoming, secrets: Sequence[str]
) -> ToolFailed:
    redactor = Redactor(secrets)
    return ToolFailed(
        f"the answer of {expected.what} is {redactor.text(problem)}",
        effect=expected.done,
        details=_error_details(incoming, redactor),
    )


def make_error(incoming: Incoming, expected: ExpectedAnswer, secrets: Sequence[str], clock: float) -> CallError:
    """The error for an unsuccessful status; `clock` is the time of day, for dates in the response."""
    status = incoming.status
    redactor = Redactor(secrets)
    details = _error_details(incoming, redactor)
    said = _quote_body(incoming, redactor)
    message = f"{expected.what} answered {status}{status_phrase(status)}{f': {said}' if said else ''}"
    effect: Effect = "done" if status == _SEE_OTHER else "unknown"
    if expected.method in SAFE_METHODS or _FAULT <= status < _SERVER_FAULT or status in _WITHOUT_EFFECT:
        effect = "none"
    if status in RETRYABLE:
        after = retry_after(incoming.header("retry-after"), clock)
        return Unavailable(message, effect=effect, retry_after=after, details=details)
    hint = None
    if status in _REFUSALS:
        asks = f"it asks for {redactor.text(expected.needs)[:_MAX_QUOTE]}; " if expected.needs else ""
        sent = "the credential that was sent is refused" if secrets else "no credential was sent"
        hint = f"{asks}{sent}: the operator sets the variable in `auth` of the source or engine{expected.auth}"
    return ToolFailed(message, effect=effect, retryable=False, hint=hint, details=details)


def _error_details(incoming: Incoming, redactor: Redactor) -> dict[str, Any]:
    details: dict[str, Any] = {"status": incoming.status}
    stated = incoming.header("content-type")
    if stated:
        details["content_type"] = redactor.text(stated)[:100]
    if stated and media_kind(stated) in ("binary", "multipart"):
        text = f"<{len(incoming.body)} bytes>" if incoming.body else ""
    else:
        text = incoming.body[: 4 * _MAX_READ].decode(charset_of(stated) or "utf-8", "replace")
    if text:
        # Redact a longer piece first and then cut it: the redactor would not find half of a secret.
        shown = redactor.text(text[:_MAX_READ])
        details["body"] = shown if len(shown) <= EXCERPT else f"{shown[:EXCERPT]}..."
    return details


def _quote_body(incoming: Incoming, redactor: Redactor) -> str:
    """The service's own error message, on one line; empty if there is none."""
    if media_kind(incoming.header("content-type") or "text/plain") != "json" or len(incoming.body) > _MAX_READ:
        return ""
    try:
        value = parse_json(incoming.body, what="answer")
    except MalformedSource:
        return ""
    for _ in range(3):
        if isinstance(value, list) and value:
            value = value[0]
        if not isinstance(value, dict):
            break
        found = [value[key] for key in _MESSAGE_KEYS if value.get(key)]
        value = next((item for item in found if isinstance(item, str)), found[0] if found else None)
    if not isinstance(value, str):
        return ""
    line = " ".join(redactor.text(value).split())
    return line if len(line) <= _MAX_QUOTE else f"{line[:_MAX_QUOTE]}..."
