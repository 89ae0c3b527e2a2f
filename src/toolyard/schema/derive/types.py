"""Annotations: their schemas, and how values pass to a parameter and results to plain JSON."""

from __future__ import annotations

import enum
import functools
import inspect
import math
import operator
import types
import typing
from collections import abc, deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated, Any

import annotated_types
import msgspec
import typing_extensions
from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, SchemaError, to_jsonable_python

from toolyard.model.errors import InvalidOutput
from toolyard.model.json_schema import pointer_of
from toolyard.model.tool import Schema
from toolyard.schema.derive.signature import EMPTY
from toolyard.schema.strict import StrictModel
from toolyard.schema.subschemas import resolve_pointer

_SCALARS = frozenset({str, int, float, bool, types.NoneType})
_ARRAYS = frozenset({list, abc.Sequence, abc.Iterable, abc.Collection})
_OBJECTS = frozenset({dict, abc.Mapping})
_PLAIN = _SCALARS | _ARRAYS | _OBJECTS
_UNIONS = frozenset({typing.Union, types.UnionType})
_QUALIFIERS = frozenset({typing.Required, typing.NotRequired})

_LIMITS = (
    annotated_types.Ge,
    annotated_types.Gt,
    annotated_types.Le,
    annotated_types.Lt,
    annotated_types.MultipleOf,
    annotated_types.Interval,
)
_LENGTHS = (annotated_types.MinLen, annotated_types.MaxLen, annotated_types.Len)
_STRING_LIMITS = frozenset({"pattern", "min_length", "max_length"})


def is_plain(annotation: Any, *, within: frozenset[Any] = frozenset()) -> bool:
    """True if every JSON value that fits the annotation's schema is already the Python value to pass.

    `within` holds the classes and aliases being examined, so that recursion in types terminates.
    """
    if _is_alias(annotation):
        return annotation in within or is_plain(annotation.__value__, within=within | {annotation})
    annotation = _bare_annotation(annotation)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return all(_is_in_schema(item, args[0]) for item in args[1:]) and is_plain(args[0], within=within)
    if annotation in (Any, object) or annotation in _PLAIN:
        return True
    if origin is typing.Literal:
        return all(type(value) in _SCALARS for value in args)
    if origin in _UNIONS or origin in _ARRAYS:
        return all(is_plain(arg, within=within) for arg in args)
    if origin in _OBJECTS:
        return not args or (args[0] in (str, Any) and is_plain(args[1], within=within))
    return typing_extensions.is_typeddict(annotation) and (annotation in within or _is_plain_dict(annotation, within))


def _is_plain_dict(typed_dict: Any, within: frozenset[Any]) -> bool:
    try:
        hints = typing_extensions.get_type_hints(typed_dict, include_extras=True)
    except NameError:
        return False  # pydantic may know the names, so it does the conversion
    return all(is_plain(hint, within=within | {typed_dict}) for hint in hints.values())


def wants_int(annotation: Any) -> bool:
    """True if 3.0, which JSON Schema accepts as an integer, must be passed as 3."""
    kinds = set(_list_alternatives(annotation))
    return int in kinds and float not in kinds


def accepts_none(annotation: Any) -> bool:
    """True when None fits the annotation."""
    return any(kind in (Any, object, types.NoneType) for kind in _list_alternatives(annotation))


def make_optional(annotation: Any) -> Any:
    """The annotation or None; `Annotated` metadata still applies to the whole."""
    if typing.get_origin(annotation) is Annotated:
        return Annotated[make_optional(annotation.__origin__), *annotation.__metadata__]
    return typing.Optional[annotation]  # noqa: UP045 - `|` is not defined for every annotation


