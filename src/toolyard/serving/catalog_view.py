"""The catalog of a service: what callers see of it, loading it again, and tools that are registered while it runs.

A registered tool is a definition, and data that says how it is reached; never code. They are kept in the store, so
every process of the service has them, also after a restart.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from toolyard.app.toolyard import Toolyard
from toolyard.calls.policy import Policy
from toolyard.engines.script_runner import weakest_level
from toolyard.links.http.url import read_base_url
from toolyard.model.bindings import Binding, McpBinding, RestBinding, RestBody, RestParameter, Style
from toolyard.model.call import ToolCall
from toolyard.model.errors import ConfigError, DefinitionError, MalformedSource, ToolyardError
from toolyard.model.names import closest, show, split_qualified
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.registry.bind import hint_missing
from toolyard.registry.snapshot import Snapshot
from toolyard.serving.http_fault import ARP_PLACE, HttpFault
from toolyard.serving.identity import Principal, Scopes
from toolyard.serving.invoke import TOOL_ID, CurrentNames
from toolyard.serving.routing import JsonResponse, caller_of
from toolyard.serving.wire_types import McpTarget, Registration, RestTarget, Target
from toolyard.sessions.records import Records
from toolyard.sources.base import Intake, ToolLoader

T = TypeVar("T")
Shows = Callable[[Tool], bool]

_MOST = 256


class Visibility:
    """Shows what a caller's key lists, without what the policy denies them whatever they send.

    To call such a tool is denied, and says why; it is only left out where nobody asked for it by its name.
    """

    def __init__(self, policy: Policy | None) -> None:
        self._policy = policy

    def filter_for(self, principal: Principal) -> Shows | None:
        """True for the tools that are shown; None if all are."""
        policy, keys = self._policy, principal.policy_keys
        if policy is None:
            return None if principal.sees_all else principal.lists
        return lambda tool: principal.lists(tool) and not policy.always_denies(tool, keys)

    def is_held(self, principal: Principal, tool: Tool) -> bool:
        """True if a call of it by them waits for somebody's word, at least in some sessions."""
        return self._policy is not None and self._policy.may_ask(tool, principal.policy_keys)

    def slot(self, principal: Principal) -> tuple[Scopes, tuple[str, ...]]:
        """Equal for callers who are shown the same of one catalog."""
        looks_at_keys = self._policy is not None and self._policy.looks_at_keys
        return principal.scopes, principal.policy_keys if looks_at_keys else ()


class SnapshotCache:
    """What depends on the catalog alone, kept until that is another one. Where there is too much, the oldest goes."""

    def __init__(self) -> None:
        self._kept: tuple[object, dict[object, Any]] = (None, {})
        self._putting = threading.Lock()

    def get(self, snapshot: object, key: object) -> Any:
        """What was kept under the key for that very snapshot, or None."""
        known, kept = self._kept
        return kept.get(key) if known is snapshot else None

    def put(self, snapshot: object, key: object, value: Any) -> None:
        """Keep it; another snapshot begins anew. Threads do so, too."""
        with self._putting:
            known, kept = self._kept
            if known is not snapshot:
                kept = {}
                self._kept = (snapshot, kept)
            if len(kept) >= _MOST:
                del kept[next(iter(kept))]
            kept[key] = value


