"""Why libyaml refused a text, in words that say what to do."""

from __future__ import annotations

import re

import yaml

from toolyard.model.errors import MalformedSource
from toolyard.parsing.places import fault_at

_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAB = "a tab cannot indent YAML; use spaces"
_REMEDIES = {
    "found a tab character that violates indentation": _TAB,
    "found a tab character where an indentation space is expected": _TAB,
    "mapping values are not allowed in this context": "': ' cannot stand here; quote the text or mend the indentation",
    "block sequence entries are not allowed in this context": "'- ' cannot stand here; begin the list on a new line",
    "could not find expected ':'": "expected ': ' after the key above, on its line",
    "did not find expected key": "the indentation fits no line above",
    "did not find expected '-' indicator": "the indentation fits no line above, or a '- ' is missing",
    "did not find expected ',' or ']'": "expected ',' or ']' here",
    "did not find expected ',' or '}'": "expected ',' or '}' here",
    "found unexpected end of stream": "the quoted text never ends; add its closing quote",
    "found unknown escape character": "no such escape in double quotes; double the backslash or use single quotes",
    "found invalid Unicode character escape code": "half of a surrogate pair is no character; write both halves",
    "found undefined tag handle": "the tag's prefix is not declared; remove the tag",
}


def explain_yaml_error(text: str, error: yaml.YAMLError, what: str) -> MalformedSource:
    """The error for a text that libyaml refused; places are in `text`."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return _explain_unreadable(text, error, what)
    mark, problem = error.problem_mark, error.problem or "is not YAML"
    message = _REMEDIES.get(problem, problem)
    if problem == "found character that cannot start any token":
        character = text.split("\n")[mark.line][mark.column : mark.column + 1]
        message = _TAB if character == "\t" else f"{character!r} cannot begin a plain value; put it in quotes"
    if error.context_mark is not None and error.context_mark.line != mark.line:
        message += f" ({error.context} from line {error.context_mark.line + 1})"
    return MalformedSource(message, where=f"{what}:{mark.line + 1}:{mark.column + 1}")


def _explain_unreadable(text: str, error: yaml.YAMLError, what: str) -> MalformedSource:
    bad = _UNPRINTABLE.search(text)
    if bad is None:
        return MalformedSource(str(error), where=what)
    message = (
        f"the control character U+{ord(bad[0]):04X} is not allowed in YAML; remove it, or escape it in double quotes"
    )
    return fault_at(text, bad.start(), message, what)
