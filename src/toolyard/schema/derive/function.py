"""Derive everything a tool needs from a Python callable: schemas, description, argument and result conversion.

derive(fn)               each parameter is a property
derive_model(fn, Input)  the single parameter is a model whose fields are the properties
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, PydanticUndefined, to_json, to_jsonable_python

from toolyard.model.bindings import PythonBinding
from toolyard.model.errors import DefinitionError, InvalidArguments
from toolyard.model.tool import Schema
from toolyard.schema.compile import compile_schema
from toolyard.schema.derive.docstring import DocInfo, read_docstring
from toolyard.schema.derive.signature import (
    EMPTY,
    Outline,
    Parameter,
    label_of,
    read_outline,
    read_parameters,
    wrap_callable,
)
from toolyard.schema.derive.types import (
    NO_SCHEMA,
    accepts_none,
    find_non_finite,
    fits_json,
    is_plain,
    make_optional,
    make_portable,
    narrow_union,
    order_keywords,
    read_output,
    schema_of,
    wants_int,
)
from toolyard.schema.strict import hide_input, read_violations
from toolyard.schema.violations import Violation, describe

Arguments = dict[str, Any]
Prepare = Callable[[Arguments], tuple[tuple[Any, ...], Arguments]]

_M = TypeVar("_M", bound=BaseModel)


class Derived(msgspec.Struct, frozen=True, eq=False):
    """What a callable's signature, annotations and docstring say."""

    parameters: Schema
    output_parameters: Schema
    description: str
    binding: PythonBinding
    """Its callable is the described one, or a thin wrapper; see `wrap_callable`."""
    place: Prepare | None = None
    """From `derive_model` only: the call arguments for an already validated input model."""


def derive(fn: Callable[..., Any], *, parameters: Schema | None = None) -> Derived:
    """Describe a callable; `DefinitionError` names the parameter that cannot be described and suggests a remedy.

    `parameters` is a schema written by hand. It is used unchanged, and a signature that cannot be described (`**kwargs`
    or annotations that cannot be resolved) is then not an error.
    """
    if isinstance(fn, type) and issubclass(fn, BaseModel):
        derived = _derive_constructor(fn)
    else:
        read, doc = read_outline(fn), read_docstring(fn)
        try:
            plan = _describe_parameters(read, doc, has_schema=parameters is not None)
        except DefinitionError:
            if parameters is None:
                raise
            plan = ArgumentPlan({}, None, ())
        derived = _assemble_schema(fn, read, doc, plan)
    return derived if parameters is None else msgspec.structs.replace(derived, parameters=parameters)


def derive_model(fn: Callable[..., Any], input_model: type[BaseModel]) -> Derived:
    """Describe a function with a single model parameter: its arguments are the fields of the model.

    `prepare` validates once; the cause of its `InvalidArguments` is pydantic's error without input values.
    """
    read = read_outline(fn)
    by_name = _input_name(fn, read)

    def place(model: Any) -> tuple[tuple[Any, ...], Arguments]:
        return ((model,), {}) if by_name is None else ((), {by_name: model})

    def prepare(arguments: Arguments) -> tuple[tuple[Any, ...], Arguments]:
        return place(validate_arguments(input_model, arguments))

    plan = ArgumentPlan(_model_schema(input_model), prepare, ())
    return msgspec.structs.replace(_assemble_schema(fn, read, read_docstring(fn), plan), place=place)


def _derive_constructor(model: type[BaseModel]) -> Derived:
    """Describe a model class, whose constructor validates, so `prepare` does all the work and reports all faults."""
    output = read_output(label_of(model), model)
    return Derived(
        parameters=_model_schema(model),
        output_parameters=output.schema,
        description=read_docstring(model).description,
        binding=PythonBinding(
            callable=lambda model: model,
            prepare=lambda arguments: ((validate_arguments(model, arguments),), {}),
            finish=output.finish,
            returns=model,
        ),
    )


def _assemble_schema(fn: Callable[..., Any], read: Outline, doc: DocInfo, plan: ArgumentPlan) -> Derived:
    output = read_output(read.label, read.returns)
    schema, description = output.schema, doc.description
    if doc.returns and schema and "description" not in schema:
        schema = {"description": doc.returns, **schema}
    elif doc.returns:
        # The output schema has no place for this text, but a model can use it.
        description = f"{description}\n\nReturns: {doc.returns}".strip()
    return Derived(
        parameters=plan.schema,
        output_parameters=schema,
        description=description,
        binding=PythonBinding(
            callable=wrap_callable(fn, read),
            is_async=read.is_async,
            takes_ctx=read.ctx is not None,
            prepare=plan.prepare,
            finish=output.finish,
            integers=plan.integers,
            returns=output.returns,
            plain=output.plain,
            left_out=plan.left_out,
        ),
    )


