"""`MCPToolLoader`: every tool of an MCP server, over HTTP, SSE or stdio."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Meta

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.dialects.mcp import plain_output
from toolyard.dialects.mcp_protocol import HEADER, MIRRORED, find_header_params
from toolyard.model.bindings import McpBinding, McpServer
from toolyard.model.errors import ConfigError, DefinitionError, MalformedSource, SourceUnavailable, ToolyardError
from toolyard.model.json_schema import json_type
from toolyard.model.names import check_namespace, show
from toolyard.model.report import Rewrite
from toolyard.model.tool import Tool, digest
from toolyard.parsing import paused_gc
from toolyard.schema.admission import AdmittedTool, admit_tool, summarise_changes
from toolyard.schema.common_options import McpServerOptions
from toolyard.schema.definition import note_lost_parameters, read_effects, read_input, trim_name
from toolyard.schema.normalise import Change
from toolyard.schema.options import expand_place, read_arguments
from toolyard.sources.base import Intake, ToolLoader
from toolyard.words.redactor import Redactor, credential_finder

if TYPE_CHECKING:
    from toolyard.links.mcp import Listing
    from toolyard.sources.mcp.following import ApprovedDefinitions, ServerFollower


_FIELDS = frozenset({"name", "description", "inputSchema", "outputSchema"})
_encode = msgspec.json.Encoder().encode

MAX_TOOLS = 100_000
_MAX_REASON = 500
_log = logging.getLogger(__name__)


ListTimeout = Annotated[float, Meta(gt=0, description="Seconds that listing the tools may take.")]
ApprovedFile = Annotated[
    str | Path | None, Meta(description="File of approved definitions; new and changed tools are rejected.")
]


class _KnownEntry(NamedTuple):
    """An entry of the last load. If it is unchanged, the same tool is used again, with its compiled schema."""

    raw: dict[str, Any]
    candidate: AdmittedTool
    rewrites: tuple[Rewrite, ...]


class MCPToolLoader(ToolLoader):
    """Loads the tools of the MCP server at `url`, or of the one that `command` starts, and stays connected.

    The transport is detected, unless `transport` is http, sse or stdio. `auth` is a mapping with a `type`: `bearer`
    (`token`), `basic` (`user`, `password`), `api_key` (`name`, `value`), `oauth2` (`token_url`, `client_id`,
    `client_secret`, `scopes`) or `oauth`. `env` is added to the few variables that a started server inherits.

    When the server reports that its tools changed, a registry loads them again; while it cannot be reached, its last
    tools stay, marked stale. With `approved`, a file, tools are trusted on first use: one that is new, or whose
    definition differs later, is left out until it is approved.
    """

    option_structs: ClassVar[tuple[type, ...]] = (McpServerOptions,)

    def __init__(
        self,
        url: str | None = None,
        namespace: str = TOOL_DEFAULT_NAMESPACE,
        *,
        command: str | Sequence[str] | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        transport: str = "auto",
        headers: Mapping[str, str] | None = None,
        auth: Mapping[str, Any] | None = None,
        verify: bool = True,
        ca: str | None = None,
        cert: str | Sequence[str] | None = None,
        timeout: ListTimeout = 30.0,
        connect_timeout: float | None = None,
        max_tools: Annotated[
            int, Meta(ge=1, description="Maximum number of tools to load from the server.")
        ] = MAX_TOOLS,
        roots: Any = None,
        sampling: Any = None,
        elicitation: Any = None,
        approved: ApprovedFile = None,
        namespaces: str = "open",
        on_error: str = "skip",
        on_duplicate: str = "skip",
    ) -> None:
        from toolyard.links.mcp.options import credentials_of, read_handlers, read_server, secrets_of

        check_namespace(namespace)
        self.namespace = namespace
        reach: dict[str, Any] = {"headers": headers, "auth": auth, "verify": verify, "ca": ca, "cert": cert}
        reach |= {"args": args, "env": env, "cwd": cwd}
        url = expand_place(url, "url") if isinstance(url, str) else url
        self.server = read_server(url, command, transport=transport, connect_timeout=connect_timeout, **reach)
        self._redactor = Redactor(secrets_of(self.server))
        self._echoes = credential_finder(credentials_of(self.server))
        self._handlers = read_handlers(sampling, elicitation, roots)
        read = read_arguments(MCPToolLoader, timeout=timeout, max_tools=max_tools)
        self._timeout, self._max_tools = read["timeout"], read["max_tools"]
        self._set_policies(on_error, on_duplicate, namespaces, namespace)
        self.approved = None if approved is None else Path(expand_place(approved, "approved"))
        self._follower: ServerFollower | None = None
        self._known: dict[str, _KnownEntry] = {}
        self._changed: dict[str, Rewrite] = {}
        self._offered: dict[str, Tool] = {}
        self._on_change: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def source(self) -> str:
        """The URL without its query, or `stdio: ` and the command."""
        return self.label or self.server.name

    @property
    def comes_back(self) -> bool:
        """True unless errors are raised, since the server may become available later."""
        return self.on_error == "skip"

    def prepare(self) -> None:
        """Start connecting and listing the tools."""
        # Errors are reported by `load`: this is only a hint, and must not affect other sources.
        with suppress(ToolyardError, OSError):
            self._follow_server().start()

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the server's tools change, and when the connection is lost or restored."""
        self._on_change = changed
        self._follow_server().watch(changed)

    def load(self) -> list[Tool]:
        """All tools of the server; `report` lists those that were rejected."""
        try:
            listing = self._follow_server().fetch_tools()
        except SourceUnavailable as error:
            text, name = str(error), self.server.name
            raise SourceUnavailable(self._redactor.text(text if name in text else f"{name}: {text}")) from None
        with paused_gc():
            return self._admit_tools(listing)

    def close(self) -> None:
        """Release the connection permanently; a load in progress, or a later one, raises `SourceUnavailable`."""
        with self._lock:
            self._closed = True
            follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()

    def approve(self, *names: str) -> None:
        """Approve the current definitions of these tools, or of all."""
        from toolyard.sources.mcp.following import hash_definition

        approvals = self._approvals()
        if approvals is None:
            raise ConfigError("approve() needs a loader that was created with approved=<file>")
        unknown = sorted(set(names) - {tool.name for tool in self._offered.values()})
        if unknown:
            raise ConfigError(f"{self.server.name} lists no tool {show(unknown[0])}")
        chosen = {key: tool for key, tool in self._offered.items() if not names or tool.name in names}
        approvals.approve({key: hash_definition(tool) for key, tool in chosen.items()})
        if self._on_change is not None:
            self._on_change()

    def _follow_server(self) -> ServerFollower:
        from toolyard.sources.mcp.following import ServerFollower

        with self._lock:
            if self._closed:
                raise SourceUnavailable(f"the source of {self.server.name} is closed")
            if self._follower is None:
                self._follower = ServerFollower(self.server, self._handlers, self._timeout)
            return self._follower

    def _approvals(self) -> ApprovedDefinitions | None:
        if self.approved is None:
            return None
        from toolyard.sources.mcp.following import ApprovedDefinitions

        # Two servers may have the same name; what tells them apart may be secret, so only its hash is stored.
        server = self.server
        # Values in the query may be keys that rotate, so only the names count.
        url, _, query = (server.url or "").partition("?")
        asked = sorted(part.partition("=")[0] for part in query.split("&"))
        place = digest(url, asked, server.command, server.args, server.cwd)
        return ApprovedDefinitions(self.approved, f"{self.namespace} {server.name}", place[:12])

    def _admit_tools(self, listing: Listing) -> list[Tool]:
        intake = Intake(self, redact=lambda text: self._redactor.text(text)[:_MAX_REASON])
        known: dict[str, _KnownEntry] = {}
        offered: dict[str, Tool] = {}
        approvals = self._approvals()
        if approvals is not None:
            approvals.start_load()
        for index, raw in enumerate(listing.tools):
            try:
                if index >= self._max_tools:
                    raise DefinitionError(f"exceeds the limit of {self._max_tools:,} tools per server (max_tools)")
                found = self._read_tool(raw, f"#/tools/{index}")
                tool = found.candidate.tool
                key = tool.name if tool.name not in known else f"{tool.name} ({tool.fingerprint[:12]})"
                offered[key] = tool
                known[key] = found
                if approvals is not None:
                    approvals.check(key, tool)
            except DefinitionError as error:
                intake.reject(error, f"{self.server.name}#/tools/{index}", _show_name(raw))
            else:
                intake.add(found.candidate, found.rewrites)
        for note in listing.notes if listing.complete else listing.notes or ["the list of tools ends early"]:
            intake.reject(MalformedSource(str(note)), self.server.name)
        if approvals is not None:
            approvals.finish_load()
        self._note_changes(known)
        removed = {key: old for key, old in self._known.items() if key not in known}
        # Remember removed tools, so that a different tool under the same name is noticed; limited, since a server can
        # invent any number of names.
        self._known = {**removed, **known} if len(removed) + len(known) <= 2 * self._max_tools else known
        self._offered = offered
        if approvals is None:
            intake.rewrites.extend(self._changed.values())
        return intake.finish()

    def _read_tool(self, raw: Any, place: str) -> _KnownEntry:
        # A server can put credentials that it was started with into a description, as into a result.
        raw = self._echoes.hide(raw)
        name = raw.get("name") if isinstance(raw, dict) else None
        before = self._known.get(name) if isinstance(name, str) else None
        if before is not None and before.raw == raw:
            return before
        tool, changes = read_entry(raw, namespace=self.namespace, source=self.source, server=self.server)
        self._check_namespace(tool.metadata.get("namespace"))
        candidate, rewrites = admit_tool(tool)
        candidate.place = place
        if changes:
            rewrites = (*summarise_changes(tool, changes, ""), *rewrites)
        return _KnownEntry(raw, candidate, rewrites)

    def _note_changes(self, known: dict[str, _KnownEntry]) -> None:
        for key, new in known.items():
            old = self._known.get(key)
            if old is None or old is new:
                continue
            tool = new.candidate.tool
            if old.candidate.tool.definition_hash != tool.definition_hash:
                _log.warning("%s has changed the definition of its tool %s", self.server.name, show(tool.name))
                self._changed[key] = Rewrite(tool.qualified_name, "", "the definition changed after the first load")