class CatalogView:
    """The registry as callers see it."""

    def __init__(
        self, registry: ToolRegistry, names: CurrentNames, cache: SnapshotCache, visibility: Visibility
    ) -> None:
        self.registry = registry
        self.names = names
        self.visibility = visibility
        self.cache = cache

    def list_visible(self, principal: Principal, snapshot: Snapshot) -> Sequence[Tool]:
        """The tools that the caller may know of, in registration order."""
        shows = self.visibility.filter_for(principal)
        if shows is None:
            return snapshot.tools
        # Kept, because a policy takes its time over each of ten thousand tools.
        return self.keep(principal, "visible", lambda snapshot: list(filter(shows, snapshot.tools)), snapshot)

    def filter_visible(self, principal: Principal, snapshot: Snapshot) -> Shows | None:
        """True for tools of that very snapshot that the caller may know of; None if all are."""
        tools = self.list_visible(principal, snapshot)
        shown = None if tools is snapshot.tools else set(map(id, tools))
        return None if shown is None else lambda tool: id(tool) in shown

    def keep(
        self, principal: Principal, key: object, make: Callable[[Snapshot], T], snapshot: Snapshot | None = None
    ) -> T:
        """What `make` gives, made once for each catalog and for all who are shown the same of it."""
        snapshot, slot = snapshot or self.registry.snapshot, (key, self.visibility.slot(principal))
        kept: T | None = self.cache.get(snapshot, slot)
        if kept is None:
            kept = make(snapshot)
            self.cache.put(snapshot, slot, kept)
        return kept

    async def answer_listing(self, request: Request, key: str, make: Callable[[Snapshot], Any]) -> Response:
        """An answer of catalog and key alone: written once, and tagged so that it need not travel twice."""
        principal = caller_of(request).principal

        def write(snapshot: Snapshot) -> tuple[bytes, str]:
            body = msgspec.json.encode(make(snapshot))
            return body, f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'

        if self.cache.get(self.registry.snapshot, (key, self.visibility.slot(principal))) is None:
            await asyncio.to_thread(self.keep, principal, key, write)
        body, tag = self.keep(principal, key, write)
        wanted = request.headers.get("if-none-match")
        if wanted is not None and _names_tag(tag, wanted):
            return Response(status_code=304, headers={"etag": tag})
        return JsonResponse(body, headers={"etag": tag})

    def find_definition(self, principal: Principal, name: str, fingerprint: str | None) -> Tool:
        """The one tool a name and perhaps a fingerprint stand for, among those the caller may know of."""
        known = self.names.now.find_name(name, self.visibility.filter_for(principal))
        overload = self.names.now.read_call(ToolCall(name)).overload
        return self.find_overload(principal, known, name, fingerprint or overload)

    def find_overload(
        self, principal: Principal, known: str | None, name: str, fingerprint: str | None, *, by_id: bool = False
    ) -> Tool:
        """The tool behind a qualified name; 404 if the caller knows none, 409 if there are several.

        `by_id`: `name` is a tool id, and so are the names in what is said of it.
        """
        shows = self.visibility.filter_for(principal)
        tools = [tool for tool in self.registry.get(known or "") if shows is None or shows(tool)]
        if not tools:
            raise self.make_unknown(principal, name, by_id=by_id)
        if fingerprint is not None:
            tools = [tool for tool in tools if tool.fingerprint.startswith(fingerprint)]
            if not tools:
                raise HttpFault(404, "tool.not_found", f"{show(name)} has no overload with that fingerprint")
        if len(tools) > 1:
            overloads = [{"fingerprint": tool.fingerprint, "description": tool.description} for tool in tools]
            raise HttpFault(
                409,
                "tool.overloaded",
                f"{len(tools)} tools are called {show(name)}; say which by ?fingerprint=",
                details={"overloads": overloads},
            )
        return tools[0]

    def make_unknown(self, principal: Principal, name: str, *, by_id: bool) -> HttpFault:
        """What is said of a name that stands for no tool, or for several; only what the caller sees is named."""
        names = self.names.now
        spell = names.tool_id if by_id else names.spell_name
        tools = self.list_visible(principal, names.snapshot)
        bare = name.removeprefix(TOOL_ID) if by_id else name
        homes = list(dict.fromkeys(spell(tool.qualified_name) for tool in tools if tool.name == bare))
        if len(homes) > 1:
            return HttpFault(
                404,
                "tool.not_found",
                f"{show(name)} is in several namespaces; say which: {', '.join(homes)}",
                details={"candidates": homes},
            )
        spelt = dict.fromkeys(names.spell_name(tool.qualified_name) for tool in tools)
        near = [f"{TOOL_ID}{known}" if by_id else known for known in closest(bare, spelt)]
        hint = hint_missing(names.snapshot if principal.sees_all else None, bare, near)
        is_id = not by_id and any(names.tool_id(tool.qualified_name) == name for tool in tools)
        where = f"; it is a tool_id, and {ARP_PLACE}" if is_id else ""
        details = {"candidates": near} if near else {}
        return HttpFault(404, "tool.not_found", f"no tool is called {show(name)}{where}", hint=hint, details=details)


