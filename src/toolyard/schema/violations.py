"""Violations: the place and the rule that is broken, but never the value, which may be secret.

A `Misfit` is one fault; an `Explainer` holds what all walks over the values of one schema share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import quote

import jsonschema_rs
import msgspec

from toolyard.model.errors import InvalidSchemaError
from toolyard.model.json_schema import IN_PLACE, json_type, pointer_of
from toolyard.model.tool import Schema
from toolyard.schema.subschemas import References, SubSchema, allowed_values, iter_children, types_of
from toolyard.schema.weight import HOLDING, Weight, own_steps, pattern_steps, weigh

MAX_VIOLATIONS = 100
_SHOWN = 8


class Violation(msgspec.Struct, frozen=True):
    """A broken rule."""

    pointer: str
    """JSON pointer to the value; empty for the whole document."""
    message: str
    keyword: str

    def __str__(self) -> str:
        return f"{self.pointer or '(root)'}: {self.message}"

    def to_dict(self) -> dict[str, str]:
        """Plain JSON."""
        return {"pointer": self.pointer, "message": self.message, "keyword": self.keyword}


def describe(violations: Sequence[Violation]) -> str:
    """A one-line summary: the first few violations and the number of the others."""
    shown = "; ".join(map(str, violations[:_SHOWN]))
    more = len(violations) - _SHOWN
    return f"{shown}; and {more} more" if more > 0 else shown


def word_violation(error: jsonschema_rs.ValidationError, encoding: object = None) -> str:
    """A readable message for a validator's error, for schemas without subschemas and for meta-schemas.

    `encoding` is the schema's `contentEncoding`, which says more than the pattern of such a text.
    """
    kind = error.kind
    match kind:
        case jsonschema_rs.ValidationErrorKind.Type(types=types):
            return word_type(types, error.instance)
        case jsonschema_rs.ValidationErrorKind.Enum(options=options):
            return f"must be one of {list_options(options)}"
        case jsonschema_rs.ValidationErrorKind.AnyOf(context=context):
            told = " | ".join(word_violation(branch[0]) for branch in context[:_SHOWN] if branch)
            return f"fits none of the {len(context)} allowed forms: {told}"
        case jsonschema_rs.ValidationErrorKind.Pattern(pattern=pattern):
            start = "must match" if encoding is None else f"must be {str(encoding)[:40]} text that matches"
            # Python's quoting doubles backslashes, which would be another pattern.
            return f"{start} the pattern {pattern[:200]!r}".replace("\\\\", "\\")
        case jsonschema_rs.ValidationErrorKind.Format(format=name):
            return f"must be in the format {name!r}"
        case _:
            words, limit = _LIMITS.get(kind.name), kind.as_dict().get("limit")
            return words.format(limit=limit) if words and limit is not None else error.message


def word_type(types: Iterable[str], value: Any) -> str:
    """The message for a value of the wrong type."""
    return f"must be {' or '.join(sorted(types))}, not {json_type(value)}"


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


def word_unexpected(names: Sequence[str]) -> str:
    """The message for properties that are not allowed: the first few names."""
    quoted = ", ".join(repr(name[:80]) for name in names[:_SHOWN])
    return f"unexpected {'property' if len(names) == 1 else 'properties'} {quoted}"


def list_options(values: Sequence[Any]) -> str:
    """The first few values as JSON; of more, also the total."""
    shown = ", ".join(msgspec.json.encode(value).decode()[:80] for value in values[:_SHOWN])
    return f"{shown}, ... ({len(values)} in all)" if len(values) > _SHOWN else shown


Path = tuple[str | int, ...]
Wanted = tuple[Path, tuple[str, ...]]
"""A path, and the types that would be accepted there."""

_APPLICATORS = (IN_PLACE - {"dependencies"}) | HOLDING | {"minContains", "maxContains"}
_RULES_IN_WORDS = frozenset({"type", "enum", "const", "required"})
_NOT_COMPILED = (
    _APPLICATORS
    | {"$defs", "definitions", "$id", "id", "$schema", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"}
    | {"$comment", "title", "description", "default", "examples", "required", "enum", "const"}
)
"""Keywords without a rule of their own, and those whose messages are generated here: the validator copies all options.
"""


class Misfit(msgspec.Struct, frozen=True):
    """A fault, and its path below the examined value."""

    path: Path
    message: str
    keyword: str
    wants: tuple[Wanted, ...] = ()

    @property
    def violation(self) -> Violation:
        """The fault in the form for users."""
        return Violation(pointer_of(self.path), self.message, self.keyword)

    def below(self, prefix: Path) -> Misfit:
        """The same fault relative to an enclosing value."""
        wants = tuple((prefix + path, types) for path, types in self.wants)
        return Misfit(prefix + self.path, self.message, self.keyword, wants)


CompilePart: TypeAlias = Callable[..., jsonschema_rs.Validator]
FALSE_SCHEMA = Misfit((), "False schema does not allow value", "falseSchema")


class OwnRules:
    """The rules of a schema without its subschemas."""

    __slots__ = ("accepts", "errors", "is_all", "is_unique", "options", "pattern", "steps", "types", "words")

    def __init__(
        self, node: Schema, compile_part: Callable[[Schema], jsonschema_rs.Validator], leads_out: bool
    ) -> None:
        rules = {key: value for key, value in node.items() if key not in _NOT_COMPILED}
        if isinstance(rules.get("dependencies"), dict):
            rules["dependencies"] = {name: sub for name, sub in rules["dependencies"].items() if isinstance(sub, list)}
        if leads_out:
            rules["$ref"] = node["$ref"]
        is_only_type = rules.keys() == {"type"} and len(node.keys() & _RULES_IN_WORDS) == 1
        self.types = types_of(node["type"]) if is_only_type else []
        """Set if the type is the only rule, so that the validator's message is not needed."""
        options: Schema = {key: node[key] for key in ("enum", "const") if key in node}
        self.errors = compile_part(rules).iter_errors if rules else lambda value: iter(())
        self.options = compile_part(options).is_valid if options else None
        everything = rules | options | ({"required": node["required"]} if "required" in node else {})
        self.accepts: Callable[[Any], bool] = compile_part(everything).is_valid if everything else lambda value: True
        self.is_all = leads_out or (_APPLICATORS.isdisjoint(node) and "dependencies" not in node)
        self.is_unique = node.get("uniqueItems") is True
        self.steps = own_steps(node)
        self.pattern = pattern_steps(node["pattern"]) if isinstance(rules.get("pattern"), str) else None
        values = allowed_values(node) or []
        start = "must be" if "const" in node else "must be one of"
        self.words = f"{start} {list_options(values)}", tuple(sorted({json_type(value) for value in values}))


