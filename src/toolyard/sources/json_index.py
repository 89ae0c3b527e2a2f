"""An index of a JSON catalog: names now, schemas when somebody asks."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import msgspec

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.model.deferred import DeferredTool
from toolyard.model.tool import Effects, Schema
from toolyard.parsing import parse_json
from toolyard.schema.admit import admit_schema

_EMPTY = msgspec.Raw(b"{}")


class _Entry(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A tool as it stands in the file, its schemas left as they lie."""

    name: str
    namespace: str | None = None
    description: str = ""
    parameters: msgspec.Raw = _EMPTY
    output_parameters: msgspec.Raw = _EMPTY
    metadata: dict[str, Any] = {}
    version: str | None = None
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    effects: Effects = Effects.UNKNOWN


_decode_entries = msgspec.json.Decoder(list[_Entry]).decode
_decode_entry_lines = msgspec.json.Decoder(_Entry).decode_lines


class IndexedTool(DeferredTool, frozen=True, kw_only=True, dict=True, eq=False):
    """A tool of an indexed catalog.

    What a full load would have reported about a schema is raised by the first look at it. One thing is
    given up for the speed: a key repeated beside the schemas (two descriptions, say) is not noticed.
    """

    entry: _Entry

    @cached_property  # type: ignore[misc]
    def parameters(self) -> Schema:
        """The arguments, decoded and admitted when first read."""
        return self._read("parameters", self.entry.parameters, is_input=True)

    @cached_property  # type: ignore[misc]
    def output_parameters(self) -> Schema:
        """The answer, decoded and admitted when first read."""
        return self._read("output_parameters", self.entry.output_parameters, is_input=False)

    def _read(self, field: str, raw: msgspec.Raw, *, is_input: bool) -> Schema:
        data = parse_json(bytes(raw), what=f"{self.source}, {field} of {self.qualified_name}")
        return admit_schema(data, is_input=is_input).schema


_NAMESPACE = rb'"namespace"\s*:\s*"[^"\\]*"\s*'
_BEFORE = re.compile(rb"\s*\{\s*(?:" + _NAMESPACE + rb",\s*)?" + rb'"[^"\\]+"\s*:\s*')
_AFTER = re.compile(rb"\s*(?:,\s*" + _NAMESPACE + rb")?\}\s*")


def index_json(data: bytes, namespace: str | None, source: str, *, lines: bool) -> list[IndexedTool] | None:
    """The tools of a plain catalog with their schemas left raw; None if the file is not that plain."""
    try:
        if lines:
            return _decode_lines(data, namespace, source)
        if data.lstrip()[:1] == b"[":
            return _decode_list(data, namespace, None, source)
        return _decode_mapping(data, namespace, source)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # Whatever is wrong or unusual here, the full load reads it, or says what and where.
        return None


def _decode_list(data: Any, namespace: str | None, home: str | None, source: str) -> list[IndexedTool]:
    return _make_tools(_decode_entries(data), namespace or home or TOOL_DEFAULT_NAMESPACE, source)


def _decode_lines(data: bytes, namespace: str | None, source: str) -> list[IndexedTool]:
    return _make_tools(_decode_entry_lines(data), namespace or TOOL_DEFAULT_NAMESPACE, source)


def _make_tools(entries: list[_Entry], namespace: str, source: str) -> list[IndexedTool]:
    return [
        IndexedTool(
            entry.name,
            entry.namespace or namespace,
            entry.description,
            metadata=entry.metadata,
            version=entry.version,
            tags=entry.tags,
            aliases=entry.aliases,
            effects=entry.effects,
            source=source,
            entry=entry,
        )
        for entry in entries
    ]


def _decode_mapping(data: bytes, namespace: str | None, source: str) -> list[IndexedTool] | None:
    """One list of tools with its namespace for a key, or beside it; nothing else may stand around the list."""
    groups = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    key = next((key for key in groups if key != "namespace"), "")
    tools = bytes(groups.get(key, b""))
    start = data.find(tools)
    if not _BEFORE.fullmatch(data, 0, start) or not _AFTER.fullmatch(data, start + len(tools)):
        return None
    if key == "tools":
        home = msgspec.json.decode(groups["namespace"], type=str) if "namespace" in groups else None
        return _decode_list(tools, namespace, home, source)
    return _decode_list(tools, namespace, key, source) if len(groups) == 1 else None
