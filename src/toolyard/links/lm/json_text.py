"""Finds JSON in a model's answer: alone, in a fenced block or among prose, after any `<think>` section."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_json

_FENCED = re.compile(r"```[a-zA-Z]*[ \t\r]*\n(.*?)```", re.DOTALL)
_THOUGHT = "</think>"
_BEGINS = re.compile(r"[{\[]")
_PLACES = 16
"""Positions at which a JSON value is tried."""


def strip_thought(text: str) -> str:
    """The text after the last `</think>`."""
    return text.rpartition(_THOUGHT)[2].strip()


def find_json(text: str, kind: type = object) -> Any:
    """Return the first JSON value of that kind; `MalformedSource` for the whole text if there is none.

    The whole text is returned if it is JSON, whatever its kind.
    """
    said = strip_thought(text)
    try:
        return parse_json(said, what="answer")
    except MalformedSource as error:
        refusal = error
    for candidate in _list_candidates(said):
        with suppress(MalformedSource):
            value = parse_json(candidate, what="answer")
            if isinstance(value, kind):
                return value
    raise refusal


def _list_candidates(said: str) -> Iterator[str]:
    yield from (match[1] for match in _FENCED.finditer(said))
    decoder = json.JSONDecoder()
    for _, match in zip(range(_PLACES), _BEGINS.finditer(said), strict=False):
        with suppress(ValueError, RecursionError):
            yield said[match.start() : decoder.raw_decode(said, match.start())[1]]
