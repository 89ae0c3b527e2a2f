"""Plugin tables that map names to classes: the kinds of plugin, their built-ins and their decorators.

    @register_tool_loader("name")      a ToolLoader: where tools come from
    @register_tool_engine("name")      a ToolEngine: how a call is answered
    @register_tool_enrichment("name")  a ToolEnrichment: what is inferred about tools
    @register_tool_sampler("name")     a ToolSampler: how tools are sampled

Third parties may instead declare the entry-point groups `toolyard.loaders`, `toolyard.engines`,
`toolyard.enrichments` and `toolyard.samplers`, each entry a `module:Class`. Session stores are a fifth kind, with the
group `toolyard.session_stores`. Errors for a missing package name the extra that installs it. The protocols below
describe plugins, and the search of a registry, to lower layers, which may not import them.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import pkgutil
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Generic, Literal, NoReturn, Protocol, TypeVar

from toolyard.model.errors import ConfigError, DuplicatePluginError, PluginError, UnknownPluginError
from toolyard.model.names import find_similar, suggest
from toolyard.model.report import SourceReport
from toolyard.model.tool import SearchResults, Tool

_log = logging.getLogger(__name__)

FailurePolicy = Literal["raise", "skip"]
_KIND_ALIASES = {
    **dict.fromkeys(("openapi", "swagger", "http", "api"), "rest"),
    **dict.fromkeys(("stdio", "sse", "streamable-http", "mcp_server"), "mcp"),
    **dict.fromkeys(("yaml", "json", "jsonl", "catalog"), "file"),
    **dict.fromkeys(("function", "functions", "module"), "python"),
    **dict.fromkeys(("llm", "openai", "anthropic", "ollama", "schema"), "lm"),
}
"""Names that users may try for a kind of source or engine."""


class Loader(Protocol):
    """A source of tools, as the registry sees it."""

    on_error: FailurePolicy
    on_duplicate: FailurePolicy

    @property
    def source(self) -> str:
        """Name of the source in reports and errors."""

    @property
    def report(self) -> SourceReport:
        """Outcome of the last `load`."""

    def load(self) -> list[Tool]:
        """All tools, each with its namespace set."""

    def close(self) -> None:
        """Close connections."""


class View(Protocol):
    """A registry's snapshot, as enrichments see it."""

    @property
    def tools(self) -> Sequence[Tool]:
        """Every tool in registration order."""

    @property
    def artifacts(self) -> Mapping[str, Any]:
        """Artifacts written by earlier enrichments."""


class Enrichment(Protocol):
    """Analyses a snapshot and returns changed tools and artifacts, without mutating anything."""

    def enrich(self, snapshot: View) -> tuple[Sequence[Tool], Mapping[str, Any]]:
        """The tools in the same order, and the artifacts to add."""


SEARCHER = "toolyard.insight.search.searcher:Searcher"


class ToolSearch(Protocol):
    """Searches the snapshots of one registry."""

    @property
    def search(self) -> Callable[..., SearchResults]:
        """As `ToolRegistry.search`, with the snapshot as an additional first argument."""


def create_searcher() -> ToolSearch:
    """A new searcher, with the default model if that is installed."""
    made: ToolSearch = pkgutil.resolve_name(SEARCHER)()
    return made


def require_extra(extra: str, purpose: str, *modules: str) -> None:
    """Raise `ConfigError` with the command that installs the extra, if one of these modules is missing."""
    lacking = [name for name in modules if find_spec(name) is None]
    if lacking:
        raise missing_extra(extra, purpose, *lacking)


def missing_extra(extra: str, purpose: str, *modules: str) -> ConfigError:
    """The error for missing modules, with the command that installs their extra."""
    return ConfigError(f"{purpose} needs {', '.join(modules)}; run: pip install 'toolyard[{extra}]'")


