"""`StrictModel`, and pydantic errors that never show input values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

from toolyard.model.json_schema import pointer_of
from toolyard.schema.violations import MAX_VIOLATIONS, Violation

HIDDEN = "<hidden>"
"""Replaces input values in errors."""

# Facts in which pydantic, or a validator's author, may quote the input.
_QUOTING_FACTS = frozenset({"error", "tag"})
_BUILT_IN = frozenset(get_args(ErrorType))

# Shorter values remain in a validator's message: replacing every "a" and "10" would make it unreadable, and a secret is
# longer than two characters.
_SHORTEST_SCRUBBED = 3
_MOST_SCRUBBED = 2_000
"""Maximum number of input values to search for in a message."""
_MOST_READ = 1_000
"""Maximum number of errors to read: pydantic returns them all at once."""


class StrictModel(BaseModel):
    """Base class of typed tool inputs and outputs. Unknown keys are errors, and errors do not show values."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


def hide_input(error: ValidationError) -> ValidationError:
    """The same error without any input value, for models that do not hide input themselves.

    Title, types, locations and messages stay. A value that a validator wrote into its message is replaced there too,
    and `errors()` shows `HIDDEN` for every input. Of many errors only the first are listed, with the number of the
    others; of more than a thousand, which are slow to read, only the number.
    """
    count = error.error_count()
    details = error.errors(include_url=False) if count <= _MOST_READ else []
    lines = [_scrub_values(detail) for detail in details[:MAX_VIOLATIONS]]
    if count > len(lines):
        words = "{count} further values are wrong" if lines else "{count} values are wrong, too many to tell which"
        told = PydanticCustomError("too_many", words, {"count": count - len(lines)})
        lines.append(InitErrorDetails(type=told, loc=(), input=HIDDEN))
    return ValidationError.from_exception_data(error.title, lines, hide_input=True)


def read_violations(error: ValidationError, document: Any) -> list[Violation]:
    """A `Violation` for each error of validating the document, without input values.

    pydantic includes the branches of a union in its locations. These labels are left out, so that each pointer leads
    to a place in the document, or to a missing key.
    """
    return [
        Violation(pointer=_pointer_of(detail, document), message=detail["msg"], keyword=detail["type"])
        for detail in hide_input(error).errors(include_url=False, include_context=False)
    ]


def _scrub_values(detail: ErrorDetails) -> InitErrorDetails:
    kind, message, facts = detail["type"], detail["msg"], detail.get("ctx", {})
    authored = kind not in _BUILT_IN
    if authored or _QUOTING_FACTS & facts.keys():
        message = _scrub_message(message, detail["input"])
    kept = {} if authored else {key: fact for key, fact in facts.items() if key not in _QUOTING_FACTS}
    # Only a custom error keeps its message; a built-in one would generate it again from the facts.
    return InitErrorDetails(type=PydanticCustomError(kind, message, kept or None), loc=detail["loc"], input=HIDDEN)


def _scrub_message(message: str, value: Any) -> str:
    texts = list(islice(_iter_scalars(value), _MOST_SCRUBBED + 1))
    if len(texts) > _MOST_SCRUBBED:
        return "is not accepted; the reason may repeat what was sent, which is too much to look for"
    for text in sorted(set(texts), key=len, reverse=True):
        if len(text) >= _SHORTEST_SCRUBBED and text in message:
            message = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", HIDDEN, message)
    return message


def _iter_scalars(value: Any) -> Iterator[str]:
    # Python input may contain itself, so each container is visited once.
    stack, seen = [value], set()
    while stack:
        item = stack.pop()
        if isinstance(item, (dict, list, tuple, set, frozenset)):
            if id(item) not in seen:
                seen.add(id(item))
                stack.extend(item.values() if isinstance(item, dict) else item)
        elif isinstance(item, (str, bytes, int, float)) and not isinstance(item, bool):
            yield str(item)


def _pointer_of(detail: ErrorDetails, document: Any) -> str:
    path = detail["loc"]
    kept: list[str | int] = []
    for position, part in enumerate(path):
        if _holds_value(document, part):
            document = document[part]
        elif detail["type"] != "missing" or position < len(path) - 1:
            continue
        kept.append(part)
    return pointer_of(kept)


def _holds_value(document: Any, part: str | int) -> bool:
    if isinstance(document, dict):
        return part in document
    return isinstance(document, list) and isinstance(part, int) and part < len(document)
