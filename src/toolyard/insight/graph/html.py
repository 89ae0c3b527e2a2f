"""A graph as one HTML file, drawn by Cytoscape.js: zoom, search, filters. It asks for nothing from anywhere.

What comes from tools is data: JSON in a block that browsers do not run, shown as text. The policy of the page allows
the two scripts and the one style sheet of this package, by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from importlib.resources import files

import msgspec

from toolyard.insight.graph.export import describe_graph
from toolyard.insight.graph.selection import SelectedGraph

_CYTOSCAPE = "cytoscape-3.34.4.min.js"


def to_html(graph: SelectedGraph, title: str = "Dataflow") -> str:
    """The page."""
    data = describe_graph(graph, title)
    style, library, script = (_read_static(name) for name in ("graph.css", _CYTOSCAPE, "graph.js"))
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
    # In one pass: what is put in is not looked through for more.
    return re.sub(r"{{ (\w+) }}", lambda found: values[found[1]], _read_static("graph.html"))


def _read_static(name: str) -> str:
    return files("toolyard.insight.graph").joinpath("static", name).read_text("utf-8")


def _hash_source(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embed_json(value: object) -> str:
    """JSON in which no markup can begin or end."""
    text = msgspec.json.encode(value).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
