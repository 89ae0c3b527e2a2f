"""Values on their way into a Python tool and out of it: JSON to objects, objects to JSON."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from toolyard.model.errors import InvalidArguments, InvalidOutput
from toolyard.schema.derive.type_schema import not_finite
from toolyard.schema.strict import read_violations, without_input
from toolyard.schema.violations import Violation, describe

Arguments = dict[str, Any]
Prepare = Callable[[Arguments], tuple[tuple[Any, ...], Arguments]]
Finish = Callable[[Any], Any]

_M = TypeVar("_M", bound=BaseModel)

_PLAIN_SCALARS = frozenset({str, int, bool, type(None)})


def validated(model: type[_M], arguments: Arguments, *, sent: Arguments | None = None) -> _M:
    """The arguments as an instance of the model, or `InvalidArguments`.

    The cause of that error is pydantic's own, less the input values. Its pointers lead into what was
    `sent`, in case the arguments had to be rearranged for the model.
    """
    failure: ValidationError | None = None
    try:
        # As JSON, because that is what arguments are: only from JSON does a strict model take a date from text.
        return model.model_validate_json(to_json(arguments))
    except ValidationError as error:
        failure, violations = without_input(error), read_violations(error, arguments if sent is None else sent)
    except PydanticSerializationError as error:
        violations = [Violation("", f"is not JSON: {error}", "type")]
    # Raised out here, or the error that still holds the values would be kept as the context of this one.
    raise InvalidArguments(
        f"invalid arguments: {describe(violations)}", details={"violations": [item.to_dict() for item in violations]}
    ) from failure


def finisher(label: str, adapter: TypeAdapter[Any] | None, *, plain: bool) -> Finish:
    """What turns the results of one callable into plain JSON, or raises `InvalidOutput`.

    `adapter` serialises by the return annotation. `plain` says that it leaves scalars as they are, so
    that they need not be sent through it.
    """

    def finish(value: Any) -> Any:
        kind = type(value)
        if plain and (kind in _PLAIN_SCALARS or (kind is float and math.isfinite(value))):
            return value
        try:
            result = _dump(value, adapter)
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidOutput(
                f"{label} returned {kind.__name__}, which cannot be written as JSON: {error}",
                hint="return JSON values, a pydantic model or a dataclass",
            ) from error
        place = not_finite(result)
        if place is not None:
            raise InvalidOutput(
                f"{label} returned NaN or an infinity at {place or '(root)'}, which JSON has no word for",
                hint="return null or text instead",
            )
        return result

    return finish


def _dump(value: Any, adapter: TypeAdapter[Any] | None) -> Any:
    if adapter is None:
        return to_jsonable_python(value, fallback=_write_unknown)
    # A value that is not what the annotation says is still written; judging it is the output check's job.
    return adapter.dump_python(value, mode="json", by_alias=True, warnings=False)


def _write_unknown(value: Any) -> list[Any] | str:
    """What pydantic before 2.14 cannot write by itself."""
    if isinstance(value, collections.deque):
        return list(value)
    if type(value).__module__ in ("ipaddress", "fractions"):
        return str(value)
    raise PydanticSerializationError(f"Unable to serialize unknown type: {type(value)}")
