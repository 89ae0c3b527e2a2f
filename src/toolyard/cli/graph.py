"""`toolyard graph`: the dataflow between tools, as a page or in formats of other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from toolyard.cli.options import YARD, SkipOption, YardOptions
from toolyard.cli.output import counted, print_json, print_text, working
from toolyard.cli.yard import config_path, open_registry
from toolyard.model.errors import ConfigError
from toolyard.model.tool import Tool

if TYPE_CHECKING:
    from toolyard.insight.dataflow.artifact import Dataflow
    from toolyard.insight.graph import GraphOptions, SelectedGraph
    from toolyard.registry import ToolRegistry


class _GuessedCatalog(msgspec.Struct, frozen=True):
    """The tools of a registry with inferred output schemas, which the registry itself lacks."""

    tools: Sequence[Tool]
    artifacts: Mapping[str, Any]


_FORMATS = {".html": "html", ".htm": "html", ".dot": "dot", ".mmd": "mermaid", ".json": "json"}


def graph(
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    top: int = 2,
    min_score: float = 0.0,
    max_edges: int | None = None,
    namespace: Annotated[tuple[str, ...], Parameter(name=["--namespace", "-n"], negative="")] = (),
    linked: Annotated[bool, Parameter(negative="")] = False,
    title: str | None = None,
    skip_bad: SkipOption = False,
    options: YardOptions = YARD,
) -> int:
    """Write the dataflow of the tools, namespace by namespace, with the strongest edges.

    The edges are those of the config's `dataflow` enrichment. Without one they are computed now, and missing output
    schemas are inferred by rules, offline. The same tools always give the same file.

    Parameters
    ----------
    out
        File to write: `.html` for an interactive page, `.dot` for Graphviz, `.mmd` for Mermaid, or `.json`.
    top
        Show an edge if it is among this many strongest of its source or target.
    min_score
        Minimum score of an edge, from 0 to 1.
    max_edges
        Maximum number of edges; the strongest are shown.
    namespace
        Only tools of this namespace. May be repeated.
    linked
        Hide tools without a visible edge.
    title
        Title of the graph; by default the name of the config.
    """
    form = _choose_format(out)
    from toolyard.insight.graph import GraphOptions

    wanted = GraphOptions(top, min_score, namespace, max_edges, linked)
    path = config_path(options.config)
    with open_registry(path, skip_bad=skip_bad) as registry:
        summary = _write_graph(
            registry, wanted, out, form, title or f"Dataflow of {path.name if path else 'the domains'}"
        )
    print_json(summary) if options.json else _print_summary(summary)
    return 0


def _choose_format(out: Path) -> str:
    suffix = out.suffix.lower()
    if suffix == ".svg":
        raise ConfigError(
            f"--out {out}: write an .html page, or a .dot file and run `dot -Tsvg graph.dot -o {out.name}`"
        )
    if suffix not in _FORMATS:
        raise ConfigError(f"--out {out}: a graph is an .html, .dot, .mmd or .json file")
    return _FORMATS[suffix]


def _print_summary(summary: dict[str, Any]) -> None:
    tools, spaces = counted(summary["tools"], "tool"), counted(summary["namespaces"], "namespace")
    print_text(f"{summary['out']}: {tools} in {spaces}, {summary['drawn']:,} of {counted(summary['edges'], 'edge')}")


def _write_graph(registry: ToolRegistry, options: GraphOptions, out: Path, form: str, title: str) -> dict[str, Any]:
    """Write the file and return its counts."""
    from toolyard.insight.graph import select_graph, to_dot, to_html, to_json, to_mermaid

    writers = {"html": to_html, "dot": to_dot, "mermaid": to_mermaid, "json": to_json}
    with working("finding what feeds what"):
        dataflow = _find_dataflow(registry)
    selected = select_graph(dataflow, options)
    out.write_text(writers[form](selected, title), "utf-8", errors="replace", newline="\n")
    return _summarize_graph(selected, out, form)


def _find_dataflow(registry: ToolRegistry) -> Dataflow:
    """The artifact of the config, or one computed for its tools."""
    from toolyard.insight.dataflow.artifact import Dataflow
    from toolyard.insight.dataflow.enrichment import DataflowEnrichment
    from toolyard.insight.outputs.enrichment import OutputParametersEnrichment

    found = registry.artifacts.get("dataflow")
    if found is not None:
        if not isinstance(found, Dataflow):
            kind = type(found).__name__
            raise ConfigError(f"the artifact 'dataflow' of this config is a {kind}, not of the enrichment 'dataflow'")
        return found
    tools, _ = OutputParametersEnrichment(lm_config={"type": "schema"}).enrich(registry.snapshot)
    _, artifacts = DataflowEnrichment().enrich(_GuessedCatalog(tools, registry.artifacts))
    made = artifacts["dataflow"]
    assert isinstance(made, Dataflow)
    return made


def _summarize_graph(graph: SelectedGraph, out: Path, form: str) -> dict[str, Any]:
    tools = graph.dataflow.tools
    return {
        "out": str(out),
        "format": form,
        "tools": len(graph.places),
        "namespaces": len({tools[place].namespace for place in graph.places.tolist()}),
        "edges": graph.dataflow.edge_count,
        "drawn": len(graph.sources),
        "linked": len({*graph.sources.tolist(), *graph.targets.tolist()}),
        "text": graph.dataflow.text,
    }