def show_native(tool: Tool, **marks: Any) -> dict[str, Any]:
    """A tool with everything known of it, and how well it fits what was asked for."""
    return {
        **marks,
        "qualified_name": tool.qualified_name,
        **tool.to_dict(),
        "fingerprint": tool.fingerprint,
        "definition_hash": tool.definition_hash,
    }


def _names_tag(tag: str, wanted: str) -> bool:
    """True if the header names the tag, alone or in a list; a proxy may have called it weak."""
    return wanted.strip() == "*" or tag in (item.strip().removeprefix("W/") for item in wanted.split(","))


KIND = "tool"
_OWNER = ""
_CHANGING = frozenset({"PUT", "PATCH", "DELETE"})
_STYLES: dict[str, Style] = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}


class StoredRegistration(Registration):
    """A registration as it is kept."""

    qualified_only: bool = False
    """True: a key that may change its namespace alone registered it, so that it has no say in what bare names mean."""


class RegisteredTools(ToolLoader):
    """The source that holds what was registered over HTTP; refreshed when another process changes it."""

    label = "registered"

    def __init__(self) -> None:
        self._set_policies("skip", "raise")
        self.entries: dict[str, bytes] = {}

    def load(self) -> list[Tool]:
        """Every registered tool. One that no longer fits is listed as rejected."""
        intake, bound = Intake(self), set()
        for name, text in self.entries.items():
            try:
                stored = msgspec.json.decode(text, type=StoredRegistration)
                intake.take(_make_tool(name, stored), f"registered {name}")
                if stored.qualified_only:
                    bound.add(name)
            except (ConfigError, DefinitionError, msgspec.DecodeError) as error:
                intake.reject(MalformedSource(str(error)), f"registered {name}", name)
        tools = intake.finish()
        for admitted in self.admitted:
            admitted.qualified_only = admitted.tool.qualified_name in bound
        return tools


class Registrations:
    """Changes the registered tools: the registry first, which refuses what does not fit, then the store."""

    def __init__(self, registry: ToolRegistry, records: Records) -> None:
        self._registry = registry
        self._records = records
        self._source = RegisteredTools()
        self._changing = asyncio.Lock()
        self._seen = -1

    async def start(self) -> None:
        """Load what earlier runs and other processes registered."""
        self._source.entries = await self._stored()
        await asyncio.to_thread(self._registry.attach, self._source)

    async def catch_up(self, version: int) -> None:
        """Take over what another process changed, if the version says so."""
        if version == self._seen:
            return
        async with self._changing:
            stored = await self._stored()
            before = self._source.entries
            if stored != before:
                self._source.entries = stored
                try:
                    await asyncio.to_thread(self._registry.refresh, only=self._source)
                except BaseException:
                    self._source.entries = before  # so that it is tried again
                    raise
            self._seen = version

    async def put(self, name: str, registration: Registration, *, qualified_only: bool = False) -> bool:
        """Register or replace; True if it is new."""
        if qualified_only:
            registration = StoredRegistration(**msgspec.structs.asdict(registration), qualified_only=True)
        text = msgspec.json.encode(registration)
        async with self._changing:
            before = self._source.entries
            self._check_free(name)
            await self._change({**before, name: text}, lambda: self._records.aput(KIND, _OWNER, name, text))
            return name not in before

    async def remove(self, name: str) -> bool:
        """Remove a registered tool; False if there is none of that name."""
        async with self._changing:
            before = self._source.entries
            if name not in before:
                return False
            rest = {key: value for key, value in before.items() if key != name}
            await self._change(rest, lambda: self._records.aremove(KIND, _OWNER, name))
            return True

    async def _change(self, entries: dict[str, bytes], store: Callable[[], Awaitable[object]]) -> None:
        before = self._source.entries
        await self._swap(entries, before)
        try:
            await store()
        except BaseException:
            await self._swap(before, entries)
            raise

    async def _swap(self, entries: dict[str, bytes], before: dict[str, bytes]) -> None:
        self._source.entries = entries
        self._source.on_error = "raise"
        try:
            await asyncio.to_thread(self._registry.refresh, strict=True, only=self._source)
        except ToolyardError:
            self._source.entries = before
            raise
        finally:
            self._source.on_error = "skip"

    def _check_free(self, name: str) -> None:
        for tool in self._registry.get(name):
            if tool.source != self._source.source:
                raise HttpFault(
                    409,
                    "tool.exists",
                    f"{show(name)} comes from {tool.source or 'another source'}, which cannot be changed here",
                    hint="register it under another name",
                )

    async def _stored(self) -> dict[str, bytes]:
        return {record.name: record.value for record in await self._records.aall(KIND)}


