"""JSON Schema compiled once, offline, with regular expressions that cannot hang; and what is wrong with a value.

Patterns run in linear time; only a schema whose patterns need look-around or back-references gets the
backtracking engine, and then with a step limit that fails closed. Messages name the place and the rule, never the
value: arguments may hold secrets.

A verdict is cheap whatever the value. A list of violations is not: the validator walks every branch of a union again
for each level of a recursive schema, and copies an enum for each value that is not in it, all of it while no other
thread runs. A value beyond `listing_limits` is refused with one finding about the whole of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec

from toolyard.model.errors import InvalidSchemaError
from toolyard.model.json_words import JSON_TYPES, json_type, pointer_of
from toolyard.model.tree_size import fits
from toolyard.schema.subschemas import children, resolve_pointer

_SHOWN = 8


class Violation(msgspec.Struct, frozen=True):
    """One broken rule."""

    pointer: str
    """JSON pointer to the value; empty for the whole."""
    message: str
    keyword: str
    schema_pointer: str = ""

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
        message=_word_violation(error),
        keyword=error.kind.name,
        schema_pointer=pointer_of(error.schema_path),
    )


def _word_violation(error: jsonschema_rs.ValidationError) -> str:
    kind = error.kind
    match kind:
        case jsonschema_rs.ValidationErrorKind.Type(types=types):
            return f"must be {_join_or(sorted(types))}, not {json_type(error.instance)}"
        case jsonschema_rs.ValidationErrorKind.Required(property=name):
            return f"missing required property {name!r}"
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=names):
            return f"unexpected {_quote_names('property', 'properties', names)}"
        case jsonschema_rs.ValidationErrorKind.UnevaluatedProperties(unexpected=names):
            return f"unexpected {_quote_names('property', 'properties', names)}"
        case jsonschema_rs.ValidationErrorKind.Enum(options=options):
            return f"must be one of {_list_options(options)}"
        case jsonschema_rs.ValidationErrorKind.Constant(expected_value=value):
            return f"must be {_list_options([value])}"
        case jsonschema_rs.ValidationErrorKind.AnyOf(context=context):
            return f"fits none of the {len(context)} allowed forms: {_describe_branches(context)}"
        case jsonschema_rs.ValidationErrorKind.OneOfNotValid(context=context):
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
    return " | ".join(_word_violation(branch[0]) for branch in context[:_SHOWN] if branch)


def _quote_names(one: str, many: str, names: Sequence[str]) -> str:
    quoted = ", ".join(repr(name[:80]) for name in names[:_SHOWN])
    return f"{one if len(names) == 1 else many} {quoted}"


def _list_options(values: Sequence[Any]) -> str:
    shown = ", ".join(msgspec.json.encode(value).decode()[:80] for value in values[:_SHOWN])
    return f"{shown}, ... ({len(values)} in all)" if len(values) > _SHOWN else shown


def _join_or(words: Sequence[str]) -> str:
    return " or ".join(words)


_WORK = 1_000_000
_WORK_OF_A_VIOLATION = 40
"""As much as copying an enum of so many values."""
_LISTED_DEPTH = 200
_LISTED_DEPTH_RECURSIVE = 6
"""Four forms that lead on to each other make 4,096 violations of one wrong value so deep."""


def listing_limits(schema: dict[str, Any] | bool) -> tuple[int, int]:
    """The most values, and levels, of a value whose violations are listed."""
    if not isinstance(schema, dict):
        return _WORK // _WORK_OF_A_VIOLATION, _LISTED_DEPTH
    longest, recursive = _survey_schema(schema)
    values = _WORK // (_WORK_OF_A_VIOLATION + longest)
    return (values // 10, _LISTED_DEPTH_RECURSIVE) if recursive else (values, _LISTED_DEPTH)


def _survey_schema(root: dict[str, Any]) -> tuple[int, bool]:
    """The length of its longest enum, and whether it leads back into itself. Never recurses."""
    longest, recursive = 0, False
    open_nodes: set[int] = set()
    seen: set[int] = set()
    stack: list[tuple[dict[str, Any], bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            open_nodes.discard(id(node))
        elif id(node) in open_nodes:
            recursive = True
        elif id(node) not in seen:
            seen.add(id(node))
            open_nodes.add(id(node))
            enum = node.get("enum")
            longest = max(longest, len(enum) if isinstance(enum, list) else 0)
            below, unknown = _schemas_below(root, node)
            recursive = recursive or unknown
            stack.append((node, True))
            stack.extend((sub, False) for sub in below)
    return longest, recursive


def _schemas_below(root: dict[str, Any], node: dict[str, Any]) -> tuple[list[dict[str, Any]], bool]:
    """What a schema leads to, and whether it also leads where only the validator can follow."""
    below = [sub for _, sub in children(node) if isinstance(sub, dict)]
    unknown = "$dynamicRef" in node or "$recursiveRef" in node
    if "$ref" in node:
        target = resolve_pointer(root, node["$ref"])
        if isinstance(target, dict):
            below.append(target)
        else:
            unknown = unknown or not isinstance(target, bool)
    return below, unknown


_LINEAR = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 21)
_BACKTRACKING = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=1 << 20, dfa_size_limit=1 << 21)


MAX_VIOLATIONS = 100
_TOO_LARGE = "does not fit its schema, and is too large or nests too deep to list where"


class CompiledSchema:
    """A validator that may be called from any thread."""

    __slots__ = ("_errors", "_limits", "_schema", "is_valid")

    def __init__(self, schema: dict[str, Any] | bool, *, assert_formats: bool = False) -> None:
        self.is_valid: Callable[[Any], bool]
        """The verdict, cheap whatever the value; raises ValueError for what is no JSON."""
        validator = _compile_cached(schema, assert_formats)
        self.is_valid = validator.is_valid
        self._errors = validator.iter_errors
        self._schema = schema
        self._limits: tuple[int, int] | None = None

    def accepts(self, value: Any) -> bool:
        """`is_valid` that refuses what is no JSON, too."""
        try:
            return self.is_valid(value)
        except ValueError:
            return False

    def violations(self, value: Any, *, limit: int = MAX_VIOLATIONS) -> list[Violation]:
        """The violations, in the validator's order, up to a limit; empty when the value is valid.

        A value that is too large to list what is wrong with it gets one finding about the whole.
        """
        try:
            if self.is_valid(value):
                return []
            if not self._is_listable(value):
                return [Violation(pointer="", message=_TOO_LARGE, keyword="schema")]
            return [violation_of(error) for error in islice(self._errors(value), limit)]
        except ValueError as error:
            return [Violation(pointer="", message=f"is not JSON: {error}", keyword="type")]

    def raw_errors(self, value: Any, *, limit: int) -> list[jsonschema_rs.ValidationError] | None:
        """The validator's own errors, for code that repairs values; None if it is too large, or no JSON."""
        try:
            if self.is_valid(value):
                return []
            return list(islice(self._errors(value), limit)) if self._is_listable(value) else None
        except ValueError:
            return None

    def _is_listable(self, value: Any) -> bool:
        if self._limits is None:
            self._limits = listing_limits(self._schema)
        max_values, max_depth = self._limits
        return fits(value, max_values=max_values, max_depth=max_depth)


