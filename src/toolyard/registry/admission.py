"""What a tool must pass to enter a registry: name grammar, schema hygiene."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from toolyard.model.errors import DefinitionError, InvalidSchemaError
from toolyard.model.names import are_plain, check_namespace, check_tool_name, show
from toolyard.model.report import Rewrite
from toolyard.model.tool import Tool
from toolyard.registry.candidate import Candidate
from toolyard.registry.copies import Copies
from toolyard.registry.lazy import LazyTool
from toolyard.schema.admit import Admitted, admit_schema, is_plain
from toolyard.schema.normalise import Change

_MAX_CHANGES = 20


def admit(tool: Tool, copies: Copies | None = None) -> tuple[Candidate, tuple[Rewrite, ...]]:
    """The candidate for `tool`, and what had to be rewritten; `DefinitionError` if it cannot enter.

    With `copies` the tool gets schemas of its own: the caller keeps its dicts and may change them later.
    """
    if not isinstance(tool, Tool):
        raise DefinitionError(f"expected a Tool, got {type(tool).__name__}")
    if type(tool.namespace) is not str or type(tool.description) is not str or type(tool.metadata) is not dict:
        _refuse_types(tool)
    check_namespace(tool.namespace)
    check_tool_name(tool.name)
    for alias in tool.aliases:
        check_tool_name(alias)
    candidate, rewrites = _admitted(tool)
    if copies is not None:
        copies.give(candidate)
    return candidate, rewrites


def _admitted(tool: Tool) -> tuple[Candidate, tuple[Rewrite, ...]]:
    if isinstance(tool, LazyTool) or (is_plain(tool.output_parameters, is_input=False) and is_plain(tool.parameters)):
        return Candidate(tool), ()
    return _admit_schemas(tool)


def _refuse_types(tool: Tool) -> None:
    for field, kind in (("namespace", str), ("description", str), ("metadata", dict)):
        value = getattr(tool, field)
        if not isinstance(value, kind):
            wanted = "text" if kind is str else "a mapping"
            raise DefinitionError(f"{field} of tool {show(tool.name)} must be {wanted}, not {type(value).__name__}")


def admit_lazy(tools: Sequence[LazyTool]) -> list[Candidate]:
    """Candidates for the tools of an index: names are checked, many at once, schemas when they are used."""
    plain = are_plain(tool.name for tool in tools) and are_plain({tool.namespace for tool in tools})
    return [Candidate(tool) if plain and not tool.aliases else admit(tool)[0] for tool in tools]


def _admit_schemas(tool: Tool) -> tuple[Candidate, tuple[Rewrite, ...]]:
    given = _checked(tool, tool.parameters, is_input=True)
    answer = _checked(tool, tool.output_parameters, is_input=False)
    rewrites: tuple[Rewrite, ...] = ()
    if given.schema is not tool.parameters or answer.schema is not tool.output_parameters:
        tool = tool.replace(parameters=given.schema, output_parameters=answer.schema)
    if given.changes or answer.changes:
        rewrites = (*summarise(tool, given.changes, ""), *summarise(tool, answer.changes, "output "))
    return Candidate(tool, given.compiled), rewrites


def _checked(tool: Tool, schema: Any, *, is_input: bool) -> Admitted:
    try:
        return admit_schema(schema, is_input=is_input)
    except InvalidSchemaError as error:
        part = "parameters" if is_input else "output_parameters"
        name = f"{show(tool.namespace)}::{show(tool.name)}" if not tool.name.isascii() else tool.qualified_name
        raise InvalidSchemaError(f"{part} of {name}: {error}", pointer=f"/{part}{error.pointer}") from None


def summarise(tool: Tool, changes: Iterable[Change], prefix: str) -> list[Rewrite]:
    """Changes of one tool as report lines, equal ones counted together."""
    grouped: dict[str, list[Change]] = {}
    for change in changes:
        grouped.setdefault(change.what, []).append(change)
    return [
        Rewrite(tool.qualified_name, items[0].pointer, prefix + what, len(items))
        for what, items in list(grouped.items())[:_MAX_CHANGES]
    ]
