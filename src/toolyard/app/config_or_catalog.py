"""Config or catalog? A misspelt key must not turn the one into the other: the policy would be lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolyard.model.json_words import nearest

TOP_KEYS = ("tools", "sessions", "policy", "tracing", "server")
TOOLS_KEYS = ("registry", "engines", "enrichments")

_BLOCKS = TOP_KEYS[1:]
_CUTOFF = 0.75
_DEFINES = frozenset(
    {
        *("name", "description", "parameters", "input_schema", "inputSchema", "parametersJsonSchema", "args_schema"),
        *("output_parameters", "output_schema", "outputSchema", "responseJsonSchema", "returns"),
        *("function", "effects", "tags", "aliases", "metadata", "annotations", "strict"),
    }
)
"""Keys that a tool definition has and no block of a config."""


def is_config(document: Any) -> bool:
    """True for a config, False for a catalog, judged by keys as meant and by what stands under them."""
    if not isinstance(document, Mapping) or isinstance(document.get("name"), str):
        return False
    return any(_is_tools(key, value) or _is_block(key, value) for key, value in document.items())


def _is_tools(key: Any, value: Any) -> bool:
    """A config's `tools` says where tools come from; a catalog's holds them."""
    exact = key == "tools"
    if not exact and not _resembles(key, ("tools",)):
        return False
    if isinstance(value, list):
        return (exact or bool(value)) and all(_is_source(item) for item in value)
    if not isinstance(value, dict):
        return False
    if any(_resembles(inner, TOOLS_KEYS) and not _is_definition(item) for inner, item in value.items()):
        return True
    # As a catalog this would map names to definitions.
    return exact and not all(isinstance(item, dict) for item in value.values())


def _is_block(key: Any, value: Any) -> bool:
    """A mapping under a block's name, or nearly its name. Lists there are tools of a namespace of that name."""
    if not isinstance(value, dict) or not _resembles(key, _BLOCKS) or _is_definition(value):
        return False
    if not value:
        return key in _BLOCKS
    return not all(_is_definition(item) for item in value.values())


def _is_source(item: Any) -> bool:
    return isinstance(item, dict) and "type" in item and "name" not in item and "function" not in item


def _is_definition(value: Any) -> bool:
    return isinstance(value, dict) and not _DEFINES.isdisjoint(value)


def _resembles(key: Any, names: Sequence[str]) -> bool:
    return bool(nearest(str(key).lower(), names, cutoff=_CUTOFF))