def compile_schema(schema: dict[str, Any] | bool, *, assert_formats: bool = False) -> CompiledSchema:
    """Compile a schema; `InvalidSchemaError` says which keyword is wrong and where.

    `$schema` chooses the draft (4, 6, 7, 2019-09, 2020-12), default 2020-12. Formats are annotations,
    as the drafts say, unless `assert_formats`. No `$ref` is ever fetched.
    """
    return CompiledSchema(schema, assert_formats=assert_formats)


def _compile_cached(schema: dict[str, Any] | bool, assert_formats: bool) -> jsonschema_rs.Validator:
    try:
        return _make_validator(schema, assert_formats, _LINEAR)
    except jsonschema_rs.ValidationError as error:
        if not _is_regex(error):
            raise _explain_invalid(error) from None
    except ValueError as error:
        raise InvalidSchemaError(f"schema is not plain JSON or too deep: {error}") from None
    try:
        return _make_validator(schema, assert_formats, _BACKTRACKING)
    except jsonschema_rs.ValidationError as error:
        raise _explain_invalid(error) from None


def _make_validator(
    schema: dict[str, Any] | bool,
    assert_formats: bool,
    patterns: jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions,
) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(
        schema, validate_formats=assert_formats, pattern_options=patterns, offline=True, mask="value"
    )


def _is_regex(error: jsonschema_rs.ValidationError) -> bool:
    kind = error.kind
    return isinstance(kind, jsonschema_rs.ValidationErrorKind.Format) and kind.format == "regex"


def _explain_invalid(error: jsonschema_rs.ValidationError) -> InvalidSchemaError:
    pointer = pointer_of(error.instance_path)
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Referencing) or not error.schema_path:
        return InvalidSchemaError(_reference_problem(error.message), pointer=pointer)
    if _is_regex(error):
        return InvalidSchemaError(f"{pointer}: not a usable regular expression", pointer=pointer)
    place = error.instance_path[-1] if error.instance_path else "schema"
    if place == "type":
        names = ", ".join(sorted(JSON_TYPES))
        return InvalidSchemaError(f"{pointer}: unknown type; JSON Schema knows {names}", pointer=pointer)
    return InvalidSchemaError(f"{pointer or '(root)'}: {violation_of(error).message}", pointer=pointer)


def _reference_problem(message: str) -> str:
    if "Retrieval is disabled" in message:
        uri = message.rpartition("cannot fetch ")[2]
        return f"$ref to {uri!r} is not fetched; copy the schema under $defs and point at it with '#/$defs/...'"
    if "Unknown meta-schema" in message:
        return f"{message.split('. ')[0]}; use a published draft (4, 6, 7, 2019-09 or 2020-12) in $schema"
    return f"$ref cannot be resolved: {message}"
