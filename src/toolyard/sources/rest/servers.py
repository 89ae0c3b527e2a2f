"""Servers, security schemes and security requirements of a document."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from toolyard.model.bindings import RestScheme
from toolyard.sources.rest.document import Files, ResolvedRef

_VARIABLE = re.compile(r"\{([^{}]+)\}")
_SCHEMES = ("https", "http")


class Servers:
    """Reads `servers` lists; `fixed` is the operator's own base URL, which replaces all of them."""

    def __init__(self, spec_url: str | None, fixed: str | None, variables: Mapping[str, str]) -> None:
        self._spec_url = spec_url
        self._fixed = fixed.rstrip("/") if fixed else None
        self._variables = variables
        self._default = self._make_absolute("/")

    def choose_base_url(self, *lists: Any) -> tuple[str, str]:
        """The base URL from the first non-empty list, and a description of the problem if it cannot be used."""
        if self._fixed is not None:
            return self._fixed, ""
        servers = next((found for found in lists if type(found) is list and found), None)
        return self._default if servers is None else self._choose_server(servers)

    def _choose_server(self, servers: list[Any]) -> tuple[str, str]:
        found = [self._fill_variables(server) for server in servers if type(server) is dict]
        for url, problem in found:
            if not problem and (urlsplit(url).scheme in _SCHEMES or "://" not in url):
                return self._make_absolute(url)
        return found[0] if found else self._make_absolute("/")

    def _fill_variables(self, server: dict[str, Any]) -> tuple[str, str]:
        url = server.get("url")
        if type(url) is not str:
            return "", "the server has no url; give base_url=..."
        described = server.get("variables")
        variables = described if type(described) is dict else {}
        missing: list[str] = []

        def fill(match: re.Match[str]) -> str:
            name = match[1]
            if name in self._variables:
                return str(self._variables[name])
            known = variables.get(name)
            known = known if type(known) is dict else {}
            enum = known.get("enum")
            choices = enum if type(enum) is list else []
            value = known.get("default", choices[0] if choices else None)
            if value is None:
                missing.append(name)
            return str(value) if value is not None else match[0]

        filled = _VARIABLE.sub(fill, url.strip())
        if missing:
            return filled, f"the server's variable {missing[0]!r} has no default; give server_variables or base_url"
        try:
            urlsplit(filled)
        except ValueError:
            return "", "the server's url is none; give base_url=..."
        return filled, ""

    def _make_absolute(self, url: str) -> tuple[str, str]:
        if self._spec_url is not None:
            url = urljoin(self._spec_url, url)
        url = url.partition("#")[0].partition("?")[0].rstrip("/")
        parts = urlsplit(url)
        if parts.scheme in _SCHEMES and parts.hostname:
            return url, ""
        return url, "the document does not say where it is served; give base_url=..."


_LOCATIONS = ("query", "header", "cookie")


class SecurityRequirements(NamedTuple):
    """Security requirements. One of the alternatives is enough; an empty one means that no credential is needed."""

    alternatives: tuple[tuple[str, ...], ...] = ()
    schemes: dict[str, RestScheme] = {}
    unknown: Sequence[str] = ()
    """Names that the document does not define."""


_NO_REQUIREMENTS = SecurityRequirements()


class Security:
    """The security schemes of one document."""

    def __init__(self, schemes: ResolvedRef, default: Any, files: Files) -> None:
        self._schemes = files.try_resolve(schemes)
        self._default = default
        self._files = files

    def read_requirements(self, operation: dict[str, Any]) -> SecurityRequirements:
        """The requirements of an operation, by default those of the document."""
        asked = operation.get("security", self._default)
        if type(asked) is not list:
            return _NO_REQUIREMENTS
        alternatives: list[tuple[str, ...]] = []
        schemes: dict[str, RestScheme] = {}
        for item in asked:
            if type(item) is not dict:
                continue
            alternatives.append(tuple(item))
            for name, scopes in item.items():
                listed = tuple(map(str, scopes)) if type(scopes) is list else ()
                before = schemes[name].scopes if name in schemes else ()
                scheme = self._files.try_resolve(self._schemes.inside(name)).node
                schemes[name] = _read_scheme(scheme, tuple(dict.fromkeys((*before, *listed))))
        if alternatives == [()]:
            return _NO_REQUIREMENTS
        unknown = [name for name in schemes if type(self._schemes.inside(name).node) is not dict]
        return SecurityRequirements(tuple(alternatives), schemes, unknown)


def _read_scheme(raw: Any, scopes: tuple[str, ...]) -> RestScheme:
    if type(raw) is not dict:
        return RestScheme(type="other", scopes=scopes)
    kind, how = raw.get("type"), str(raw.get("scheme", "")).lower()
    if kind == "basic" or (kind == "http" and how == "basic"):
        return RestScheme(type="basic", scopes=scopes)
    if kind == "http" and how == "bearer":
        return RestScheme(type="bearer", scopes=scopes)
    if kind == "apiKey" and raw.get("in") in _LOCATIONS and type(raw.get("name")) is str:
        return RestScheme(type="api_key", location=raw["in"], name=raw["name"], scopes=scopes)
    if kind == "oauth2":
        return RestScheme(type="oauth2", token_url=_token_url(raw), scopes=scopes)
    if kind == "openIdConnect":
        # Like OAuth2, it yields a bearer token; the operator must configure where to get it.
        return RestScheme(type="oauth2", scopes=scopes)
    return RestScheme(type="other", name=how or str(kind or ""), scopes=scopes)


def _token_url(raw: dict[str, Any]) -> str | None:
    flows = raw.get("flows")
    if type(flows) is not dict:
        return raw["tokenUrl"] if type(raw.get("tokenUrl")) is str else None
    ordered = [flows.get("clientCredentials"), *flows.values()]
    urls = [flow["tokenUrl"] for flow in ordered if type(flow) is dict and type(flow.get("tokenUrl")) is str]
    return urls[0] if urls else None
