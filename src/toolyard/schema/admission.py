"""What a tool must pass to enter a registry: name grammar, schema hygiene."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from toolyard.model.deferred import DeferredTool
from toolyard.model.errors import DefinitionError, InvalidSchemaError
from toolyard.model.names import are_plain, check_namespace, check_tool_name, show
from toolyard.model.report import Rewrite
from toolyard.model.tool import Tool
from toolyard.schema.admit import Admitted, admit_schema, is_plain
from toolyard.schema.compile import CompiledSchema
from toolyard.schema.normalise import Change

_MAX_CHANGES = 20
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Any, ...]).decode
_LONGEST = 1 << 18
"""Bytes of a definition that is copied so. A longer one may have been short, and hold one value in many places."""


class AdmittedTool(msgspec.Struct, eq=False):
    """A tool that may enter any registry, as a source hands it over."""

    tool: Tool
    compiled: CompiledSchema | None = None
    """The input schema, where admission had to compile it anyway."""
    place: str = ""
    """Where in its source the tool was defined, to be put behind the source's name."""


def admit_tool(tool: Tool, *, copied: bool = False) -> tuple[AdmittedTool, tuple[Rewrite, ...]]:
    """The tool as it may enter, and what had to be rewritten; `DefinitionError` if it cannot enter.

    With `copied` the tool gets schemas of its own: the caller keeps its dicts and may change them later.
    """
    if not isinstance(tool, Tool):
        raise DefinitionError(f"expected a Tool, got {type(tool).__name__}")
    if type(tool.namespace) is not str or type(tool.description) is not str or type(tool.metadata) is not dict:
        _refuse_types(tool)
    check_namespace(tool.namespace)
    check_tool_name(tool.name)
    for alias in tool.aliases:
        check_tool_name(alias)
    admitted, rewrites = _admit_checked(tool)
    if copied:
        _copy_schemas(admitted)
    return admitted, rewrites


def _admit_checked(tool: Tool) -> tuple[AdmittedTool, tuple[Rewrite, ...]]:
    if isinstance(tool, DeferredTool) or (
        is_plain(tool.output_parameters, is_input=False) and is_plain(tool.parameters)
    ):
        return AdmittedTool(tool), ()
    return _admit_schemas(tool)


def _refuse_types(tool: Tool) -> None:
    for field, kind in (("namespace", str), ("description", str), ("metadata", dict)):
        value = getattr(tool, field)
        if not isinstance(value, kind):
            wanted = "text" if kind is str else "a mapping"
            raise DefinitionError(f"{field} of tool {show(tool.name)} must be {wanted}, not {type(value).__name__}")


def admit_deferred(tools: Sequence[DeferredTool]) -> list[AdmittedTool]:
    """The tools of an index: names are checked, many at once, schemas when they are used."""
    plain = are_plain(tool.name for tool in tools) and are_plain({tool.namespace for tool in tools})
    if plain and not any(tool.aliases for tool in tools):
        return [AdmittedTool(tool) for tool in tools]
    return [admit_tool(tool)[0] for tool in tools]


def _admit_schemas(tool: Tool) -> tuple[AdmittedTool, tuple[Rewrite, ...]]:
    given = _admit_schema(tool, tool.parameters, is_input=True)
    answer = _admit_schema(tool, tool.output_parameters, is_input=False)
    rewrites: tuple[Rewrite, ...] = ()
    if given.schema is not tool.parameters or answer.schema is not tool.output_parameters:
        tool = tool.replace(parameters=given.schema, output_parameters=answer.schema)
    if given.changes or answer.changes:
        rewrites = (*summarise_changes(tool, given.changes, ""), *summarise_changes(tool, answer.changes, "output "))
    return AdmittedTool(tool, given.compiled), rewrites


def _admit_schema(tool: Tool, schema: Any, *, is_input: bool) -> Admitted:
    try:
        return admit_schema(schema, is_input=is_input)
    except InvalidSchemaError as error:
        part = "parameters" if is_input else "output_parameters"
        name = f"{show(tool.namespace)}::{show(tool.name)}" if not tool.name.isascii() else tool.qualified_name
        raise InvalidSchemaError(f"{part} of {name}: {error}", pointer=f"/{part}{error.pointer}") from None


def summarise_changes(tool: Tool, changes: Iterable[Change], prefix: str) -> list[Rewrite]:
    """Changes of one tool as report lines, equal ones counted together."""
    grouped: dict[str, list[Change]] = {}
    for change in changes:
        grouped.setdefault(change.what, []).append(change)
    return [
        Rewrite(tool.qualified_name, items[0].pointer, prefix + what, len(items))
        for what, items in list(grouped.items())[:_MAX_CHANGES]
    ]


def _copy_schemas(admitted: AdmittedTool) -> None:
    """Put a tool with schemas of its own in the place of what was admitted.

    To write a definition out and to read it back is the quickest copy there is. Only for what has been admitted: a
    schema may hold one part in many places, and written out it is as large as if each were its own. Admission has
    refused what has too many subschemas.
    """
    tool = admitted.tool
    if isinstance(tool, DeferredTool):
        # It has read its schemas itself, or will.
        return
    given = (tool.parameters, tool.output_parameters)
    try:
        written = _encode(given)
        own = _decode(written) if len(written) <= _LONGEST else ()
    except (TypeError, ValueError, OverflowError, RecursionError):
        own = ()
    if own == given:
        admitted.tool = tool.replace(parameters=own[0], output_parameters=own[1])
    else:
        # A tuple, half a surrogate pair, a number beyond 64 bits: written out it is something else, or nothing.
        admitted.tool = _copy_deeply(tool)


def _copy_deeply(tool: Tool) -> Tool:
    try:
        own = copy.deepcopy((tool.parameters, tool.output_parameters))
    except RecursionError:
        raise InvalidSchemaError("schema nests too deeply or contains itself") from None
    return tool.replace(parameters=own[0], output_parameters=own[1])
