"""JSON Schema validators, compiled once and offline, whose regular expressions cannot hang; and lists of violations.

Patterns run in linear time; only a schema whose patterns need look-around or back-references gets the backtracking
engine, and then with a step limit that fails closed. Messages name the place and the rule, never the value: arguments
may contain secrets.

The validator holds the interpreter lock, so the cost of a value is estimated before it is judged (`weight`), and
violations are found by a walk that counts its steps (`walk`), not by the validator's own list of errors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from toolyard.model.errors import InvalidSchemaError
from toolyard.model.json_schema import JSON_TYPES, pointer_of
from toolyard.model.tool import Schema
from toolyard.schema.subschemas import Path, iter_children
from toolyard.schema.violations import MAX_VIOLATIONS, Explainer, Misfit, Violation, word_violation
from toolyard.schema.walk import Walk
from toolyard.schema.weight import PATTERN_TOKEN, STEPS, Weight, measure, weigh

_LINEAR = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 21)
_BACKTRACKING = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=1 << 20, dfa_size_limit=1 << 21)


WALK_STEPS = 600_000
"""The step limit for explaining why a value is wrong: about 10,000 steps of Python code."""
SMALL_BYTES = 1 << 16
"""JSON text up to this length, with few values, is judged without estimating its cost."""
QUICK_BYTES = 4096
"""An invalid value with JSON text up to this length is explained and repaired within a few milliseconds."""
_WALK_ERRORS = (InvalidSchemaError, ValueError, RecursionError, TypeError, AttributeError, LookupError)
"""Exceptions of a walk: a part does not compile by itself, or a value is not JSON (the first two); combinations nest
hundreds of levels deep; a keyword unknown to its draft has a value of an unexpected shape, which no meta-schema
rejected.
"""
_DOES_NOT_FIT = Misfit((), "does not fit its schema", "schema")
_TOO_COSTLY = Misfit(
    (),
    f"may take more than {STEPS:,} steps to judge by its schema, which is the limit; send less, or nest it less deep",
    "schema",
)


class CompiledSchema:
    """A thread-safe validator with a bounded cost for each value.

    The cost of a value is estimated from the schema's `Weight` and the value's size. If it is too high for the
    validator, the value is judged by a walk that remembers partial results; if it exceeds the limit of the walk too,
    the value is rejected.
    """

    def __init__(self, schema: dict[str, Any] | bool) -> None:
        self.judge_small: Callable[[Any], bool] = _compile_validator(schema).is_valid
        """Judge a value without measuring it, for values whose JSON text is no longer than `max_bytes`."""
        self._schema = schema

    @cached_property
    def is_valid(self) -> Callable[[Any], bool]:
        """Judge a value; raises ValueError if it is not JSON."""
        return self.judge_small if self.weight.is_light else self.judge

    @cached_property
    def weight(self) -> Weight:
        """The estimated cost of judging values."""
        return weigh(self._schema)

    @cached_property
    def explainer(self) -> Explainer:
        """The helper that finds out why a value is wrong."""
        return Explainer(self._schema, _compile_validator)

    @property
    def max_bytes(self) -> int:
        """Maximum length of the JSON text of values that `judge_small` judges quickly."""
        return self.weight.max_bytes()

    def judge(self, value: Any) -> bool:
        """Judge a value of any size; False for one that is too costly to judge."""
        return self.judge_small(value) if self._is_affordable(value) else not self.faults(value, limit=1)

    def accepts(self, value: Any) -> bool:
        """`judge`, but False for a value that is not JSON."""
        try:
            return self.judge(value)
        except ValueError:
            return False

    def violations(self, value: Any) -> list[Violation]:
        """The first violations of the value; empty if it is valid."""
        try:
            faults = self.faults(value, limit=MAX_VIOLATIONS)
        except ValueError as error:
            return [Violation(pointer="", message=f"is not JSON: {error}", keyword="type")]
        return [fault.violation for fault in faults]

    def faults(self, value: Any, *, limit: int, repairs: bool = False) -> list[Misfit]:
        """The violations in the form used for repairs; raises ValueError for a value that is not JSON."""
        is_judged = self._is_affordable(value)
        if is_judged and self.judge_small(value):
            return []
        walk = Walk(self.explainer, WALK_STEPS, repairs=repairs)
        try:
            found = walk.find_faults(value, limit)
        except _WALK_ERRORS:
            return [_DOES_NOT_FIT]
        if is_judged:
            return found or [_DOES_NOT_FIT]
        return found if not walk.is_spent and self.explainer.references.is_plain else [_TOO_COSTLY]

    def _is_affordable(self, value: Any) -> bool:
        weight = self.weight
        if weight.is_light and not weight.compares:
            return True
        size = measure(value, STEPS // weight.levels[0], weight)
        return size is not None and weight.steps_for(size) <= STEPS


def compile_schema(schema: dict[str, Any] | bool) -> CompiledSchema:
    """Compile a schema; `InvalidSchemaError` says which keyword is wrong and where.

    `$schema` chooses the draft (4, 6, 7, 2019-09, 2020-12), default 2020-12. Formats are annotations, as the drafts
    say. No `$ref` is ever fetched.
    """
    return CompiledSchema(schema)


_LONGEST_PATTERN = 1_000
# Nothing matches a slash before the beginning or behind the end, so these are not part of the pattern; others may be.
_SLASHED = re.compile(r"/(\^.*|.*(?<!\\)\$)/([a-z]*)", re.DOTALL)
_BESIDE_CLASS = re.compile(r"(?<!\\)((?:\\\\)*\\[wdsWDS])-|(?<!\\)-(?=\\[wdsWDS])")
_REPEATED = re.compile(r"(?<!\\)\{\d+(?:,\d*)?\}")


@lru_cache(maxsize=4096)
def usable_pattern(text: str) -> str | None:
    """The pattern, without the slashes JavaScript puts around one; None if no engine here can run it.

    A hyphen beside a class of characters is escaped where it stands in the way: to JavaScript it is a hyphen.
    """
    if len(text) > _LONGEST_PATTERN:
        return None
    slashed = _SLASHED.fullmatch(text)
    if slashed and set(slashed[2]) <= set("gimsuy"):
        text = ("(?i)" if "i" in slashed[2] else "") + slashed[1]
    return next((each for each in (text, _BESIDE_CLASS.sub(r"\1\-", text)) if _is_usable(each)), None)


def read_pattern(schema: Schema) -> Schema | None:
    """The `pattern` of a schema in keywords that can be compiled; None if there are none.

    A count of characters that makes it too large becomes `minLength` and `maxLength`, unless the schema limits the
    length more strictly.
    """
    found = usable_pattern(schema["pattern"])
    if found is not None:
        return {"pattern": found}
    counted = split_length(schema["pattern"])
    least, most = schema.get("minLength", 0), schema.get("maxLength", math.inf)
    if counted is None or usable_pattern(counted.pattern) is None or not {type(least), type(most)} <= {int, float}:
        return None
    limits = {"minLength": max(least, counted.least), "maxLength": min(most, counted.most)}
    return {"pattern": counted.pattern, **{key: int(limit) for key, limit in limits.items() if limit != math.inf}}


_ONE_CHARACTER = re.compile(
    r"\\(?:[pP]\{[^}]*\}|[dDwWsSfnrtv]|[^\w\s])"
    r"|\[(?!\^?\])(?:\\(?!u[dD][89a-fA-F]).|[^\\\[\]])+\]"
    r"|[^\\\[\](){}*+?|^$]",
    re.DOTALL,
)
"""A token that matches exactly one character, which half of a surrogate pair does not."""


class CountedPattern(msgspec.Struct, frozen=True):
    """A pattern without one of its counted repetitions, and the lengths of text that all of it allowed."""

    pattern: str
    least: int
    most: float
    """Infinity for no limit."""


def split_length(pattern: str) -> CountedPattern | None:
    r"""Read `^\p{L}{1,64}$` as `^\p{L}+$` and lengths from 1 to 64, which together mean the same.

    The validator needs tens of kilobytes for each repetition of a Unicode class, so it does not compile such a count.
    None unless the pattern is a sequence of single characters from start to end, of which one at most varies in number.
    """
    tokens = list(PATTERN_TOKEN.finditer(pattern))
    if len(tokens) < 4 or tokens[0][0] != "^" or tokens[-1][0] != "$":
        return None
    is_group = tokens[1][0] in ("(", "(?:") and tokens[-2][0] == ")"
    least, most = 0, 0.0
    counts: list[tuple[float, int, re.Match[str]]] = []
    may_repeat = False
    for token in tokens[2:-2] if is_group else tokens[1:-1]:
        low, high = 1, 1.0
        if token["least"] is not None and may_repeat:
            low = int(token["least"])
            high = int(token["most"] or low) if token["most"] or not token["more"] else math.inf
            counts.append((high - low, low, token))
            low, high = low - 1, high - 1  # the character itself is counted already
        elif not _ONE_CHARACTER.fullmatch(token[0]):
            return None
        least, most, may_repeat = least + low, most + high, token["least"] is None
    varying = [count for count in counts if count[0]]
    if not counts or len(varying) > 1 or any(count[0] < 0 for count in counts):
        return None
    _, low, chosen = max(counts, key=lambda count: count[:2])
    return CountedPattern(f"{pattern[: chosen.start()]}{'+' if low else '*'}{pattern[chosen.end() :]}", least, most)


def _is_usable(pattern: str) -> bool:
    try:
        compile_schema({"pattern": pattern})
    except InvalidSchemaError:
        return False
    return True


def _compile_validator(
    schema: dict[str, Any] | bool, around: tuple[str, dict[str, Any]] | None = None
) -> jsonschema_rs.Validator:
    registry = None if around is None else jsonschema_rs.Registry([around])
    for patterns in (_LINEAR, _BACKTRACKING):
        try:
            return jsonschema_rs.validator_for(
                schema,
                validate_formats=False,
                pattern_options=patterns,
                offline=True,
                mask="value",
                registry=registry,
            )
        except jsonschema_rs.ValidationError as error:
            problem = error
            if not _is_regex(error):
                break
        except ValueError as error:
            raise InvalidSchemaError(f"schema is not plain JSON or too deep: {error}") from None
    raise _explain_invalid(problem, schema) from None


def _is_regex(error: jsonschema_rs.ValidationError) -> bool:
    kind = error.kind
    return isinstance(kind, jsonschema_rs.ValidationErrorKind.Format) and kind.format == "regex"


def _explain_regex(pattern: Any) -> str:
    """Python's message about the pattern, which is more specific than the validator's."""
    if isinstance(pattern, str) and (bare := _REPEATED.sub("+", pattern)) != pattern and _is_usable(bare):
        return "its repetitions are too large to compile, or out of order; limit the length of a text with maxLength"
    try:
        re.compile(pattern)
    except (re.error, TypeError, RecursionError, OverflowError) as error:
        return str(error)
    return "it uses syntax of Python; JSON Schema requires ECMA-262"


def _explain_invalid(error: jsonschema_rs.ValidationError, schema: Any) -> InvalidSchemaError:
    pointer = pointer_of(error.instance_path)
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Referencing) or not error.schema_path:
        pointer = _find_reference(error.message, schema) or pointer
        problem = _reference_problem(error.message)
        return InvalidSchemaError(f"{pointer}: {problem}" if pointer else problem, pointer=pointer)
    if _is_regex(error):
        return InvalidSchemaError(
            f"{pointer}: not a usable regular expression: {_explain_regex(error.instance)}", pointer=pointer
        )
    place = error.instance_path[-1] if error.instance_path else "schema"
    if place == "type":
        names = ", ".join(sorted(JSON_TYPES))
        return InvalidSchemaError(f"{pointer}: unknown type; JSON Schema knows {names}", pointer=pointer)
    return InvalidSchemaError(f"{pointer or '(root)'}: {word_violation(error)}", pointer=pointer)


def _find_reference(message: str, schema: Any) -> str:
    """The pointer of the first reference that the message is about, which has no place of its own; empty if unknown."""
    found: list[tuple[Path, Any]] = [((), schema)]
    for path, node in found:
        if not isinstance(node, dict):
            continue
        for key in ("$ref", "$dynamicRef"):
            base, _, fragment = str(node.get(key, "")).partition("#")
            if (base or fragment) and f"'{base or fragment}'" in message:
                return pointer_of((*path, key))
        found += [((*path, *below), child) for below, child in iter_children(node)]
    return ""


def _reference_problem(message: str) -> str:
    if "Retrieval is disabled" in message:
        uri = message.rpartition("cannot fetch ")[2]
        return f"$ref to {uri!r} is not fetched; copy the schema under $defs and point at it with '#/$defs/...'"
    if "Unknown meta-schema" in message:
        return f"{message.split('. ')[0]}; use a published draft (4, 6, 7, 2019-09 or 2020-12) in $schema"
    return f"$ref cannot be resolved: {message}; define what it points at under $defs, or correct it"