def _model_schema(model: type[BaseModel]) -> Schema:
    try:
        schema = schema_of(model)
    except NO_SCHEMA as error:
        raise DefinitionError(f"no JSON Schema describes {label_of(model)}: {error}") from error
    if schema.get("type") != "object":
        raise DefinitionError(f"{label_of(model)} is not an object in JSON, and the arguments of a tool are one")
    return schema


def _input_name(fn: Callable[..., Any], read: Outline) -> str | None:
    """The keyword under which a function takes its model; None if by position."""
    needed = [item for item in read.parameters if item.kind is not inspect.Parameter.VAR_KEYWORD]
    if not needed:
        raise DefinitionError(f"{read.label} takes no parameter for its input model")
    for surplus in needed[1:]:
        if surplus.default is EMPTY and surplus.kind is not inspect.Parameter.VAR_POSITIONAL:
            raise DefinitionError(
                f"{read.label} takes {surplus.name!r} beside its input model; bind it with functools.partial"
            )
    leads = next(iter(inspect.signature(fn).parameters)) == needed[0].name
    by_position = leads and needed[0].kind is not inspect.Parameter.KEYWORD_ONLY
    return None if by_position else needed[0].name


def validate_arguments(model: type[_M], arguments: Arguments, *, sent: Arguments | None = None) -> _M:
    """The arguments as an instance of the model, or `InvalidArguments`.

    The cause of that error is pydantic's own, without input values. Its pointers refer to `sent`, in case the arguments
    had to be rearranged for the model.
    """
    failure: ValidationError | None = None
    try:
        # Validate as JSON: only from JSON does a strict model accept a date written as text.
        return model.model_validate_json(to_json(arguments))
    except ValidationError as error:
        failure, violations = hide_input(error), read_violations(error, arguments if sent is None else sent)
    except PydanticSerializationError as error:
        violations = [Violation("", f"is not JSON: {error}", "type")]
    # Raised outside the except block, so that the error that still holds the values does not become the context.
    raise InvalidArguments(
        f"invalid arguments: {describe(violations)}", details={"violations": [item.to_dict() for item in violations]}
    ) from failure


class ArgumentPlan(msgspec.Struct, frozen=True, eq=False):
    """The schema of the arguments, and how they are passed to the callable."""

    schema: Schema
    prepare: Prepare | None
    """None if JSON values can be passed by keyword unchanged."""
    integers: tuple[str, ...]
    """In that case, the parameters that require 3 where JSON Schema also accepts 3.0."""
    left_out: tuple[str, ...] = ()
    """Parameters that keep their default, since no JSON value fits their type."""


class _Field(msgspec.Struct, frozen=True, eq=False):
    """A parameter as a field of the model that represents the signature.

    `slot` is its neutral name in the model, since pydantic rejects some names that Python allows. `key` is its name in
    JSON.
    """

    slot: str
    key: str
    parameter: Parameter
    annotation: Any
    info: FieldInfo
    default: Any
    filled: bool
    """True if only `Field` has the default, so that Python would not apply it."""

    @property
    def required(self) -> bool:
        return self.default is EMPTY and self.info.is_required() and self.parameter.required

    @property
    def is_direct(self) -> bool:
        """True if `fn(**arguments)` needs no conversion."""
        by_name = not self.parameter.positional and not self.filled and self.key == self.parameter.name
        return by_name and is_plain(self.annotation)


def _describe_parameters(read: Outline, doc: DocInfo, *, has_schema: bool) -> ArgumentPlan:
    """The schema and argument conversion; `DefinitionError` names the parameter that cannot be described.

    `has_schema` means that another schema replaces this one, so it is left out where no argument needs conversion.
    """
    named, extra = read_parameters(read)
    try:
        return _plan_arguments(read, doc, named, extra, has_schema=has_schema)
    except NO_SCHEMA as error:
        narrowed = [msgspec.structs.replace(item, annotation=narrow_union(item.annotation)) for item in named]
        kept = [item for item in narrowed if has_schema or not _is_optional(item) or fits_json(item.annotation)]
        left_out = tuple(item.name for item in narrowed if item not in kept)
        if not left_out and all(new.annotation is old.annotation for new, old in zip(narrowed, named, strict=True)):
            raise _explain_no_schema(read.label, [*named, *([extra] if extra else [])], error) from error
    read = msgspec.structs.replace(read, hidden=(*read.hidden, *left_out))
    try:
        plan = _plan_arguments(read, doc, kept, extra, has_schema=has_schema)
    except NO_SCHEMA as error:
        raise _explain_no_schema(read.label, [*kept, *([extra] if extra else [])], error) from error
    return msgspec.structs.replace(plan, left_out=left_out)


