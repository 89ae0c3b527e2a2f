"""`ToolLoader`: the whole contract of a source on one screen; `Intake`; and what documents that are no catalogs are.

    @register_tool_loader("mine")
    class MyLoader(ToolLoader):
        def __init__(self, url: str, namespace: str = "default") -> None: ...
        def load(self) -> list[Tool]: ...

A loader sets the namespace of each tool, never sees the registry, and drops nothing in silence: what
does not become a tool is raised, or listed in `report` when `on_error` is "skip".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.model.errors import ConfigError, DefinitionError, InvalidSchemaError, MalformedSource
from toolyard.model.names import show
from toolyard.model.report import DefinitionWarning, Rejection, Rewrite, SourceReport, WarningKind, Warnings
from toolyard.model.tool import Tool
from toolyard.plugins import FailurePolicy
from toolyard.schema.admission import AdmittedTool, admit_tool, summarise_changes
from toolyard.schema.definition import read_definition
from toolyard.schema.normalise import Change
from toolyard.schema.options import read_arguments


class LoaderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of every source."""

    namespace: Annotated[str, Meta(description="Namespace of the tools.")]
    namespaces: Annotated[
        Literal["open", "locked"],
        Meta(description="open: an entry may name another namespace. locked: such entries are rejected."),
    ]
    on_error: Annotated[
        Literal["raise", "skip"],
        Meta(description="raise: an invalid entry is an error. skip: it is rejected and reported."),
    ]
    on_duplicate: Annotated[
        Literal["raise", "skip"],
        Meta(description="raise: a duplicate is an error. skip: it is rejected and reported."),
    ]


class ToolLoader(ABC):
    """A source of tools. Subclasses override `load`."""

    option_structs: ClassVar[tuple[type, ...]] = (LoaderOptions,)
    """Structs that declare options which the constructors of several plugins take."""
    on_error: FailurePolicy = "raise"
    """raise: an invalid entry is an error. skip: it is rejected and reported."""
    on_duplicate: FailurePolicy = "raise"
    """raise: a tool that is already registered is an error. skip: it is rejected and reported."""
    label: str = ""

    admitted: Sequence[AdmittedTool] = ()
    """The tools of the last `load`, admitted; empty for loaders that leave admission to the registry."""
    _report: SourceReport | None = None
    _given_namespaces: Collection[str] | None = None
    _is_locked: bool = False

    @abstractmethod
    def load(self) -> list[Tool]:
        """All tools of this source, each with its namespace. Called again on every refresh."""

    async def aload(self) -> list[Tool]:
        """`load` for async callers; by default in a thread, since most loading is blocking I/O."""
        import asyncio

        return await asyncio.to_thread(self.load)

    @property
    def source(self) -> str:
        """The name of this source in reports and errors."""
        return self.label or type(self).__name__

    @property
    def report(self) -> SourceReport:
        """The report of the last `load`."""
        return self._report or SourceReport(self.source)

    @property
    def comes_back(self) -> bool:
        """True if the source may become available later, so its failure does not fail the loading of other sources."""
        return False

    def prepare(self) -> None:  # noqa: B027 - most sources need no preparation
        """Start connecting and return at once. Called for all sources before the first is loaded."""

    def watch(self, changed: Callable[[], None]) -> None:  # noqa: B027 - most sources do not report changes
        """Call `changed`, from any thread, whenever there is something new to load."""

    def close(self) -> None:  # noqa: B027 - most sources hold no connection
        """Close connections."""

    def _set_policies(
        self, on_error: str, on_duplicate: str, namespaces: str = "open", given: str | Collection[str] | None = None
    ) -> None:
        """Check and set the common options; `given` is the configured namespace, or several of them."""
        read = read_arguments(LoaderOptions, on_error=on_error, on_duplicate=on_duplicate, namespaces=namespaces)
        if namespaces == "locked" and given is None:
            raise ConfigError("namespaces: locked needs a namespace that the tools are kept in; give one")
        self.on_error, self.on_duplicate = read["on_error"], read["on_duplicate"]
        self._is_locked = namespaces == "locked"
        # The default namespace counts as not configured: entries that name another namespace then cause no warning.
        if given is not None and (self._is_locked or given != TOOL_DEFAULT_NAMESPACE):
            self._given_namespaces = (given,) if isinstance(given, str) else tuple(given)

    def _check_namespace(self, namespace: object) -> str | None:
        """Raise for an entry that claims another namespace than the given ones; return a warning if not locked."""
        given = self._given_namespaces
        if given is None or namespace is None or namespace in given:
            return None
        claim = f"claims the namespace {show(namespace)}, and the source was given {', '.join(map(repr, given))}"
        if self._is_locked:
            raise DefinitionError(f"{claim}, which is locked")
        return f"{claim}; 'namespaces: locked' refuses that"


