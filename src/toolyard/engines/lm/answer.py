"""What a model said, as the value of a call."""

from __future__ import annotations

import json
import re
from typing import Any

from toolyard.engines.lm.response_schema import ENVELOPE
from toolyard.model.errors import MalformedSource
from toolyard.model.json_words import json_type
from toolyard.parsing import parse_json
from toolyard.schema.compile import CompiledSchema
from toolyard.schema.violations import Violation, describe

_FENCED = re.compile(r"```[a-zA-Z]*[ \t\r]*\n(.*?)```", re.DOTALL)
_THOUGHT = "</think>"
_BEGINS = re.compile(r"[{\[]")
_PLACES = 16
"""Places of a text at which JSON is looked for."""


class Unfit(ValueError):
    """The text is no result; says why in words that the model can act on."""

    def __init__(self, problem: str, violations: list[Violation] | None = None) -> None:
        super().__init__(problem)
        self.violations = violations or []


def read_result(text: str, output: CompiledSchema | None, declared: frozenset[str], cut: bool = False) -> Any:
    """The value; `Unfit` if there is none in it, or none that the tool may return.

    Without a schema it is any object. With one, an envelope that the schema does not know is taken off.
    """
    value = _json_in(text, cut)
    if output is None:
        if not isinstance(value, dict):
            raise Unfit(f"it must be a JSON object, not {json_type(value)}")
        return value
    if isinstance(value, dict) and value.keys() == {ENVELOPE} and ENVELOPE not in declared:
        inner = value[ENVELOPE]
        if output.is_valid(inner):
            return inner
    violations = output.violations(value)
    if violations:
        raise Unfit(f"it does not fit output_parameters: {describe(violations)}", violations)
    return value


def _json_in(text: str, cut: bool) -> Any:
    """The JSON that the text is, or that stands in it among other words."""
    said = text.rpartition(_THOUGHT)[2].strip()
    try:
        return parse_json(said, what="answer")
    except MalformedSource as error:
        problem = str(error)
    for candidate in _json_candidates(said):
        try:
            return parse_json(candidate, what="answer")
        except MalformedSource:
            continue
    if not said:
        raise Unfit("it is empty")
    raise Unfit("it was cut off before its end; make it shorter" if cut else f"it is not JSON: {problem}")


def _json_candidates(said: str) -> list[str]:
    found = [match[1] for match in _FENCED.finditer(said)]
    decoder = json.JSONDecoder()
    for count, match in enumerate(_BEGINS.finditer(said)):
        if count == _PLACES:
            break
        try:
            _, end = decoder.raw_decode(said, match.start())
        except (ValueError, RecursionError):
            continue
        found.append(said[match.start() : end])
        break
    return found
