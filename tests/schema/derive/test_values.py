"""Values on their way in and out."""

import array
import collections
import datetime as dt
import enum
import ipaddress
import types
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, ValidationError

from schema.derive.derive_cases import Box, Colour, Node, Point, function_of, run
from toolyard.model.errors import InvalidArguments, InvalidOutput
from toolyard.schema.derive.function import derive, derive_model

SECRET = "hunter2-and-more"


class Permission(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 4


def test_members_of_a_flag_are_given_and_shown_together() -> None:
    def fn(it: Permission, default: Permission = Permission.READ | Permission.RUN) -> Permission:
        return it | default

    derived = derive(fn)
    assert derived.parameters["$defs"]["Permission"] == {"type": "integer", "minimum": 0, "maximum": 7}
    assert derived.parameters["properties"]["default"]["default"] == 5
    assert [derived.binding.finish(run(derived, {"it": value})) for value in (0, 2, 3)] == [5, 7, 7]


def refuse(value: Any) -> Any:
    raise ValueError(f"{value} is not welcome")


def finish(value: Any, annotation: Any = None) -> Any:
    def fn() -> Any: ...

    if annotation is not None:
        fn.__annotations__["return"] = annotation
    return derive(fn).binding.finish(value)


def test_plain_parameters_are_passed_as_they_came() -> None:
    def fn(a: int, b: str | None = None, *, c: list[dict[str, float]] = []) -> None: ...  # noqa: B006

    derived = derive(fn)

    assert derived.binding.prepare is None
    assert derived.binding.integers == ("a",)


def test_one_parameter_that_needs_it_has_all_converted() -> None:
    def fn(a: int, on: dt.date) -> Any:
        return a, on

    derived = derive(fn)

    assert derived.binding.integers == ()
    assert repr(run(derived, {"a": 3.0, "on": "2024-01-01"})) == "(3, datetime.date(2024, 1, 1))"


@pytest.mark.parametrize(
    ("annotation", "sent", "received"),
    [
        (dt.datetime, "2024-01-01T10:00:00Z", dt.datetime(2024, 1, 1, 10, tzinfo=dt.UTC)),
        (Decimal, "1.10", Decimal("1.10")),
        (bytes, "abc", b"abc"),
        (Colour, "red", Colour.RED),
        (Box, {"width": 2, "made": "2024-01-01"}, Box(2.0, dt.date(2024, 1, 1))),
        (Point, [1, 2], Point(1, 2)),
        (set[int], [1, 2], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[int, Colour], {"1": "red"}, {1: Colour.RED}),
        (Node, {"title": "x"}, Node(title="x")),
    ],
)
def test_json_becomes_what_the_annotation_asks_for(annotation: Any, sent: Any, received: Any) -> None:
    result = run(derive(function_of({"it": annotation})), {"it": sent})["it"]

    assert result == received
    assert type(result) is type(received)


def test_what_is_not_given_is_not_passed() -> None:
    def fn(on: dt.date, **rest: Any) -> Any:
        return rest

    assert run(derive(fn), {"on": "2024-01-01"}) == {}
    assert run(derive(function_of({"on": dt.date, "x": int}, {"x": 3})), {"on": "2024-01-01"}).keys() == {"on"}


def test_defaults_that_only_field_knows_are_filled_in() -> None:
    def fn(limit: int = Field(default=3, ge=1), tags: list[str] = Field(default_factory=list)) -> Any:  # noqa: B008
        return limit, tags

    assert run(derive(fn), {}) == (3, [])
    assert run(derive(fn), {})[1] is not run(derive(fn), {})[1]
    assert derive(fn).parameters["properties"]["limit"] == {"type": "integer", "minimum": 1, "default": 3}


def test_a_validator_that_refuses_makes_invalid_arguments_without_values() -> None:
    def fn(token: Annotated[str, AfterValidator(refuse)], on: dt.date, **rest: dt.date) -> None: ...

    prepare = derive(fn).binding.prepare
    assert prepare is not None
    with pytest.raises(InvalidArguments) as caught:
        prepare({"token": SECRET, "on": SECRET, "other": SECRET})

    error = caught.value
    violations = error.info.details["violations"]
    assert [item["pointer"] for item in violations] == ["/token", "/on", "/other"]
    assert violations[0] == {
        "pointer": "/token",
        "message": "Value error, <hidden> is not welcome",
        "keyword": "value_error",
    }
    for text in (str(error), repr(error.info), repr(error.__cause__), repr(error.__context__)):
        assert SECRET not in text


def test_what_is_no_json_at_all_is_invalid_too() -> None:
    prepare = derive(function_of({"on": dt.date})).binding.prepare
    assert prepare is not None

    with pytest.raises(InvalidArguments, match="is not JSON"):
        prepare({"on": "\ud800"})


def test_a_model_as_input_is_validated_and_its_error_kept_as_cause() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)

        on: dt.date

    prepare = derive_model(lambda model: model, Strict).binding.prepare
    assert prepare is not None

    assert prepare({"on": "2024-01-01"}) == ((Strict(on=dt.date(2024, 1, 1)),), {})
    with pytest.raises(InvalidArguments) as caught:
        prepare({"on": SECRET})
    assert isinstance(caught.value.__cause__, ValidationError)
    assert SECRET not in repr(caught.value.__cause__.errors())


