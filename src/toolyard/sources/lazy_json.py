"""An index of a JSON catalog: names now, schemas when somebody asks."""

from __future__ import annotations

from typing import Any

import msgspec

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.registry.lazy import LazyTool, lazy_type


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


def _decode_list(data: Any, namespace: str | None, home: str | None, source: str) -> list[LazyTool]:
    kind = lazy_type(namespace or home or TOOL_DEFAULT_NAMESPACE, source)
    tools: list[LazyTool] = msgspec.json.Decoder(list[kind]).decode(data)  # type: ignore[valid-type]
    return tools


def _decode_lines(data: bytes, namespace: str | None, source: str) -> list[LazyTool]:
    kind = lazy_type(namespace or TOOL_DEFAULT_NAMESPACE, source)
    tools: list[LazyTool] = list(msgspec.json.Decoder(kind).decode_lines(data))
    return tools


def _decode_mapping(data: bytes, namespace: str | None, source: str) -> list[LazyTool] | None:
    """Shape 1, and `{namespace, tools}`."""
    groups = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    if "tools" in groups and groups.keys() <= {"namespace", "tools"}:
        home = msgspec.json.decode(groups["namespace"], type=str) if "namespace" in groups else None
        return _decode_list(groups["tools"], namespace, home, source)
    return [tool for home, raw in groups.items() for tool in _decode_list(raw, namespace, home, source)]
