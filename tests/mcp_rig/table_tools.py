"""Tools for the table of equal calls: they give every kind of JSON, and fail in every way a tool can."""

import asyncio
import time
from typing import Any

from toolyard import Effects, ToolContext, tool
from toolyard.model.call import Content, audio, image, resource, resource_link, text
from toolyard.model.errors import InvalidArguments, ToolFailed, Unavailable


@tool
def give(value: Any) -> Any:
    """Give back what came."""
    return value


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool
def record(name: str, tags: list[str], place: dict[str, float]) -> dict[str, Any]:
    """Several things in one."""
    return {"name": name, "tags": tags, "place": place}


@tool
def nothing() -> None:
    """Give nothing."""


@tool
async def later(seconds: float) -> str:
    """Take its time, on the loop."""
    await asyncio.sleep(seconds)
    return "later"


@tool
def blocking(seconds: float) -> str:
    """Take its time, on a thread."""
    time.sleep(seconds)
    return "blocked"


@tool
def fail(words: str) -> str:
    """Say no."""
    raise ToolFailed(words, details={"asked": words, "nested": {"list": [1, None]}})


@tool
def away() -> str:
    """Not today."""
    raise Unavailable("come back later")


@tool
def picky(value: int) -> int:
    """Refuse what its schema allows."""
    raise InvalidArguments(f"no such thing as {value}")


@tool
def crash(words: str) -> str:
    """Break."""
    raise KeyError(words)


@tool
def liar() -> int:
    """Promise a number."""
    return "no number"  # type: ignore[return-value]


@tool(effects=Effects.WRITE)
def forbidden() -> str:
    """The policy does not let anybody."""
    return "done"


@tool
def told(ctx: ToolContext) -> str:
    """Say how far it is before it answers."""
    ctx.report(1, 2, "half")
    ctx.log({"at": "half"})
    ctx.report(2, 2)
    return "told"


@tool
def show() -> Content:
    """Blocks of every kind."""
    return Content(
        [
            text("look"),
            image(b"\x89PNG", "image/png"),
            audio(b"RIFF", "audio/wav"),
            resource_link("file:///a.txt", "a"),
            resource("file:///b.txt", "b", mime_type="text/plain"),
            resource("file:///c.bin", b"\x00\xff"),
        ]
    )


@tool
def show_with_value() -> Content:
    """Blocks, and a value for programs."""
    return Content([text("four"), image(b"\x89PNG", "image/png")], {"value": 4})


@tool
def say() -> Content:
    """Nothing but text."""
    return Content([text("one"), text("two")])
