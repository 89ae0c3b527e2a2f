"""JSON Schema compiled once, offline, with regular expressions that cannot hang.

Patterns run in linear time; only a schema whose patterns need look-around or back-references gets the
backtracking engine, and then with a step limit that fails closed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import jsonschema_rs

from toolyard.model.errors import InvalidSchemaError
from toolyard.model.json_words import pointer_of
from toolyard.model.keywords import JSON_TYPES
from toolyard.model.tree_size import fits
from toolyard.schema.listing_limit import listing_limits
from toolyard.schema.violations import Violation, violation_of

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