def make_portable(annotation: Any, made: dict[Any, Any] | None = None) -> Any:
    """The annotation with each `typing.TypedDict` converted to a form that pydantic can read before Python 3.12."""
    made = {} if made is None else made
    if typing.is_typeddict(annotation):
        return made.get(annotation) or _make_portable_dict(annotation, made)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if not args or origin in (typing.Literal, abc.Callable):
        return annotation
    if origin is Annotated:
        return Annotated[make_portable(args[0], made), *args[1:]]
    if origin in _QUALIFIERS:
        return origin[make_portable(args[0], made)]
    changed = tuple(make_portable(arg, made) for arg in args)
    if all(new is old for new, old in zip(changed, args, strict=True)):
        return annotation
    return typing.Union[changed] if origin in _UNIONS else origin[changed]  # noqa: UP007 - built at run time


def _make_portable_dict(typed_dict: Any, made: dict[Any, Any]) -> Any:
    if type(typed_dict).__module__ != "typing":
        return typed_dict
    make: Any = typing_extensions.TypedDict
    copy = make(typed_dict.__name__, {})
    # Registered before its fields are converted, because they may refer to it.
    made[typed_dict] = copy
    hints = typing.get_type_hints(typed_dict, include_extras=True)
    copy.__annotations__ = {name: make_portable(hint, made) for name, hint in hints.items()}
    for fact in ("__required_keys__", "__optional_keys__", "__doc__", "__module__", "__qualname__"):
        setattr(copy, fact, getattr(typed_dict, fact))
    return copy


def _bare_annotation(annotation: Any) -> Any:
    """The annotation inside aliases, `NewType`s, `Required` and unconstrained type variables."""
    while True:
        if isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif _is_alias(annotation):
            annotation = annotation.__value__
        elif typing.get_origin(annotation) in _QUALIFIERS:
            annotation = typing.get_args(annotation)[0]
        elif isinstance(annotation, typing.TypeVar) and not annotation.__constraints__ and annotation.__bound__ is None:
            return Any
        else:
            return annotation


def _is_alias(annotation: Any) -> bool:
    # By name: `type X = ...` and typing_extensions create instances of different classes.
    return type(annotation).__name__ == "TypeAliasType" and not annotation.__type_params__


def _list_alternatives(annotation: Any) -> Iterator[Any]:
    annotation = _bare_annotation(annotation)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        yield from _list_alternatives(args[0])
    elif origin in _UNIONS:
        for arg in args:
            yield from _list_alternatives(arg)
    elif origin is typing.Literal:
        yield from map(type, args)
    else:
        yield annotation


def _is_in_schema(item: Any, annotation: Any) -> bool:
    """True if the JSON Schema expresses everything that this piece of `Annotated` metadata does."""
    kinds = {typing.get_origin(kind) or kind for kind in _list_alternatives(annotation)} - {types.NoneType}
    if isinstance(item, FieldInfo):
        by_name = item.is_required() and item.validation_alias is None
        return by_name and all(_is_in_schema(constraint, annotation) for constraint in item.metadata)
    if isinstance(item, _LIMITS):
        return kinds <= {int, float}
    if isinstance(item, _LENGTHS):
        return kinds <= {str} or kinds <= _ARRAYS or kinds <= _OBJECTS
    facts = getattr(item, "__dict__", None)
    if facts and isinstance(item, annotated_types.BaseMetadata | annotated_types.GroupedMetadata):
        said = {key: fact for key, fact in facts.items() if fact is not None}
        # A compiled pattern may have flags, which JSON Schema cannot express.
        return kinds <= {str} and said.keys() <= _STRING_LIMITS and isinstance(said.get("pattern", ""), str)
    return isinstance(item, str)


NO_SCHEMA = (PydanticUserError, PydanticUndefinedAnnotation, SchemaError, NameError, TypeError, AttributeError)
"""The exceptions of pydantic and typing for an annotation without a schema."""

_CLASSES = frozenset({"model", "dataclass", "typed-dict", "enum"})
_OPEN_CLASSES = frozenset({"dataclass", "typed-dict"})
_ORDER = ("title", "description", "type", "properties", "required", "additionalProperties", "propertyNames")


