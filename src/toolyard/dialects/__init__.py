"""How OpenAI, Anthropic, Gemini and MCP spell tools, calls and results, both ways."""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolyard.dialects.anthropic import AnthropicDialect
    from toolyard.dialects.base import DIALECTS, Dialect, get_dialect
    from toolyard.dialects.gemini import GeminiDialect
    from toolyard.dialects.mcp import McpDialect
    from toolyard.dialects.openai import OpenAIChatDialect, OpenAIResponsesDialect
    from toolyard.dialects.wire_names import WireNames

__all__ = [
    "DIALECTS",
    "AnthropicDialect",
    "Dialect",
    "GeminiDialect",
    "McpDialect",
    "OpenAIChatDialect",
    "OpenAIResponsesDialect",
    "WireNames",
    "get_dialect",
]

_MODULES = {
    "DIALECTS": "base",
    "AnthropicDialect": "anthropic",
    "Dialect": "base",
    "GeminiDialect": "gemini",
    "McpDialect": "mcp",
    "OpenAIChatDialect": "openai",
    "OpenAIResponsesDialect": "openai",
    "WireNames": "wire_names",
    "get_dialect": "base",
}

# Hidden from type checkers, which would otherwise accept any misspelt name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
