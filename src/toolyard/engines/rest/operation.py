"""`RestOperation`: a binding prepared so that each call only fills in its arguments; `read_answer` reads the response.

A response is a value by content type, or the error that its status stands for.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from toolyard.engines.rest.serialise import Pairs, cookie_pairs, header_text, path_text, query_pairs, write_body
from toolyard.links.http.addresses import AddressRule, Blocked, read_url, with_port
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
from toolyard.model.bindings import RestBinding, RestParameter
from toolyard.model.errors import (
    CallError,
    ConfigError,
    Effect,
    InvalidArguments,
    MalformedSource,
    NoEngine,
    ToolFailed,
    Unavailable,
)
from toolyard.parsing import parse_json
from toolyard.words.redactor import Redactor

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_LITERAL = "/!$&'()*+,;=:@%~"
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DOTS = frozenset({".", ".."})
_SEPARATORS = re.compile(r"[/\\]")


class Template:
    """A URL template, `https://host/base/pets/{petId}`, with the number of its path segments."""

    def __init__(self, base_url: str, path: str) -> None:
        try:
            base = read_url(base_url)
        except Blocked as error:
            raise NoEngine(
                f"the tool's base URL cannot be called: {error}",
                hint="give base_url to the source or to the engine",
            ) from None
        if "?" in base.path:
            raise NoEngine("the tool's base URL holds a query", hint="give base_url without one")
        self.origin = base.origin
        # A fragment only distinguishes paths within one specification.
        own, _, query = path.partition("#")[0].partition("?")
        asked = _PLACEHOLDER.split(query)
        self._query = [_quote_literal(part) for part in asked[::2]]
        self._query_names = asked[1::2]
        whole = f"{base.path.rstrip('/')}/{own.lstrip('/')}"
        parts = _PLACEHOLDER.split(whole)
        self._literals = [_quote_literal(part) for part in parts[::2]]
        self._names = parts[1::2]
        self.names = [*self._names, *self._query_names]
        """The path parameters, in order, and those in the query string of the path itself."""
        self._slash_count = whole.count("/")
        for step in "".join(self._literals).split("/") if not self._names else ():
            if unquote(step) in _DOTS:
                raise NoEngine("the tool's path contains '.' or '..', which a URL cannot")

    def fill(self, values: Mapping[str, str], query: Pairs) -> str:
        """The URL with encoded values filled in; raises `InvalidArguments` if a value would change its structure."""
        path = self._literals[0]
        for name, literal in zip(self._names, self._literals[1:], strict=True):
            path += values[name] + literal
        if self._names:
            for step in path.split("/"):
                read = unquote(step)
                if read in _DOTS or ".." in _SEPARATORS.split(read):
                    raise InvalidArguments("the given values put '.' or '..' into the path")
        asked = self._query[0]
        for name, literal in zip(self._query_names, self._query[1:], strict=True):
            asked += values[name] + literal
        if query:
            pairs = "&".join([f"{name}={value}" for name, value in query])
            asked = f"{asked}&{pairs}" if asked else pairs
        url = f"{self.origin}{path}?{asked}" if asked else self.origin + path
        self._check_address(url, path)
        return url

    def _check_address(self, url: str, path: str) -> None:
        """Parse the URL as the recipient will, to check that the values did not change its structure."""
        found = read_url(url)
        where = found.path.partition("?")[0]
        if found.origin != self.origin or where != path or where.count("/") != self._slash_count or "#" in where:
            raise InvalidArguments("the given values would change the address of the request")


def _quote_literal(text: str) -> str:
    return quote(_BARE_PERCENT.sub("%25", text), safe=_LITERAL + "?")


_MAX_PATH_SHOWN = 200
Headers = tuple[tuple[str, str], ...]


class RestOperation:
    """Everything about a call that does not depend on its arguments."""

    def __init__(self, binding: RestBinding, base_url: str | None = None) -> None:
        self.binding = binding
        self.url = Template(base_url or binding.base_url, binding.path)
        self.origin = self.url.origin
        self.hosts = _configured_hosts(binding, base_url)
        """The hosts that the operator configured, normalised."""
        self.trusted = base_url is not None or self.origin in binding.origins
        """True if the operator configured this address, so that not only a specification names it."""
        self.method = binding.method.upper()
        # The path as in the specification, since values of {id} or of the query may be secret.
        self.title = f"{self.method} {binding.path.partition('?')[0][:_MAX_PATH_SHOWN]} at {self.origin}"
        self.only_json = bool(binding.accepts) and all(
            media_kind(item) == "json" and "*" not in item for item in binding.accepts
        )
        """True if every successful response is JSON."""
        self._by_place: dict[str, list[RestParameter]] = {"query": [], "header": [], "cookie": []}
        places: dict[str, RestParameter] = {}
        for parameter in binding.parameters:
            if parameter.location == "path":
                places[parameter.name] = parameter
            else:
                self._by_place[parameter.location].append(parameter)
        lacking = [name for name in self.url.names if name not in places]
        if lacking:
            raise NoEngine(f"no argument is mapped to {lacking[0]!r} in the tool's path")
        self._path = [(name, places[name]) for name in dict.fromkeys(self.url.names)]
        self._accept = ("accept", _accept_header(binding.accepts))

    def write(self, arguments: Mapping[str, Any]) -> tuple[str, Headers, bytes | None]:
        """The URL, headers and body for these arguments."""
        values: dict[str, str] = {}
        for name, parameter in self._path:
            if parameter.argument not in arguments:
                raise InvalidArguments(f"{parameter.argument!r} is part of the path and must be given")
            value = arguments[parameter.argument]
            values[name] = written = path_text(parameter, value)
            if not written:
                raise InvalidArguments(f"{parameter.argument!r} is part of the path and must not be empty")
            if isinstance(value, str) and "." in value and not _DOTS.isdisjoint(_SEPARATORS.split(value)):
                # Some servers and proxies would resolve it.
                raise InvalidArguments(
                    f"{parameter.argument!r} is part of the path and must not hold '.' or '..' as a step of it"
                )
        query = [pair for item, value in self._list_given("query", arguments) for pair in query_pairs(item, value)]
        url = self.url.fill(values, query)
        texts = [(item.name, header_text(item, value)) for item, value in self._list_given("header", arguments)]
        headers = [(name, text) for name, text in texts if text is not None]
        if all(name.lower() != "accept" for name, _ in headers):
            headers.append(self._accept)
        cookies = [pair for item, value in self._list_given("cookie", arguments) for pair in cookie_pairs(item, value)]
        if cookies:
            headers.append(("cookie", "; ".join([f"{name}={value}" for name, value in cookies])))
        body = None
        if self.binding.body is not None:
            written_body = write_body(self.binding.body, arguments)
            if written_body is not None:
                content_type, body = written_body
                headers.append(("content-type", content_type))
        return url, tuple(headers), body

    def _list_given(self, place: str, arguments: Mapping[str, Any]) -> list[tuple[RestParameter, Any]]:
        """The parameters at that place with their values, if they have any."""
        return [(item, arguments[item.argument]) for item in self._by_place[place] if item.argument in arguments]


def _configured_hosts(binding: RestBinding, base_url: str | None) -> tuple[str, ...]:
    try:
        allowed = tuple(sorted(AddressRule.of(binding.allowed).hosts))
        if base_url is None:
            return (*sorted(AddressRule.of(binding.named).hosts), *allowed)
    except ConfigError as error:
        raise NoEngine(f"an allowed host of this tool is invalid: {error}") from None
    target = read_url(base_url)
    return (with_port(target.host, target.port), *allowed)


def _accept_header(accepts: Sequence[str]) -> str:
    """JSON first, then any type, since error responses may have another one."""
    if not accepts:
        return "application/json, */*;q=0.5"
    ordered = sorted(dict.fromkeys(accepts), key=lambda item: media_kind(item) != "json")
    return ", ".join([*(item for item in ordered if item.isprintable() and item.isascii()), "*/*;q=0.1"])


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


def read_answer(
    incoming: Incoming, operation: RestOperation, secrets: Sequence[str], clock: float, *, withheld: bool = False
) -> Any:
    """The value; raises the error that the status or an unreadable body stands for."""
    if not _OK <= incoming.status < _REDIRECT:
        raise make_error(incoming, operation, secrets, clock, withheld=withheld)
    body = incoming.body
    if not body or operation.method == "HEAD":
        return None
    stated = incoming.header("content-type")
    name = bare_media_type(stated)
    kind = media_kind(stated) if name else "binary"
    if kind == "json":
        return _read_json(body, stated, operation, incoming, secrets)
    if operation.only_json:
        if name in _UNTYPED:
            return _read_json(body, stated, operation, incoming, secrets)
        raise _unreadable_answer(f"{name or 'no type'}, not JSON", operation, incoming, secrets)
    if not name:
        return _read_untyped(body)
    if kind in ("text", "form"):
        return body.decode(charset_of(stated) or "utf-8", "replace")
    return {"media_type": name, "base64": base64.b64encode(body).decode()}


def _read_json(body: bytes, stated: str, operation: RestOperation, incoming: Incoming, secrets: Sequence[str]) -> Any:
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
    raise _unreadable_answer(problem, operation, incoming, secrets)


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
    problem: str, operation: RestOperation, incoming: Incoming, secrets: Sequence[str]
) -> ToolFailed:
    redactor = Redactor(secrets)
    return ToolFailed(
        f"the answer of {operation.title} is {redactor.text(problem)}",
        effect="none" if operation.method in SAFE_METHODS else "done",
        details=_error_details(incoming, redactor),
    )


def make_error(
    incoming: Incoming, operation: RestOperation, secrets: Sequence[str], clock: float, *, withheld: bool = False
) -> CallError:
    """The error for an unsuccessful status; `clock` is the time of day, for dates in the response.

    `withheld`: there are credentials, but nobody except the document says that they are for this origin.
    """
    status = incoming.status
    redactor = Redactor(secrets)
    details = _error_details(incoming, redactor)
    said = _quote_body(incoming, redactor)
    message = f"{operation.title} answered {status}{status_phrase(status)}{f': {said}' if said else ''}"
    effect: Effect = "done" if status == _SEE_OTHER else "unknown"
    if operation.method in SAFE_METHODS or _FAULT <= status < _SERVER_FAULT or status in _WITHOUT_EFFECT:
        effect = "none"
    if status in RETRYABLE:
        after = retry_after(incoming.header("retry-after"), clock)
        return Unavailable(message, effect=effect, retry_after=after, details=details)
    hint = None
    if status in _REFUSALS and withheld and not secrets:
        hint = f"no credential was sent: the operator has to say that it is for {operation.origin}, "
        hint += "by `origin` in `auth` or by the base URL of the source"
    elif status in _REFUSALS:
        hint = _refusal_hint(operation.binding, redactor, bool(secrets))
    return ToolFailed(message, effect=effect, retryable=False, hint=hint, details=details)


def _refusal_hint(binding: RestBinding, redactor: Redactor, was_sent: bool) -> str:
    """What the specification requires, and the config that would satisfy it, unless that is too long."""
    needs = redactor.text(" or ".join(" with ".join(names) for names in binding.security if names))[:_MAX_QUOTE]
    asks = f"it asks for {needs}; " if needs else ""
    sent = "the credential that was sent is refused" if was_sent else "no credential was sent"
    first = next((binding.schemes.get(name) for names in binding.security for name in names), None)
    auth = suggest_auth(first, "${{API_{}}}".format)
    entry = "" if auth is None else write_yaml_flow(auth)
    shown = f", auth: {entry}" if 0 < len(entry) <= _MAX_QUOTE else ""
    return f"{asks}{sent}: the operator sets the variable in `auth` of the source or engine{shown}"


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