def import_existing(path: str) -> ModuleType | None:
    """The module at that path; None if it does not exist."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        # Only if this path itself is missing; a module whose own imports fail is broken.
        if error.name is not None and f"{path}.".startswith(f"{error.name}."):
            return None
        raise


def entry_points_of(group: str) -> list[tuple[str, str]]:
    """Names and values of the entry points of a group in all installed packages.

    Parsed here because `importlib_metadata`, if installed, replaces the standard library's reader with one that fails
    for all packages if one has invalid entry points.
    """
    from configparser import ConfigParser, Error
    from importlib.metadata import distributions

    found: list[tuple[str, str]] = []
    seen: set[str] = set()
    for package in distributions():
        text = package.read_text("entry_points.txt") or ""
        if f"[{group}]" not in text:
            continue
        name = package.metadata["Name"] or ""
        # If a package is installed twice, the first one is imported.
        if name in seen:
            continue
        seen.add(name)
        parser = ConfigParser(delimiters=("=",), interpolation=None, strict=False)
        parser.optionxform = str  # type: ignore[method-assign,assignment]
        try:
            parser.read_string(text)
        except Error:
            continue
        found += parser.items(group)
    return found


T = TypeVar("T")
C = TypeVar("C", bound=type)


class PluginTable(Generic[T]):
    """Maps names to the classes of one kind of plugin. Thread-safe.

    Built-ins are `"module:Class"` strings, imported on first use; third parties register with the decorator or the
    entry-point group. A broken entry point does not affect others.
    """

    def __init__(
        self, kind: str, group: str, builtins: dict[str, str], *, method: str = "", name_attribute: str = ""
    ) -> None:
        self.kind = kind
        self.group = group
        self.method = method
        """The method that every class of this kind must have; "" to accept any class."""
        self.name_attribute = name_attribute
        """The class attribute that `register` sets to the name; "" for none."""
        self._known: dict[str, str | type[T]] = dict(builtins)
        self._scanned = False
        self._lock = threading.RLock()

    def register(self, name: str) -> Callable[[C], C]:
        """Class decorator that registers a class as `name`; a duplicate name is an error."""
        written = f'@register_{self.kind.replace(" ", "_")}("name") above a class'
        if not isinstance(name, str) or not name.strip():
            said = f"{name!r} is no name" if isinstance(name, str) else f"the name is missing before {name!r}"
            raise PluginError(f"{said}; write {written}")

        def claim(cls: C) -> C:
            if not isinstance(cls, type):
                raise PluginError(f"{self.kind} {name!r} must be a class, not {cls!r}; write {written}")
            if not self._has_method(cls):
                raise PluginError(f"{self.kind} {name!r}: {cls.__module__}:{cls.__qualname__} {self._method_hint}")
            with self._lock:
                old = self._known.get(name)
                if old is not None and not _same_class(old, cls):
                    owner = old if isinstance(old, str) else f"{old.__module__}:{old.__qualname__}"
                    raise DuplicatePluginError(
                        f"{self.kind} {name!r} is already registered by {owner}; pick another name"
                    )
                self._known[name] = cls
            if self.name_attribute:
                setattr(cls, self.name_attribute, name)
            return cls

        return claim

    def get(self, name: str) -> type[T]:
        """The class of that name; `UnknownPluginError` with the nearest names if there is none."""
        with self._lock:
            if name not in self:
                raise UnknownPluginError(self._explain_unknown(name))
            found = self._known[name]
            if isinstance(found, str):
                found = self._import_class(name, found)
                self._known[name] = found
            return found

    def create(self, name: str, /, *given: NoReturn, **options: Any) -> T:
        """Instantiate the named class; `ConfigError` for an unknown option, naming the nearest one."""
        cls = self.get(name)
        if given:
            first = next(iter(parameters_of(cls)), "option")
            raise ConfigError(f"{self.kind} {name!r} takes its options by name: write {first}=...")
        check_options(cls, options, f"{self.kind} {name!r}")
        return cls(**options)

    def names(self) -> list[str]:
        """Every known name, sorted."""
        with self._lock:
            self._scan_entry_points()
            return sorted(self._known)

    def __contains__(self, name: str) -> bool:
        # Installed packages are searched, which is slow, only for a name that is not built in.
        with self._lock:
            if name not in self._known:
                self._scan_entry_points()
            return name in self._known

    def _scan_entry_points(self) -> None:
        if self._scanned:
            return
        self._scanned = True
        for name, value in entry_points_of(self.group):
            if not _same_class(value, self._known.setdefault(name, value)):
                _log.warning("%s %r of a package (%s) is left out: the name is taken", self.kind, name, value)

    def _import_class(self, name: str, target: str) -> type[T]:
        what = f"{self.kind} {name!r} ({target})"
        try:
            cls = pkgutil.resolve_name(target)
        except (ImportError, AttributeError, ValueError) as error:
            raise PluginError(f"{what} cannot be imported: {error}") from error
        if not isinstance(cls, type):
            raise PluginError(f"{what} is not a class")
        if not self._has_method(cls):
            raise PluginError(f"{what} {self._method_hint}")
        return cls

    def _has_method(self, cls: type) -> bool:
        return not self.method or callable(getattr(cls, self.method, None))

    @property
    def _method_hint(self) -> str:
        base = self.kind.title().replace(" ", "")
        return f"has no method `{self.method}`, so it is no {self.kind}; derive it from toolyard.{base}"

    def _explain_unknown(self, name: str) -> str:
        near = (
            [_KIND_ALIASES[name]]
            if _KIND_ALIASES.get(name) in self._known
            else find_similar(name, self._known, count=3)
        )
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(self.names())}"
        return f"no {self.kind} is called {name!r}; {hint}"


def check_options(cls: type, options: dict[str, Any], what: str, *, beside: str = "") -> None:
    """Raise `ConfigError` for options that the class does not take, and for required ones that are missing.

    `beside` is a key that may stand beside the options, and be misspelt.
    """
    parameters = parameters_of(cls)
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    needed = [p.name for p in parameters.values() if p.default is p.empty and p.kind in named]
    lacking = [name for name in needed if name not in options]
    for option in options:
        if option not in parameters:
            # A missing option is more likely meant than a merely similar one.
            hint = suggest(option, lacking, "it needs ") if lacking else suggest(option, parameters, "it takes ")
            if beside and find_similar(option, [*parameters, beside]) == [beside]:
                hint = f"did you mean {beside!r}?"
            raise ConfigError(f"{what} has no option {option!r}; {hint}")
    if lacking:
        raise ConfigError(f"{what} needs the option {lacking[0]!r}")


def parameters_of(cls: type) -> dict[str, inspect.Parameter]:
    """The constructor's parameters; `**options` is expanded to those of the next `__init__` in the MRO."""
    found: dict[str, inspect.Parameter] = {}
    for owner in cls.__mro__:
        if "__init__" not in owner.__dict__ or owner is object:
            continue
        own = list(inspect.signature(owner.__dict__["__init__"]).parameters.values())[1:]
        passes_on = any(p.kind is p.VAR_KEYWORD for p in own)
        found = {**{p.name: p for p in own if p.kind is not p.VAR_KEYWORD}, **found}
        if not passes_on:
            return found
    if not found:
        return dict(inspect.signature(cls).parameters)
    return {**found, "options": inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)}


