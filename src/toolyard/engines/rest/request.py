"""`Operation`: a binding made ready, so that each call only fills in its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolyard.engines.rest.answer import Expected
from toolyard.engines.rest.body import write_body
from toolyard.engines.rest.media import kind_of
from toolyard.engines.rest.options import known_hosts
from toolyard.engines.rest.serialise import cookie_pairs, header_text, path_text, query_pairs
from toolyard.engines.rest.url import Template, check_step
from toolyard.model.bindings import RestBinding, RestParameter
from toolyard.model.errors import InvalidArguments, NoEngine

Headers = tuple[tuple[str, str], ...]

_TLS_PORT = 443


class Operation:
    """Everything about a call that does not depend on its arguments."""

    __slots__ = ("_accept", "_by_place", "_path", "allowed", "binding", "expected", "named", "origin", "trusted", "url")

    def __init__(self, binding: RestBinding, base_url: str | None, named: Sequence[str]) -> None:
        self.binding = binding
        self.url = Template(base_url or binding.base_url, binding.path)
        target = self.url.target
        self.origin = target.origin
        self.named = tuple(named)
        self.allowed = known_hosts(binding.allowed)
        self.trusted = base_url is not None or self.origin in binding.origins
        """The operator said where this goes; it is not what a specification says alone."""
        self.expected = Expected(binding.method.upper(), self.origin, binding.accepts, binding.security)
        self._by_place: dict[str, list[RestParameter]] = {"query": [], "header": [], "cookie": []}
        places: dict[str, RestParameter] = {}
        for parameter in binding.parameters:
            if parameter.location == "path":
                places[parameter.name] = parameter
            else:
                self._by_place[parameter.location].append(parameter)
        lacking = [name for name in self.url.names if name not in places]
        if lacking:
            raise NoEngine(f"nothing says which argument is {lacking[0]!r} of the tool's path")
        self._path = [(name, places[name]) for name in dict.fromkeys(self.url.names)]
        self._accept = ("accept", _accept(binding.accepts))

    def write(self, arguments: Mapping[str, Any]) -> tuple[str, Headers, bytes | None]:
        """The address, headers and body that these arguments make."""
        values: dict[str, str] = {}
        for name, parameter in self._path:
            if parameter.argument not in arguments:
                raise InvalidArguments(f"{parameter.argument!r} is part of the path and must be given")
            value = arguments[parameter.argument]
            values[name] = written = path_text(parameter, value)
            check_step(parameter.argument, value, written)
        query = [
            pair
            for parameter in self._by_place["query"]
            if parameter.argument in arguments
            for pair in query_pairs(parameter, arguments[parameter.argument])
        ]
        url = self.url.fill(values, query)
        headers: list[tuple[str, str]] = []
        for parameter in self._by_place["header"]:
            text = header_text(parameter, arguments[parameter.argument]) if parameter.argument in arguments else None
            if text is not None:
                headers.append((parameter.name, text))
        if not headers or all(name.lower() != "accept" for name, _ in headers):
            headers.append(self._accept)
        if self._by_place["cookie"]:
            headers += self._cookie_pairs_of(arguments)
        body = None
        if self.binding.body is not None:
            written_body = write_body(self.binding.body, arguments)
            if written_body is not None:
                content_type, body = written_body
                headers.append(("content-type", content_type))
        return url, tuple(headers), body

    def _cookie_pairs_of(self, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
        pairs = [
            pair
            for parameter in self._by_place["cookie"]
            if parameter.argument in arguments
            for pair in cookie_pairs(parameter, arguments[parameter.argument])
        ]
        return [("cookie", "; ".join([f"{name}={value}" for name, value in pairs]))] if pairs else []


def _accept(accepts: Sequence[str]) -> str:
    """JSON first; and anything rather than a refusal, since what went wrong may be said in another way."""
    if not accepts:
        return "application/json, */*;q=0.5"
    ordered = sorted(dict.fromkeys(accepts), key=lambda item: kind_of(item) != "json")
    return ", ".join([*(item for item in ordered if item.isprintable() and item.isascii()), "*/*;q=0.1"])