def _show_name(raw: Any) -> str | None:
    name = raw.get("name") if isinstance(raw, dict) else None
    return show(name)[1:-1] if isinstance(name, str) and name else None


def read_entry(raw: Any, *, namespace: str, source: str, server: McpServer) -> tuple[Tool, list[Change]]:
    """The tool, and what was changed to read it; `DefinitionError` if the entry is invalid.

    Title, icons, annotations, `_meta` and all other keys go to `metadata` unchanged.
    """
    if not isinstance(raw, dict):
        raise DefinitionError(f"a tool must be an object, not {json_type(raw)}")
    name, description = raw.get("name"), raw.get("description")
    if not isinstance(name, str):
        raise DefinitionError("a tool needs a 'name'" if name is None else f"'name' must be text, not {show(name)}")
    if description is not None and not isinstance(description, str):
        raise DefinitionError(f"'description' must be text, not {json_type(description)}")
    changes: list[Change] = []
    given, read = _read_input(raw, changes)
    answer = _read_output(raw, changes)
    annotations = raw.get("annotations")
    metadata = {key: value for key, value in raw.items() if key not in _FIELDS and key not in read}
    note_lost_parameters(metadata, given, description, changes)
    tool = Tool(
        trim_name(name, changes),
        namespace,
        description or "",
        given,
        answer,
        metadata,
        effects=read_effects(annotations if isinstance(annotations, dict) else {}),
        source=source,
        binding=McpBinding(server.name, name, server, _read_mirrored(given)),
    )
    return tool, changes


