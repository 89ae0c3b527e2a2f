"""`ToolRegistry`: holds one immutable snapshot and replaces it on every change.

It changes once at a time, and reloads sources in the background when they report a change.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import CoroutineType
from typing import Any, TypeVar

import msgspec

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.model.bases import Closing
from toolyard.model.call import ToolCall, ToolContext
from toolyard.model.errors import DefinitionError, EnrichmentError, InvalidArguments, ToolyardError, UnknownToolError
from toolyard.model.json_schema import list_given
from toolyard.model.names import show
from toolyard.model.report import LoadReport
from toolyard.model.tool import SearchResults, Tool
from toolyard.parsing import paused_gc
from toolyard.plugins import Enrichment, Loader, ToolSearch, check_loader, create_searcher, get_tool_loader
from toolyard.registry.bind import Bound, bind, choose_overload, find_overloads, pin_overload
from toolyard.registry.enriching import Enricher, order_enrichments
from toolyard.registry.function_call import await_function, check_dispatch
from toolyard.registry.prepared import RawArguments, read_arguments
from toolyard.registry.snapshot import (
    Index,
    Part,
    Snapshot,
    failed_part,
    join_parts,
    mark_stale,
    prepare_loaders,
    read_loader,
    read_loaders,
    read_tools,
    remove_tools,
)

_log = logging.getLogger("toolyard.registry.registry")  # filters of users may name it

T = TypeVar("T")


class Watcher:
    """Reloads changed sources in one thread, which exists only while sources wait; repeated changes reload once."""

    def __init__(self, refresh: Callable[[Loader], object]) -> None:
        self._refresh = refresh
        self._lock = threading.Lock()
        self._waiting: dict[int, Loader] = {}
        self._running = False
        self._closed = False

    def follow(self, loader: Loader) -> None:
        """Watch the loader for changes, if it supports that."""
        watch = getattr(loader, "watch", None)
        if watch is not None:
            watch(partial(self._changed, loader))

    def close(self) -> None:
        """Stop reloading; a reload in progress is finished."""
        with self._lock:
            self._closed = True
            self._waiting.clear()

    def _changed(self, loader: Loader) -> None:
        with self._lock:
            if self._closed:
                return
            self._waiting[id(loader)] = loader
            if not self._running:
                self._running = True
                threading.Thread(target=self._work, name="toolyard-refresh", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return
                loader = self._waiting.pop(next(iter(self._waiting)))
            try:
                self._refresh(loader)
            except (ToolyardError, OSError) as error:
                _log.warning("%s has changed, and could not be loaded again: %s", loader.source, error)


class ChangeLock:
    """Lock held while a registry changes. Raises instead of deadlocking if an enrichment changes its own registry."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None

    def __enter__(self) -> None:
        if self._holder == threading.get_ident():
            raise EnrichmentError(
                "this thread is changing the registry already; an enrichment returns changed tools, and adds none"
            )
        self._lock.acquire()
        self._holder = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._holder = None
        self._lock.release()


