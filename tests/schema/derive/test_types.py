import collections.abc
import datetime as dt
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, TypedDict, TypeVar, Union

import annotated_types
import pytest
from pydantic import AfterValidator, Field, JsonValue, StringConstraints, TypeAdapter
from typing_extensions import TypeAliasType

from schema.derive.derive_cases import Box, Colour, Node, Options, Point
from toolyard.schema.derive.types import accepts_none, is_plain, make_optional, make_portable, wants_int

T = TypeVar("T")
Bound = TypeVar("Bound", bound=dt.date)
UserId = NewType("UserId", int)
Alias = TypeAliasType("Alias", list[int])


class Recursive:
    """Looks like what `type Json = int | list[Json]` makes on a Python that has it."""

    __type_params__ = ()
    __value__: Any


Recursive.__name__ = "TypeAliasType"
Json: Any = Recursive()
Json.__value__ = Union[int, list[Json]]  # noqa: UP007


class Tree(TypedDict):
    """A tree."""

    name: str
    below: "NotRequired[list[Tree]]"


class Dated(TypedDict):
    on: dt.date


@pytest.mark.parametrize(
    "annotation",
    [
        str, int, float, bool, None.__class__, Any, object, T, UserId, Alias, Json,
        list, dict, list[int], dict[str, Any], Sequence[str], Mapping[str, float], typing.List, typing.Dict,  # noqa: UP006
        list[dict[str, list[bool]]], int | None, Optional[str], Union[int, str],  # noqa: UP007, UP045
        Literal["a", 1, None], Options, Tree, list[Tree | None],
        Annotated[int, Field(ge=1, description="x")], Annotated[str, "a note"], Annotated[float, annotated_types.Gt(0)],
        Annotated[str, StringConstraints(pattern="^a", max_length=3)], Annotated[list[int], Field(min_length=1)],
        Annotated[int | None, Field(le=3)],
    ],
)  # fmt: skip
def test_json_is_already_the_value_that_these_ask_for(annotation: Any) -> None:
    assert is_plain(annotation)


@pytest.mark.parametrize(
    "annotation",
    [
        dt.date, Colour, Point, Box, Node, Dated, set[int], tuple[int, ...], bytes, Bound, JsonValue,
        list[dt.date], dict[int, str], int | dt.date, Literal[Colour.RED], list[Dated], collections.abc.Callable,
        Annotated[int, AfterValidator(abs)], Annotated[str, StringConstraints(strip_whitespace=True)],
        Annotated[int, Field(default=3)], Annotated[int, Field(alias="x")], Annotated[str, annotated_types.Ge("m")],
        Annotated[int, annotated_types.Predicate(bool)], Annotated[int, Field(strict=True)],
    ],
)  # fmt: skip
def test_these_need_a_conversion_or_a_check_of_their_own(annotation: Any) -> None:
    assert not is_plain(annotation)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, True),
        (int | None, True),
        (int | str, True),
        (UserId, True),
        (Annotated[int, Field(ge=1)], True),
        (Literal[1, 2], True),
        (float, False),
        (int | float, False),
        (bool, False),
        (str, False),
        (list[int], False),
        (Any, False),
    ],
)
def test_integral_floats_are_for_those_who_cannot_take_them(annotation: Any, expected: bool) -> None:
    assert wants_int(annotation) is expected


@pytest.mark.parametrize("annotation", [Any, object, None.__class__, int | None, Optional[str], Literal["a", None], T])  # noqa: UP045
def test_none_fits_these(annotation: Any) -> None:
    assert accepts_none(annotation)


def test_none_can_be_added_without_losing_what_annotated_says() -> None:
    wider = make_optional(Annotated[int, Field(ge=1)])

    assert accepts_none(wider)
    assert not accepts_none(int)
    assert TypeAdapter(wider).json_schema() == {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}


@pytest.mark.parametrize(
    "annotation", [Tree, list[Tree], Tree | None, dict[str, Tree | int], Annotated[Tree, "x"], tuple[Tree, ...]]
)
def test_typed_dicts_of_the_standard_library_can_be_read_on_every_python(annotation: Any) -> None:
    schema = TypeAdapter(make_portable(annotation)).json_schema()

    tree = schema["$defs"]["Tree"]
    assert tree["required"] == ["name"]
    assert tree["description"] == "A tree."
    assert tree["properties"]["below"]["items"] == {"$ref": "#/$defs/Tree"}


@pytest.mark.parametrize("annotation", [int, list[int], Literal["a"], Node, dict[str, Point], collections.abc.Callable])
def test_other_annotations_are_returned_unchanged(annotation: Any) -> None:
    assert make_portable(annotation) is annotation
