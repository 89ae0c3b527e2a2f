"""The results of a callable: their schema, and how they are written as plain JSON."""

from __future__ import annotations

import collections
import math
import types
from collections import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from typing import Any, get_args, get_origin

import msgspec
from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter
from pydantic_core import PydanticSerializationError, to_jsonable_python

from toolyard.model.errors import InvalidOutput
from toolyard.model.tool import Schema
from toolyard.schema.derive.signature import EMPTY
from toolyard.schema.derive.types import NO_SCHEMA, find_non_finite, is_plain, make_portable, schema_of
from toolyard.schema.strict import StrictModel

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
    if get_origin(annotation) in _ITERATORS:
        annotation = types.GenericAlias(Iterable, get_args(annotation)[:1])  # pydantic only supports Iterable
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
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (collections.deque, Sequence, Set, ValuesView)):
        return list(value)
    if type(value).__module__ in ("ipaddress", "fractions"):
        return str(value)
    raise PydanticSerializationError(f"Unable to serialize unknown type: {type(value)}")
