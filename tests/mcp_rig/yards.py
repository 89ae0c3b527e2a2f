"""A yard for a test, and short ways to call its tools."""

import asyncio
from contextlib import contextmanager

from toolyard import ToolCall, Toolyard
from toolyard.app.config import read_anything
from toolyard.app.toolyard import build_parts
from toolyard.calls.batch import CallRequest


class YardCaller:
    """Calls tools of a yard."""

    def __init__(self, yard):
        self.yard = yard
        self.registry = yard.tool_registry
        self.engine = yard.tool_engine
        self.session = "s"
        self.engine.setup(self.session)

    def tools(self, namespace):
        """The tools of a namespace by bare name."""
        return {tool.name: tool for tool in self.registry.all_tools() if tool.namespace == namespace}

    def call(self, name, /, **arguments):
        """Call a tool in the yard's session."""
        return self.engine.execute(self.session, [ToolCall(name, arguments)])[0]

    def value(self, name, /, **arguments):
        """The result of a call that must succeed."""
        result = self.call(name, **arguments)
        assert not result.is_error, result.error
        return result.result

    def code(self, name, /, **arguments):
        """The code of the error of a call that must fail."""
        result = self.call(name, **arguments)
        assert result.is_error, result
        return result.error_info.code

    async def ask(self, name, arguments, *, within=None, notify=None):
        """Call a tool in a new session."""
        request = CallRequest(calls=[ToolCall(name, arguments)], timeout=within, notify=notify)
        return (await self.engine.arun(request))[0]

    def many(self, calls):
        """Make all calls concurrently, each in a new session."""

        async def together():
            return await asyncio.gather(*(self.ask(name, arguments) for name, arguments in calls))

        return asyncio.run(together())


@contextmanager
def yard_of(*sources, engines=None, **blocks):
    """A yard of these sources, as `toolyard serve` creates it: sources that fail are reported and skipped.

    Each source gets an engine by its binding, unless it names one.
    """
    tools = {"registry": list(sources), "engines": engines or {}}
    registry, engine, _ = build_parts(read_anything({"tools": tools, **blocks}), lenient=True)
    with Toolyard(registry, engine) as yard:
        yield YardCaller(yard)
