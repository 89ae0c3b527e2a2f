"""Dialects by name."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from toolyard.dialects.base import Dialect
from toolyard.dialects.wire_names import WireNames
from toolyard.model import Tool
from toolyard.model.errors import ConfigError
from toolyard.model.json_words import nearest
from toolyard.plugins.table import check_options

DIALECTS: Mapping[str, str] = MappingProxyType(
    {
        "openai": "toolyard.dialects.openai_chat:OpenAIChatDialect",
        "openai-responses": "toolyard.dialects.openai_responses:OpenAIResponsesDialect",
        "anthropic": "toolyard.dialects.anthropic:AnthropicDialect",
        "gemini": "toolyard.dialects.gemini:GeminiDialect",
        "mcp": "toolyard.dialects.mcp:McpDialect",
    }
)
"""Each dialect's class, as `module:Class`, imported when it is first asked for."""


def get_dialect(name: str, tools: Iterable[Tool] = (), *, names: WireNames | None = None, **options: bool) -> Dialect:
    """The dialect of that name, for these tools; options are those of its class, such as `strict` for OpenAI."""
    if name not in DIALECTS:
        near = nearest(name, DIALECTS)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"unknown dialect {name!r}; the dialects are {', '.join(DIALECTS)}{guess}")
    module, _, attribute = DIALECTS[name].partition(":")
    cls: type[Dialect] = getattr(importlib.import_module(module), attribute)
    check_options(cls, {"tools": tools, "names": names, **options}, f"dialect {name!r}")
    return cls(tools, names=names, **options)
