"""The pieces a registry is put together from, in registration order, and how they are read."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence, Set
from operator import is_

import msgspec

from toolyard.model.errors import DefinitionError, MalformedSource, SourceError, SourceUnavailable, ToolyardError
from toolyard.model.report import Rejection, Rewrite, SourceReport, State
from toolyard.model.tool import Tool
from toolyard.parsing import paused_gc
from toolyard.plugins import Loader
from toolyard.registry.prepared import PreparedTool
from toolyard.schema.admission import AdmittedTool, admit_tool

DIRECT = "added in code"
_log = logging.getLogger(__name__)


class Part(msgspec.Struct, frozen=True):
    """The tools of one loader, or of one `add`."""

    candidates: tuple[PreparedTool, ...]
    report: SourceReport
    loader: Loader | None = None


def read_tools(tools: Iterable[Tool]) -> Part:
    """A part of tools that the caller made; any fault raises."""
    candidates: list[PreparedTool] = []
    rewrites: list[Rewrite] = []
    with paused_gc():
        for tool in tools:
            admitted, changes = admit_tool(tool, copied=True)
            candidates.append(PreparedTool(admitted.tool, admitted.compiled))
            rewrites.extend(changes)
    return Part(tuple(candidates), SourceReport(DIRECT, len(candidates), tuple(rewrites)))


def prepare_all(loaders: Iterable[Loader]) -> None:
    """Let sources that have to connect begin to, all at once: one that hangs must not delay the others."""
    for loader in loaders:
        prepare = getattr(loader, "prepare", None)
        if prepare is not None:
            prepare()


def read_all(loaders: Sequence[Loader]) -> list[Part]:
    """Run every loader. One whose server is not there, and that waits for it, takes no other along.

    It is listed as failed and comes back by itself. Only if nothing else could be loaded either, that is raised.
    """
    parts: list[Part] = []
    unreached: list[SourceUnavailable] = []
    for loader in loaders:
        try:
            parts.append(read_loader(loader))
        except SourceUnavailable as error:
            if not getattr(loader, "comes_back", False):
                raise
            unreached.append(error)
            parts.append(failed(loader, error))
    if unreached and len(unreached) == len(parts):
        raise unreached[0]
    for missing in unreached:
        _log.warning("a source is left out until it is there: %s", missing)
    return parts


def read_loader(loader: Loader, before: Part | None = None) -> Part:
    """Run a loader and admit what it gives, under its own `on_error` policy; whatever it raises is a `SourceError`.

    Of a tool that it gave `before`, too, what was worked out is kept.
    """
    try:
        tools = list(loader.load())
    except (ToolyardError, OSError):
        raise
    except (Exception, SystemExit) as error:
        # A module may call sys.exit() when it is imported; that ends the source, not the program.
        raise SourceError(f"{loader.source}: {type(error).__name__} while loading: {error}") from error
    admitted, rewrites, rejected = _admit_all(loader, tools)
    candidates = _prepare_all(admitted, before)
    report = loader.report
    full = SourceReport(
        source=loader.source,
        loaded=len(candidates),
        rewrites=(*report.rewrites, *rewrites),
        rejected=(*report.rejected, *rejected),
    )
    return Part(tuple(candidates), full, loader)


def _admit_all(loader: Loader, tools: list[Tool]) -> tuple[list[AdmittedTool], list[Rewrite], list[Rejection]]:
    # Loaders that check entries themselves have done the work already.
    checked: Sequence[AdmittedTool] = getattr(loader, "admitted", ())
    if len(checked) == len(tools) and all(map(is_, tools, [entry.tool for entry in checked])):
        return list(checked), [], []
    known = {id(entry.tool): entry for entry in checked}
    admitted: list[AdmittedTool] = []
    rewrites: list[Rewrite] = []
    rejected: list[Rejection] = []
    for tool in tools:
        entry = known.get(id(tool))
        changes: tuple[Rewrite, ...] = ()
        try:
            if entry is None:
                entry, changes = admit_tool(_from(loader, tool))
        except DefinitionError as error:
            if getattr(loader, "on_error", "raise") != "skip":
                raise MalformedSource(str(error), where=loader.source) from error
            name = tool.name if isinstance(tool, Tool) else None
            rejected.append(Rejection(loader.source, str(error), name, type(error).__name__))
            continue
        admitted.append(entry)
        rewrites.extend(changes)
    return admitted, rewrites, rejected


def _prepare_all(admitted: Sequence[AdmittedTool], before: Part | None) -> list[PreparedTool]:
    if before is None:
        return [_prepare(entry) for entry in admitted]
    known = {id(candidate.tool): candidate for candidate in before.candidates}
    return [known.get(id(entry.tool)) or _prepare(entry) for entry in admitted]


def _prepare(admitted: AdmittedTool) -> PreparedTool:
    prepared = PreparedTool(admitted.tool, admitted.compiled)
    if admitted.place:
        prepared.place = admitted.place
    return prepared


def _from(loader: Loader, tool: Tool) -> Tool:
    return tool.replace(source=loader.source) if isinstance(tool, Tool) and tool.source is None else tool


def joined(first: Part, second: Part) -> Part:
    """Two parts of tools that callers made, as one."""
    report = SourceReport(
        DIRECT, first.report.loaded + second.report.loaded, (*first.report.rewrites, *second.report.rewrites)
    )
    return Part((*first.candidates, *second.candidates), report)


def failed(loader: Loader, error: ToolyardError | OSError) -> Part:
    """No tools, of a source that never worked; it is asked again on refresh."""
    return Part((), SourceReport(loader.source, state="failed", error=str(error)), loader)


def stale(part: Part, error: ToolyardError | OSError) -> Part:
    """The same tools, marked as what the source gave last time it worked."""
    state: State = "failed" if part.report.state == "failed" else "stale"
    report = msgspec.structs.replace(part.report, state=state, error=str(error))
    return msgspec.structs.replace(part, report=report)


def without(part: Part, names: Set[str]) -> Part:
    """The part less the tools of those qualified names."""
    kept = tuple(c for c in part.candidates if c.tool.qualified_name not in names)
    if len(kept) == len(part.candidates):
        return part
    report = msgspec.structs.replace(part.report, loaded=len(kept))
    return msgspec.structs.replace(part, candidates=kept, report=report)