class _SchemaGenerator(GenerateJsonSchema):
    """Writes no title that merely repeats a name, and no default that is not JSON."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        """False: only titles that the author wrote are kept."""
        return False

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Drop a title that is the name of the class, and add keywords that older versions of pydantic omit."""
        written = super().generate_inner(schema)
        if schema["type"] in _CLASSES and "cls" in schema:
            target = self.resolve_ref_schema(written)
            _drop_title(target, schema["cls"])
            if schema["type"] in _OPEN_CLASSES:
                _complete_class(target, schema)
        return written

    def enum_schema(self, schema: Any) -> JsonSchemaValue:
        """A flag accepts any combination of its members."""
        written = super().enum_schema(schema)
        if issubclass(schema["cls"], enum.Flag):
            del written["enum"]
            written |= {
                "minimum": 0,
                "maximum": functools.reduce(operator.or_, [item.value for item in schema["cls"]], 0),
            }
        return written

    def p_arguments_schema(self, arguments: Any, var_args_schema: Any) -> JsonSchemaValue:
        """Drop titles that are field names of a named tuple, which pydantic before 2.12 sets over the author's."""
        written = super().p_arguments_schema(arguments, var_args_schema)
        if "prefixItems" in written:
            written["prefixItems"] = [self.generate_inner(argument["schema"]) for argument in arguments]
        return written

    def is_subclass_schema(self, schema: Any) -> JsonSchemaValue:
        """Rejected: pydantic would accept anything, but no JSON value is a class."""
        return self.handle_invalid_for_json_schema(schema, "a class")

    def encode_default(self, dft: Any) -> Any:
        """Treat NaN and the infinities as not serialisable, so that the default is left out."""
        encoded = super().encode_default(dft)
        if find_non_finite(encoded) is not None:
            raise PydanticSerializationError("not a finite number")
        return encoded

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        """Keep the order of definition, which for properties is the author's."""
        return value


def schema_of(adapter: TypeAdapter[Any] | type[BaseModel], *, mode: JsonSchemaMode = "validation") -> Schema:
    """The schema of a type, keyed by alias; raises one of `NO_SCHEMA`."""
    if isinstance(adapter, TypeAdapter):
        schema = adapter.json_schema(mode=mode, schema_generator=_SchemaGenerator)
    else:
        schema = adapter.model_json_schema(mode=mode, schema_generator=_SchemaGenerator)
    # The root of a recursive model is only a reference; consumers of a tool expect the properties there.
    target = resolve_pointer(schema, schema.pop("$ref", None))
    return order_keywords({**target, **schema} if target else schema)


def narrow_union(annotation: Any) -> Any:
    """A union without the alternatives that JSON has no form for, such as any class; unchanged if no value remains."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        inner = narrow_union(args[0])
        return annotation if inner is args[0] else Annotated[inner, *args[1:]]
    kept = tuple(filter(fits_json, args)) if origin in _UNIONS else args
    narrowed = len(kept) < len(args) and any(kind is not types.NoneType for kind in kept)
    return typing.Union[kept] if narrowed else annotation  # noqa: UP007 - built at run time


def fits_json(annotation: Any) -> bool:
    """True if a JSON value other than null fits the annotation."""
    try:
        schema_of(_make_adapter(make_portable(annotation)))
    except NO_SCHEMA:
        return False
    return True


def order_keywords(schema: Schema) -> Schema:
    """The schema with its keywords in reading order, definitions last."""
    defs = schema.pop("$defs", None)
    known = {key: schema[key] for key in _ORDER if key in schema}
    return known | schema | ({"$defs": defs} if defs else {})


def find_non_finite(value: Any) -> str | None:
    """JSON pointer of the first NaN or infinity in plain JSON; None if there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else ""
    if not isinstance(value, (dict, list)):
        return None
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        below = find_non_finite(item)
        if below is not None:
            return pointer_of([key]) + below
    return None


def _drop_title(schema: JsonSchemaValue, cls: type[Any]) -> None:
    config: Any = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    given = "title" in config or "model_title_generator" in config
    if not given and schema.get("title") == cls.__name__:
        del schema["title"]


