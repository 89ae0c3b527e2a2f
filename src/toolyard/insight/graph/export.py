"""A graph as JSON, Graphviz DOT and Mermaid. What comes from tools is quoted: it is a label, never syntax."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from toolyard.insight.graph.selection import SelectedGraph

_DESCRIPTION_LENGTH = 300
_FEEDS_OF_AN_EDGE = 6
_INVISIBLE = frozenset(("Cc", "Cs", "Co", "Cn", "Zl", "Zp"))
_DIRECTION_MARKS = frozenset(("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"))
_MERMAID_SAFE = frozenset(" ._-/:()")


def describe_graph(graph: SelectedGraph, title: str) -> dict[str, Any]:
    """Nodes and edges as plain data; the page and all of the formats are made of it."""
    tools, seen = graph.dataflow.tools, Counter[str]()
    nodes: list[dict[str, Any]] = []
    for place in graph.places.tolist():
        tool = tools[place]
        seen[tool.qualified_name] += 1
        overload = seen[tool.qualified_name]
        nodes.append(
            {
                "id": f"n{place}",
                "label": replace_invisible(tool.name) + (f" ({overload})" if overload > 1 else ""),
                "namespace": replace_invisible(tool.namespace),
                "description": _shorten_description(tool.description),
            }
        )
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), graph.scores.tolist(), strict=True)
    edges = [_describe_edge(graph, source, target, score) for source, target, score in ends]
    return {
        "title": replace_invisible(title),
        "edges_in_all": graph.dataflow.edge_count,
        "nodes": nodes,
        "edges": edges,
    }


def _describe_edge(graph: SelectedGraph, source: int, target: int, score: float) -> dict[str, Any]:
    edge = graph.dataflow.edge(source, target)
    assert edge is not None
    return {
        "source": f"n{source}",
        "target": f"n{target}",
        "score": round(score, 4),
        "covers_required": edge.covers_required,
        "feeds": [
            {
                "output": replace_invisible(feed.output),
                "parameter": replace_invisible(feed.parameter),
                "how": feed.how,
            }
            for feed in edge.feeds[:_FEEDS_OF_AN_EDGE]
        ],
        "more_feeds": max(len(edge.feeds) - _FEEDS_OF_AN_EDGE, 0),
    }


def to_json(graph: SelectedGraph, title: str = "Dataflow") -> str:
    """The graph for programs."""
    return msgspec.json.format(msgspec.json.encode(describe_graph(graph, title)), indent=1).decode() + "\n"


def to_dot(graph: SelectedGraph, title: str = "Dataflow") -> str:
    """The graph for Graphviz: `dot -Tsvg graph.dot`."""
    data = describe_graph(graph, title)
    lines = [
        f"digraph {_quote_dot(data['title'])} {{",
        "  rankdir=LR;",
        "  node [shape=box, style=rounded];",
        *_list_clusters(
            data, lambda number, name: f"subgraph cluster_{number} {{ label={_quote_dot(name)};", "}", _write_dot_node
        ),
        *(f'  {edge["source"]} -> {edge["target"]} [label="{edge["score"]:.2f}"];' for edge in data["edges"]),
        "}",
    ]
    return "\n".join(lines) + "\n"


def to_mermaid(graph: SelectedGraph, title: str = "Dataflow") -> str:
    """The graph as a Mermaid flowchart, which Markdown of many hosts draws."""
    data = describe_graph(graph, title)
    lines = [
        "flowchart LR",
        f"  accTitle: {_quote_mermaid(data['title'])}",
        *_list_clusters(
            data, lambda number, name: f'subgraph s{number}["{_quote_mermaid(name)}"]', "end", _write_mermaid_node
        ),
        *(f"  {edge['source']} -->|{edge['score']:.2f}| {edge['target']}" for edge in data["edges"]),
    ]
    return "\n".join(lines) + "\n"


def _list_clusters(
    data: dict[str, Any], head: Callable[[int, str], str], tail: str, write_node: Callable[[dict[str, Any]], str]
) -> Iterator[str]:
    spaces: dict[str, list[dict[str, Any]]] = {}
    for node in data["nodes"]:
        spaces.setdefault(node["namespace"], []).append(node)
    for number, (name, nodes) in enumerate(spaces.items()):
        yield f"  {head(number, name)}"
        yield from (f"    {write_node(node)}" for node in nodes)
        yield f"  {tail}"


def _write_dot_node(node: dict[str, Any]) -> str:
    return f"{node['id']} [label={_quote_dot(node['label'])}, tooltip={_quote_dot(node['description'])}];"


def _write_mermaid_node(node: dict[str, Any]) -> str:
    return f'{node["id"]}["{_quote_mermaid(node["label"])}"]'


def _quote_dot(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _quote_mermaid(text: str) -> str:
    """Mermaid knows no backslashes: whatever could be syntax or markup is written by its number."""
    return "".join(char if char.isalnum() or char in _MERMAID_SAFE else f"#{ord(char)};" for char in text)


def replace_invisible(text: str) -> str:
    """Text without what cannot be shown, or what would turn its order round: each such character as U+FFFD."""
    if text.isascii() and text.isprintable():
        return text
    return "".join("\ufffd" if _is_invisible(char) else char for char in text)


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) in _INVISIBLE or unicodedata.bidirectional(char) in _DIRECTION_MARKS


def _shorten_description(description: str) -> str:
    """The first paragraph, not too long."""
    text = replace_invisible(" ".join(description.strip().partition("\n\n")[0].split()))
    return text if len(text) <= _DESCRIPTION_LENGTH else text[: _DESCRIPTION_LENGTH - 1] + "…"
