"""Translate tools, calls and results to and from the formats of OpenAI, Anthropic, Gemini and MCP."""

from importlib import import_module

TYPE_CHECKING = False

_EXPORTS = {
    "anthropic": "AnthropicDialect",
    "base": "DIALECTS Dialect get_dialect",
    "gemini": "GeminiDialect",
    "mcp": "McpDialect",
    "openai": "OpenAIChatDialect OpenAIResponsesDialect",
    "wire_names": "WireNames",
}
_MODULES = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__all__ = sorted(_MODULES)

if TYPE_CHECKING:
    from toolyard.dialects.anthropic import AnthropicDialect as AnthropicDialect
    from toolyard.dialects.base import DIALECTS as DIALECTS, Dialect as Dialect, get_dialect as get_dialect
    from toolyard.dialects.gemini import GeminiDialect as GeminiDialect
    from toolyard.dialects.mcp import McpDialect as McpDialect
    from toolyard.dialects.openai import (
        OpenAIChatDialect as OpenAIChatDialect,
        OpenAIResponsesDialect as OpenAIResponsesDialect,
    )
    from toolyard.dialects.wire_names import WireNames as WireNames
else:
    # Hidden from type checkers, which would otherwise accept any misspelt name.
    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
