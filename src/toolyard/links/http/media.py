"""Media types: what kind of body each has, and which of several to use."""

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
"""Longest type and subtype, in characters, by RFC 6838."""


def bare_media_type(media_type: str) -> str:
    """The type without parameters, in lower case; `application/octet-stream` if it is too long to be valid."""
    name = media_type.partition(";")[0].strip().lower()
    return name if len(name) <= 2 * _LONGEST + 1 else "application/octet-stream"


@lru_cache(maxsize=1024)
def media_kind(media_type: str) -> MediaKind:
    """The kind of body of a media type; wildcards count as JSON."""
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
    """Python's name of the type's charset; None if it is missing or unknown."""
    import codecs

    for parameter in media_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            try:
                found = codecs.lookup(value.strip().strip("\"'"))
            except (LookupError, ValueError):
                return None
            # Some of Python's codecs map bytes to bytes, or do not decode whole texts.
            return found.name if getattr(found, "_is_text_encoding", True) and found.name not in _NO_CHARSETS else None
    return None


_USUAL = frozenset(
    {
        *("application/json", "multipart/form-data", "text/plain", "text/xml", "application/xml", "message/rfc822"),
        "application/octet-stream",
    }
)
"""The common types, preferred over others of the same kind."""


def choose_media_type(media_types: Iterable[str]) -> str | None:
    """Choose the media type to use: JSON, then forms, text, binary; common types first within a kind. None if empty."""
    known = list(media_types)
    if len(known) == 1:
        return known[0]
    return min(known, key=_rank_media_type) if known else None


def _rank_media_type(media_type: str) -> tuple[int, bool, bool]:
    name = bare_media_type(media_type)
    return _ORDER.index(media_kind(media_type)), name in _ANYTHING, name not in _USUAL


def concrete_media_type(media_type: str) -> str:
    """Replace a wildcard by a type that a request can send."""
    if "*" not in media_type:
        return media_type
    if media_kind(media_type) == "json":
        return "application/json"
    return "text/plain" if bare_media_type(media_type).startswith("text/") else "application/octet-stream"
