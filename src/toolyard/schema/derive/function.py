"""From a Python callable to everything a tool needs: schemas, description, and values in and out.

derive(fn)               each parameter is a property
derive_model(fn, Input)  the one parameter is a model, and its fields are the properties
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec
from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter

from toolyard.model.errors import DefinitionError
from toolyard.model.tool import Schema
from toolyard.schema.derive.arguments import (
    ArgumentPlan,
    Arguments,
    Finish,
    Prepare,
    finisher,
    plan_arguments,
    validated,
)
from toolyard.schema.derive.docstring import DocInfo, read_docstring
from toolyard.schema.derive.signature import EMPTY, Outline, label_of, outline
from toolyard.schema.derive.types import NO_SCHEMA, is_plain, portable, schema_of
from toolyard.schema.strict import StrictModel


class Derived(msgspec.Struct, frozen=True, eq=False):
    """What can be told from a callable's signature, annotations and docstring."""

    parameters: Schema
    output_parameters: Schema
    description: str
    call: Callable[..., Any]
    """The callable itself, or a thin cover where it calls its context other than `ctx`."""
    prepare: Prepare | None
    """JSON arguments to positional and keyword ones; None when `call(**arguments)` is all it takes."""
    finish: Finish
    """What was returned to plain JSON."""
    takes_ctx: bool = False
    is_async: bool = False
    integers: tuple[str, ...] = ()
    """Without `prepare`: parameters that want 3 where JSON Schema also accepts 3.0."""
    returns: type | None = None
    """The model class that every answer must be an instance of, if one is promised."""
    plain: bool = False
    """True when `finish` would leave an answer that is JSON already as it is."""
    place: Prepare | None = None
    """From `derive_model` only: the call's arguments for an input model that is validated already."""


class _Output(msgspec.Struct, frozen=True, eq=False):
    schema: Schema
    finish: Finish
    returns: type | None = None
    plain: bool = False


def derive(fn: Callable[..., Any], *, parameters: Schema | None = None) -> Derived:
    """Describe a callable; `DefinitionError` names the parameter that cannot be described and a way out.

    `parameters` is a schema written by hand. It stands as it is, and a signature that says less than the
    schema (`**kwargs`, say, or annotations nobody can resolve) is no error then.
    """
    if isinstance(fn, type) and issubclass(fn, BaseModel):
        derived = _derive_constructor(fn)
    else:
        read, doc = outline(fn), read_docstring(fn)
        derived = _assemble_schema(fn, read, doc, _plan_arguments(read, doc, lenient=parameters is not None))
    return derived if parameters is None else msgspec.structs.replace(derived, parameters=parameters)


def derive_model(fn: Callable[..., Any], input_model: type[BaseModel]) -> Derived:
    """Describe a function of one model: its arguments are the fields of the model.

    `prepare` validates once; the cause of its `InvalidArguments` is pydantic's error without input values.
    """
    read = outline(fn)
    by_name = _input_name(fn, read)

    def place(model: Any) -> tuple[tuple[Any, ...], Arguments]:
        return ((model,), {}) if by_name is None else ((), {by_name: model})

    def prepare(arguments: Arguments) -> tuple[tuple[Any, ...], Arguments]:
        return place(validated(input_model, arguments))

    plan = ArgumentPlan(_model_schema(input_model), prepare, ())
    return msgspec.structs.replace(_assemble_schema(fn, read, read_docstring(fn), plan), place=place)


def _plan_arguments(read: Outline, doc: DocInfo, *, lenient: bool) -> ArgumentPlan:
    try:
        return plan_arguments(read, doc)
    except DefinitionError:
        if lenient:
            return ArgumentPlan({}, None, ())
        raise


def _derive_constructor(model: type[BaseModel]) -> Derived:
    """Calling a model class validates, so `prepare` can do all of it and name what is wrong."""
    output = _output_schema(label_of(model), model)
    return Derived(
        parameters=_model_schema(model),
        output_parameters=output.schema,
        description=read_docstring(model).description,
        call=_keep_model,
        prepare=lambda arguments: ((validated(model, arguments),), {}),
        finish=output.finish,
        returns=model,
    )


def _keep_model(model: BaseModel) -> BaseModel:
    return model


def _assemble_schema(fn: Callable[..., Any], read: Outline, doc: DocInfo, plan: ArgumentPlan) -> Derived:
    output = _output_schema(read.label, read.returns)
    schema, description = output.schema, doc.description
    if doc.returns and schema and "description" not in schema:
        schema = {"description": doc.returns, **schema}
    elif doc.returns:
        # The output schema has no room for this text, and a model can use it.
        description = f"{description}\n\nReturns: {doc.returns}".strip()
    return Derived(
        parameters=plan.schema,
        output_parameters=schema,
        description=description,
        call=fn if read.ctx in (None, "ctx") else _renaming_ctx(fn, read.ctx),
        prepare=plan.prepare,
        finish=output.finish,
        takes_ctx=read.ctx is not None,
        is_async=read.is_async,
        integers=plan.integers,
        returns=output.returns,
        plain=output.plain,
    )


def _renaming_ctx(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*args: Any, ctx: Any, **keywords: Any) -> Any:
        return fn(*args, **keywords, **{name: ctx})

    return call


def _output_schema(label: str, annotation: Any) -> _Output:
    """The schema and serialiser of a return annotation; any JSON where it is missing or says nothing."""
    returns = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    # A bare base class stands for any model of its kind; its own schema would drop their fields.
    if annotation is EMPTY or annotation in (Any, BaseModel, StrictModel):
        return _Output({}, finisher(label, None, plain=True), returns, plain=True)
    try:
        adapter = _make_adapter(portable(annotation))
        schema = schema_of(adapter, mode="serialization")
    except NO_SCHEMA:
        return _Output({}, finisher(label, None, plain=True), returns, plain=True)
    plain = is_plain(annotation)
    return _Output(schema, finisher(label, adapter, plain=plain), returns, plain=plain)


def _make_adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        # By default pydantic writes null for NaN, and nobody would learn of it.
        return TypeAdapter(annotation, config=ConfigDict(ser_json_inf_nan="constants"))
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(annotation)


def _model_schema(model: type[BaseModel]) -> Schema:
    try:
        schema = schema_of(model)
    except NO_SCHEMA as error:
        raise DefinitionError(f"no JSON Schema describes {label_of(model)}: {error}") from error
    if schema.get("type") != "object":
        raise DefinitionError(f"{label_of(model)} is not an object in JSON, and the arguments of a tool are one")
    return schema


def _input_name(fn: Callable[..., Any], read: Outline) -> str | None:
    """The name under which a function takes its model; None if by position."""
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
