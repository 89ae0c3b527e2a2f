"""`toolyard graph`: a picture of which tools feed which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from toolyard.cli.output import counted, print_json, print_text, working
from toolyard.cli.yard import JsonOption, SkipOption, open_registry
from toolyard.model.errors import ConfigError
from toolyard.model.tool import Tool

if TYPE_CHECKING:
    from toolyard.insight.dataflow.artifact import Dataflow
    from toolyard.insight.graph import Picture, Wanted
    from toolyard.registry import ToolRegistry


class _Guessed(msgspec.Struct, frozen=True):
    """The tools of a registry with output schemas that the registry itself does not have."""

    tools: Sequence[Tool]
    artifacts: Mapping[str, Any]


_FORMATS = {".svg": "svg", ".html": "html", ".htm": "html"}


def graph(
    config: Path,
    /,
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    top: int = 2,
    min_score: float = 0.0,
    max_edges: int | None = None,
    namespace: Annotated[tuple[str, ...], Parameter(name=["--namespace", "-n"], negative="")] = (),
    linked: Annotated[bool, Parameter(negative="")] = False,
    title: str | None = None,
    skip_bad: SkipOption = False,
    json: JsonOption = False,
) -> int:
    """Draw the dataflow of the tools, namespace by namespace, with the strongest edges.

    The edges are those of the config's own `dataflow` enrichment. Without one they are found now: output schemas
    that are missing are guessed by rules, offline. The same tools always give the same picture.

    Parameters
    ----------
    config
        A config (with a `tools:` block) or a catalog file.
    out
        The file to write: `.svg` for a picture to read and print, `.html` for a page to search, zoom and filter.
    top
        Draw an edge if it is among so many strongest of its source, or of its target.
    min_score
        Draw no edge with a lower score, from 0 to 1.
    max_edges
        Draw so many edges at most, the strongest of all.
    namespace
        Draw the tools of this namespace alone. May be given often.
    linked
        Leave out tools without a drawn edge.
    title
        What stands above the picture; the name of the config if not given.
    """
    if out.suffix.lower() not in _FORMATS:
        raise ConfigError(f"--out {out}: a picture is an .svg or an .html file")
    from toolyard.insight.graph import Wanted

    wanted = Wanted(top, min_score, namespace, max_edges, linked)
    with open_registry(config, skip_bad=skip_bad) as registry:
        told = _draw(registry, wanted, out, title or f"Dataflow of {config.name}")
    print_json(told) if json else _say(told)
    return 0


def _say(told: dict[str, Any]) -> None:
    tools, spaces = counted(told["tools"], "tool"), counted(told["namespaces"], "namespace")
    print_text(f"{told['out']}: {tools} in {spaces}, {told['drawn']:,} of {counted(told['edges'], 'edge')}")


def _draw(registry: ToolRegistry, wanted: Wanted, out: Path, title: str) -> dict[str, Any]:
    """Write the picture; what is in it, in numbers."""
    from toolyard.insight.graph import lay_out, to_html, to_svg

    form = _FORMATS[out.suffix.lower()]
    with working("finding what feeds what"):
        dataflow = _dataflow(registry)
    with working("drawing"):
        picture = lay_out(dataflow, wanted)
        text = (to_svg if form == "svg" else to_html)(picture, title)
        out.write_text(text, "utf-8", errors="replace", newline="\n")
    return _told(picture, out, form)


def _dataflow(registry: ToolRegistry) -> Dataflow:
    """The artifact of the config, or one of the same tools made here."""
    from toolyard.insight.dataflow.artifact import Dataflow
    from toolyard.insight.dataflow.enrichment import DataflowEnrichment
    from toolyard.insight.output_parameters import OutputParametersEnrichment

    found = registry.artifacts.get("dataflow")
    if found is not None:
        if not isinstance(found, Dataflow):
            kind = type(found).__name__
            raise ConfigError(f"the artifact 'dataflow' of this config is a {kind}, not of the enrichment 'dataflow'")
        return found
    tools, _ = OutputParametersEnrichment(lm_config={"type": "schema"}).enrich(registry.snapshot)
    _, artifacts = DataflowEnrichment().enrich(_Guessed(tools, registry.artifacts))
    made = artifacts["dataflow"]
    assert isinstance(made, Dataflow)
    return made


def _told(picture: Picture, out: Path, form: str) -> dict[str, Any]:
    touched = {end for line in picture.lines for end in (line.source, line.target)}
    return {
        "out": str(out),
        "format": form,
        "tools": len(picture.nodes),
        "namespaces": len(picture.boxes),
        "edges": picture.dataflow.edge_count,
        "drawn": len(picture.lines),
        "linked": len(touched),
        "text": picture.dataflow.text,
    }