def _same_class(old: Any, new: Any) -> bool:
    if isinstance(new, str):
        return bool(old == new)
    if isinstance(old, str):
        # An entry point may name a class where its package exports it, which need not be where it is defined.
        module, _, name = old.partition(":")
        return bool(name == new.__qualname__ and module.partition(".")[0] == new.__module__.partition(".")[0])
    # A module that is imported again (reload, a second path) defines its class again; that is not a conflict.
    return bool(old.__module__ == new.__module__ and old.__qualname__ == new.__qualname__)


LOADERS: PluginTable[Loader] = PluginTable(
    "tool loader",
    "toolyard.loaders",
    {
        "domains": "toolyard.sources.domains:DomainToolLoader",
        "file": "toolyard.sources.file:FileToolLoader",
        "inline": "toolyard.sources.file:InlineToolLoader",
        "mcp": "toolyard.sources.mcp.loader:MCPToolLoader",
        "mcp_config": "toolyard.sources.mcp.config:MCPConfigToolLoader",
        "python": "toolyard.sources.python:PythonToolLoader",
        "rest": "toolyard.sources.rest.loader:RESTToolLoader",
        "scripts": "toolyard.sources.scripts.loader:ScriptToolLoader",
    },
    method="load",
)
ENGINES: PluginTable[Any] = PluginTable(
    "tool engine",
    "toolyard.engines",
    {
        "lm": "toolyard.engines.lm:LMToolEngine",
        "mcp": "toolyard.engines.mcp:MCPToolEngine",
        "multi": "toolyard.engines.multi:MultiToolEngine",
        "python": "toolyard.engines.python:PythonToolEngine",
        "replay": "toolyard.engines.replay:ReplayToolEngine",
        "rest": "toolyard.engines.rest.engine:RESTToolEngine",
        "scripts": "toolyard.engines.python:ScriptToolEngine",
    },
)
ENRICHMENTS: PluginTable[Enrichment] = PluginTable(
    "tool enrichment",
    "toolyard.enrichments",
    {
        "dataflow": "toolyard.insight.dataflow.enrichment:DataflowEnrichment",
        "embeddings": "toolyard.insight.embeddings.vectors:EmbeddingsEnrichment",
        "neighbors": "toolyard.insight.neighbors:NeighborsEnrichment",
        "output_parameters": "toolyard.insight.outputs.enrichment:OutputParametersEnrichment",
    },
    method="enrich",
)
SAMPLERS: PluginTable[Any] = PluginTable(
    "tool sampler",
    "toolyard.samplers",
    {
        "tc/chain": "toolyard.insight.samplers.chain:ChainSampler",
        "tc/conflict": "toolyard.insight.samplers.neighbor:ConflictSampler",
        "tc/coverage": "toolyard.insight.samplers.mix:CoverageSampler",
        "tc/dag": "toolyard.insight.samplers.dag:DagSampler",
        "tc/fan_in": "toolyard.insight.samplers.chain:FanInSampler",
        "tc/fan_out": "toolyard.insight.samplers.chain:FanOutSampler",
        "tc/irrelevant": "toolyard.insight.samplers.neighbor:IrrelevantSampler",
        "tc/missing": "toolyard.insight.samplers.missing:MissingSampler",
        "tc/mix": "toolyard.insight.samplers.mix:MixSampler",
        "tc/neighbor": "toolyard.insight.samplers.neighbor:NeighborSampler",
        "tc/random": "toolyard.insight.samplers.random:RandomSampler",
        "tc/sparse": "toolyard.insight.samplers.mix:SparseSampler",
    },
    method="sample",
    name_attribute="sampler_name",
)

SESSION_STORES: PluginTable[Any] = PluginTable(
    "session store",
    "toolyard.session_stores",
    {
        "sqlite": "toolyard.sessions.store.sqlite:SqliteStore",
        "postgres": "toolyard.sessions.store.postgres:PostgresStore",
    },
    method="try_hold",
)

register_tool_loader = LOADERS.register
register_tool_engine = ENGINES.register
register_tool_enrichment = ENRICHMENTS.register
register_tool_sampler = SAMPLERS.register

get_tool_loader = LOADERS.create
get_tool_engine = ENGINES.create
get_tool_enrichment = ENRICHMENTS.create
get_tool_sampler = SAMPLERS.create


def check_loader(loader: Any) -> None:
    """Raise `ConfigError` unless the object has everything that a registry needs of a loader."""
    needed = ("load", "close", "source", "report", "on_error", "on_duplicate")
    lacking = [name for name in needed if not hasattr(loader, name)]
    if isinstance(loader, type):
        raise ConfigError(f"{loader.__name__} is a class; give a loader made of it: {loader.__name__}(...)")
    if lacking:
        raise ConfigError(
            f"{type(loader).__name__} is no loader: it has no {lacking[0]!r}; derive it from toolyard.ToolLoader"
        )
