"""Render the dataflow graph as an HTML page, JSON, Graphviz DOT or Mermaid.

Text from tool definitions is always escaped, so that it is shown and never interpreted as syntax.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from importlib.resources import files
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from toolyard.insight.arrays import Array, rank_in_runs
from toolyard.insight.dataflow.artifact import Dataflow
from toolyard.model.errors import ConfigError
from toolyard.model.names import find_similar
from toolyard.schema.options import check_fields


class GraphOptions(msgspec.Struct, frozen=True):
    """Which edges and tools to show."""

    top: Annotated[int, Meta(ge=0)] = 2
    """Edges per tool: an edge is drawn if it is among the strongest of its source or of its target."""
    min_score: Annotated[float, Meta(ge=0, le=1)] = 0.0
    namespaces: tuple[str, ...] = ()
    """Namespaces to show; empty for all."""
    max_edges: Annotated[int, Meta(ge=0)] | None = None
    """Limit on all edges, strongest first; None for no limit."""
    linked: bool = False
    """Leave out tools without a drawn edge."""

    def __post_init__(self) -> None:
        check_fields(self)


class SelectedGraph(msgspec.Struct, frozen=True):
    """Indexes of tools, and the edges between them, strongest first; ties by source, then target."""

    dataflow: Dataflow
    places: Array
    sources: Array
    targets: Array
    scores: Array


def select_graph(dataflow: Dataflow, options: GraphOptions) -> SelectedGraph:
    """Select the edges and tools that match the options."""
    arrays = dataflow.arrays
    shown = _mark_shown(dataflow, options.namespaces)
    sources = np.repeat(np.arange(len(dataflow.tools)), np.diff(arrays.offsets))
    targets, scores = np.asarray(arrays.targets, np.int64), np.asarray(arrays.scores, np.float64)
    kept = np.flatnonzero(shown[sources] & shown[targets] & (sources != targets) & (scores >= options.min_score))
    kept = kept[np.lexsort((targets[kept], sources[kept], -scores[kept]))]
    best = (_rank_by_end(sources[kept]) < options.top) | (_rank_by_end(targets[kept]) < options.top)
    kept = kept[best][: options.max_edges]
    sources, targets, scores = sources[kept], targets[kept], scores[kept]
    if options.linked:
        touched = np.zeros(len(shown), np.bool_)
        touched[sources] = touched[targets] = True
        shown &= touched
    return SelectedGraph(dataflow, np.flatnonzero(shown), sources, targets, scores)


def _mark_shown(dataflow: Dataflow, namespaces: tuple[str, ...]) -> Array:
    if not namespaces:
        return np.ones(len(dataflow.tools), np.bool_)
    known = {tool.namespace for tool in dataflow.tools}
    for namespace in namespaces:
        if namespace not in known:
            near = find_similar(namespace, sorted(known))
            hint = f"did you mean {near[0]!r}?" if near else "`toolyard tools` lists them"
            raise ConfigError(f"there is no namespace {namespace!r}; {hint}")
    return np.array([tool.namespace in namespaces for tool in dataflow.tools], np.bool_)


def _rank_by_end(ends: Array) -> Array:
    """For each row, the number of earlier rows with the same end."""
    order = np.argsort(ends, kind="stable")
    ranks = np.empty(len(ends), np.int64)
    ranks[order] = rank_in_runs(ends[order])
    return ranks


_DESCRIPTION_LENGTH = 300
_FEEDS_OF_AN_EDGE = 6
_INVISIBLE = frozenset(("Cc", "Cs", "Co", "Cn", "Zl", "Zp"))
_DIRECTION_MARKS = frozenset(("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"))
_MERMAID_SAFE = frozenset(" ._-/:()")


def describe_graph(graph: SelectedGraph, title: str) -> dict[str, Any]:
    """Return nodes and edges as plain data, from which all formats are rendered."""
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
    """Render the graph as JSON."""
    return msgspec.json.format(msgspec.json.encode(describe_graph(graph, title)), indent=1).decode() + "\n"


def to_dot(graph: SelectedGraph, title: str = "Dataflow") -> str:
    """Render the graph as Graphviz DOT, for `dot -Tsvg graph.dot`."""
    data = describe_graph(graph, title)
    lines = [f"digraph {_quote_dot(data['title'])} {{", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    for number, (namespace, nodes) in enumerate(_group_nodes(data)):
        lines.append(f"  subgraph cluster_{number} {{ label={_quote_dot(namespace)};")
        for node in nodes:
            label, tooltip = _quote_dot(node["label"]), _quote_dot(node["description"])
            lines.append(f"    {node['id']} [label={label}, tooltip={tooltip}];")
        lines.append("  }")
    lines += [f'  {edge["source"]} -> {edge["target"]} [label="{edge["score"]:.2f}"];' for edge in data["edges"]]
    return "\n".join([*lines, "}", ""])


def to_mermaid(graph: SelectedGraph, title: str = "Dataflow") -> str:
    """Render the graph as a Mermaid flowchart, which many Markdown hosts display."""
    data = describe_graph(graph, title)
    lines = ["flowchart LR", f"  accTitle: {_quote_mermaid(data['title'])}"]
    for number, (namespace, nodes) in enumerate(_group_nodes(data)):
        lines.append(f'  subgraph s{number}["{_quote_mermaid(namespace)}"]')
        lines += [f'    {node["id"]}["{_quote_mermaid(node["label"])}"]' for node in nodes]
        lines.append("  end")
    lines += [f"  {edge['source']} -->|{edge['score']:.2f}| {edge['target']}" for edge in data["edges"]]
    return "\n".join([*lines, ""])


def _group_nodes(data: dict[str, Any]) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    spaces: dict[str, list[dict[str, Any]]] = {}
    for node in data["nodes"]:
        spaces.setdefault(node["namespace"], []).append(node)
    return spaces.items()


def _quote_dot(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _quote_mermaid(text: str) -> str:
    """Escape by character number whatever could be syntax or markup; Mermaid has no backslash escapes."""
    return "".join(char if char.isalnum() or char in _MERMAID_SAFE else f"#{ord(char)};" for char in text)


def replace_invisible(text: str) -> str:
    """Replace unprintable characters and those that change the text direction by U+FFFD."""
    if text.isascii() and text.isprintable():
        return text
    hidden = {char for char in text if unicodedata.category(char) in _INVISIBLE}
    hidden |= {char for char in text if unicodedata.bidirectional(char) in _DIRECTION_MARKS}
    return "".join("\ufffd" if char in hidden else char for char in text)


def _shorten_description(description: str) -> str:
    text = replace_invisible(" ".join(description.strip().partition("\n\n")[0].split()))
    return text if len(text) <= _DESCRIPTION_LENGTH else text[: _DESCRIPTION_LENGTH - 1] + "…"


CYTOSCAPE = "cytoscape-3.34.4.min.js"


def to_html(graph: SelectedGraph, title: str = "Dataflow") -> str:
    """Render the graph as a self-contained HTML page."""
    data = describe_graph(graph, title)
    style, library, script = (read_static(name) for name in ("graph.css", CYTOSCAPE, "graph.js"))
    policy = (
        f"default-src 'none'; script-src '{_hash_source(library)}' '{_hash_source(script)}'; "
        f"style-src '{_hash_source(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    values = {
        "title": html.escape(data["title"]),
        "policy": html.escape(policy),
        "style": style,
        "library": library,
        "script": script,
        "data": _embed_json(data),
    }
    # In one pass, so that inserted values are not searched for placeholders.
    return re.sub(r"{{ (\w+) }}", lambda found: values[found[1]], read_static("graph.html"))


def read_static(name: str) -> str:
    """Read a file of the HTML page."""
    return files("toolyard.insight").joinpath("static", name).read_text("utf-8")


def _hash_source(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embed_json(value: object) -> str:
    """Encode as JSON without characters that could start or end markup."""
    text = msgspec.json.encode(value).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
