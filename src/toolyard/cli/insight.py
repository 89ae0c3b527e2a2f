"""`toolyard graph` and `sample`: the dataflow between tools, as a page or for other programs, and related tools."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from toolyard.cli.options import YARD, NamespacesOption, SkipOption, YardOptions, read_word
from toolyard.cli.output import counted, print_either, print_json, print_table, print_text, visible, working
from toolyard.cli.yard import config_path, open_registry
from toolyard.dialects import Dialect, get_dialect
from toolyard.model.errors import ConfigError, SamplingError
from toolyard.model.tool import Tool
from toolyard.plugins import ENRICHMENTS, get_tool_sampler

if TYPE_CHECKING:
    from toolyard.insight.base import Sample
    from toolyard.insight.dataflow.artifact import Dataflow
    from toolyard.insight.graph import GraphOptions, SelectedGraph
    from toolyard.insight.samplers.base import ToolSampler
    from toolyard.registry import ToolRegistry


class _GuessedCatalog(msgspec.Struct, frozen=True):
    """The tools of a registry with inferred output schemas, which the registry itself lacks."""

    tools: Sequence[Tool]
    artifacts: Mapping[str, Any]


_FORMATS = {".html": "html", ".htm": "html", ".dot": "dot", ".mmd": "mermaid", ".json": "json"}


def graph(
    *,
    out: Annotated[
        Path,
        Parameter(
            name=["--out", "-o"],
            help="File to write: `.html` for an interactive page, `.dot` for Graphviz, `.mmd` for Mermaid, or `.json`.",
        ),
    ],
    top: Annotated[int, Parameter(help="Show an edge if it is among this many strongest of its source or target.")] = 2,
    min_score: Annotated[float, Parameter(help="Minimum score of an edge, from 0 to 1.")] = 0.0,
    max_edges: Annotated[int | None, Parameter(help="Maximum number of edges; the strongest are shown.")] = None,
    namespace: NamespacesOption = (),
    linked: Annotated[bool, Parameter(help="Hide tools without a visible edge.")] = False,
    title: Annotated[str | None, Parameter(help="Title of the graph; by default the name of the config.")] = None,
    skip_bad: SkipOption = False,
    options: YardOptions = YARD,
) -> int:
    """Write the dataflow of the tools, namespace by namespace, with the strongest edges.

    The edges are those of the config's `dataflow` enrichment. Without one they are computed now, and missing output
    schemas are inferred by rules, offline. The same tools always give the same file.
    """
    form = _choose_format(out)
    from toolyard.insight.graph import GraphOptions

    wanted = GraphOptions(top, min_score, namespace, max_edges, linked)
    path = config_path(options.config)
    with open_registry(path, skip_bad=skip_bad) as registry:
        summary = _write_graph(
            registry, wanted, out, form, title or f"Dataflow of {path.name if path else 'the domains'}"
        )
    tools, spaces = counted(summary["tools"], "tool"), counted(summary["namespaces"], "namespace")
    text = f"{out}: {tools} in {spaces}, {summary['drawn']:,} of {counted(summary['edges'], 'edge')}"
    return print_either(options.json, summary, text)


def _choose_format(out: Path) -> str:
    suffix = out.suffix.lower()
    if suffix == ".svg":
        raise ConfigError(
            f"--out {out}: write an .html page, or a .dot file and run `dot -Tsvg graph.dot -o {out.name}`"
        )
    if suffix not in _FORMATS:
        raise ConfigError(f"--out {out}: a graph is an .html, .dot, .mmd or .json file")
    return _FORMATS[suffix]


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


_SHOWN = 20
_OWN = {"k": "say -k", "seed": "say --seed", "registry": "the tools are those of the config"}
"""Options that `-o` may not set, and what to use instead."""


_SamplerType = Annotated[
    str,
    Parameter(
        help="Sampler: tc/random, tc/chain, tc/fan_out, tc/fan_in, tc/dag, tc/neighbor, tc/sparse, tc/conflict, "
        "tc/irrelevant, tc/missing, tc/coverage, tc/mix, or one of a plugin."
    ),
]
_SamplerOptions = Annotated[
    tuple[str, ...],
    Parameter(
        name=["--option", "-o"],
        consume_multiple=False,
        help="Option of the sampler, such as `min_score=0.7`; the value is read as JSON if it is JSON. May be "
        "repeated; the same option only if it takes a list.",
    ),
]


def sample(
    type: _SamplerType,  # noqa: A002 (it is called so in configs)
    /,
    *,
    k: Annotated[int | None, Parameter(name=["-k"], help="Number of tools.")] = None,
    seed: Annotated[int | None, Parameter(help="Seed; equal seeds draw equal tools.")] = None,
    count: Annotated[int, Parameter(name=["--count", "-n"], help="Number of samples.")] = 1,
    namespace: Annotated[
        tuple[str, ...], Parameter(name=["--namespace"], help="Only tools of this namespace. May be repeated.")
    ] = (),
    option: _SamplerOptions = (),
    jsonl: Annotated[bool, Parameter(help="Print one line of JSON per sample.")] = False,
    format: Annotated[  # noqa: A002 - the option is called --format
        str | None,
        Parameter(
            help="Add the definitions to the JSON, in a provider's format: openai, openai-responses, anthropic, gemini "
            "or mcp."
        ),
    ] = None,
    skip_bad: SkipOption = False,
    options: YardOptions = YARD,
) -> int:
    """Draw tools with a sampler and print them, with the edges between them.

    Exits 1 when there are not enough suitable tools; those that were found are printed.
    """
    if count < 1:
        raise ConfigError(f"--count must be 1 or more, not {count}")
    if format is not None and not (options.json or jsonl):
        raise ConfigError("--format is for --jsonl and --json")
    given = _read_options(option, namespace)
    with open_registry(options.config, skip_bad=skip_bad) as registry:
        try:
            samples = _draw(registry, type, count, {"k": k, "seed": seed, **given})
        except SamplingError as error:
            if isinstance(error, ConfigError):
                raise
            return _report_failure(error, options.json)
        dialect = None if format is None else get_dialect(format, registry.all_tools())
    if options.json or jsonl:
        return _print_data(samples, dialect, jsonl)
    for drawn in samples:
        _show_sample(type, drawn)
    return 0


def _draw(registry: ToolRegistry, kind: str, count: int, options: dict[str, Any]) -> list[Sample]:
    """The samples. Enrichments that they need and the config lacks run now, since a catalog has no config."""
    from toolyard.insight.outputs.enrichment import OutputParametersEnrichment
    from toolyard.insight.samplers.base import MissingArtifactError

    try:
        sampler: ToolSampler[Any] = get_tool_sampler(kind, registry=registry, **options)
        return [sampler.sample()] if count == 1 else list(sampler.series(count))
    except MissingArtifactError as error:
        if error.artifact not in ENRICHMENTS:
            raise
        outputs = [OutputParametersEnrichment(lm_config={"type": "schema"})] if error.artifact == "dataflow" else []
        with working(f"making {error.artifact}"):
            registry.enrich(*outputs, ENRICHMENTS.create(error.artifact))
        if error.artifact not in registry.artifacts:
            raise
    return _draw(registry, kind, count, options)


def _print_data(samples: list[Sample], dialect: Dialect | None, jsonl: bool) -> int:
    shown = [
        drawn.to_dict() | ({} if dialect is None else {"definitions": dialect.format_tools(drawn)}) for drawn in samples
    ]
    if jsonl:
        sys.stdout.writelines(f"{msgspec.json.encode(one).decode()}\n" for one in shown)
    else:
        print_json(shown[0] if len(shown) == 1 else shown)
    return 0


def _read_options(given: tuple[str, ...], namespaces: tuple[str, ...]) -> dict[str, Any]:
    """The options by name, repeated ones as a list."""
    values: dict[str, list[Any]] = {"namespace": list(namespaces)} if namespaces else {}
    for one in given:
        name, sign, text = one.partition("=")
        if not sign or not name:
            raise ConfigError(f"an option is given as NAME=VALUE, not {one!r}")
        if name in _OWN:
            raise ConfigError(f"-o {name}=...: {_OWN[name]}")
        values.setdefault(name, []).append(read_word(text))
    # The sampler refuses a list if it takes none.
    return {name: found[0] if len(found) == 1 else _flatten(found) for name, found in values.items()}


def _flatten(found: list[Any]) -> list[Any]:
    return [value for one in found for value in (one if isinstance(one, list) else [one])]


def _report_failure(error: SamplingError, as_json: bool) -> int:
    found = [tool.qualified_name for tool in error.tools]
    if as_json:
        told = {"type": "SamplingError", "message": str(error), "requested": error.requested, "tools": found}
        print_json({"error": told})
        return 1
    sys.stderr.write(f"toolyard: {visible(str(error))}\n")
    if found:
        more = f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
        sys.stderr.write(f"  found: {visible(', '.join(found[:_SHOWN]))}{more}\n")
    return 1


def _show_sample(kind: str, drawn: Sample) -> None:
    rows = [
        (tool.qualified_name, role, tool.description.partition("\n")[0])
        for tool, role in zip(drawn, drawn.roles, strict=True)
    ]
    print_table("Sample", ["name", "role", "description"], rows)
    for edge in drawn.edges:
        fed = ", ".join(f"{feed.output} -> {feed.parameter}" for feed in edge.feeds[:3])
        print_text(f"{edge.source} feeds {edge.target} ({edge.score:.2f}){': ' + fed if fed else ''}")
    for key, value in drawn.details.items():
        print_text(f"{key}: {msgspec.json.encode(value).decode()}")
    score = "" if drawn.score is None else f", score {drawn.score:.3f}"
    print_text(f"{len(drawn)} tools, {drawn.topology}, seed {drawn.seed}{score}; drawn by {kind}")