@pytest.mark.parametrize("value", ["text", 3, True, None, 2.5])
def test_plain_scalars_are_returned_as_they_are(value: Any) -> None:
    assert finish(value) is value


class Level(enum.IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Node(title="x"), {"title": "x", "children": []}),
        (Box(1.5), {"width": 1.5, "made": None}),
        ({"at": dt.date(2024, 1, 1)}, {"at": "2024-01-01"}),
        ([Colour.RED, Level.LOW], ["red", 1]),
        ({1, 2}, [1, 2]),
        ((1, (2, 3)), [1, [2, 3]]),
        (b"abc", "abc"),
        (Decimal("1.5"), "1.5"),
        (collections.deque([1]), [1]),
        (ipaddress.ip_address("::1"), "::1"),
        ({1: "a"}, {"1": "a"}),
        (iter([1, 2]), [1, 2]),
        (Level.LOW, 1),
        (array.array("i", [1, 2]), [1, 2]),
        (range(2), [0, 1]),
        ({"a": 1}.keys(), ["a"]),
        ({"a": 1}.values(), [1]),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
    ],
)
def test_results_of_any_type_become_plain_json(value: Any, expected: Any) -> None:
    result = finish(value)

    assert result == expected
    assert type(result) in (dict, list, str, int)


def test_the_annotation_decides_how_a_result_is_written() -> None:
    class Hidden(BaseModel):
        name: str = Field(serialization_alias="full-name")
        key: str = Field(exclude=True)

    assert finish([Hidden(name="x", key="k")], list[Hidden]) == [{"full-name": "x"}]
    assert finish(3, Annotated[int, PlainSerializer(str)]) == "3"
    assert finish(iter([dt.date(2024, 1, 1)]), Iterator[dt.date]) == ["2024-01-01"]


def test_a_result_that_is_not_what_was_annotated_is_still_written() -> None:
    assert finish({"at": dt.date(2024, 1, 1)}, int) == {"at": "2024-01-01"}
    assert finish({"title": 3}, Node) == {"title": 3}


class ArrayNumber:
    """Like a number out of an array of numpy, which is not a Python one."""

    def tolist(self) -> float:
        return 1.5


def test_numbers_of_array_libraries_are_written_under_any_annotation() -> None:
    assert finish(ArrayNumber(), float) == 1.5
    assert finish([ArrayNumber()], list[float]) == [1.5]
    assert finish({"mean": ArrayNumber()}) == {"mean": 1.5}


def test_a_function_that_yields_says_what_its_list_holds() -> None:
    def count() -> Iterator[int]:
        yield 1

    assert derive(count).output_parameters == {"type": "array", "items": {"type": "integer"}}


def test_a_result_does_not_share_its_containers_with_the_tool() -> None:
    kept = {"rows": [1]}

    result = finish(kept, dict[str, Any])
    kept["rows"].append(2)

    assert result == {"rows": [1]}


class Broken(BaseModel):
    x: Annotated[int, PlainSerializer(refuse)]


def circle() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize("value", [object(), {"x": object()}, b"\xff", circle(), Broken(x=1), lambda: None])
def test_what_cannot_be_json_is_invalid_output(value: Any) -> None:
    with pytest.raises(InvalidOutput, match=f"returned {type(value).__name__}, which cannot be written as JSON"):
        finish(value)


@pytest.mark.parametrize(
    ("value", "annotation", "place"),
    [
        (float("nan"), None, r"\(root\)"),
        (float("-inf"), float, r"\(root\)"),
        ({"a/b": [1.0, float("inf")]}, dict, "/a~1b/1"),
        ([float("nan")], list[Any], "/0"),
        (Box(float("nan")), Box, "/width"),
        (Box(float("nan")), None, "/width"),
    ],
)
def test_numbers_that_json_has_no_word_for_are_invalid_output(value: Any, annotation: Any, place: str) -> None:
    with pytest.raises(InvalidOutput, match=f"returned NaN or an infinity at {place}"):
        finish(value, annotation)
