"""`RestOperation`: a binding prepared so that each call only fills in its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from toolyard.engines.rest.answer import ExpectedAnswer
from toolyard.engines.rest.serialise import Pairs, cookie_pairs, header_text, path_text, query_pairs, write_body
from toolyard.links.http.addresses import AddressRule, Blocked, Target, read_url, with_port
from toolyard.links.http.messages import media_kind
from toolyard.model.bindings import RestBinding, RestParameter
from toolyard.model.errors import ConfigError, InvalidArguments, NoEngine

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
        self.target: Target = base
        # A fragment only distinguishes paths within one specification.
        own, _, query = path.partition("#")[0].partition("?")
        asked = _PLACEHOLDER.split(query)
        self._query = [_quote_literal(part) for part in asked[::2]]
        self._query_names = asked[1::2]
        """Parameters in the query string of the path itself."""
        whole = f"{base.path.rstrip('/')}/{own.lstrip('/')}"
        parts = _PLACEHOLDER.split(whole)
        self._literals = [_quote_literal(part) for part in parts[::2]]
        self._names = parts[1::2]
        self._slash_count = whole.count("/")
        self._origin = base.origin
        for step in "".join(self._literals).split("/") if not self._names else ():
            if unquote(step) in _DOTS:
                raise NoEngine("the tool's path contains '.' or '..', which a URL cannot")

    @property
    def names(self) -> Sequence[str]:
        """The path parameters, in order."""
        return [*self._names, *self._query_names]

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
        sign, asked = "?", self._query[0]
        for name, literal in zip(self._query_names, self._query[1:], strict=True):
            asked += values[name] + literal
        if query:
            pairs = "&".join([f"{name}={value}" for name, value in query])
            asked = f"{asked}&{pairs}" if asked else pairs
        url = f"{self._origin}{path}{sign}{asked}" if asked else self._origin + path
        self._check_address(url, path)
        return url

    def _check_address(self, url: str, path: str) -> None:
        """Parse the URL as the recipient will, to check that the values did not change its structure."""
        found = read_url(url)
        where = found.path.partition("?")[0]
        if found.origin != self._origin or where != path or where.count("/") != self._slash_count or "#" in where:
            raise InvalidArguments("the given values would change the address of the request")


def _quote_literal(text: str) -> str:
    return quote(_BARE_PERCENT.sub("%25", text), safe=_LITERAL + "?")


_MAX_PATH_SHOWN = 200
Headers = tuple[tuple[str, str], ...]


class RestOperation:
    """Everything about a call that does not depend on its arguments."""

    __slots__ = ("_accept", "_by_place", "_path", "allowed", "binding", "expected", "named", "origin", "trusted", "url")

    def __init__(self, binding: RestBinding, base_url: str | None, named: Sequence[str]) -> None:
        self.binding = binding
        self.url = Template(base_url or binding.base_url, binding.path)
        target = self.url.target
        self.origin = target.origin
        self.named = tuple(named)
        self.allowed = normalise_hosts(binding.allowed)
        self.trusted = base_url is not None or self.origin in binding.origins
        """True if the operator configured this address, so that not only a specification names it."""
        # The path as in the specification, since values of {id} or of the query may be secret.
        where = f"{binding.path.partition('?')[0][:_MAX_PATH_SHOWN]} at {self.origin}"
        self.expected = ExpectedAnswer(
            binding.method.upper(), where, binding.accepts, binding.security, binding.schemes
        )
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


def named_hosts(named: Sequence[str], base_url: str | None) -> tuple[str, ...]:
    """The hosts that the operator configured, normalised."""
    if base_url is not None:
        target = read_url(base_url)
        return (with_port(target.host, target.port),)
    return normalise_hosts(named)


def normalise_hosts(named: Sequence[str]) -> tuple[str, ...]:
    """Hosts, normalised."""
    try:
        return tuple(sorted(AddressRule.of(named).hosts))
    except ConfigError as error:
        raise NoEngine(f"an allowed host of this tool is invalid: {error}") from None


def _accept_header(accepts: Sequence[str]) -> str:
    """JSON first, then any type, since error responses may have another one."""
    if not accepts:
        return "application/json, */*;q=0.5"
    ordered = sorted(dict.fromkeys(accepts), key=lambda item: media_kind(item) != "json")
    return ", ".join([*(item for item in ordered if item.isprintable() and item.isascii()), "*/*;q=0.1"])