class ToolRegistry(Closing):
    """All tools of an application. Construction fails if they are inconsistent.

    Readers never block and never see a partial change: `add`, `attach`, `remove` and `refresh` build a complete new
    snapshot and swap one reference, or raise and change nothing. The registry closes its loaders.
    """

    def __init__(self, tools: Iterable[Tool] = (), *, enrichments: Sequence[Enrichment] = ()) -> None:
        self.clean_report: Callable[[LoadReport], LoadReport] | None = None
        """Removes secrets, such as those of a config, from every report."""
        self._change = ChangeLock()
        self._reload = ChangeLock()
        self._searching = threading.Lock()
        self._enrichments = order_enrichments(enrichments) if enrichments else ()
        self._enricher: Enricher | None = None
        self._removed: dict[int, frozenset[str]] = {}
        """Names removed from a loader's tools, by the loader's `id`."""
        self._parts: tuple[Part, ...] = ()
        self._search: ToolSearch | None = None
        self.snapshot = self._loaded = Snapshot()
        """The current snapshot, and the one it was made from, before enrichments. Snapshots never change."""
        self._watcher = Watcher(lambda loader: self.refresh(only=loader))
        given = list_given(tools, "tools")
        self._swap([read_tools(given)] if given else [])

    @classmethod
    def from_file(cls, path: str | Path, namespace: str | None = None, **options: Any) -> ToolRegistry:
        """A registry of one YAML, JSON or JSONL catalog; options are those of `FileToolLoader`."""
        return cls.from_loaders([get_tool_loader("file", path=path, namespace=namespace, **options)])

    @classmethod
    def from_loaders(
        cls,
        loaders: Iterable[Loader],
        enrichments: Sequence[Enrichment] = (),
        *,
        clean_report: Callable[[LoadReport], LoadReport] | None = None,
    ) -> ToolRegistry:
        """A registry of several sources, in order; each is kept for `refresh`. If one fails, all are closed.

        A source whose server cannot be reached, and which reconnects by itself, is listed as failed and does not stop
        the others.
        """
        registry = cls()
        registry.clean_report = clean_report
        kept = list_given(loaders, "loaders")
        for loader in kept:
            check_loader(loader)
        try:
            registry._enrichments = order_enrichments(enrichments) if enrichments else ()
            prepare_loaders(kept)
            with paused_gc():
                index, parts = registry._build(read_loaders(kept))
            registry._install(parts, index)
        except BaseException:
            for loader in kept:
                loader.close()
            raise
        for loader in kept:
            registry._watcher.follow(loader)
        return registry

    @classmethod
    def from_dicts(
        cls, tools: Iterable[Mapping[str, Any]], namespace: str = TOOL_DEFAULT_NAMESPACE, **options: Any
    ) -> ToolRegistry:
        """A registry of plain dicts in any catalog dialect; a dict's `namespace` takes precedence over the argument."""
        given = list_given(tools, "tools")
        return cls.from_loaders([get_tool_loader("inline", tools=given, namespace=namespace, **options)])

    def get(self, name: str) -> list[Tool]:
        """Every overload of a qualified name in registration order; empty if unknown."""
        return self.snapshot.get(name)

    def match(self, call: ToolCall, namespaces: Collection[str] | None = None) -> Tool | None:
        """The overload that would answer the call; None if the name is unknown or no schema accepts the arguments.

        With `namespaces`, tools of other namespaces count as unknown.
        """
        try:
            tool = self.bind(call).tool
        except (UnknownToolError, InvalidArguments):
            return None
        return tool if _is_within(tool, namespaces) else None

    def bind(self, call: ToolCall, *, coerce: bool = True) -> Bound:
        """The overload and the arguments that the call would run with; raises the `CallError` it would return."""
        if not isinstance(call, ToolCall):
            raise TypeError(f"expected ToolCall(name, arguments), got {type(call).__name__}")
        if coerce:
            return bind(self.snapshot, call)
        candidates = find_overloads(self.snapshot, call.name)
        if call.overload is not None:
            candidates = pin_overload(candidates, call)
        arguments = read_arguments(call.arguments)
        winner = choose_overload(candidates, arguments)
        return Bound(winner.tool, winner.with_defaults(arguments), winner)

    def dispatch(self, name: str, arguments: RawArguments = None, *, ctx: ToolContext | None = None) -> Any:
        """Validate and call an in-process tool and return its value; raises a `CallError`.

        Arguments may be JSON text. They are not coerced, nested values are not copied, and values that the schema
        does not mention are passed on unchecked; use an engine where that matters. A bare name works if only one
        namespace has it.
        """
        try:
            found = self.snapshot.names.get(name) or find_overloads(self.snapshot, name)
        except TypeError:  # the name cannot be hashed, which is said there
            found = find_overloads(self.snapshot, name)
        prepared = found[0] if len(found) == 1 else choose_overload(found, arguments := read_arguments(arguments))
        return (prepared.dispatch or prepared.make_dispatch())(arguments, ctx)

    async def adispatch(self, name: str, arguments: RawArguments = None, *, ctx: ToolContext | None = None) -> Any:
        """`dispatch` for async callers: an async tool is awaited here, a sync one runs inline."""
        checked = read_arguments(arguments)
        prepared = choose_overload(find_overloads(self.snapshot, name), checked)
        check_dispatch(prepared.tool)
        value = prepared.call_function(prepared.with_defaults(checked), ctx)
        return await await_function(prepared.tool, value) if type(value) is CoroutineType else value

    def search(
        self,
        query: str,
        k: int = 5,
        namespace: str | Collection[str] | None = None,
        tags: str | Collection[str] | None = None,
        *,
        threshold: float | None = None,
    ) -> SearchResults:
        """At most `k` hits with `.tool`, `.score` and `.fit`, best first; none for an unrelated query.

        `.score` is the probability that the tool is the one wanted; `.fit` is `sure`, `likely` or `nearest`, which may
        be irrelevant. With a `threshold`, only that decides whether there are hits: the best one must reach it, so 0
        always gives the nearest. Filters apply before ranking; a tool must have all `tags`. `.mode` says whether
        vectors were compared as well as words. The first search of a catalog computes its vectors, which takes a
        while; they are cached.
        """
        return self.searcher.search(self.snapshot, query, k, namespace=namespace, tags=tags, threshold=threshold)

    @property
    def searcher(self) -> ToolSearch:
        """The search behind `search`, created on first use."""
        if self._search is None:
            with self._searching:  # a separate lock: enrichments may hold the change lock for long
                if self._search is None:
                    self._search = create_searcher()
        return self._search

    def add(self, *tools: Tool) -> None:
        """Register more tools, all or none."""
        if tools:
            with self._change:
                self._append(read_tools(tools))

    def attach(self, loader: Loader, *, keep_failed: bool = False) -> None:
        """Load one more source and keep it for `refresh`.

        With `keep_failed`, a source that cannot be loaded does not raise: the report says why, and the next
        `refresh` tries again.
        """
        check_loader(loader)
        try:
            with self._reload:
                try:
                    with paused_gc():
                        part = read_loader(loader)
                    with self._change:
                        self._append(part)
                except (ToolyardError, OSError) as error:
                    if not keep_failed:
                        raise
                    with self._change:
                        self._append(failed_part(loader, error))
        except BaseException:
            loader.close()
            raise
        self._watcher.follow(loader)

    def remove(self, name: str) -> list[Tool]:
        """Remove and return every overload of a qualified name. `refresh` does not bring it back."""
        with self._change:
            removed = self.snapshot.get(name)
            if not removed:
                raise UnknownToolError(f"no tool is called {show(name)}")
            name = removed[0].qualified_name
            kept = [remove_tools(part, {name}) for part in self._parts]
            changed = [old for old, new in zip(self._parts, kept, strict=True) if new is not old and old.loader]
            self._swap([part for part in kept if part.loader is not None or part.candidates])
            for part in changed:
                self._removed[id(part.loader)] = self._removed.get(id(part.loader), frozenset()) | {name}
            return removed

    def enrich(self, *enrichments: Enrichment) -> None:
        """Add enrichments, which run now and after every change, in the order they need."""
        with self._change:
            before = self._enrichments
            self._enrichments = order_enrichments((*before, *enrichments))
            try:
                self._install(list(self._parts), Index(self._loaded))
            except BaseException:
                self._enrichments = before
                raise

    def refresh(self, *, strict: bool = False, only: Loader | None = None) -> LoadReport:
        """Load every source again, or `only` one of them, and return the new report.

        A source that fails keeps its last good tools and is marked stale; with `strict`, the error is raised and
        nothing changes.
        """
        with self._reload:
            # Keyed by loader, because `remove` may replace a part in the meantime.
            loaded: dict[int, Part] = {}
            for part in self._parts:
                if part.loader is None or only not in (None, part.loader):
                    continue
                try:
                    loaded[id(part.loader)] = read_loader(part.loader, part)
                except (ToolyardError, OSError) as error:
                    if strict:
                        raise
                    loaded[id(part.loader)] = mark_stale(part, error)
            with self._change:
                fresh = [loaded.get(id(part.loader), part) for part in self._parts]
                kept = [remove_tools(part, self._removed.get(id(part.loader), frozenset())) for part in fresh]
                self._refresh_to(kept, strict)
        return self.report

    def _refresh_to(self, fresh: list[Part], strict: bool) -> None:
        try:
            self._swap(fresh)
            return
        except DefinitionError:
            if strict:
                raise
        # Sources that load individually may conflict with each other: find out which of them do.
        accepted: list[Part] = []
        old = {id(part.loader): part for part in self._parts if part.loader is not None}
        for position, part in enumerate(fresh):
            rest = [old.get(id(later.loader), later) for later in fresh[position + 1 :]]
            try:
                self._build([*accepted, part, *rest])
                accepted.append(part)
            except DefinitionError as error:
                accepted.append(mark_stale(old.get(id(part.loader), part), error))
        self._swap(accepted)

    def _append(self, part: Part) -> None:
        index = Index(self._loaded)
        with paused_gc():
            part = _add_part(index, part)
        earlier = self._parts
        if part.loader is None and earlier and earlier[-1].loader is None:
            earlier, part = earlier[:-1], join_parts(earlier[-1], part)
        self._install([*earlier, part], index)

    def _swap(self, parts: list[Part]) -> None:
        index, final = self._build(parts)
        self._install(final, index)

    def _build(self, parts: list[Part]) -> tuple[Index, list[Part]]:
        index = Index()
        with paused_gc():
            return index, [_add_part(index, part) for part in parts]

    def _install(self, parts: list[Part], index: Index) -> None:
        report = LoadReport(tuple(part.report for part in parts))
        report = report if self.clean_report is None else self.clean_report(report)
        snapshot = loaded = index.freeze(artifacts={}, report=report, generation=self.snapshot.generation + 1)
        if self._enrichments:
            self._enricher = self._enricher or Enricher()
            snapshot = self._enricher.run(self._enrichments, snapshot)
        self._parts = tuple(parts)
        self.snapshot, self._loaded = snapshot, loaded

    @property
    def generation(self) -> int:
        """Grows by one with every change."""
        return self.snapshot.generation

    @property
    def loaders(self) -> tuple[Loader, ...]:
        """The loaders that `refresh` runs again, in order."""
        return tuple(part.loader for part in self._parts if part.loader is not None)

    @property
    def report(self) -> LoadReport:
        """What each source loaded, rewrote and rejected."""
        return self.snapshot.report

    @property
    def artifacts(self) -> Mapping[str, Any]:
        """The artifacts written by enrichments; read-only."""
        return self.snapshot.artifacts

    def all_tools(self) -> list[Tool]:
        """Every tool, overloads included, in registration order."""
        return list(self.snapshot.tools)

    def namespaces(self) -> list[str]:
        """The namespaces in use, sorted."""
        return sorted({tool.namespace for tool in self.snapshot.tools})

    def tool_names(self, namespace: str | None = None, namespaces: Collection[str] | None = None) -> list[str]:
        """The distinct unqualified names in one namespace, in several or in all, sorted."""
        if namespace is not None and namespaces is None:
            namespaces = [namespace]
        return sorted({tool.name for tool in self.snapshot.tools if _is_within(tool, namespaces)})

    def to_dicts(self, qualified: bool = False) -> list[dict[str, Any]]:
        """A copy of every tool as plain data. With `qualified`, `name` is the qualified name."""
        definitions = [tool.to_dict(qualified=qualified) for tool in self.snapshot.tools]
        with paused_gc():
            for definition in definitions:
                # Schemas are JSON, which msgspec copies twenty times faster; metadata may hold anything.
                for field in ("parameters", "output_parameters"):
                    definition[field] = msgspec.to_builtins(definition[field])
                definition["metadata"] = copy.deepcopy(definition["metadata"])
        return definitions

    def close(self) -> None:
        """Close every loader, even if one raises. The tools stay readable."""
        self._watcher.close()
        with ExitStack() as closing:
            for part in self._parts:
                if part.loader is not None:
                    closing.callback(part.loader.close)

    def __len__(self) -> int:
        return len(self.snapshot.candidates)

    def __contains__(self, name: object) -> bool:
        return name in self.snapshot.names or name in self.snapshot.aliases

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.snapshot.tools)

    def __repr__(self) -> str:
        return f"ToolRegistry({len(self)} tools, namespaces={self.namespaces()}, generation={self.generation})"


def _is_within(tool: Tool, namespaces: Collection[str] | None) -> bool:
    if isinstance(namespaces, str):
        raise TypeError(f"namespaces is a list of names, not text; write [{namespaces!r}]")
    return namespaces is None or tool.namespace in namespaces


def _add_part(index: Index, part: Part) -> Part:
    """Add a part's tools to the index. Returns the part, without duplicates if its loader skips them."""
    skips = part.loader is not None and getattr(part.loader, "on_duplicate", "raise") == "skip"
    rejected = index.add(part.candidates, skip_duplicates=skips)
    if not rejected:
        return part
    locate = getattr(part.loader, "locate", None)
    if locate is not None:
        rejected = [msgspec.structs.replace(item, where=locate(item.where)) for item in rejected]
    kept = {id(candidate) for candidate in index.candidates}
    candidates = tuple(candidate for candidate in part.candidates if id(candidate) in kept)
    report = msgspec.structs.replace(part.report, loaded=len(candidates), rejected=(*part.report.rejected, *rejected))
    return msgspec.structs.replace(part, candidates=candidates, report=report)
