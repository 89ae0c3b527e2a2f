"""What schemas look like."""

import cProfile
import datetime as dt
import inspect
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from pydantic import BaseModel, Field, RootModel, create_model
from typing_extensions import Doc

from schema.derive.derive_cases import (
    Box,
    Colour,
    Node,
    Options,
    Page,
    Point,
    T,
    Titled,
    accepts,
    property_for,
    run,
    schema_for,
)
from toolyard.model.errors import DefinitionError
from toolyard.schema.derive.function import derive, derive_model
from toolyard.schema.strict import StrictModel


def test_a_function_becomes_a_closed_object_schema() -> None:
    def weather(city: str, days: int = 3) -> dict[str, float]:
        """Forecast.

        Args:
            city: Where.
        """
        return {city: days}

    derived = derive(weather)

    assert derived.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "days": {"type": "integer", "default": 3},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert derived.output_parameters == {"type": "object", "additionalProperties": {"type": "number"}}
    assert derived.description == "Forecast."


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
        (inspect.Parameter.empty, {}),
        (None, {"type": "null"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (tuple[int, str], {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (dt.date, {"type": "string", "format": "date"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (Path, {"type": "string", "format": "path"}),
        (bytes, {"type": "string", "format": "binary"}),
        (Annotated[int, Field(ge=1, description="Own.")], {"type": "integer", "minimum": 1, "description": "Own."}),
        (T, {}),
    ],
)  # fmt: skip
def test_each_kind_of_annotation_has_its_schema(annotation: Any, expected: dict[str, Any]) -> None:
    assert property_for(annotation) == expected


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (Decimal, ["1.5", 2], [[], None]),
        (Colour, ["red"], ["green", 1]),
        (Point, [[1], [1, 2]], [[], [1, 2, 3], ["x"]]),
        (Box, [{"width": 1}, {"width": 1, "made": None}], [{}, {"width": 1, "depth": 2}]),
        (Options, [{}, {"title": "x"}], [{"title": 1}, {"colour": "red"}]),
        (Node, [{"title": "x", "children": [{"title": "y"}]}], [{"title": "x", "children": [{}]}]),
        (Page[int], [{"items": [1]}], [{"items": ["x"]}]),
        (list[Options | None], [[None, {"depth": 1}]], [[1]]),
    ],
)
def test_classes_are_described_well_enough_to_tell_good_from_bad(
    annotation: Any, good: list[Any], bad: list[Any]
) -> None:
    schema = schema_for(annotation)

    assert [value for value in good if not accepts(schema, {"it": value})] == []
    assert [value for value in bad if accepts(schema, {"it": value})] == []


def titles(schema: Any, path: str = "") -> list[str]:
    """Where a schema has the keyword `title`; a property of that name is none."""
    found: list[str] = []
    if isinstance(schema, dict):
        names = path.rpartition("/")[2] in ("properties", "$defs")
        found += [path] if "title" in schema and not names else []
        for key, value in schema.items():
            found += titles(value, f"{path}/{key}")
    if isinstance(schema, list):
        for item in schema:
            found += titles(item, path)
    return found


@pytest.mark.parametrize("annotation", [int, Colour, Point, Box, Options, list[Options], Page[int], Page[Node]])
def test_titles_that_repeat_a_name_are_left_out_everywhere(annotation: Any) -> None:
    assert [path for path in titles(schema_for(annotation)) if "Node" not in path] == []


def test_titles_that_the_author_gave_stay() -> None:
    assert schema_for(Node)["$defs"]["Node"]["properties"]["title"] == {"type": "string", "title": "Heading"}
    assert schema_for(Titled)["$defs"]["Titled"]["title"] == "Titled"
    assert property_for(Annotated[int, Field(title="It")])["title"] == "It"
    assert property_for(Annotated[Colour, Field(title="Colour")])["title"] == "Colour"


def test_docstrings_of_classes_are_their_descriptions() -> None:
    definitions = schema_for(Node | Box | Colour)["$defs"]

    assert {name: schema["description"] for name, schema in definitions.items()} == {
        "Node": "A node of a tree.",
        "Box": "Something with sides.",
        "Colour": "What it looks like.",
    }


@pytest.mark.parametrize("remark", ["Where to.", Doc("Where to.")])
def test_a_remark_in_the_annotation_describes_the_parameter(remark):
    assert property_for(Annotated[int, remark])["description"] == "Where to."
    assert property_for(Annotated[int, remark, Field(description="Own.")])["description"] == "Own."


def test_a_description_in_field_wins_over_the_docstring() -> None:
    def fn(x: Annotated[int, Field(description="From the field.")], y: int = Field(description="Also.")) -> None:
        """Do.

        Args:
            x: From the docstring.
            y: From the docstring.
        """

    properties = derive(fn).parameters["properties"]

    assert [properties[name]["description"] for name in "xy"] == ["From the field.", "Also."]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (inspect.Signature.empty, {}),
        (Any, {}),
        (None, {"type": "null"}),
        (int, {"type": "integer"}),
        (Decimal, {"type": "string"}),
        (object, {}),
        (type("Handle", (), {}), {}),
        ("Unknown", {}),
        (Titled, {"title": "Titled", "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}),
    ],
)
def test_the_output_schema_comes_from_the_return_annotation(annotation: Any, expected: dict[str, Any]) -> None:
    def fn() -> Any: ...

    fn.__annotations__["return"] = annotation
    if annotation is inspect.Signature.empty:
        del fn.__annotations__["return"]

    assert derive(fn).output_parameters == expected


def test_types_in_the_docstring_stand_where_there_is_no_annotation_and_the_default_is_one() -> None:
    def resize(width, scale=1.5, names=(), mode=None, *, steps: int = 3, odd="auto", when=None, shape=None):
        """Resize.

        Args:
            width (int): How wide.
            scale (float, optional): By how much.
            names (list of str): Of what.
            mode (str): How.
            steps (str): The annotation wins.
            odd (int): The default is none.
            when (datetime): Text cannot be passed for it.
            shape (Shape): Nothing in JSON.
        """

    read = derive(resize)
    assert {name: sub.get("type") for name, sub in read.parameters["properties"].items()} == {
        "width": "integer",
        "scale": "number",
        "names": "array",
        "mode": ["string", "null"],
        "steps": "integer",
        "odd": None,
        "when": None,
        "shape": None,
    }
    assert read.binding.integers == ("width", "steps")


def test_what_the_docstring_says_of_the_result_is_not_lost() -> None:
    def typed() -> int:
        """Count.

        Returns:
            How many.
        """
        return 1

    def untyped():  # type: ignore[no-untyped-def]
        """Count.

        Returns:
            How many.
        """

    def described() -> Node:
        """Plant.

        Returns:
            The root.
        """
        return Node(title="x")

    assert derive(typed).output_parameters == {"description": "How many.", "type": "integer"}
    assert derive(typed).description == "Count."
    assert derive(untyped).description == "Count.\n\nReturns: How many."
    assert derive(described).description == "Plant.\n\nReturns: The root."
    assert derive(described).output_parameters["description"] == "A node of a tree."


def test_only_a_promised_model_has_to_be_returned() -> None:
    def promises() -> Node: ...  # type: ignore[empty-body]

    def hints() -> Node | None: ...

    assert derive(promises).binding.returns is Node
    assert derive(hints).binding.returns is None


def test_a_bare_base_class_as_result_keeps_the_fields_of_every_model() -> None:
    def fn() -> BaseModel:
        return Node(title="x")

    derived = derive(fn)

    assert derived.output_parameters == {}
    assert derived.binding.finish(derived.binding.callable()) == {"title": "x", "children": []}


class Search(StrictModel):
    """What to look for."""

    text: str = Field(alias="q")
    since: dt.date | None = None


def test_with_a_model_its_own_schema_is_the_input() -> None:
    def search(query: Search) -> Node:
        """Look it up."""
        return Node(title=query.text)

    derived = derive_model(search, Search)

    assert derived.parameters["description"] == "What to look for."
    assert list(derived.parameters["properties"]) == ["q", "since"]
    assert derived.parameters["required"] == ["q"]
    assert derived.parameters["additionalProperties"] is False
    assert (derived.description, derived.binding.returns) == ("Look it up.", Node)
    args, keywords = derived.binding.prepare({"q": "x", "since": "2024-01-01"}) if derived.binding.prepare else ((), {})
    assert (args, keywords) == ((Search(q="x", since=dt.date(2024, 1, 1)),), {})


def test_the_root_of_a_recursive_model_is_an_object_with_properties() -> None:
    schema = derive_model(lambda node: node, Node).parameters

    assert (schema["type"], list(schema["properties"])) == ("object", ["title", "children"])
    assert accepts(schema, {"title": "x", "children": [{"title": "y"}]})
    assert not accepts(schema, {"title": "x", "children": [{}]})


def test_a_model_that_is_no_object_is_refused() -> None:
    with pytest.raises(DefinitionError, match="is not an object in JSON"):
        derive_model(lambda items: items, RootModel[list[int]])


def test_a_function_of_a_model_takes_nothing_else_but_the_context() -> None:
    def greedy(query: Search, limit: int) -> None: ...

    def first(ctx: Any, query: Search) -> Any:
        return ctx, query.text

    with pytest.raises(DefinitionError, match=r"takes 'limit' beside its input model; bind it with functools.partial"):
        derive_model(greedy, Search)
    with pytest.raises(DefinitionError, match="takes no parameter for its input model"):
        derive_model(lambda: None, Search)
    assert run(derive_model(first, Search), {"q": "x"}, ctx="C") == ("C", "x")


def test_a_schema_written_by_hand_stands_as_it_is() -> None:
    def fn(*args: int, **kwargs: Any) -> Any:
        return kwargs

    by_hand = {"type": "object", "properties": {"x": {"type": "integer"}}}

    assert derive(fn, parameters=by_hand).parameters is by_hand
    assert run(derive(fn, parameters=by_hand), {"x": 1}) == {"x": 1}
    assert derive(Search, parameters=by_hand).parameters is by_hand


def test_no_model_is_made_of_a_signature_whose_schema_is_written_by_hand_unless_arguments_need_it() -> None:
    def plain(count: int, *, text: str = "", untyped=3) -> None:
        """Do.

        Args:
            untyped (int): Of a type that only this says.
        """

    def converted(when: dt.date) -> Any:
        return when

    def makes_model(fn: Callable[..., Any], parameters: dict[str, Any] | None = None) -> bool:
        with cProfile.Profile() as profile:
            derive(fn, parameters=parameters)
        return any(call.code is create_model.__code__ for call in profile.getstats())

    by_hand = {"type": "object"}

    assert not makes_model(plain, by_hand)
    assert makes_model(plain)
    assert makes_model(converted, by_hand)
    assert derive(plain, parameters=by_hand).binding.integers == derive(plain).binding.integers == ("count", "untyped")
    assert run(derive(converted, parameters=by_hand), {"when": "2026-11-19"}) == dt.date(2026, 11, 19)
