"""Where the operations of a document are served."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

_VARIABLE = re.compile(r"\{([^{}]+)\}")
_SCHEMES = ("https", "http")


class Servers:
    """Reads `servers` lists; `fixed` is the operator's own address, which stands for all of them."""

    def __init__(self, spec_url: str | None, fixed: str | None, variables: Mapping[str, str]) -> None:
        self._spec_url = spec_url
        self._fixed = fixed.rstrip("/") if fixed else None
        self._variables = variables
        self._known: dict[int, tuple[Any, tuple[str, str]]] = {}
        self._nowhere = self._absolute("/")

    def address(self, *lists: Any) -> tuple[str, str]:
        """The address by the first list that names any, and what is wrong with it, if something is."""
        if self._fixed is not None:
            return self._fixed, ""
        servers = next((found for found in lists if type(found) is list and found), None)
        if servers is None:
            return self._nowhere
        key = id(servers)
        if key not in self._known:
            self._known[key] = (servers, self._choose(servers))
        return self._known[key][1]

    def _choose(self, servers: list[Any]) -> tuple[str, str]:
        found = [self._filled(server) for server in servers if type(server) is dict]
        for url, problem in found:
            if not problem and (urlsplit(url).scheme in _SCHEMES or "://" not in url):
                return self._absolute(url)
        return found[0] if found else self._absolute("/")

    def _filled(self, server: dict[str, Any]) -> tuple[str, str]:
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

    def _absolute(self, url: str) -> tuple[str, str]:
        if self._spec_url is not None:
            url = urljoin(self._spec_url, url)
        url = url.partition("#")[0].partition("?")[0].rstrip("/")
        parts = urlsplit(url)
        if parts.scheme in _SCHEMES and parts.hostname:
            return url, ""
        return url, "the document does not say where it is served; give base_url=..."


def swagger_servers(document: Mapping[str, Any], schemes: Any = None) -> list[dict[str, str]]:
    """`schemes`, `host` and `basePath` of Swagger 2.0 as a list of servers."""
    host = document.get("host")
    path = document.get("basePath")
    base = "/" + path.strip("/") if type(path) is str and path.strip("/") else ""
    if type(host) is not str or not host:
        return [{"url": base or "/"}]
    listed = schemes if type(schemes) is list and schemes else document.get("schemes")
    known = [scheme for scheme in _SCHEMES if type(listed) is list and scheme in listed]
    # Without any, the document was to be had the same way as what it describes; https is the safe guess.
    return [{"url": f"{scheme}://{host}{base}"} for scheme in known or ["https"]]


def origin_of(url: str) -> str:
    """`host:port` of an address, the port always written."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
