"""Media types: which of those offered is used, and what a value must be to be written as one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

Kind = Literal["json", "form", "multipart", "text", "binary"]

_ORDER: tuple[Kind, ...] = ("json", "form", "multipart", "text", "binary")
_FORM = "application/x-www-form-urlencoded"
_TEXTS = frozenset(
    {
        *("application/xml", "application/javascript", "application/ecmascript", "application/yaml"),
        *("application/x-yaml", "application/toml", "application/graphql", "application/sql", "application/csv"),
        *("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"),
        *("application/json-seq", "application/jwt", "application/jose", "application/jose+json", "application/rtf"),
        "application/x-sh",
    }
)
_ANYTHING = frozenset({"*/*", "application/*", "*"})


def plain(media_type: str) -> str:
    """Without parameters, in lower case."""
    return media_type.partition(";")[0].strip().lower()


@lru_cache(maxsize=1024)
def kind_of(media_type: str) -> Kind:
    """How a body of this type is made; what is for any type is made as JSON."""
    name = plain(media_type)
    if name in _TEXTS:
        return "text"
    if name in ("application/json", "text/json") or name.endswith("+json") or name in _ANYTHING:
        return "json"
    if name == _FORM:
        return "form"
    if name.startswith("multipart/"):
        return "multipart"
    if name.startswith("text/") or name.endswith(("+xml", "+yaml", "/xml")):
        return "text"
    return "binary"


def best(media_types: Iterable[str]) -> str | None:
    """The one to use: JSON before forms before text before bytes; plain `application/json` before its variants."""
    known = list(media_types)
    if len(known) == 1:
        return known[0]
    return min(known, key=_rank_media) if known else None


def _rank_media(media_type: str) -> tuple[int, bool, bool]:
    return (_ORDER.index(kind_of(media_type)), plain(media_type) in _ANYTHING, plain(media_type) != "application/json")