def _is_optional(item: Parameter) -> bool:
    """True if calls by name may leave it to its default, which Python applies by itself: `Field(...)` is none."""
    return not (item.required or item.positional or isinstance(item.default, FieldInfo))


def _plan_arguments(
    read: Outline, doc: DocInfo, named: Sequence[Parameter], extra: Parameter | None, *, has_schema: bool
) -> ArgumentPlan:
    untyped = {item.name for item in read.parameters if item.annotation is EMPTY}
    fields = [_make_field(read.label, f"p{index}", parameter) for index, parameter in enumerate(named)]
    told = {
        field.key: doc.read_type_of(field.parameter.name, field.default)
        for field in fields
        if field.parameter.name in untyped
    }
    is_direct = all(field.is_direct for field in fields) and (extra is None or is_plain(extra.annotation))
    whole = {key for key, said in told.items() if "integer" in said.get("type", ()) and "number" not in said["type"]}
    integers = tuple(field.key for field in fields if wants_int(field.annotation) or field.key in whole)
    if is_direct and has_schema:
        return ArgumentPlan({}, None, integers)
    rest = None if extra is None else _make_rest_field(extra)
    model = _make_model(read.label, fields, rest, doc)
    schema = schema_of(model)
    for field in fields:
        if field.slot not in model.model_fields:
            raise TypeError(f"{inspect.formatannotation(field.annotation)} annotates no parameter")
    for field in fields:
        schema["properties"][field.key] |= told.get(field.key, {})
        _write_default(schema, field)
    if rest is not None:
        _allow_other_keywords(schema, rest, closed_to={*read.hidden, *(field.parameter.name for field in fields)})
    if is_direct:
        return ArgumentPlan(order_keywords(schema), None, integers)
    return ArgumentPlan(order_keywords(schema), _make_prepare(model, fields, rest), ())


def _make_field(label: str, slot: str, parameter: Parameter) -> _Field:
    annotation, default = parameter.annotation, parameter.default
    if isinstance(default, FieldInfo):
        annotation, default = Annotated[annotation, default], EMPTY
        parameter = msgspec.structs.replace(parameter, default=EMPTY, required=True)
    info = FieldInfo.from_annotation(annotation)
    filled = default is EMPTY and not info.is_required()
    if filled and info.default is not PydanticUndefined:
        default = info.default
    if default is None and not accepts_none(annotation):
        # By convention `limit: int = None` means an optional limit, although type checkers reject it.
        annotation = make_optional(annotation)
        info = FieldInfo.from_annotation(annotation)
    alias = info.validation_alias
    if alias is not None and not isinstance(alias, str):
        raise DefinitionError(f"{label}: parameter {parameter.name!r} has several aliases; give it one")
    return _Field(slot, alias or parameter.name, parameter, annotation, info, default, filled)


def _make_rest_field(extra: Parameter) -> _Field:
    """`**kwargs` as one more field, a dict, under a key that no parameter can have."""
    annotation: Any = types.GenericAlias(dict, (str, extra.annotation))
    return _Field("rest", f"**{extra.name}", extra, annotation, FieldInfo.from_annotation(annotation), EMPTY, False)


def _make_model(label: str, fields: Sequence[_Field], rest: _Field | None, doc: DocInfo) -> type[BaseModel]:
    keys = [field.key for field in fields]
    for key in keys:
        if keys.count(key) > 1:
            raise DefinitionError(f"{label}: two parameters are called {key!r} in JSON; change an alias")
    definitions: dict[str, Any] = {}
    portables: dict[Any, Any] = {}
    for field in [*fields, *([rest] if rest else [])]:
        described = field.info.description or _read_remark(field.info) or doc.params.get(field.parameter.name)
        metadata = Field(validation_alias=field.key, description=described)
        named: Any = Annotated[make_portable(field.annotation, portables), metadata]
        # The default here has no effect: arguments that are not given are not passed on.
        definitions[field.slot] = named if field.required or field.filled else (named, None)
    # Dataclasses and typed dicts among the parameters inherit "forbid", so no key is dropped silently.
    config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    # The parentheses prevent a clash with the name of a class among the annotations.
    return create_model(f"{label.rpartition('.')[2]}()", __config__=config, __module__=__name__, **definitions)


