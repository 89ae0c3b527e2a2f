"""`Template`: an operation's address with places for values, taken apart once, and put together again safely.

No value can change where a request goes: each is percent-encoded with nothing left as it is, those that path
readers resolve are refused, and what was built is read again and compared with the template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote, unquote

from toolyard.engines.rest.serialise import Pairs
from toolyard.links.http.addresses import Blocked
from toolyard.links.http.url import Target, read_url
from toolyard.model.errors import InvalidArguments, NoEngine

_PLACE = re.compile(r"\{([^{}]+)\}")
_LITERAL = "/!$&'()*+,;=:@%~"
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DOTS = frozenset({".", ".."})
_SEPARATORS = re.compile(r"[/\\]")


class Template:
    """One address, `https://host/base/pets/{petId}`, and how many steps its path has."""

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
        # What follows '#' only told two paths of one specification apart.
        own, _, query = path.partition("#")[0].partition("?")
        self.query = _quote_literal(query)
        """What the path itself asks for, before any parameter."""
        whole = f"{base.path.rstrip('/')}/{own.lstrip('/')}"
        parts = _PLACE.split(whole)
        self._literals = [_quote_literal(part) for part in parts[::2]]
        self._names = parts[1::2]
        self._steps = whole.count("/")
        self._origin = base.origin
        for step in "".join(self._literals).split("/") if not self._names else ():
            if unquote(step) in _DOTS:
                raise NoEngine("the tool's path leads upwards, which no request can mean")

    @property
    def names(self) -> Sequence[str]:
        """The path parameters, in order."""
        return self._names

    def fill(self, values: Mapping[str, str], query: Pairs) -> str:
        """The address with encoded values in their places; `InvalidArguments` if one cannot stand there."""
        path = self._literals[0]
        for name, literal in zip(self._names, self._literals[1:], strict=True):
            path += values[name] + literal
        if self._names:
            for step in path.split("/"):
                read = unquote(step)
                if read in _DOTS or ".." in _SEPARATORS.split(read):
                    raise InvalidArguments("the values given make a path that leads upwards")
        sign, asked = "?", self.query
        if query:
            pairs = "&".join([f"{name}={value}" for name, value in query])
            asked = f"{asked}&{pairs}" if asked else pairs
        url = f"{self._origin}{path}{sign}{asked}" if asked else self._origin + path
        self._check_value(url, path)
        return url

    def _check_value(self, url: str, path: str) -> None:
        """Read again what was written, as whoever gets it will."""
        found = read_url(url)
        where = found.path.partition("?")[0]
        if found.origin != self._origin or where != path or where.count("/") != self._steps or "#" in where:
            raise InvalidArguments("the values given would lead to another address than the tool's")


def check_step(argument: str, value: object, written: str) -> None:
    """Refuse a path value that stands for nothing, or that some reader of paths would resolve."""
    if not written:
        raise InvalidArguments(f"{argument!r} is part of the path and must not be empty")
    if isinstance(value, str) and not _DOTS.isdisjoint(_SEPARATORS.split(value) if "." in value else ()):
        raise InvalidArguments(f"{argument!r} is part of the path and must not hold '.' or '..' as a step of it")


def _quote_literal(text: str) -> str:
    return quote(_BARE_PERCENT.sub("%25", text), safe=_LITERAL + "?")
