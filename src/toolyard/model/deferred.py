"""`DeferredTool`: a tool whose schemas are made when somebody first looks at them."""

from __future__ import annotations

from typing import Any

from toolyard.model.tool import FIELDS, Tool


class DeferredTool(Tool, frozen=True, kw_only=True, dict=True, eq=False):
    """Base of tools that keep what their schemas, or their binding, are made of, and make them once, when first read.

    A subclass has a field for what it keeps, and a `cached_property` of the name of each field that it makes. Whoever
    makes one answers for its schemas: nobody looks at them when it enters a registry.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.qualified_name!r})"

    def __reduce__(self) -> Any:
        # What the rest is made of stays behind; a copy has everything put together.
        return _make_whole, ({field: getattr(self, field) for field in FIELDS},)


def _make_whole(fields: dict[str, Any]) -> Tool:
    return Tool(**fields)
