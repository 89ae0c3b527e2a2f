"""`toolyard check`, `tools`, `show` and `search`: which tools exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from toolyard.app import survey
from toolyard.calls.policy import Policy
from toolyard.cli.options import YARD, FormatOption, NamespacesOption, SkipOption, ToolName, YardOptions
from toolyard.cli.output import counted, print_json, print_list, print_table, print_text, warn, working, write_command
from toolyard.cli.yard import (
    config_path,
    domain_registry,
    open_registry,
    read_named,
    require_known,
    warn_of_default_tools,
)
from toolyard.dialects import get_dialect
from toolyard.dialects.wire_names import read_wire_call
from toolyard.model.call import ToolCall
from toolyard.model.errors import ConfigError, DuplicateToolError, UnknownToolError
from toolyard.model.report import LoadReport
from toolyard.model.tool import Hit, Tool
from toolyard.registry.bind import find_overloads

_SHOWN = 50
_DUPLICATE = DuplicateToolError.__name__


def check(
    *,
    strict: Annotated[bool, Parameter(help="Exit with status 1 for warnings, too.")] = False,
    options: YardOptions = YARD,
) -> int:
    """Load a config, a catalog or a Python file and print what was loaded, rewritten and rejected, and why.

    Exits 1 when anything was rejected or a source failed. The session store is not opened.
    """
    path = config_path(options.config)
    with working(f"checking {path or 'the domains'}"):
        if path is None:
            registry = domain_registry(skip_bad=True)
            report = registry.report
        else:
            registry, report = survey(path)
        registry.close()
    empty = [source.source for source in report.sources if source.state == "ok" and not source.entries]
    for name in empty:
        warn(f"{name}: has no entries at all")
    ok = report.ok and not (strict and (empty or report.warnings or report.idle))
    print_json({**report.to_dict(), "idle": list(report.idle), "ok": ok}) if options.json else _show_report(report)
    return 0 if ok else 1


def _show_report(report: LoadReport) -> None:
    print_table(
        "Sources",
        ["source", "state", "entries", "loaded", "rewritten", "rejected"],
        [
            (s.source, s.standing, *map(str, (s.entries, s.loaded, s.rewritten, len(s.rejected))))
            for s in report.sources
        ],
    )
    for source in report.sources:
        if source.error:
            print_text(f"{source.source}: {source.state}: {source.error}")
    changes: dict[str, tuple[int, str]] = {}
    for rewrite in report.rewrites:
        count, first = changes.get(rewrite.change, (0, f"{rewrite.tool}{rewrite.pointer}"))
        changes[rewrite.change] = count + rewrite.count, first
    if changes:
        ranked = sorted(changes.items(), key=lambda item: -item[1][0])[:_SHOWN]
        rows = [(change, str(count), first) for change, (count, first) in ranked]
        print_table("Rewritten", ["change", "places", "first at"], rows)
    # Datasets repeat their tools: other rejections come first, so that thousands of duplicates do not hide them.
    rejected = sorted(report.rejected, key=lambda item: item.error == _DUPLICATE)
    if rejected:
        rows = [(item.where, item.tool or "", item.reason) for item in rejected[:_SHOWN]]
        print_table("Rejected", ["where", "tool", "why"], rows)
    warnings = report.warnings
    if warnings:
        shown = [(item.tool, item.pointer, item.kind, item.text) for item in warnings[:_SHOWN]]
        print_table("Warnings", ["tool", "at", "kind", "what"], shown)
    totals = (("changes", len(changes)), ("rejections", len(rejected)), ("warnings", len(warnings)))
    for what, total in totals:
        if total > _SHOWN:
            print_text(f"... and {total - _SHOWN} more {what}; --json lists all")
    twins = sum(item.error == _DUPLICATE for item in rejected)
    which = f" ({twins:,} of them duplicates)" if twins else ""
    print_text(f"{counted(report.loaded, 'tool')} loaded, {len(rejected):,} rejected{which}")


def tools(
    *,
    namespace: Annotated[
        str | None, Parameter(name=["--namespace", "-n"], help="Only tools of this namespace.")
    ] = None,
    tag: Annotated[str | None, Parameter(name=["--tag", "-t"], help="Only tools with this tag.")] = None,
    denied: Annotated[bool, Parameter(help="List also the tools that the policy denies you.")] = False,
    format: FormatOption = None,  # noqa: A002 - the option is called --format
    skip_bad: SkipOption = False,
    options: YardOptions = YARD,
) -> int:
    """List the tools that you may call, in registration order; with a policy, also whether calls need approval."""
    with open_registry(options.config, skip_bad=skip_bad) as registry:
        require_known(registry, options.config, namespace=namespace, tag=tag)
        everything = registry.all_tools()
        found = [
            tool
            for tool in everything
            if (namespace is None or tool.namespace == namespace) and (tag is None or tag in tool.tags)
        ]
    policy = _read_policy(options)
    shown = found if denied else policy.list_offered(found)
    ruled = not policy.trivial
    entries = (
        tool.to_dict(qualified=True) | ({"policy": policy.foresee_action(tool)} if ruled else {}) for tool in shown
    )
    said = {"allow": "", "deny": "denied", "ask": "asks first"}
    rows = (
        (
            tool.qualified_name,
            tool.effects.value,
            *([said[policy.foresee_action(tool)]] if ruled else []),
            tool.description.partition("\n")[0],
        )
        for tool in shown
    )
    columns = ["name", "effects", *(["policy"] if ruled else []), "description"]
    code = 0
    if format:
        _print_formatted(format, everything, shown)
    else:
        code = print_list(options.json, "tool", entries, columns, rows)
    if len(shown) < len(found):
        warn(f"{counted(len(found) - len(shown), 'tool')} more that the policy denies: --denied lists them, too")
    return code


def _read_policy(options: YardOptions) -> Policy:
    return Policy.from_options(read_named(options.config)[1].policy)


def show(
    name: ToolName,
    /,
    *,
    skip_bad: SkipOption = False,
    format: FormatOption = None,  # noqa: A002 - the option is called --format
    options: YardOptions = YARD,
) -> int:
    """Show a tool's definition, with every overload."""
    with open_registry(options.config, skip_bad=skip_bad) as registry:
        called = read_wire_call(registry.snapshot, ToolCall(name)).name
        try:
            found = [candidate.tool for candidate in find_overloads(registry.snapshot, called)]
        except UnknownToolError:
            warn_of_default_tools(options.config)
            raise
        tools = registry.all_tools()
    if format:
        _print_formatted(format, tools, found)
    elif options.json:
        print_json([describe(tool) for tool in found])
    else:
        for tool in found:
            _print_tool(tool)
    return 0


