"""Media types: how a body of one is written and read, and which of those offered is used."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

MediaKind = Literal["json", "form", "multipart", "text", "binary"]

_ORDER: tuple[MediaKind, ...] = ("json", "form", "multipart", "text", "binary")
_TEXTS = frozenset(
    f"application/{name}"
    for name in (
        *("xml", "yaml", "x-yaml", "toml", "csv", "rtf", "sql", "graphql", "javascript", "ecmascript", "x-sh"),
        *("ndjson", "x-ndjson", "jsonl", "x-jsonlines", "json-seq", "jwt", "jose", "jose+json"),
    )
)
_ANYTHING = frozenset({"*/*", "application/*", "*"})
_NO_CHARSETS = frozenset({"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "mbcs", "oem"})
_LONGEST = 127
"""Characters of a type and of a subtype each, by RFC 6838; what is longer is no type."""


def bare_media_type(media_type: str) -> str:
    """Without parameters, in lower case."""
    name = media_type.partition(";")[0].strip().lower()
    return name if len(name) <= 2 * _LONGEST + 1 else "application/octet-stream"


@lru_cache(maxsize=1024)
def media_kind(media_type: str) -> MediaKind:
    """What a body of this type is made of; one for any type is JSON."""
    name = bare_media_type(media_type)
    if name in _TEXTS:
        return "text"
    if name in ("application/json", "text/json") or name in _ANYTHING or name.endswith("+json"):
        return "json"
    if name == "application/x-www-form-urlencoded":
        return "form"
    if name.startswith("multipart/"):
        return "multipart"
    if name.startswith("text/") or name.endswith(("+xml", "+yaml", "/xml")) or name == "message/rfc822":
        return "text"
    return "binary"


@lru_cache(maxsize=1024)
def charset_of(media_type: str) -> str | None:
    """The character set a type names, if Python knows it."""
    import codecs

    for parameter in media_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            try:
                found = codecs.lookup(value.strip().strip("\"'"))
            except (LookupError, ValueError):
                return None
            # Some codecs of Python turn bytes into bytes, and some are for parts of a text only.
            return found.name if getattr(found, "_is_text_encoding", True) and found.name not in _NO_CHARSETS else None
    return None


_USUAL = frozenset(
    {
        *("application/json", "multipart/form-data", "text/plain", "text/xml", "application/xml", "message/rfc822"),
        "application/octet-stream",
    }
)
"""What a service that takes several of a kind surely means; the others are for few."""


def choose_media_type(media_types: Iterable[str]) -> str | None:
    """The one to use: JSON before forms before text before bytes; of each the usual type before its variants."""
    known = list(media_types)
    if len(known) == 1:
        return known[0]
    return min(known, key=_rank_media_type) if known else None


def _rank_media_type(media_type: str) -> tuple[int, bool, bool]:
    name = bare_media_type(media_type)
    return _ORDER.index(media_kind(media_type)), name in _ANYTHING, name not in _USUAL


def concrete_media_type(media_type: str) -> str:
    """The type a request can name: one with a wildcard says nothing."""
    if "*" not in media_type:
        return media_type
    if media_kind(media_type) == "json":
        return "application/json"
    return "text/plain" if bare_media_type(media_type).startswith("text/") else "application/octet-stream"
