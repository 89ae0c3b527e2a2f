"""The same call by other tool layers, where installed (`make bench` installs them separately)."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Awaitable, Callable

from benchmarks.harness import Row
from benchmarks.material import CALL, SCHEMA, forecast

_LOOP = asyncio.new_event_loop()


def dispatch_rows(limit: str) -> list[Row]:
    """One row for each peer that can be imported."""
    rows: list[Row] = []
    for module, build in (
        ("pydantic", _pydantic),
        ("jsonschema", _jsonschema),
        ("langchain_core", _langchain),
        ("pydantic_ai", _pydantic_ai),
        ("fastmcp", _fastmcp),
        ("mcp", _mcp),
    ):
        if importlib.util.find_spec(module) is None:
            print(f"(peer {module} is not installed: no row)")
            continue
        rows.append(build(limit))
    return rows


def _async_row(name: str, call: Callable[[], Awaitable[object]], calls: int, limit: str) -> Row:
    """Many calls per run of the loop, so that starting the loop is not counted."""

    async def run() -> None:
        for _ in range(calls):
            await call()

    return Row(name, lambda: _LOOP.run_until_complete(run()), 1, limit, calls=calls)


async def _forecast(city: str, days: int, unit: str, tags: list[str], place: dict[str, float]) -> str:
    """Forecast the weather."""
    return str(forecast(city, days, unit, tags, place).value)


def _pydantic(limit: str) -> Row:
    from pydantic import BaseModel, Field

    class Place(BaseModel):
        lat: float
        lon: float

    class Call(BaseModel):
        city: str
        days: int = Field(ge=1)
        unit: str
        tags: list[str]
        place: Place

    def run() -> object:
        model = Call.model_validate(CALL)
        return forecast(model.city, model.days, model.unit, model.tags, CALL["place"])

    return Row("pydantic model_validate + call", run, 5_000, limit)


def _jsonschema(limit: str) -> Row:
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(SCHEMA)

    def run() -> object:
        validator.validate(CALL)
        return forecast(**CALL)

    return Row("jsonschema cached validator + call", run, 300, limit, note="pure Python")


def _langchain(limit: str) -> Row:
    from langchain_core.tools import StructuredTool

    tool = StructuredTool.from_function(forecast)
    return Row("langchain StructuredTool.invoke(dict)", lambda: tool.invoke(CALL), 200, limit)


def _pydantic_ai(limit: str) -> Row:
    from pydantic_ai import RunContext
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.usage import RunUsage

    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    toolset = FunctionToolset([_forecast])
    tools = _LOOP.run_until_complete(toolset.get_tools(context))
    tool = tools["_forecast"]

    async def call() -> object:
        arguments = tool.args_validator.validate_python(CALL)
        return await toolset.call_tool("_forecast", arguments, context, tool)

    return _async_row("pydantic-ai FunctionToolset (async tool)", call, 1_000, limit)


def _fastmcp(limit: str) -> Row:
    from fastmcp.tools import Tool

    tool = Tool.from_function(_forecast)
    return _async_row("fastmcp tool.run (async tool)", lambda: tool.run(CALL), 300, limit)


def _mcp(limit: str) -> Row:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("bench")
    server.add_tool(_forecast, name="forecast")
    return _async_row("mcp SDK server.call_tool (async tool)", lambda: server.call_tool("forecast", CALL), 300, limit)
