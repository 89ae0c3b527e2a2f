"""Tools whose schemas stay raw JSON until somebody looks at them."""

from __future__ import annotations

from typing import Any

import msgspec

from toolyard.model.tool import Schema, Tool
from toolyard.parsing import parse_json
from toolyard.schema.admit import admit_schema

_EMPTY = msgspec.Raw(b"{}")


class LazyTool(Tool, frozen=True, kw_only=True, dict=True, eq=False, forbid_unknown_fields=True):
    """A tool of an indexed catalog, decoded straight from JSON with its schemas left as they lie.

    What a full load would have reported about a schema is raised by the first look at it. One thing is
    given up for the speed: a key repeated beside the schemas (two descriptions, say) is not noticed.
    """

    namespace: str = ""
    parameters: msgspec.Raw = _EMPTY  # type: ignore[assignment]
    output_parameters: msgspec.Raw = _EMPTY  # type: ignore[assignment]
    binding: None = None

    def __repr__(self) -> str:
        return f"LazyTool({self.qualified_name!r})"


def lazy_type(namespace: str, source: str) -> type[LazyTool]:
    """`LazyTool` for one file: its namespace and origin are defaults, so that no tool pays for them."""
    made: Any = msgspec.defstruct(
        "LazyTool",
        [("namespace", str, namespace), ("source", str | None, source)],
        bases=(LazyTool,),
        frozen=True,
        kw_only=True,
        dict=True,
        eq=False,
        forbid_unknown_fields=True,
    )
    kind: type[LazyTool] = made
    return kind


def _reader(field: str, *, is_input: bool) -> property:
    """A property over a struct field: raw until first read, then the admitted schema."""
    slot = next(cls.__dict__[field] for cls in LazyTool.__mro__ if field in cls.__dict__)

    def read(tool: LazyTool) -> Schema:
        cache: dict[str, Any] = tool.__dict__
        if field not in cache:
            raw = slot.__get__(tool)
            data = parse_json(bytes(raw), what=f"{tool.source}, {field} of {tool.qualified_name}")
            cache[field] = admit_schema(data, is_input=is_input).schema
        schema: Schema = cache[field]
        return schema

    return property(read, doc=f"The `{field}` schema, decoded and admitted when first read.")


# The decoder fills struct fields by position in memory; these only change what reading them gives.
LazyTool.parameters = _reader("parameters", is_input=True)  # type: ignore[assignment]
LazyTool.output_parameters = _reader("output_parameters", is_input=False)  # type: ignore[assignment]
