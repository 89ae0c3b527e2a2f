"""The dataflow as a graph to look at or to hand on: which tools feed which, namespace by namespace."""

from toolyard.insight.graph.export import (
    GraphOptions,
    SelectedGraph,
    select_graph,
    to_dot,
    to_html,
    to_json,
    to_mermaid,
)

__all__ = ["GraphOptions", "SelectedGraph", "select_graph", "to_dot", "to_html", "to_json", "to_mermaid"]
