"""`RestTool`: a tool whose schemas and binding are put together when somebody first looks at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolyard.model.tool import FIELDS, Tool
from toolyard.registry.lazy import LazyTool
from toolyard.sources.openapi.plan import Plan


class RestTool(LazyTool, frozen=True, kw_only=True, dict=True, eq=False):
    """One operation. Reading the document has shown that nothing about it can fail later."""

    def __repr__(self) -> str:
        return f"RestTool({self.qualified_name!r})"

    def __reduce__(self) -> Any:
        # What the rest is made of stays behind; a copy has everything put together.
        return _whole, ({field: getattr(self, field) for field in FIELDS},)


def _whole(fields: dict[str, Any]) -> Tool:
    return Tool(**fields)


def _reader(field: str, make: Callable[[Plan], Any]) -> property:
    def read(tool: RestTool) -> Any:
        cache = tool.__dict__
        if field not in cache:
            # Two threads may both do this; either result serves.
            cache[field] = make(cache["plan"])
        return cache[field]

    return property(read, doc=f"`{field}`, put together when first read.")


RestTool.parameters = _reader("parameters", Plan.parameters)  # type: ignore[assignment]
RestTool.output_parameters = _reader("output_parameters", Plan.output_parameters)  # type: ignore[assignment]
RestTool.binding = _reader("binding", Plan.binding)  # type: ignore[assignment]
