"""A program that uses the public API and is checked by `mypy --strict` in `make lint`; `tests/house/test_release.py` runs it."""

import asyncio
from collections.abc import Iterator, Mapping

from toolyard import (
    CallError,
    FileToolLoader,
    InvalidArguments,
    Invocation,
    Policy,
    PythonToolEngine,
    Rule,
    Tool,
    ToolCall,
    ToolContext,
    ToolEngine,
    ToolLoader,
    ToolRegistry,
    ToolResult,
    Toolyard,
    function_tool,
    register_tool_engine,
    register_tool_loader,
    tool,
)
from toolyard.client import RemoteToolEngine
from toolyard.dialects import get_dialect


@tool(effects="read", tags=["sums"])
def add(a: int, b: int, ctx: ToolContext) -> int:
    """Add two numbers."""
    ctx.report(1, total=1)
    return a + b


@register_tool_loader("consumer/numbers")
class NumberLoader(ToolLoader):
    """One tool for each name."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def load(self) -> list[Tool]:
        """The tools."""
        return [Tool(name, "numbers", parameters={"type": "object"}) for name in self.names]


@register_tool_engine("consumer/counting")
class CountingEngine(ToolEngine):
    """Counts its calls in the session."""

    def answer(self, invocation: Invocation) -> object:
        """How many there were."""
        count: int = invocation.state.get("calls", 0) + 1
        invocation.state["calls"] = count
        return count


def list_codes(results: list[ToolResult]) -> Iterator[str]:
    """`ok`, or the code of the error, of each."""
    for result in results:
        yield "ok" if result.error_info is None else result.error_info.code


def use_registry(registry: ToolRegistry) -> Mapping[str, int]:
    """Names and overloads."""
    try:
        registry.dispatch("sums::add", {"a": "x"})
    except InvalidArguments as error:
        info = error.info
        print(info.code, info.retryable, info.effect)
    except CallError:
        raise
    hits = registry.search("add numbers", k=1)
    print([(hit.tool.qualified_name, hit.score > 0) for hit in hits])
    return {each.qualified_name: len(registry.get(each.qualified_name)) for each in registry.all_tools()}


async def use_engine(engine: ToolEngine | RemoteToolEngine) -> list[str]:
    """The same calls by an engine here or there."""
    await engine.asetup("s")
    results = await engine.aexecute("s", [ToolCall("sums::add", {"a": 1, "b": 2}, call_id="c1")])
    return list(list_codes(results))


def main() -> None:
    """Everything once."""
    registry = ToolRegistry([function_tool(add, namespace="sums")])
    print(use_registry(registry))
    with PythonToolEngine(registry, policy=Policy([Rule("allow", "sums::*")], default="deny"), timeout=5) as engine:
        print(asyncio.run(use_engine(engine)))
        dialect = get_dialect("openai", registry.all_tools())
        calls = dialect.parse_calls({"tool_calls": []})
        print(len(dialect.format_tools()), len(calls))
    with CountingEngine(ToolRegistry.from_loaders([NumberLoader(["one"])])) as counting:
        counting.setup("s")
        print(counting.execute("s", [ToolCall("numbers::one")])[0].result)
    with Toolyard.from_config({"tools": [{"type": "domains", "domains": ["core"]}]}) as yard:
        print(len(yard.tool_registry.all_tools()) > 2, FileToolLoader.__name__)


if __name__ == "__main__":
    main()
