"""An input schema as an HTML form, and a filled-in form as arguments.

Simple properties get a control of their type; the others are written as JSON. A control left unchanged gives exactly
the default it showed. An empty control is left out unless the schema requires a value. Nothing is validated here beyond
what parsing needs; the call path validates the arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any, Literal

import msgspec

from toolyard.model.errors import MalformedSource
from toolyard.parsing import parse_json
from toolyard.schema.fold import fold_schema
from toolyard.schema.subschemas import References, allowed_values, declared_properties, mapping_of, types_of

Kind = Literal["text", "long", "secret", "integer", "number", "date", "datetime", "choice", "lines", "json"]
Schema = dict[str, Any]

MAX_FIELDS = 100
"""Further properties are filled in as JSON, since a longer form is not usable."""
MAX_OPTIONS = 500

MORE = "more"
"""Name of the control for arguments that have no field."""

_LONG_NAMES = frozenset({"body", "code", "content", "html", "markdown", "message", "prompt", "script", "sql", "text"})
_LONG_TEXT = 255
_MAX_PILLS = 4
_SHORT_LABEL = 24
_BRANCHING = frozenset({"anyOf", "oneOf", "if", "patternProperties", "dependentSchemas"})
_FORMATS: dict[str, Kind] = {"date": "date", "date-time": "datetime", "password": "secret"}
_BY_FORMAT = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT15M",
    "email": "ann@example.org",
    "uri": "https://example.org",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
}
MAX_STEPS = 200
"""Limit on the values in all samples of one form, since schemas may be deep, wide and recursive."""
_DEPTH, _WIDTH = 4, 8
"""Limits of one sample."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
# Characters that a browser does not send back unchanged.
_FRAGILE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufdd0-\ufdef\ufffe\uffff]")

_LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "{} or more characters",
    "maxLength": "at most {} characters",
    "minItems": "{} or more items",
    "maxItems": "at most {} items",
    "pattern": "matches {}",
}
_TYPE_WORDS = {
    "string": "text in quotes",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


class Option(msgspec.Struct, frozen=True):
    """A value to choose from; the form submits its index."""

    value: Any
    label: str


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One control of the form."""

    control: str
    """Name of the control; numbered, since a property may have any name."""
    name: str
    kind: Kind
    required: bool = False
    nullable: bool = False
    description: str = ""
    rules: tuple[str, ...] = ()
    """Constraints of the schema, in words."""
    has_default: bool = False
    default: Any = None
    shown: str = ""
    """The default as the control shows it."""
    options: tuple[Option, ...] = ()
    placeholder: str = ""
    sample: Any = None
    """A value to start from when writing JSON."""
    schema: str = ""
    """For JSON controls, the formatted schema."""
    deprecated: bool = False
    base64: bool = False
    """True for base64 text, which the page can read from a file."""

    @property
    def is_mandatory(self) -> bool:
        """True if the browser rejects an empty control. Empty text may be valid, but is more often forgotten."""
        return self.required and not self.nullable and not self.has_default and self.kind != "lines"

    @property
    def has_short_options(self) -> bool:
        """True if all options fit on one line."""
        return len(self.options) <= _MAX_PILLS and all(len(option.label) <= _SHORT_LABEL for option in self.options)


def make_fields(schema: Schema) -> list[FormField]:
    """The controls for an input schema, in its order; last, if needed, a JSON control for other arguments."""
    refs = References(schema)
    steps = iter(range(MAX_STEPS))
    root = fold_part(schema, refs)
    known, required = mapping_of(root, "properties"), frozenset(types_of(root.get("required")))
    fields = [
        _make_field(f"a{number}", name, part, refs, steps, name in required)
        for number, (name, part) in enumerate(list(known.items())[:MAX_FIELDS])
        if part is not False
    ]
    is_open = root.get("additionalProperties", False) not in (False, None) or bool(_BRANCHING & root.keys())
    if len(known) > MAX_FIELDS or is_open or not declared_properties(schema) <= set(known):
        more = "Other arguments" if fields else "Arguments"
        words = "All properties without a field above, as a JSON object."
        fields.append(FormField(control=MORE, name=more, kind="json", description=words, placeholder="{}"))
    return fields


def draft_arguments(fields: list[FormField]) -> dict[str, Any]:
    """Arguments to start from: defaults, and samples for required properties."""
    return {field.name: field.sample for field in fields if field.has_default or field.required}


def indent_json(value: Any) -> str:
    """Indented JSON; all ASCII if a character would not survive a browser form."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return json.dumps(value, indent=2) if _FRAGILE.search(text) else text


def is_plain_text(value: Any) -> bool:
    """True for text of several lines, which is read more easily as it is than as JSON."""
    return isinstance(value, str) and "\n" in value and not _FRAGILE.search(value)


def _make_field(
    control: str, name: str, part: Any, refs: References, steps: Iterator[int], required: bool
) -> FormField:
    core, nullable = _unwrap_null(fold_part(part, refs), refs)
    options = _list_options(core, nullable)
    kind: Kind = "choice" if options else _find_kind(name, core)
    has_default = "default" in core
    default = core.get("default")
    shown = ""
    if has_default:
        kind, shown = _show_default(kind, options, default, nullable)
    if kind != "choice":
        options = ()
    examples = core.get("examples")
    usual = core.get("example", _BY_FORMAT.get(str(core.get("format"))))
    example = examples[0] if isinstance(examples, list) and examples else usual
    # A branch of the schema may have another default; the outer one counts.
    sample = default if has_default else make_sample(core, refs, steps)
    return FormField(
        control=control,
        name=name,
        kind=kind,
        required=required,
        nullable=nullable,
        description=str(core.get("description") or core.get("title") or ""),
        rules=_describe_rules(core, kind),
        has_default=has_default,
        default=default,
        shown=shown,
        options=options,
        placeholder=_find_placeholder(kind, sample if kind == "json" else example),
        sample=sample,
        schema=indent_json(part) if kind == "json" and isinstance(part, dict) and len(part) > 1 else "",
        deprecated=core.get("deprecated") is True,
        base64=kind in ("text", "long") and _is_base64(core),
    )


def _unwrap_null(part: Schema, refs: References) -> tuple[Schema, bool]:
    """The schema without "or null" wrappers, and whether null is allowed."""
    nullable = False
    # Wrappers may be nested two deep.
    for keyword in ("anyOf", "oneOf", "anyOf", "oneOf"):
        branches = part.get(keyword)
        if not isinstance(branches, list):
            continue
        folded = [fold_part(branch, refs) for branch in branches]
        kept = [branch for branch in folded if branch.get("type") != "null"]
        nullable = nullable or len(kept) < len(folded)
        outer = {key: value for key, value in part.items() if key != keyword}
        if len(kept) == 1:
            part = {**kept[0], **outer}
        elif kept and all("const" in branch for branch in kept):
            part = {"enum": [branch["const"] for branch in kept], **outer}
    kind = part.get("type")
    if isinstance(kind, list):
        nullable = nullable or "null" in kind
        rest = [one for one in kind if one != "null"]
        part = {**part, "type": rest[0] if len(rest) == 1 else rest}
    return part, nullable


def _list_options(core: Schema, nullable: bool) -> tuple[Option, ...]:
    values = allowed_values(core)
    if values is None and core.get("type") == "boolean":
        values = [True, False]
    if values is None or len(values) > MAX_OPTIONS:
        return ()
    if nullable and None not in values:
        values = [*values, None]
    plain = all(isinstance(value, str) and value.strip() and not _FRAGILE.search(value) for value in values)
    return tuple(Option(value, value if plain else msgspec.json.encode(value).decode()) for value in values)


def _find_kind(name: str, core: Schema) -> Kind:
    match core.get("type"):
        case "integer":
            return "integer"
        case "number" | ["integer", "number"] | ["number", "integer"]:
            return "number"
        case "string":
            most = core.get("maxLength")
            is_long = name.lower() in _LONG_NAMES or (isinstance(most, int) and most > _LONG_TEXT)
            plain: Kind = "secret" if core.get("writeOnly") is True else "long" if is_long else "text"
            return _FORMATS.get(str(core.get("format")), plain)
        case "array":
            items = core.get("items")
            simple = isinstance(items, dict) and items.get("type") == "string" and "prefixItems" not in core
            return "lines" if simple else "json"
        case _:
            return "json"


def _show_default(kind: Kind, options: tuple[Option, ...], default: Any, nullable: bool) -> tuple[Kind, str]:
    """The kind of control that can show the default, and its text there."""
    if kind == "choice":
        wanted = msgspec.json.encode(default)
        for number, option in enumerate(options):
            if msgspec.json.encode(option.value) == wanted:
                return kind, str(number)
        return "json", indent_json(default)
    if default is None and nullable:
        return kind, ""
    match kind, default:
        case "integer" | "number", int() | float() if not isinstance(default, bool):
            return kind, repr(default)
        case "text" | "long" | "secret", str() if not _FRAGILE.search(default):
            if "\n" in default:
                return ("json", indent_json(default)) if kind == "secret" else ("long", default)
            return kind, default
        case "date" | "datetime", str() if not _FRAGILE.search(default) and "\n" not in default:
            return _show_date(kind, default)
        case "lines", list() if all(isinstance(item, str) and item and "\n" not in item for item in default):
            text = "\n".join(default)
            if not _FRAGILE.search(text):
                return kind, text
    return "json", indent_json(default)


def _show_date(kind: Kind, default: str) -> tuple[Kind, str]:
    """The same for dates. Browsers blank a date they cannot parse, so unusual ones get a text control."""
    try:
        if kind == "date" and _DATE.fullmatch(default):
            date.fromisoformat(default)
            return kind, default
        if kind == "datetime" and _MOMENT.fullmatch(default):
            datetime.fromisoformat(default)
            return kind, default.removesuffix("Z")
    except ValueError:
        pass
    return "text", default


def _is_base64(core: Schema) -> bool:
    return core.get("contentEncoding") == "base64" or core.get("format") in ("byte", "base64")


def _find_placeholder(kind: Kind, example: Any) -> str:
    if kind == "json":
        return "" if example is None else indent_json(example)
    if kind in ("text", "long", "integer", "number") and isinstance(example, str | int | float):
        return str(example)[:80]
    return ""


def _describe_rules(core: Schema, kind: Kind) -> tuple[str, ...]:
    rules = [words.format(core[key]) for key, words in _LIMITS.items() if type(core.get(key)) in (str, int, float)]
    if kind in ("text", "long") and _is_base64(core):
        rules.insert(0, "bytes, as base64")
    elif kind in ("text", "long") and isinstance(core.get("format"), str):
        rules.insert(0, f"in the format {core['format']}")
    if kind == "datetime":
        rules.insert(0, "in UTC")
    if kind == "lines":
        rules.insert(0, "one a line")
        items = core["items"].get("enum")
        if isinstance(items, list):
            rules.append("each " + " or ".join(map(str, items[:8])))
    if kind == "json":
        words = [_TYPE_WORDS[one] for one in types_of(core.get("type")) if one in _TYPE_WORDS]
        rules.insert(0, f"JSON: {' or '.join(words)}" if words else "JSON: any value, text in quotes")
    return tuple(rules)


def fold_part(part: Any, refs: References) -> Schema:
    """The subschema with its `$ref` and `allOf` merged in. Approximate: calls are validated by the complete schema."""
    return fold_schema(part, refs, lambda lost: None)[0] if isinstance(part, dict) else {}


def make_sample(part: Any, refs: References, steps: Iterator[int], depth: int = 0) -> Any:
    """The default or an example, if any; else the required properties, or some optional ones if none is required."""
    is_over = next(steps, None) is None or depth >= _DEPTH
    core = fold_part(part, refs)
    for keyword in ("oneOf", "anyOf"):
        branches = (fold_part(one, refs) for one in core.get(keyword) or ())
        core = {**core, **next((one for one in branches if one.get("type") != "null"), {})}
    values = core.get("examples") or allowed_values(core)
    if given := [core[keyword] for keyword in ("default", "example") if keyword in core]:
        return given[0]
    if isinstance(values, list) and values:
        return values[0]
    kind = next((one for one in types_of(core.get("type")) if one != "null"), None)
    if kind == "object" or "properties" in core:
        return {} if is_over else _sample_object(core, refs, steps, depth)
    if kind == "array":
        items, each = core.get("prefixItems") or [core.get("items")], core.get("items")
        # A list of strings has its own control, which starts empty.
        is_empty = is_over or (depth == 0 and isinstance(each, dict) and each.get("type") == "string")
        return [] if is_empty else [make_sample(one, refs, steps, depth + 1) for one in items[:_WIDTH] if one]
    if kind in ("integer", "number"):
        least = core.get("minimum", 0)
        return least if isinstance(least, int | float) and least > 0 else 0
    if kind == "string":
        return _BY_FORMAT.get(str(core.get("format")), "")
    return False if kind == "boolean" else {}


def _sample_object(core: Schema, refs: References, steps: Iterator[int], depth: int) -> Schema:
    known = {name: part for name, part in mapping_of(core, "properties").items() if part is not False}
    required = types_of(core.get("required"))
    wanted = [name for name in known if name in required] or list(known)
    return {name: make_sample(known[name], refs, steps, depth + 1) for name in wanted[:_WIDTH]}


_LOCAL = re.compile(r"([0-9]{4,}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]+)?)?")
_NUMBER_DIGITS = 6


class FilledForm(msgspec.Struct, frozen=True):
    """A submitted form: the arguments, and mistakes by control."""

    arguments: dict[str, Any]
    mistakes: dict[str, str] = {}


def read_form(fields: list[FormField], data: Mapping[str, str]) -> FilledForm:
    """Read the arguments from a submitted form."""
    arguments: dict[str, Any] = {}
    mistakes: dict[str, str] = {}
    for field in fields:
        raw = data.get(field.control, "").replace("\r\n", "\n")
        try:
            for value in _read_control(field, raw):
                if field.control == MORE:
                    _add_more(arguments, value)
                else:
                    arguments[field.name] = value
        except ValueError as error:
            mistakes[field.control] = str(error)
    return FilledForm(arguments, mistakes)


def read_json_form(control: str, text: str) -> FilledForm:
    """Read arguments written as one JSON object."""
    try:
        value = _parse_text(text.replace("\r\n", "\n")) if text.strip() else {}
        if not isinstance(value, dict):
            raise ValueError("write a JSON object: names in quotes, each with its value, between { and }")
    except ValueError as error:
        return FilledForm({}, {control: str(error)})
    return FilledForm(value)


def _read_control(field: FormField, raw: str) -> Iterator[Any]:
    """Yield the value of one control, or nothing if the argument is to be left out."""
    if field.has_default and raw == field.shown:
        yield field.default
    elif raw != "":
        yield _parse_value(field, raw)
    elif field.required or field.has_default:
        # If the user deleted a default, leaving the argument out would bring it back.
        if field.nullable:
            yield None
        elif field.kind in ("text", "long", "secret"):
            yield ""
        elif field.kind == "lines":
            yield []
        elif field.required:
            raise ValueError("choose one" if field.kind == "choice" else "fill this in: the tool needs it")


def _parse_value(field: FormField, raw: str) -> Any:
    match field.kind:
        case "integer" | "number":
            return _parse_number(field.kind, raw)
        case "choice":
            if not (raw.isascii() and raw.isdigit()) or int(raw[:_NUMBER_DIGITS]) >= len(field.options):
                raise ValueError("choose one of the options")
            return field.options[int(raw[:_NUMBER_DIGITS])].value
        case "datetime":
            # A browser's control has no zone; text typed without such a control may have one.
            local = _LOCAL.fullmatch(raw)
            return f"{local[1]}{local[2] or ':00'}Z" if local else raw
        case "lines":
            return raw.removesuffix("\n").split("\n")
        case "json":
            return _parse_text(raw)
        case _:
            return raw


def _parse_number(kind: Kind, raw: str) -> int | float:
    try:
        value = parse_json(raw.strip())
    except MalformedSource:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("write a whole number, such as 42" if kind == "integer" else "write a number, such as 3.14")
    if kind == "integer" and isinstance(value, float):
        if not value.is_integer():
            raise ValueError("write a whole number, without a fraction")
        return int(value)
    return value


def _parse_text(raw: str) -> Any:
    try:
        return parse_json(raw, what="JSON")
    except MalformedSource as error:
        line, _, column = error.where.removeprefix("JSON:").partition(":")
        reason = str(error).removeprefix(f"{error.where}: ")
        raise ValueError(f"not valid JSON at line {line}, column {column}: {reason}") from None


def _add_more(arguments: dict[str, Any], more: Any) -> None:
    if not isinstance(more, dict):
        raise ValueError('write a JSON object, such as {"name": "value"}')
    twice = sorted(more.keys() & arguments.keys())
    if twice:
        raise ValueError(f"{twice[0]!r} has its own field above")
    arguments.update(more)


def fill_form(fields: list[FormField], arguments: Mapping[str, Any]) -> dict[str, str] | None:
    """The text of each control for which `read_form` returns these arguments; None if no form can express them."""
    rest = dict(arguments)
    filled: dict[str, str] = {}
    for field in fields:
        if field.control == MORE:
            filled[MORE] = indent_json(rest) if rest else ""
            rest = {}
        elif field.name in rest:
            kind, filled[field.control] = _show_default(field.kind, field.options, rest.pop(field.name), field.nullable)
            if kind != field.kind:
                return None
        else:
            filled[field.control] = ""
    same = read_form(fields, filled)
    return filled if not rest and not same.mistakes and same.arguments == arguments else None