def _complete_class(written: JsonSchemaValue, schema: Any) -> None:
    """Add whether a dataclass or typed dict accepts other keys, and its docstring; pydantic before 2.14 does not."""
    extra = schema.get("extra_behavior") or schema.get("config", {}).get("extra_fields_behavior")
    if extra in ("forbid", "allow"):
        written.setdefault("additionalProperties", extra == "allow")
    cls = schema["cls"]
    # A dataclass without a docstring gets its signature as a docstring.
    if cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}("):
        written.setdefault("description", inspect.cleandoc(cls.__doc__))


Finish = Callable[[Any], Any]

_ITERATORS = (Iterator, abc.AsyncIterator, abc.AsyncIterable, abc.AsyncGenerator)
_PLAIN_SCALARS = frozenset({str, int, bool, type(None)})


class Output(msgspec.Struct, frozen=True, eq=False):
    """What a return annotation says."""

    schema: Schema
    finish: Finish
    returns: type | None = None
    plain: bool = False


def read_output(label: str, annotation: Any) -> Output:
    """The schema and serialiser of a return annotation; any JSON if it is missing or has no schema."""
    returns = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    # A bare base class stands for any subclass; its own schema would drop their fields.
    if annotation is EMPTY or annotation in (Any, BaseModel, StrictModel):
        return Output({}, make_finisher(label, None, plain=True), returns, plain=True)
    if typing.get_origin(annotation) in _ITERATORS:
        annotation = types.GenericAlias(
            abc.Iterable, typing.get_args(annotation)[:1]
        )  # pydantic only supports Iterable
    try:
        adapter = _make_adapter(make_portable(annotation))
        schema = schema_of(adapter, mode="serialization")
    except NO_SCHEMA:
        return Output({}, make_finisher(label, None, plain=True), returns, plain=True)
    plain = is_plain(annotation)
    return Output(schema, make_finisher(label, adapter, plain=plain), returns, plain=plain)


def _make_adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        # By default pydantic writes NaN as null without any error.
        return TypeAdapter(annotation, config=ConfigDict(ser_json_inf_nan="constants"))
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(annotation)


def make_finisher(label: str, adapter: TypeAdapter[Any] | None, *, plain: bool) -> Finish:
    """A function that converts the results of one callable to plain JSON, or raises `InvalidOutput`.

    `adapter` serialises by the return annotation. `plain` means that the adapter leaves scalars unchanged, so they need
    not pass through it.
    """

    def finish(value: Any) -> Any:
        kind = type(value)
        if plain and (kind in _PLAIN_SCALARS or (kind is float and math.isfinite(value))):
            return value
        try:
            result = _dump_value(value, adapter)
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidOutput(
                f"{label} returned {kind.__name__}, which cannot be written as JSON: {error}",
                hint="return JSON values, a pydantic model or a dataclass; pictures and other bytes as Content([...])",
            ) from error
        place = find_non_finite(result)
        if place is not None:
            raise InvalidOutput(
                f"{label} returned NaN or an infinity at {place or '(root)'}, which JSON has no word for",
                hint="return null or text instead",
            )
        return result

    return finish


def _dump_value(value: Any, adapter: TypeAdapter[Any] | None) -> Any:
    if adapter is None:
        return to_jsonable_python(value, fallback=_write_unknown)
    # A value that does not match the annotation is still written; validating it is the job of the output check.
    return adapter.dump_python(value, mode="json", by_alias=True, warnings=False, fallback=_write_unknown)


def _write_unknown(value: Any) -> Any:
    """Convert values that pydantic, or pydantic before 2.14, cannot serialise."""
    if hasattr(value, "tolist"):  # arrays and their scalars: numpy, pandas, torch, array
        return value.tolist()
    if isinstance(value, abc.Mapping):
        return dict(value)
    if isinstance(value, (deque, abc.Sequence, abc.Set, abc.ValuesView)):
        return list(islice(value, len(value)))  # an index may answer without end
    if type(value).__module__ in ("ipaddress", "fractions"):
        return str(value)
    raise PydanticSerializationError(f"Unable to serialize unknown type: {type(value)}")