class Intake:
    """Turns the entries of one load into admitted tools and collects the report.

    `own=False` means that someone else holds the entries and may change them later, so they are copied; `lenient`
    reports invalid entries whatever the loader's policy is. `noun` is what an entry is called in errors; `redact`
    changes their texts, and then hides their causes.
    """

    def __init__(
        self,
        loader: ToolLoader,
        *,
        own: bool = True,
        lenient: bool = False,
        noun: str = "tool",
        redact: Callable[[str], str] | None = None,
    ) -> None:
        self._loader = loader
        self._own = own
        self._raises = loader.on_error == "raise" and not lenient
        self._noun = noun
        self._redact = redact
        self._candidates: list[AdmittedTool] = []
        self.rewrites: list[Rewrite] = []
        self._rejected: list[Rejection] = []
        self._warnings: list[DefinitionWarning] = []

    def define(
        self,
        raw: Any,
        where: str | Callable[[], str],
        *,
        namespace: str,
        name: str | None = None,
        source: str,
        place: str = "",
        refused: str | None = None,
    ) -> None:
        """Add one catalog entry; an expensive `where` is a function, called only if there is an error.

        `place` is a cheap form of the same location, kept for later errors. `refused` is why it is rejected, if known.
        """
        try:
            if refused is not None:
                raise DefinitionError(refused)
            tool, changes = read_definition(raw, namespace=namespace, name=name, source=source)
            self._admit(tool, changes, place)
        except DefinitionError as error:
            label = name or (raw.get("name") if isinstance(raw, dict) else None)
            exact = where if isinstance(where, str) else where()
            self.reject(error, exact, label if isinstance(label, str) else None)

    def take(self, tool: Tool, where: str, changes: Sequence[Change] = ()) -> None:
        """Add a finished tool; `changes` lists what the loader changed about it."""
        place = where.removeprefix(self._loader.source)
        try:
            self._admit(tool, changes, f".{tool.name}" if place == where else place)
        except DefinitionError as error:
            self.reject(error, where, tool.name)

    def _admit(self, tool: Tool, changes: Sequence[Change], place: str) -> None:
        claim = self._loader._check_namespace(tool.namespace)
        if claim is not None:
            self.warn(tool.qualified_name, "/namespace", "namespace", claim)
        candidate, rewrites = admit_tool(tool, copied=not self._own)
        if place:
            candidate.place = place
        if changes:
            self.rewrites.extend(summarise_changes(tool, changes, ""))
        self.add(candidate, rewrites)

    def add(self, candidate: AdmittedTool, rewrites: Iterable[Rewrite] = ()) -> None:
        """Add a tool that is admitted already; `rewrites` lists what was changed about it."""
        self._candidates.append(candidate)
        self.rewrites.extend(rewrites)

    def warn(self, tool: str, pointer: str, kind: WarningKind, text: str) -> None:
        """Report a warning; `tool` is the name of the source if it concerns no particular tool."""
        self._warnings.append(DefinitionWarning(tool, pointer, kind, text))

    def reject(self, error: Exception, where: str, name: str | None = None) -> None:
        """Reject an entry and report it, or raise, according to the loader's policy."""
        reason = str(error) if self._redact is None else self._redact(str(error))
        if self._raises:
            if name and isinstance(error, InvalidSchemaError):
                reason = error.reason if self._redact is None else self._redact(error.reason)
            text = f"{self._noun} {name!r}: {reason}" if name else reason
            raise MalformedSource(text, where=where) from (error if self._redact is None else None)
        self._rejected.append(Rejection(where, reason, name, type(error).__name__))

    def finish(self) -> list[Tool]:
        """Set the loader's report and admitted tools, and return the tools."""
        self._loader.admitted = self._candidates
        tools = [candidate.tool for candidate in self._candidates]
        self._loader._report = SourceReport(
            self._loader.source,
            len(tools),
            tuple(self.rewrites),
            tuple(self._rejected),
            warnings=Warnings(tuple(self._warnings), tuple(tools)),
        )
        return tools


_LOADING_HINTS = {
    "rest": "this is an OpenAPI document: `toolyard add {0}`, or {{type: rest, spec: {0}}} in a config",
    "mcp_config": "these are MCP servers: `toolyard add {0}`, or {{type: mcp_config, path: {0}}} in a config",
}
"""How to load these documents instead, by type of source; `{0}` is the path."""


