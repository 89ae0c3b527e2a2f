"""The four kinds of plugin, their built-ins, and their decorators.

    @register_tool_loader("name")      a ToolLoader: where tools come from
    @register_tool_engine("name")      a ToolEngine: how a call is answered
    @register_tool_enrichment("name")  a ToolEnrichment: what is learned about tools
    @register_tool_sampler("name")     a ToolSampler: how tools are drawn

Third parties may instead declare the entry-point groups `toolyard.loaders`, `toolyard.engines`,
`toolyard.enrichments` and `toolyard.samplers`, each entry a `module:Class`.
"""

from __future__ import annotations

from typing import Any

from toolyard.plugins.protocols import Enrichment, Loader
from toolyard.plugins.table import PluginTable

LOADERS: PluginTable[Loader] = PluginTable(
    "tool loader",
    "toolyard.loaders",
    {
        "domains": "toolyard.sources.domains:DomainToolLoader",
        "file": "toolyard.sources.file:FileToolLoader",
        "inline": "toolyard.sources.inline:InlineToolLoader",
        "mcp": "toolyard.sources.mcp:MCPToolLoader",
        "mcp_config": "toolyard.sources.mcp_config:MCPConfigToolLoader",
        "python": "toolyard.sources.python:PythonToolLoader",
        "rest": "toolyard.sources.rest:RESTToolLoader",
        "scripts": "toolyard.sources.scripts:ScriptToolLoader",
    },
)
ENGINES: PluginTable[Any] = PluginTable(
    "tool engine",
    "toolyard.engines",
    {
        "mcp": "toolyard.engines.mcp:MCPToolEngine",
        "multi": "toolyard.engines.multi:MultiToolEngine",
        "python": "toolyard.engines.python:PythonToolEngine",
        "rest": "toolyard.engines.rest:RESTToolEngine",
        "scripts": "toolyard.engines.scripts:ScriptToolEngine",
    },
)
ENRICHMENTS: PluginTable[Enrichment] = PluginTable("tool enrichment", "toolyard.enrichments", {})
SAMPLERS: PluginTable[Any] = PluginTable("tool sampler", "toolyard.samplers", {})

register_tool_loader = LOADERS.register
register_tool_engine = ENGINES.register
register_tool_enrichment = ENRICHMENTS.register
register_tool_sampler = SAMPLERS.register

get_tool_loader = LOADERS.create
get_tool_engine = ENGINES.create
get_tool_enrichment = ENRICHMENTS.create
get_tool_sampler = SAMPLERS.create
