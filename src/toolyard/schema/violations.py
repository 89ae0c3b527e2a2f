"""What is wrong with a value, in words that name the place and the rule and never the value: it may be a secret."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jsonschema_rs
import msgspec

from toolyard.model.names import json_type, pointer_of

MAX_VIOLATIONS = 100
_SHOWN = 8


class Violation(msgspec.Struct, frozen=True):
    """One broken rule."""

    pointer: str
    """JSON pointer to the value; empty for the whole."""
    message: str
    keyword: str

    def __str__(self) -> str:
        return f"{self.pointer or '(root)'}: {self.message}"

    def to_dict(self) -> dict[str, str]:
        """Plain JSON."""
        return {"pointer": self.pointer, "message": self.message, "keyword": self.keyword}


def describe(violations: Sequence[Violation]) -> str:
    """One line for a whole list: the first few, and how many more there are."""
    shown = "; ".join(map(str, violations[:_SHOWN]))
    more = len(violations) - _SHOWN
    return f"{shown}; and {more} more" if more > 0 else shown


def violation_of(error: jsonschema_rs.ValidationError) -> Violation:
    """A validator's error as our own."""
    return Violation(
        pointer=pointer_of(error.instance_path),
        message=word_violation(error),
        keyword=error.kind.name,
    )


def word_violation(error: jsonschema_rs.ValidationError) -> str:
    """A validator's error in our words."""
    kind = error.kind
    match kind:
        case jsonschema_rs.ValidationErrorKind.Type(types=types):
            return word_type(types, error.instance)
        case jsonschema_rs.ValidationErrorKind.Required(property=name):
            return f"missing required property {name!r}"
        case (
            jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=names)
            | jsonschema_rs.ValidationErrorKind.UnevaluatedProperties(unexpected=names)
        ):
            return f"unexpected {quote_names('property', 'properties', names)}"
        case jsonschema_rs.ValidationErrorKind.Enum(options=options):
            return f"must be one of {list_options(options)}"
        case jsonschema_rs.ValidationErrorKind.Constant(expected_value=value):
            return f"must be {list_options([value])}"
        case (
            jsonschema_rs.ValidationErrorKind.AnyOf(context=context)
            | jsonschema_rs.ValidationErrorKind.OneOfNotValid(context=context)
        ):
            return f"fits none of the {len(context)} allowed forms: {_describe_branches(context)}"
        case jsonschema_rs.ValidationErrorKind.OneOfMultipleValid(context=context):
            fits = sum(not branch for branch in context)
            return f"fits {fits} of the {len(context)} allowed forms, must fit exactly one"
        case jsonschema_rs.ValidationErrorKind.Pattern(pattern=pattern):
            return f"must match the pattern {pattern[:200]!r}"
        case jsonschema_rs.ValidationErrorKind.Format(format=name):
            return f"must be in the format {name!r}"
        case _:
            return _word_limit(kind) or error.message


def word_type(types: Iterable[str], value: Any) -> str:
    """That a value is of another type."""
    return f"must be {' or '.join(sorted(types))}, not {json_type(value)}"


def _word_limit(kind: jsonschema_rs.ValidationErrorKind) -> str | None:
    words = _LIMITS.get(kind.name)
    limit = kind.as_dict().get("limit")
    return words.format(limit=limit) if words and limit is not None else None


_LIMITS = {
    "minimum": "must be at least {limit}",
    "maximum": "must be at most {limit}",
    "exclusiveMinimum": "must be greater than {limit}",
    "exclusiveMaximum": "must be less than {limit}",
    "minLength": "must have at least {limit} characters",
    "maxLength": "must have at most {limit} characters",
    "minItems": "must have at least {limit} items",
    "maxItems": "must have at most {limit} items",
    "minProperties": "must have at least {limit} properties",
    "maxProperties": "must have at most {limit} properties",
}


def _describe_branches(context: list[list[jsonschema_rs.ValidationError]]) -> str:
    return " | ".join(word_violation(branch[0]) for branch in context[:_SHOWN] if branch)


def quote_names(one: str, many: str, names: Sequence[str]) -> str:
    """The first few names, behind the word for one or for many."""
    quoted = ", ".join(repr(name[:80]) for name in names[:_SHOWN])
    return f"{one if len(names) == 1 else many} {quoted}"


def list_options(values: Sequence[Any]) -> str:
    """The first few values as JSON, and how many there are."""
    shown = ", ".join(msgspec.json.encode(value).decode()[:80] for value in values[:_SHOWN])
    return f"{shown}, ... ({len(values)} in all)" if len(values) > _SHOWN else shown