def _read_remark(info: FieldInfo) -> str | None:
    """The description from `Annotated[str, "Where to."]`, as many write it, or `Doc("Where to.")`."""
    said = (item if isinstance(item, str) else getattr(item, "documentation", None) for item in info.metadata)
    return next((text for text in said if isinstance(text, str) and text.strip()), None)


def _explain_no_schema(label: str, parameters: Sequence[Parameter], error: Exception) -> DefinitionError:
    for parameter in parameters:
        try:
            schema_of(TypeAdapter(make_portable(parameter.annotation)))
        except NO_SCHEMA as refusal:
            # The rest of pydantic's message is advice for authors of models.
            reason = str(refusal).partition("\n")[0].partition(". ")[0]
            kind = inspect.formatannotation(parameter.annotation)
            return DefinitionError(
                f"{label}: parameter {parameter.name!r} has the type {kind}, which JSON Schema cannot say ({reason}); "
                "a model can only pass JSON, so hand objects over by a `ctx` parameter, functools.partial or a closure"
            )
    return DefinitionError(f"{label}: no JSON Schema describes its parameters: {error}")


def _allow_other_keywords(schema: Schema, rest: _Field, *, closed_to: set[str]) -> None:
    """Let the schema accept what `**kwargs` accepts, except names that are bound, injected or aliased."""
    kwargs = schema["properties"].pop(rest.key)
    values = kwargs.get("additionalProperties", True)
    described = {"description": kwargs["description"]} if "description" in kwargs else {}
    schema["additionalProperties"] = {**described, **({} if values is True else values)} or True
    names = sorted(closed_to - schema["properties"].keys())
    if names:
        schema["propertyNames"] = {"not": {"enum": names}}


def _write_default(schema: Schema, field: _Field) -> None:
    shown = schema["properties"][field.key]
    shown.pop("default", None)
    default = _json_default(field)
    # A default that violates its own schema (`limit: int = "all"`) is only for Python callers.
    if default is not EMPTY and compile_schema({**shown, "$defs": schema.get("$defs", {})}).is_valid(default):
        shown["default"] = default


def _json_default(field: _Field) -> Any:
    """The default in JSON, or EMPTY unless it survives the round trip.

    Callers may fill in defaults that a schema shows, and the callable must receive an equal value.
    """
    default = field.default
    if default is EMPTY:
        return EMPTY
    try:
        # Sets are unordered, but a schema must be the same in every process.
        written = to_jsonable_python(sorted(default) if isinstance(default, (set, frozenset)) else default)
        # Without metadata that only makes sense on a field of a model, such as an alias.
        bare = make_portable(field.info.rebuild_annotation())
        read = written if is_plain(field.annotation) else TypeAdapter(bare).validate_python(written)
        same = type(read) is type(default) and bool(read == default)
    except (ValueError, TypeError):
        return EMPTY
    return written if same and find_non_finite(written) is None else EMPTY


def _make_prepare(model: type[BaseModel], fields: Sequence[_Field], rest: _Field | None) -> Prepare:
    by_position = [field for field in fields if field.parameter.positional]
    by_name = [(f.parameter.name, f.slot, f.key, f.filled) for f in fields if not f.parameter.positional]
    keys = {field.key for field in fields}

    def prepare(arguments: Arguments) -> tuple[tuple[Any, ...], Arguments]:
        arranged = arguments
        if rest is not None:
            arranged = {key: value for key, value in arguments.items() if key in keys}
            arranged[rest.key] = {key: value for key, value in arguments.items() if key not in keys}
        values = vars(validate_arguments(model, arranged, sent=arguments))
        keywords = {name: values[slot] for name, slot, key, filled in by_name if filled or key in arguments}
        if rest is not None:
            keywords |= values[rest.slot]
        return _collect_positional(by_position, values, arguments) if by_position else (), keywords

    return prepare


def _collect_positional(fields: Sequence[_Field], values: dict[str, Any], arguments: Arguments) -> tuple[Any, ...]:
    given = [field.filled or field.key in arguments for field in fields]
    last = max((place for place, is_given in enumerate(given, 1) if is_given), default=0)
    # Parameters omitted before a given one must be filled with their defaults.
    return tuple(
        values[field.slot] if is_given else field.default
        for field, is_given in zip(fields[:last], given[:last], strict=True)
    )
