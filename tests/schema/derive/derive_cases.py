"""Types, and functions that have them, for the tests of `derive`."""

import dataclasses
import datetime as dt
import enum
import inspect
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

import jsonschema_rs
from pydantic import BaseModel, ConfigDict, Field

from toolyard.schema.derive.function import Derived, derive

T = TypeVar("T")


class Colour(enum.Enum):
    """What it looks like."""

    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    x: int
    y: int = 0


@dataclasses.dataclass
class Box:
    """Something with sides."""

    width: float
    made: dt.date | None = None


class Options(TypedDict, total=False):
    title: str
    depth: int


class Node(BaseModel):
    """A node of a tree."""

    title: str = Field(title="Heading")
    children: list["Node"] = []


class Page(BaseModel, Generic[T]):
    items: list[T]


class Titled(BaseModel):
    model_config = ConfigDict(title="Titled")

    x: int


def schema_for(annotation: Any, default: Any = inspect.Parameter.empty) -> dict[str, Any]:
    """The schema of a function of one parameter `it`."""
    derived = derive(function_of({"it": annotation}, {"it": default}))
    jsonschema_rs.validator_for(derived.parameters, offline=True)
    return derived.parameters


def property_for(annotation: Any, default: Any = inspect.Parameter.empty) -> dict[str, Any]:
    found: dict[str, Any] = schema_for(annotation, default)["properties"]["it"]
    return found


def function_of(annotations: dict[str, Any], defaults: dict[str, Any] | None = None) -> Any:
    """A function that returns its arguments, with any signature."""

    def fn(**kwargs: Any) -> Any:
        return kwargs

    given = defaults or {}
    fn.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=given.get(name, inspect.Parameter.empty),
            )
            for name, annotation in annotations.items()
        ]
    )
    return fn


def accepts(schema: dict[str, Any], value: Any) -> bool:
    return jsonschema_rs.validator_for(schema, offline=True).is_valid(value)


def run(derived: Derived, arguments: dict[str, Any], **ctx: Any) -> Any:
    """Call as the registry does."""
    jsonschema_rs.validator_for(derived.parameters, offline=True).validate(arguments)
    args, keywords = derived.binding.prepare(arguments) if derived.binding.prepare else ((), arguments)
    return derived.binding.callable(*args, **keywords, **ctx)
