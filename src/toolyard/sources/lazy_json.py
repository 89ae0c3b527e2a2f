"""An index of a JSON catalog: names now, schemas when somebody asks."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.registry.lazy import LazyTool, lazy_type

_NAMESPACE = rb'"namespace"\s*:\s*"[^"\\]*"\s*'
_BEFORE = re.compile(rb"\s*\{\s*(?:" + _NAMESPACE + rb",\s*)?" + rb'"[^"\\]+"\s*:\s*')
_AFTER = re.compile(rb"\s*(?:,\s*" + _NAMESPACE + rb")?\}\s*")


def index_json(data: bytes, namespace: str | None, source: str, *, lines: bool) -> list[LazyTool] | None:
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


def _decode_list(data: Any, namespace: str | None, home: str | None, source: str) -> list[LazyTool] | None:
    kind = lazy_type(namespace or home or TOOL_DEFAULT_NAMESPACE, source)
    tools: list[LazyTool] = msgspec.json.Decoder(list[kind]).decode(data)  # type: ignore[valid-type]
    return tools if all(tool.source is source for tool in tools) else None


def _decode_lines(data: bytes, namespace: str | None, source: str) -> list[LazyTool] | None:
    kind = lazy_type(namespace or TOOL_DEFAULT_NAMESPACE, source)
    tools: list[LazyTool] = list(msgspec.json.Decoder(kind).decode_lines(data))
    return tools if all(tool.source is source for tool in tools) else None


def _decode_mapping(data: bytes, namespace: str | None, source: str) -> list[LazyTool] | None:
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
