"""Who must ask: security schemes and requirements, read into what credentials a tool needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from toolyard.model.bindings import RestScheme
from toolyard.sources.rest.refs import Files

_LOCATIONS = ("query", "header", "cookie")


class Needs(NamedTuple):
    """Who must ask. Of the alternatives one is enough; an empty one means that nobody need say."""

    alternatives: tuple[tuple[str, ...], ...] = ()
    schemes: dict[str, RestScheme] = {}
    unknown: Sequence[str] = ()
    """Names that the document does not explain."""


_NOTHING = Needs()


class Security:
    """The schemes of one document."""

    def __init__(self, schemes: Any, default: Any, files: Files) -> None:
        self._schemes = schemes if type(schemes) is dict else {}
        self._default = default
        self._files = files
        self._known: dict[tuple[str, tuple[str, ...]], RestScheme] = {}
        self._asked: dict[int, tuple[Any, Needs]] = {}

    def needs(self, operation: dict[str, Any]) -> Needs:
        """What an operation asks for, or the document for all of its operations."""
        asked = operation.get("security", self._default)
        if type(asked) is not list:
            return _NOTHING
        key = id(asked)
        if key not in self._asked:
            self._asked[key] = (asked, self._read(asked))
        return self._asked[key][1]

    def _read(self, asked: list[Any]) -> Needs:
        alternatives: list[tuple[str, ...]] = []
        schemes: dict[str, RestScheme] = {}
        for item in asked:
            if type(item) is not dict:
                continue
            alternatives.append(tuple(item))
            for name, scopes in item.items():
                listed = tuple(map(str, scopes)) if type(scopes) is list else ()
                before = schemes[name].scopes if name in schemes else ()
                schemes[name] = self._scheme(name, tuple(dict.fromkeys((*before, *listed))))
        if alternatives == [()]:
            return _NOTHING
        unknown = [name for name in schemes if type(self._schemes.get(name)) is not dict]
        return Needs(tuple(alternatives), schemes, unknown)

    def _scheme(self, name: str, scopes: tuple[str, ...]) -> RestScheme:
        key = (name, scopes)
        if key not in self._known:
            self._known[key] = _scheme(self._files.settle(self._schemes.get(name)).node, scopes)
        return self._known[key]


def _scheme(raw: Any, scopes: tuple[str, ...]) -> RestScheme:
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
        # What it ends with is a token, sent as that of OAuth2 is; where to get one must be told by the operator.
        return RestScheme(type="oauth2", scopes=scopes)
    return RestScheme(type="other", name=how or str(kind or ""), scopes=scopes)


def _token_url(raw: dict[str, Any]) -> str | None:
    flows = raw.get("flows")
    if type(flows) is not dict:
        return raw["tokenUrl"] if type(raw.get("tokenUrl")) is str else None
    ordered = [flows.get("clientCredentials"), *flows.values()]
    urls = [flow["tokenUrl"] for flow in ordered if type(flow) is dict and type(flow.get("tokenUrl")) is str]
    return urls[0] if urls else None
