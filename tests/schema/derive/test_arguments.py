"""Defaults, names and values of arguments, and that whatever a schema accepts can be called."""

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given, strategies as st
from pydantic import AliasChoices, Field

from schema.derive.derive_cases import (
    Box,
    Colour,
    Node,
    Options,
    Point,
    accepts,
    function_of,
    property_for,
    run,
    schema_for,
)
from toolyard.model.errors import DefinitionError, InvalidArguments
from toolyard.schema.admission import admit_schema
from toolyard.schema.derive.function import derive


@pytest.mark.parametrize(
    ("annotation", "default", "shown"),
    [
        (int, 3, 3),
        (float, 1, 1),
        (Any, "x", "x"),
        (int | None, None, None),
        (list[int], [1], [1]),
        (tuple[int, ...], (1, 2), [1, 2]),
        (set[str], {"b", "a"}, ["a", "b"]),
        (Colour, Colour.RED, "red"),
        (dt.date, dt.date(2024, 2, 29), "2024-02-29"),
        (Path, Path("a/b"), "a/b"),
        (Box, Box(1.5), {"width": 1.5, "made": None}),
    ],
)
def test_a_default_that_comes_back_from_json_as_it_was_is_shown(annotation: Any, default: Any, shown: Any) -> None:
    assert property_for(annotation, default)["default"] == shown


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (Any, object()),
        (Any, (1, 2)),
        (Any, {1}),
        (Any, Colour.RED),
        (float, float("inf")),
        (float, float("nan")),
        (int, "not an int"),
        (Any, ...),
        (bytes, b"\xff"),
    ],
)
def test_any_other_default_only_makes_the_parameter_optional(annotation: Any, default: Any) -> None:
    schema = schema_for(annotation, default)

    assert "default" not in schema["properties"]["it"]
    assert "required" not in schema
    assert accepts(schema, {})


def test_a_default_of_none_allows_null() -> None:
    assert accepts(schema_for(int, None), {"it": None})
    assert property_for(Annotated[int, Field(ge=1, description="D.")], None)["description"] == "D."


def test_names_that_pydantic_dislikes_are_ordinary_parameters() -> None:
    names = ["_x", "__y", "model_config", "schema", "json", "copy", "class_", "validate", "model_fields", "p0", "rest"]
    fn = function_of(dict.fromkeys(names, dt.date))
    derived = derive(fn)
    sent = dict.fromkeys(names, "2024-01-01")

    assert list(derived.parameters["properties"]) == names
    assert run(derived, sent) == dict.fromkeys(names, dt.date(2024, 1, 1))


def test_an_alias_is_the_name_in_json() -> None:
    def fn(rate: Annotated[int, Field(alias="X-Rate")]) -> int:
        return rate

    assert list(derive(fn).parameters["properties"]) == ["X-Rate"]
    assert run(derive(fn), {"X-Rate": 3}) == 3


def test_two_parameters_cannot_have_one_name_in_json() -> None:
    def fn(x: int, y: Annotated[int, Field(alias="x")]) -> None: ...

    with pytest.raises(DefinitionError, match=r"two parameters are called 'x' in JSON"):
        derive(fn)


def test_a_parameter_has_one_name_in_json() -> None:
    def fn(x: Annotated[int, Field(validation_alias=AliasChoices("x", "y"))]) -> None: ...

    with pytest.raises(DefinitionError, match=r"parameter 'x' has several aliases; give it one"):
        derive(fn)


DATES = st.dates(dt.date(1, 1, 1)).map(dt.date.isoformat)
JSON: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    int: st.integers(-(2**70), 2**70),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    Literal["a", 1]: st.sampled_from(["a", 1]),
    Annotated[int, Field(ge=0, le=9)]: st.integers(0, 9),
    dt.date: DATES,
    uuid.UUID: st.uuids().map(str),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
    bytes: st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    Colour: st.sampled_from(["red", "blue"]),
    Point: st.tuples(st.integers(), st.integers()).map(list),
    Box: st.fixed_dictionaries({"width": st.integers(0, 9)}, optional={"made": DATES}),
    Options: st.fixed_dictionaries(
        {}, optional={"title": st.text(st.characters(codec="ascii")), "depth": st.integers()}
    ),
    Node: st.recursive(
        st.just({"title": "leaf"}),
        lambda kids: st.fixed_dictionaries({"title": st.just("x"), "children": st.lists(kids, max_size=2)}),
        max_leaves=4,
    ),
}


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[Any, Any]:
    """An annotation and a JSON value that fits it."""
    annotation = draw(st.sampled_from(list(JSON)))
    values = JSON[annotation]
    for _ in range(draw(st.integers(0, 2))):
        match draw(st.sampled_from(["list", "dict", "optional", "tuple"])):
            case "list":
                annotation, values = list[annotation], st.lists(values, max_size=2)
            case "dict":
                annotation, values = dict[str, annotation], st.dictionaries(st.sampled_from("ab"), values)
            case "optional":
                annotation, values = annotation | None, st.none() | values
            case "tuple":
                annotation, values = tuple[annotation, ...], st.lists(values, max_size=2)
    return annotation, draw(values)


@given(st.lists(typed_values(), max_size=4), st.booleans())
def test_what_the_schema_accepts_can_be_called_and_its_result_is_json(
    pairs: list[tuple[Any, Any]], extra: bool
) -> None:
    annotations = {f"_{index}": annotation for index, (annotation, _) in enumerate(pairs)}
    arguments = {f"_{index}": value for index, (_, value) in enumerate(pairs)}
    derived = derive(function_of(annotations))

    result = derived.binding.finish(run(derived, arguments))

    assert result.keys() == arguments.keys()
    jsonschema_rs.validator_for(derived.parameters, offline=True).validate(result)
    if extra:
        assert not accepts(derived.parameters, {**arguments, "unknown": 1})


@pytest.mark.parametrize("annotation", JSON, ids=str)
def test_a_derived_schema_is_admitted_as_it_is(annotation: Any) -> None:
    derived = derive(function_of({"it": annotation}))

    assert admit_schema(derived.parameters).changes == ()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "title"]), inner, max_size=2),
    max_leaves=4,
)


@given(st.sampled_from(list(JSON)), ANYTHING)
def test_values_that_only_pydantic_can_judge_are_invalid_arguments_at_worst(annotation: Any, value: Any) -> None:
    derived = derive(function_of({"it": annotation}))
    if accepts(derived.parameters, {"it": value}):
        try:
            run(derived, {"it": value})
        except InvalidArguments as error:
            assert error.info.details["violations"]
