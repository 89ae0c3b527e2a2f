"""Tools that the tests both serve and call in process, to compare results."""

from functools import cache

from toolyard import Effects, Tool, ToolContext, ToolRegistry, function_tool
from toolyard.model.errors import ToolFailed


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def greet(name: str = "you") -> str:
    """Greet somebody."""
    return f"hello {name}"


def refuse(reason: str) -> str:
    """Always fails."""
    raise ToolFailed(f"no: {reason}")


def context(ctx: ToolContext) -> dict:
    """What came along with the call."""
    return {"context": dict(ctx.context), "trace": dict(ctx.trace)}


def by_city(city: str) -> str:
    """Where it is."""
    return f"in {city}"


def by_place(lat: float, lon: float) -> list[float]:
    """Where it is."""
    return [lat, lon]


def size(value: str) -> int:
    """How long a text is."""
    return len(value)


def nest(value: list, times: int) -> list:
    """Put into lists."""
    for _ in range(times):
        value = [value]
    return value


def make_registry():
    return ToolRegistry(make_tools())


@cache
def make_tools():
    """Tools that are simple, aliased, overloaded, failing, oddly named, and not callable."""
    return (
        function_tool(add, namespace="desk", effects=Effects.READ, tags=["sums"]).replace(aliases=("plus",)),
        function_tool(greet, namespace="desk"),
        function_tool(nest, namespace="desk"),
        function_tool(refuse, namespace="desk"),
        function_tool(context, namespace="desk"),
        function_tool(by_city, namespace="desk", name="overloaded"),
        function_tool(by_place, namespace="desk", name="overloaded"),
        function_tool(greet, namespace="desk", name="twice"),
        function_tool(greet, namespace="other", name="twice"),
        function_tool(size, namespace="wörk/shop", name="größe 100%"),
        Tool("unanswered", "desk", "Nobody answers.", {"type": "object"}),
    )