def _make_tool(name: str, registration: Registration) -> Tool:
    _check_effects(registration)
    namespace, own = split_qualified(name)
    return Tool(
        own,
        namespace,
        registration.description,
        registration.parameters,
        registration.output_parameters,
        registration.metadata,
        version=None if registration.version is UNSET else registration.version,
        tags=tuple(registration.tags),
        aliases=tuple(registration.aliases),
        effects=registration.effects,  # type: ignore[arg-type]
        source=RegisteredTools.label,
        binding=None if registration.binding is UNSET else _make_binding(registration.binding),
    )


def _make_binding(target: Target) -> Binding | None:
    match target:
        case RestTarget():
            return _make_rest_binding(target)
        case McpTarget():
            return McpBinding(target.server, target.tool_name)
    return None


def _check_effects(registration: Registration) -> None:
    """What is said to read only may be simulated by calling it, and repeated; these methods are not for reading."""
    target = registration.binding
    if isinstance(target, RestTarget) and registration.effects == "read" and target.method in _CHANGING:
        raise DefinitionError(f"a tool that is a {target.method} cannot have the effects 'read'; say 'write'")


def _make_rest_binding(target: RestTarget) -> RestBinding:
    parameters = tuple(
        RestParameter(argument=argument, name=name, location=where, style=_STYLES[where], explode=where != "path")
        for argument, (where, name) in target.locations.items()
        if where != "body"
    )
    located = {argument: name for argument, (where, name) in target.locations.items() if where == "body"}
    body = None if target.body is UNSET else target.body
    if located:
        if body is not None:
            raise ConfigError("the body is given twice: by 'locations' and by 'body'; give it once")
        body = RestBody(media_type="application/json", properties=located)
    parameters += tuple(target.parameters)
    return RestBinding(target.method, target.path, read_base_url(target.base_url, "base_url"), parameters, body)


_RELOAD = "reload"


class LoadedCatalog:
    """The sources of one yard, as far as whoever runs the server has to do with them."""

    def __init__(self, yard: Toolyard, records: Records, registrations: Registrations) -> None:
        self.registry = yard.tool_registry
        self._records = records
        self._registrations = registrations
        self._sandbox: tuple[object, str] = (None, "")
        self._reloads = 0

    @property
    def sandbox(self) -> str:
        """What holds scripts here: the weakest level in force, `inprocess` for nothing; `none` if there are none."""
        snapshot = self.registry.snapshot
        if self._sandbox[0] is not snapshot:
            self._sandbox = (snapshot, weakest_level(snapshot.tools))
        return self._sandbox[1]

    async def start(self) -> None:
        """Load what was registered, and remember which reload of others was the last."""
        await self._registrations.start()
        self._reloads = await self._records.aversion(_RELOAD)

    async def reload(self) -> None:
        """Reload all sources, and have the other processes do so too."""
        await asyncio.to_thread(self.registry.refresh)
        if self._records.shared:
            await self._records.aput(_RELOAD, "", "last", str(time.time()).encode())
            self._reloads = await self._records.aversion(_RELOAD)

    async def follow_others(self) -> None:
        """Take over what other processes have registered and reloaded."""
        await self._registrations.catch_up(await self._records.aversion(KIND))
        reloads = await self._records.aversion(_RELOAD)
        if reloads != self._reloads:
            self._reloads = reloads
            await asyncio.to_thread(self.registry.refresh)