def _read_input(raw: dict[str, Any], changes: list[Change]) -> tuple[Any, set[str]]:
    schema = raw.get("inputSchema")
    if schema is None:
        schema, read = read_input(raw, changes)
        if not schema:
            changes.append(Change("/inputSchema", "missing; read as one that allows anything"))
        return schema, read
    if not isinstance(schema, dict):
        raise DefinitionError(f"'inputSchema' must be an object, not {json_type(schema)}")
    return schema, set()


def _read_output(raw: dict[str, Any], changes: list[Change]) -> Any:
    schema = raw.get("outputSchema")
    if schema is None:
        return {}
    if not isinstance(schema, dict):
        raise DefinitionError(f"'outputSchema' must be an object, not {json_type(schema)}")
    plain = plain_output(schema)
    if plain is None:
        return schema
    changes.append(Change("/outputSchema", "taken out of the wrapper 'result', and so are the values"))
    return plain


def _read_mirrored(schema: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Arguments that are repeated in headers; an invalid declaration rejects the tool, as the protocol requires."""
    if not isinstance(schema, dict):
        return ()
    try:
        if HEADER.encode() not in _encode(schema):
            return ()
    except (TypeError, ValueError, RecursionError):
        return ()  # admission reports what is wrong with the schema
    found = find_header_params(schema)
    if any(len(param.path) > 1 and "." in "".join(param.path) for param in found):
        raise DefinitionError(f"{HEADER}: a dot in the name of a nested argument")
    return tuple((".".join(param.path), param.name.removeprefix(MIRRORED)) for param in found)
