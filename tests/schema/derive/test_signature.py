"""Every kind of callable. All annotations of this file are strings, by the import below."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import functools
import inspect
import typing
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Optional, Required, TypedDict

import pytest
import typing_extensions
from pydantic import BaseModel, Field
from typing_extensions import Unpack

from schema.derive.derive_cases import Colour, accepts, run
from toolyard.model.call import ToolContext
from toolyard.model.errors import DefinitionError
from toolyard.model.tool import Tool
from toolyard.schema.derive.function import derive

if TYPE_CHECKING:
    from decimal import Decimal

    from somewhere import Nowhere  # type: ignore[import-not-found]

if typing.TYPE_CHECKING:
    Amount = Decimal | Literal["all"]

CTX = ToolContext(tool=Tool("t", "n"))


class Item(BaseModel):
    when: dt.date


class Shelf:
    """A shelf."""

    def __init__(self, size: int = 1) -> None:
        self.size = size

    def put(self, item: Item) -> int:
        return self.size + item.when.year

    async def aput(self, item: Item) -> Item:
        return item

    @classmethod
    def of(cls, size: int) -> Shelf:
        return cls(size)

    @staticmethod
    def twice(size: int) -> int:
        return size * 2

    def __call__(self, item: Item) -> str:
        return item.when.isoformat()


def names(fn: Callable[..., Any]) -> list[str]:
    return list(derive(fn).parameters["properties"])


def logged(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return ["logged", fn(*args, **kwargs)]

    return wrapper


DAY = {"item": {"when": "2024-05-06"}}


def test_string_annotations_are_resolved() -> None:
    def fn(item: Item, on: dt.date | None = None) -> list[Item]:
        return [item]

    assert run(derive(fn), DAY) == [Item(when=dt.date(2024, 5, 6))]
    assert derive(fn).output_parameters["items"] == {"$ref": "#/$defs/Item"}


def test_classes_of_an_enclosing_function_are_found_in_the_closure() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    def fn(it: Local) -> int:
        return isinstance(it, Local) and it.x

    assert run(derive(fn), {"it": {"x": 3}}) == 3


def test_an_annotation_that_cannot_be_resolved_is_named() -> None:
    def fn(good: int, bad: list[Nowhere]) -> None: ...

    with pytest.raises(
        DefinitionError, match=r"fn: the annotation 'list\[Nowhere\]' of parameter 'bad' cannot be resol"
    ):
        derive(fn)


def test_a_return_annotation_that_cannot_be_resolved_says_nothing() -> None:
    def fn(good: int) -> Nowhere: ...

    assert derive(fn).output_parameters == {}


def test_bound_methods_do_not_show_self() -> None:
    assert names(Shelf().put) == ["item"]
    assert run(derive(Shelf(2).put), DAY) == 2026


@pytest.mark.parametrize(
    ("fn", "arguments", "result"),
    [
        (Shelf.twice, {"size": 3}, 6),
        (Shelf().twice, {"size": 3}, 6),
        (Shelf(), DAY, "2024-05-06"),
        (logged(Shelf.twice), {"size": 3}, ["logged", 6]),
        (logged(Shelf()), DAY, ["logged", "2024-05-06"]),
        (functools.lru_cache(Shelf.twice), {"size": 3}, 6),
        (functools.partial(Shelf()), DAY, "2024-05-06"),
        (lambda a, b=2: (a, b), {"a": [1]}, ([1], 2)),
        (divmod, {"x": 7, "y": 2}, (3, 1)),
    ],
)
def test_callables_of_many_kinds_can_be_called(fn: Any, arguments: dict[str, Any], result: Any) -> None:
    assert run(derive(fn), arguments) == result


def test_classes_are_called_to_construct() -> None:
    made = run(derive(Shelf), {"size": 5})

    assert isinstance(made, Shelf)
    assert made.size == 5
    assert derive(Shelf).description == "A shelf."
    assert run(derive(Shelf.of), {"size": 6}).size == 6


def test_a_model_class_is_constructed_from_its_fields() -> None:
    derived = derive(Item)

    assert run(derived, {"when": "2024-01-01"}) == Item(when=dt.date(2024, 1, 1))
    assert derived.binding.returns is Item


def test_a_dataclass_is_constructed_with_what_its_bases_need() -> None:
    @dataclasses.dataclass
    class Base:
        item: Item

    @dataclasses.dataclass
    class Derived(Base):
        scale: dataclasses.InitVar[int] = 1

        def __post_init__(self, scale: int) -> None:
            self.year = self.item.when.year * scale

    assert run(derive(Derived), {**DAY, "scale": 2}).year == 4048


def test_a_method_without_its_instance_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"Shelf.put is a method without its instance; pass it bound"):
        derive(Shelf.put)


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (Shelf().aput, True),
        (functools.partial(Shelf().aput), True),
        (Shelf().put, False),
        (Shelf, False),
        (logged(Shelf().aput), False),
    ],
)
def test_async_is_told_by_what_is_called(fn: Any, expected: bool) -> None:
    assert derive(fn).binding.is_async is expected


def test_an_instance_with_an_async_call_is_async() -> None:
    class Caller:
        async def __call__(self, x: int) -> int:
            return x

    assert derive(Caller()).binding.is_async


def test_the_items_of_an_async_generator_are_collected_as_those_of_a_generator_are() -> None:
    async def fn(n: int, context: ToolContext) -> AsyncIterator[int]:
        for item in range(n):
            yield item

    async def nothing() -> AsyncGenerator[str, None]:
        return
        yield ""

    derived = derive(fn)
    assert derived.binding.is_async
    assert derived.parameters["properties"] == {"n": {"type": "integer"}}
    assert derived.output_parameters == {"type": "array", "items": {"type": "integer"}}
    assert derived.binding.finish(asyncio.run(derived.binding.callable(n=3, ctx=None))) == [0, 1, 2]
    assert derive(nothing).output_parameters == {"type": "array", "items": {"type": "string"}}


def full(first: int, second: str, third: Colour = Colour.RED, *, fourth: float = 1.0) -> Any:
    return first, second, third, fourth


@pytest.mark.parametrize(
    ("fn", "shown", "arguments", "result"),
    [
        (functools.partial(full, 1), ["second", "third", "fourth"], {"second": "b"}, (1, "b", Colour.RED, 1.0)),
        (functools.partial(full, second="B"), ["first", "third", "fourth"], {"first": 1}, (1, "B", Colour.RED, 1.0)),
        (
            functools.partial(functools.partial(full, 1), second="B", third=Colour.BLUE),
            ["fourth"],
            {"fourth": 2.5},
            (1, "B", Colour.BLUE, 2.5),
        ),
    ],
)
def test_bound_arguments_disappear(fn: Any, shown: list[str], arguments: dict[str, Any], result: Any) -> None:
    assert names(fn) == shown
    assert run(derive(fn), arguments) == result


def test_positional_only_parameters_are_passed_by_position() -> None:
    def fn(a: int, b: str = "b", c: Any = (1, 2), /, d: int = 4) -> Any:
        return a, b, c, d

    assert run(derive(fn), {"a": 1}) == (1, "b", (1, 2), 4)
    assert run(derive(fn), {"a": 1, "d": 5}) == (1, "b", (1, 2), 5)
    assert run(derive(fn), {"a": 1, "c": 3}) == (1, "b", 3, 4)


def test_star_args_are_refused_with_a_way_out() -> None:
    def fn(*values: int) -> None: ...

    with pytest.raises(DefinitionError, match=r"takes \*values, but models pass arguments by name; take a list"):
        derive(fn)


def test_star_star_kwargs_open_the_schema_to_their_type() -> None:
    def fn(x: int, **rest: dt.date) -> Any:
        """Do.

        Args:
            **rest: Days.
        """
        return x, rest

    schema = derive(fn).parameters

    assert schema["additionalProperties"] == {"description": "Days.", "type": "string", "format": "date"}
    assert list(schema["properties"]) == ["x"]
    assert schema["required"] == ["x"]
    assert run(derive(fn), {"x": 1, "p0": "2024-01-01", "rest": "2024-01-02"}) == (
        1,
        {"p0": dt.date(2024, 1, 1), "rest": dt.date(2024, 1, 2)},
    )


def test_untyped_kwargs_take_anything_and_cost_nothing() -> None:
    def fn(**kwargs):  # type: ignore[no-untyped-def]
        return kwargs

    derived = derive(fn)

    assert derived.parameters == {"type": "object", "properties": {}, "additionalProperties": True}
    assert derived.binding.prepare is None


def test_kwargs_cannot_be_used_to_reach_what_is_bound_or_injected() -> None:
    class Store:
        def save(self, db: str, ctx: Any, **fields: Any) -> Any:
            return db, fields

    schema = derive(functools.partial(Store().save, db="real", owner="me")).parameters

    assert accepts(schema, {"x": 1, "fields": 2})
    for name in ("self", "db", "ctx", "owner"):
        assert not accepts(schema, {name: "forged"}), name


class Filters(TypedDict, total=False):
    since: Required[dt.date]
    limit: int


def unpacks(**filters: Unpack[Filters]) -> Any:
    return filters


def also_unpacks(**filters: typing_extensions.Unpack[Filters]) -> Any:
    return filters


@pytest.mark.parametrize("fn", [unpacks, also_unpacks])
def test_unpacked_kwargs_are_named_parameters(fn: Any) -> None:
    assert names(fn) == ["since", "limit"]
    assert derive(fn).parameters["required"] == ["since"]
    assert run(derive(fn), {"since": "2024-01-01"}) == {"since": dt.date(2024, 1, 1)}


class Puzzling(TypedDict):
    what: Nowhere


def test_names_that_a_module_has_for_type_checkers_only_are_found() -> None:
    def pay(amount: Amount) -> Decimal:
        return amount * 2  # type: ignore[operator, return-value]

    assert {"const": "all", "type": "string"} in derive(pay).parameters["properties"]["amount"]["anyOf"]
    assert derive(pay).output_parameters["type"] == "string"
    assert str(run(derive(pay), {"amount": "1.5"})) == "3.0"


def test_unpacked_annotations_that_cannot_be_resolved_are_named() -> None:
    def fn(**rest: Unpack[Puzzling]) -> None: ...

    def nested(it: Puzzling) -> None: ...

    with pytest.raises(DefinitionError, match=r"annotations of .*Puzzling cannot be resolved \(name 'Nowhere'"):
        derive(fn)
    with pytest.raises(DefinitionError, match=r"parameter 'it' has the type .*Puzzling"):
        derive(nested)


def test_alternatives_of_a_union_that_json_cannot_say_are_left_to_python_callers() -> None:
    def load(
        shelf: Shelf | str | dt.date,
        name: Annotated[Shelf | str, Field(description="Its name.")],
        size: Optional[Shelf | int] = None,  # noqa: UP045
    ) -> list[Any]:
        return [shelf, size, name]

    text, day = {"type": "string"}, {"type": "string", "format": "date"}
    assert derive(load).parameters["properties"] == {
        "shelf": {"anyOf": [text, day]},
        "size": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "name": {"type": "string", "description": "Its name."},
    }
    assert run(derive(load), {"shelf": "a", "size": 2, "name": "b"}) == ["a", 2, "b"]


def test_a_union_of_which_json_can_only_say_null_is_refused() -> None:
    def load(shelf: Shelf | None) -> None: ...

    with pytest.raises(DefinitionError, match="which JSON Schema cannot say"):
        derive(load)


def test_a_parameter_that_json_has_no_form_for_keeps_its_default() -> None:
    def load(size: int, shelf: Shelf | None = None, *, key: Callable[[int], int] = abs, **more: int) -> list[Any]:
        return [size, shelf, key(-2), more]

    derived = derive(load)
    assert list(derived.parameters["properties"]) == ["size"] and derived.binding.left_out == ("shelf", "key")
    assert derived.parameters["propertyNames"] == {"not": {"enum": ["key", "shelf"]}}
    assert run(derived, {"size": 1, "other": 3}) == [1, None, 2, {"other": 3}]
    assert derive(load, parameters={"type": "object"}).binding.left_out == ()

    default: Any = Field(default=abs)  # Python would pass it as it is

    def look(key: Callable[[int], int] = default) -> None: ...

    with pytest.raises(DefinitionError, match="which JSON Schema cannot say"):
        derive(look)


def by_name(x: int, ctx: Any) -> Any:
    return x, ctx


def by_type(x: int, *, context: ToolContext) -> Any:
    return x, context


def by_optional(x: int, context: ToolContext | None = None) -> Any:
    return x, context


def by_old_optional(x: int, context: Optional[ToolContext] = None) -> Any:  # noqa: UP045
    return x, context


def by_unknown_name(x: int, ctx: Nowhere) -> Any:
    return x, ctx


@pytest.mark.parametrize("fn", [by_name, by_type, by_optional, by_old_optional, by_unknown_name])
def test_the_context_is_injected_and_never_shown(fn: Any) -> None:
    derived = derive(fn)

    assert derived.binding.takes_ctx
    assert names(fn) == ["x"]
    assert not accepts(derived.parameters, {"x": 1, "ctx": {}})
    assert run(derived, {"x": 1}, ctx=CTX) == (1, CTX)


def test_the_context_need_not_be_imported_at_run_time() -> None:
    namespace: dict[str, Any] = {}
    exec("def fn(x: 'int', context: 'ToolContext'): return context", namespace)

    assert run(derive(namespace["fn"]), {"x": 1}, ctx=CTX) is CTX


def test_a_bound_context_is_an_ordinary_bound_argument() -> None:
    derived = derive(functools.partial(by_name, ctx="mine"))

    assert not derived.binding.takes_ctx
    assert run(derived, {"x": 1}) == (1, "mine")


def test_a_context_that_cannot_be_passed_by_name_is_refused() -> None:
    def positional(ctx: Any, /) -> None: ...

    def double(ctx: Any, context: ToolContext) -> None: ...

    with pytest.raises(DefinitionError, match="takes 'ctx' by position only"):
        derive(positional)
    with pytest.raises(DefinitionError, match="takes the context twice, as 'ctx' and as 'context'"):
        derive(double)


def test_a_type_that_no_schema_describes_is_named_with_a_way_out() -> None:
    def fn(x: int, shelf: Shelf) -> None: ...

    with pytest.raises(DefinitionError, match=r"'shelf' has the type .*Shelf, .* `ctx` parameter, functools.partial"):
        derive(fn)


@pytest.mark.parametrize("annotation", [Shelf, list[Shelf], Callable[[int], int], type[int], ClassVar[int], 3])
def test_so_is_everything_else_that_is_no_json(annotation: Any) -> None:
    def fn(it) -> None: ...  # type: ignore[no-untyped-def]

    fn.__annotations__["it"] = annotation

    with pytest.raises(
        DefinitionError, match=r"parameter 'it' has the type .*which JSON Schema cannot say \([^\n]*\);"
    ):
        derive(fn)


@pytest.mark.parametrize("fn", [max, type("NoCall", (), {})(), 3])
def test_what_has_no_signature_is_refused(fn: Any) -> None:
    with pytest.raises(DefinitionError, match="has no readable signature"):
        derive(fn)


def test_a_signature_that_a_decorator_wrote_is_believed() -> None:
    def fn(**kwargs: Any) -> Any:
        return kwargs

    fn.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("item", inspect.Parameter.KEYWORD_ONLY, annotation="Item")]
    )

    assert run(derive(fn), DAY) == {"item": Item(when=dt.date(2024, 5, 6))}
