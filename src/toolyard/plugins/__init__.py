"""Names -> classes, for everything that plugs in."""

from toolyard.plugins.protocols import Enrichment, Loader, Policy, View
from toolyard.plugins.table import (
    ENGINES,
    ENRICHMENTS,
    LOADERS,
    SAMPLERS,
    PluginTable,
    check_options,
    get_tool_engine,
    get_tool_enrichment,
    get_tool_loader,
    get_tool_sampler,
    register_tool_engine,
    register_tool_enrichment,
    register_tool_loader,
    register_tool_sampler,
)

__all__ = [
    "ENGINES",
    "ENRICHMENTS",
    "LOADERS",
    "SAMPLERS",
    "Enrichment",
    "Loader",
    "PluginTable",
    "Policy",
    "View",
    "check_options",
    "get_tool_engine",
    "get_tool_enrichment",
    "get_tool_loader",
    "get_tool_sampler",
    "register_tool_engine",
    "register_tool_enrichment",
    "register_tool_loader",
    "register_tool_sampler",
]
