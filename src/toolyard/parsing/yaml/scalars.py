"""What a YAML scalar means: the core schema of YAML 1.2, less what JSON cannot say.

`yes`, `on`, dates, `1_000` and `0b1` are text here; YAML 1.1 readers make something else of them.
"""

from __future__ import annotations

import math
import re

from toolyard.parsing.json_text import MAX_DIGITS

Scalar = str | int | float | bool | None

LARGEST_INT = 10**MAX_DIGITS
"""Integers must lie strictly between this and its negative."""

_WORDS: dict[str, Scalar] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_FIRST = frozenset("~nNtTfF+-.0123456789")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BASES = {"0o": 8, "0x": 16}
CORE_TAG = "tag:yaml.org,2002:"
"""What `!!` stands for."""

UNSPECIFIC_TAG = "!"
"""Takes a value for what it looks like: text, a list or a mapping."""


def plain_scalar(text: str) -> Scalar:
    """The value of an unquoted scalar without a tag; a ValueError for a number JSON cannot hold."""
    if text and text[0] not in _FIRST:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return _read_int(text)
    if _FLOAT.fullmatch(text) or _NOT_FINITE.fullmatch(text):
        return _read_float(text)
    return text


def tagged_scalar(tag: str, text: str) -> Scalar:
    """The value of a scalar with an explicit tag; a ValueError if the tag is not ours or does not fit."""
    kind = tag.removeprefix(CORE_TAG) if tag.startswith(CORE_TAG) else ""
    if kind == "str" or tag == UNSPECIFIC_TAG:
        return text
    if kind == "null" and text in _WORDS and _WORDS[text] is None:
        return None
    if kind == "bool" and isinstance(word := _WORDS.get(text), bool):
        return word
    if kind == "int" and _INT.fullmatch(text):
        return _read_int(text)
    if kind == "float" and (_FLOAT.fullmatch(text) or _NOT_FINITE.fullmatch(text)):
        return _read_float(text)
    if kind in ("null", "bool", "int", "float"):
        raise ValueError(f"{text[:40]!r} is not a !!{kind}; correct it, or remove the tag")
    raise unknown_tag(tag)


def unknown_tag(tag: str) -> ValueError:
    """The error for a tag that has no meaning in plain data; nothing is ever constructed from one."""
    name = f"!!{tag.removeprefix(CORE_TAG)}" if tag.startswith(CORE_TAG) else tag
    return ValueError(f"tag {name[:60]} does not fit this value in plain data; remove it")


def _read_int(text: str) -> int:
    base = _BASES.get(text[:2], 10)
    digits = text[2:] if base != 10 else text.lstrip("+-").lstrip("0") or "0"
    # Python refuses to read longer decimals at all, and counts zeros in front as well.
    value = LARGEST_INT if base == 10 and len(digits) > MAX_DIGITS else int(digits, base)
    if value >= LARGEST_INT:
        raise ValueError(f"an integer of more than {MAX_DIGITS:,} digits; write it in quotes")
    return -value if text[0] == "-" else value


def _read_float(text: str) -> float:
    value = math.inf if _NOT_FINITE.fullmatch(text) else float(text)
    if math.isfinite(value):
        return value
    raise ValueError(f"{text[:40]} has no place in JSON, which knows finite numbers only; use null or quote it")