def _print_formatted(name: str, tools: Sequence[Tool], shown: Sequence[Tool]) -> None:
    """Print some of the tools in a provider's format; all of them decide how each is called there."""
    dialect = get_dialect(name, tools)
    print_json(dialect.format_tools(shown))
    for line in dialect.report:
        warn(f"{line.tool}{line.pointer}: {line.change}")


def describe(tool: Tool) -> dict[str, Any]:
    """The definition with the two hashes that identify it."""
    return {
        **tool.to_dict(qualified=True),
        "fingerprint": tool.fingerprint,
        "definition_hash": tool.definition_hash,
        "binding": None if tool.binding is None else type(tool.binding).__name__,
    }


def _print_tool(tool: Tool) -> None:
    print_text(f"{tool.qualified_name}  ({tool.effects.value}, fingerprint {tool.fingerprint[:12]})")
    if tool.description:
        print_text(f"\n{tool.description}\n")
    for title, schema in (("parameters", tool.parameters), ("output_parameters", tool.output_parameters)):
        print_text(f"{title}: {_indent_json(schema)}")
    for field in ("version", "tags", "aliases", "metadata", "source"):
        value = getattr(tool, field)
        if value:
            print_text(f"{field}: {value if isinstance(value, str) else _indent_json(value)}")
    if tool.binding is not None:
        print_text(f"binding: {type(tool.binding).__name__}")
    print_text("")


def _indent_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def search(
    query: Annotated[str, Parameter(help="Task in words, or name of a tool.")],
    /,
    *,
    k: Annotated[int, Parameter(name=["-k"], help="Maximum number of hits.")] = 5,
    namespace: NamespacesOption = (),
    tag: Annotated[
        tuple[str, ...],
        Parameter(name=["--tag", "-t"], help="Only tools with this tag. If repeated, only tools with all of the tags."),
    ] = (),
    threshold: Annotated[
        float | None, Parameter(help="Minimum score of the best hit, from 0 to 1; 0 always shows the nearest tools.")
    ] = None,
    skip_bad: SkipOption = False,
    options: YardOptions = YARD,
) -> int:
    """Find the tools for a task, best first; exits 1 if no tool fits."""
    _check_request(query, k, threshold)
    with open_registry(options.config, skip_bad=skip_bad) as registry:
        require_known(registry, options.config, namespace=namespace, tag=tag)
        policy = _read_policy(options)
        where = None if policy.trivial else lambda tool: not policy.always_denies(tool, None)
        words = {"namespace": namespace or None, "tags": tag or None, "where": where, "threshold": threshold}
        with working("searching"):
            found = registry.searcher.search(registry.snapshot, query, k, **words)
    if found.note:
        warn(found.note)
    if options.json:
        print_json({"hits": [_describe_hit(hit) for hit in found], "mode": found.mode, "note": found.note})
        return 0 if len(found) else 1
    rows = [
        (hit.fit, f"{hit.score:.2f}", hit.tool.qualified_name, hit.tool.description.partition("\n")[0]) for hit in found
    ]
    if rows:
        print_table("Found", ["fit", "score", "name", "description"], rows)
    print_text(f"{counted(len(found), 'tool')}, {found.mode} search")
    if not rows:
        listing = write_command(options.config, "tools")
        warn(f"no tool fits; rephrase the query, see the nearest with `--threshold 0`, or list all with `{listing}`")
        warn_of_default_tools(options.config)
    return 0 if rows else 1


def _check_request(query: str, k: int, threshold: float | None) -> None:
    from toolyard.insight.search.rank import MOST_HITS

    if not 1 <= k <= MOST_HITS:
        raise ConfigError(f"-k must be from 1 to {MOST_HITS}, not {k}")
    if threshold is not None and not 0 <= threshold <= 1:
        raise ConfigError(f"--threshold must be from 0 to 1, not {threshold}")
    if not query.strip():
        raise ConfigError("the query is empty; describe the task, or list all with `toolyard tools`")


def _describe_hit(hit: Hit) -> dict[str, Any]:
    return {
        "name": hit.tool.qualified_name,
        "fit": hit.fit,
        "score": hit.score,
        "reasons": dict(hit.reasons),
        "tool": hit.tool.to_dict(),
    }