class Explainer:
    """What all walks over the values of one schema share; created when the first fault occurs."""

    def __init__(self, schema: SubSchema, compile_part: CompilePart) -> None:
        self.schema = schema
        root: Schema = schema if isinstance(schema, dict) else {}
        self.references = References(root)
        self.draft = root.get("$schema")
        self.is_old = isinstance(self.draft, str) and any(f"draft-0{number}" in self.draft for number in (4, 6, 7))
        self.is_2019 = isinstance(self.draft, str) and "2019-09" in self.draft
        self._compile = compile_part
        self._rules: dict[int, OwnRules] = {}
        self._judges: dict[int, Callable[[Any], bool] | None] = {}
        self._weights: dict[int, Weight] = {}
        self._targets: dict[int, SubSchema] = {}
        self._patterns: dict[str, Callable[[Any], bool]] = {}

    def rules_of(self, node: Schema) -> OwnRules:
        """The rules of a schema without its subschemas, compiled on first use."""
        found = self._rules.get(id(node))
        if found is None:
            leads_out = self.references.leads_out(node)
            # Older drafts ignore keywords beside a reference.
            alone = {"$ref": node["$ref"]} if self.is_old and "$ref" in node else node
            found = self._rules[id(node)] = OwnRules(alone, self.compile_part, leads_out)
        return found

    def compile_part(self, part: Schema, around: tuple[str, Schema] | None = None) -> jsonschema_rs.Validator:
        """A validator for some keywords, in the same draft; `around` is the address and schema they may refer to."""
        return self._compile({"$schema": self.draft, **part} if self.draft else part, around=around)

    def follow(self, node: SubSchema) -> SubSchema:
        """The schema itself, or the target if it consists of nothing but a reference."""
        if not isinstance(node, dict) or len(node) != 1 or "$ref" not in node:
            return node
        found = self._targets.get(id(node))
        if found is None:
            seen, found = {id(node)}, node
            while isinstance(found, dict) and len(found) == 1 and "$ref" in found:
                further = self.references.targets(found)
                if not further or id(further[0]) in seen:
                    break
                found = further[0]
                seen.add(id(found))
            self._targets[id(node)] = found
        return found

    def weigh_items(self, node: Schema) -> Weight:
        """The cost of judging values by a subschema, independent of the rest of the schema."""
        if id(node) not in self._weights:
            self._weights[id(node)] = weigh(self.references.root, node)
        return self._weights[id(node)]

    def judge_items(self, node: Schema) -> Callable[[Any], bool] | None:
        """A validator of lists whose items must all fit a subschema; None if the subschema cannot be referenced."""
        if id(node) not in self._judges:
            pointer = self._pointers.get(id(node))
            self._judges[id(node)] = None if pointer is None else self._compile_items(pointer)
        return self._judges[id(node)]

    def _compile_items(self, pointer: str) -> Callable[[Any], bool] | None:
        root = self.references.root
        base = root.get("$id", root.get("id")) or "urn:toolyard:schema"
        part: Schema = {"items": {"$ref": f"{base.rstrip('#')}#{quote(pointer, safe='/~$')}"}}
        try:
            return self.compile_part(part, (base, root)).is_valid
        except (ValueError, InvalidSchemaError):
            return None

    @cached_property
    def _pointers(self) -> dict[int, str]:
        found: dict[int, str] = {}
        stack: list[tuple[Path, SubSchema]] = [((), self.references.root)]
        while stack:
            path, node = stack.pop()
            if isinstance(node, dict) and id(node) not in found:
                found[id(node)] = pointer_of(path)
                stack.extend((path + step, sub) for step, sub in iter_children(node))
        return found

    def matches(self, pattern: str, name: str) -> bool:
        """Whether a property name matches a pattern."""
        if pattern not in self._patterns:
            self._patterns[pattern] = self.compile_part({"pattern": pattern}).is_valid
        return self._patterns[pattern](name)
