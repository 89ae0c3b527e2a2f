"""Finds JSON in a model's answer: alone, in a fenced block or among prose, after any `<think>` section."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
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


def find_json(text: str) -> Any:
    """Return the first JSON value; `MalformedSource` for the whole text if there is none."""
    said = strip_thought(text)
    try:
        return parse_json(said, what="answer")
    except MalformedSource as error:
        refusal = error
    for candidate in _list_candidates(said):
        try:
            return parse_json(candidate, what="answer")
        except MalformedSource:
            continue
    raise refusal


def _list_candidates(said: str) -> Iterator[str]:
    yield from (match[1] for match in _FENCED.finditer(said))
    decoder = json.JSONDecoder()
    for _, match in zip(range(_PLACES), _BEGINS.finditer(said), strict=False):
        try:
            yield said[match.start() : decoder.raw_decode(said, match.start())[1]]
            return
        except (ValueError, RecursionError):
            continue