def recognise_document(document: Any) -> str | None:
    """The type of source for a document that contains tools but is not a catalog; None for a catalog."""
    if not isinstance(document, dict):
        return None
    if any(isinstance(document.get(key), str | float) for key in ("openapi", "swagger")):
        return "rest"
    servers = document.get("mcpServers", document.get("servers"))
    if not isinstance(servers, dict) or not all(isinstance(one, dict) for one in servers.values()):
        return None
    named = "mcpServers" in document or any({"command", "url"} & one.keys() for one in servers.values())
    return "mcp_config" if named else None


_CONVERTED = "; have a converter make an OpenAPI document of it, and name that: {type: rest, spec: ...}"
_WRITTEN_DOWN = ", without its parameters; name the code that makes it: {type: python, target: ...}"
_SERVER = "an MCP server, whose tools it does not define; name the server: {type: mcp, url: ...}, or command: ..."
_PLUGIN = "a manifest of a plugin, and what it can do stands where it points to: name its {type: rest, spec: ...}"
_OTHER_FORMATS = (
    ({"info", "item"}, f"this is a Postman collection{_CONVERTED}"),
    ({"_type", "resources"}, f"this is an Insomnia export{_CONVERTED}"),
    ({"kind", "resources", "discoveryVersion"}, f"this is a Google discovery document{_CONVERTED}"),
    ({"lc", "id"}, f"this is an object of LangChain{_WRITTEN_DOWN}"),
    ({"provider", "component_type"}, f"this is a component of AutoGen{_WRITTEN_DOWN}"),
    ({"name_for_human", "runtimes"}, f"this is {_PLUGIN}, or its MCP server: {{type: mcp, url: ...}}"),
    ({"name_for_human", "api"}, f"this is {_PLUGIN}"),
    ({"manifestVersion", "description"}, f"this is {_PLUGIN}"),
    ({"applicationName", "apiDependencies"}, f"this is {_PLUGIN}"),
    ({"manifest_version", "server"}, f"this is the manifest of {_SERVER}"),
    ({"dxt_version", "server"}, f"this is the manifest of {_SERVER}"),
    ({"name", "description", "version", "packages"}, f"this is the registry's entry of {_SERVER}"),
    ({"name", "description", "version", "remotes"}, f"this is the registry's entry of {_SERVER}"),
    ({"name", "description", "version_detail"}, f"this is the registry's entry of {_SERVER}"),
    ({"servers", "metadata"}, f"this is a registry's list; an entry is of {_SERVER}"),
)
"""Documents of other programs, recognised by their keys, with a suggestion of a supported form."""


def explain_foreign(document: dict[str, Any], path: str) -> str | None:
    """Why the document of that path is not a catalog, and how to load it instead; None if it is of no other program."""
    if (kind := recognise_document(document)) is not None:
        return _LOADING_HINTS[kind].format(path)
    names = set(document)  # compared with sets faster than `keys()`, for each tool of a list
    return next((what for keys, what in _OTHER_FORMATS if keys <= names), None)


_HEAD_BYTES = 4096
_COLUMN_NAMES = frozenset(
    {"name", "tool", "tool_name", "toolname", "tool name", "function", "function_name", "api_name"}
)
_OTHER_COLUMNS = ("desc", "param", "arg", "input", "type", "namespace")
"""The beginnings of other column names in a table of tools."""


def find_table_header(data: bytes) -> list[str]:
    """The column names if the data begins like a table of tools, with separators or in Markdown; otherwise empty."""
    lines = data[:_HEAD_BYTES].decode("utf-8-sig", "replace").lstrip().splitlines()
    for separator in ("\t", "|", ";", ","):
        cells = [cell.strip().strip("\"'*`").strip() for cell in (lines or [""])[0].strip().strip("|").split(separator)]
        words = {cell.lower() for cell in cells}
        if len(cells) > 1 and words & _COLUMN_NAMES and any(word.startswith(_OTHER_COLUMNS) for word in words):
            return cells
    return []


def explain_table(header: Any = ()) -> str:
    """Explain why a table is not a catalog, and suggest a supported form. Schemas are not guessed from columns."""
    columns = [str(cell) for cell in header if str(cell).lower() not in ("parameters", "params", "arguments", "args")]
    fields = ", ".join(f'"{cell}": ...' for cell in (columns or ["name", "description"])[:4])
    return (
        "this is a table, and a row has no place for the schema of a tool's parameters; write JSON lines instead, "
        f'one tool a line in a .jsonl file: {{{fields}, "parameters": {{"type": "object", "properties": {{...}}}}}}'
    )
