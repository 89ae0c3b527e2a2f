"""Identifiers and the words they are made of."""

from __future__ import annotations

import re
from functools import lru_cache

_ANY_SCRIPT = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
_ASCII = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def split_identifier(name: str) -> list[str]:
    """The words a name is made of, in small letters: `petStatus_code2` is pet, status, code, 2."""
    return [word.lower() for word in _ANY_SCRIPT.findall(name)]


def split_ascii_identifier(name: str) -> list[str]:
    """The same, but letters of other scripts only stand between words: in `\u00e9Token` the word is token."""
    return [word.lower() for word in _ASCII.findall(name)]


def snake_case(name: str) -> str:
    """`GetHTTPStatus` as `get_http_status`."""
    return _HUMP.sub("_", name).lower()


@lru_cache(maxsize=20_000)
def plain_letters(name: str) -> str:
    """A name as it is compared: `petId`, `pet_id` and `Pet-ID` are one."""
    return "".join([letter for letter in name if letter.isalnum()]).lower()
