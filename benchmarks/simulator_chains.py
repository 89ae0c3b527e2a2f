"""Runs chains over families of tools: create an entity, get it, list, update and delete it, and get it again.

The simulator determines families from paths and names; a family that is evident from paths but not found by it counts
as broken. Entities in requests and results are located here by independent means, to catch a simulator that looks in
the wrong place: in a result, the entity is the object with the id; in a request, the part that shares most field names
with that object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from benchmarks.simulator_evidence import (
    LINKS,
    answers_with_id,
    body_of,
    find_alike,
    find_entities,
    is_name,
    locate_entity,
    lost_values,
    names_of,
    node_at,
    open_part,
    own_values,
    sent_entity,
)
from toolyard import Tool, ToolCall, ToolResult
from toolyard.engines.base import ToolEngine
from toolyard.engines.simulator import Simulator
from toolyard.engines.simulator.draw import Draw, GaveUp
from toolyard.engines.simulator.profile import Profile
from toolyard.engines.simulator.values import SchemaValues
from toolyard.model.bindings import RestBinding
from toolyard.words.identifiers import plain_letters, split_identifier

Kinds = dict[str, dict[str, Profile]]
_QUERIES = ("q", "query", "search", "searchterm", "searchquery", "keyword", "keywords", "term")
_OFFSETS = ("offset", "skip", "start", "startindex", "from")
_PAGES = ("page", "pagenumber", "pageindex", "pageno")
_LOOKUPS = frozenset(("get", "list", "search", "find", "query", "filter", "fetch", "lookup", "retrieve", "read"))
_LOOKUPS |= {"count", "export", "check"}
_WORDS = re.compile(r"\w[\w ]+\w")
STEPS = ("create", "id", "sent", "get", "list", "update", "delete", "gone")
"""`id`: the result of create has an id or name; `sent`: that result has the values sent."""


def run_chains(engine: ToolEngine, tools: list[Tool]) -> Iterator[Chain]:
    """Run each chain that these tools allow."""
    families = find_families(tools)
    for kind, verbs in families.items():
        chain = Chain(engine, kind, verbs)
        chain.run()
        yield chain
    for kind in sorted(_families_by_path(tools) - families.keys()):
        chain = Chain(engine, kind, {})
        chain.held["create"] = False
        chain.faults.append(f"{kind}: create: it is not taken for a family")
        yield chain


def find_families(tools: list[Tool]) -> Kinds:
    """The tools by kind of entity and verb, for kinds that can be created and got."""
    simulator = Simulator()
    simulator.use_tools(tools)
    kinds: Kinds = {}
    for tool in tools:
        profile = simulator.profile(tool)
        verb = _verb_of(profile)
        if verb in ("none", "act") or (profile.role.key is None and verb not in ("create", "list")):
            continue
        # PATCH names the fields to change; PUT may create an entity.
        if verb not in kinds.setdefault(profile.role.kind, {}) or profile.role.verb == "update":
            kinds[profile.role.kind][verb] = profile
    return {kind: verbs for kind, verbs in kinds.items() if "create" in verbs and "get" in verbs}


def _families_by_path(tools: list[Tool]) -> set[str]:
    """Kinds that, by their paths, are created by POST and read by GET, unless the POST is only a search."""
    bound = [(tool, tool.binding) for tool in tools if isinstance(tool.binding, RestBinding)]
    # `GET /pets/{Page Number}` is a listing.
    bound = [one for one in bound if plain_letters(one[1].path.rpartition("/")[2]) not in _PAGES]
    paths = {(each.method.upper(), f"{tool.namespace}{_shape_of(each.path)}") for tool, each in bound}
    found = set()
    for tool, each in bound:
        kind = f"{tool.namespace}{_shape_of(each.path)}"
        words = {*split_identifier(tool.name), *split_identifier(kind.rpartition("/")[2])}
        if each.method.upper() == "POST" and not kind.endswith("}") and ("GET", f"{kind}/{{}}") in paths:
            found |= {kind} if words.isdisjoint(_LOOKUPS) or "create" in words else set()
    return found


def _shape_of(path: str) -> str:
    return "".join("/{}" if "{" in part else f"/{part}" for part in path.split("/") if part)


def _verb_of(profile: Profile) -> str:
    binding = profile.tool.binding
    if isinstance(binding, RestBinding) and binding.method.upper() == "POST" and binding.path.rstrip("/").endswith("}"):
        return "update" if binding.body is not None else "act"
    return "update" if profile.role.verb == "replace" else profile.role.verb


class Chain:
    """One chain, in its own session."""

    def __init__(self, engine: ToolEngine, kind: str, verbs: dict[str, Profile]) -> None:
        self._engine, self._verbs = engine, verbs
        self.kind = kind
        self._session = f"chain {kind}"
        self.held: dict[str, bool] = {}
        """Whether each step that was tried succeeded."""
        self.faults: list[str] = []
        self.nameless = False
        """True if neither the request nor the result of create has a field for an id or name."""
        self._scope: dict[str, Any] = {}
        self._known: dict[str, Any] = {}
        self._sent: dict[str, Any] = {}
        self._targets: set[str] = set()
        """The fields with URLs that were sent, such as the target of a webhook."""

    def run(self) -> None:
        """Run the steps."""
        self._engine.setup(self._session)
        try:
            self._steps()
        finally:
            self._engine.teardown(self._session)

    def _note(self, step: str, good: bool, why: object = "") -> None:
        self.held[step] = self.held.get(step, True) and good
        if not good:
            self.faults.append(f"{self.kind}: {step}: {str(why)[:160]}")

    def _steps(self) -> None:
        create, get = self._verbs["create"], self._verbs["get"]
        self._scope = self._choose_scope(create, get)
        arguments, made = self._call("create")
        self._note("create", not made.is_error, made.error)
        if made.is_error:
            return
        fields = get.role.fields
        _, thing = locate_entity(made.result, get.role)
        body = body_of(create, arguments)
        about = sent_entity(body, thing, get.role.noun)
        self._known = {**(body if isinstance(body, dict) else {}), **about, **thing}
        self._targets = about.keys() & set(LINKS)
        if self._key(get) is None:
            self.nameless = not answers_with_id(create, fields)
            self._note("id", False, "nothing to call it by")
            return
        self._note("id", True)
        self._sent = sent = self._compare("sent", create, body, made.result)
        _, got = self._call("get")
        self._note("get", not got.is_error, got.error)
        self._compare("get", get, body, got.result)
        if self._can_list():
            self._list(sent)
        if self._key(self._verbs.get("update")) is not None:
            self._update(get)
        if self._key(self._verbs.get("delete")) is not None:
            _, gone = self._call("delete")
            self._note("delete", not gone.is_error, gone.error)
            self._note("gone", self._call("get")[1].is_error, "it is still shown")
            if self._can_list():
                self._note("gone", not self._listed(), "it is still listed")

    def _choose_scope(self, create: Profile, get: Profile) -> dict[str, Any]:
        """Arguments for the parent: values that all tools of the family accept, else those that create accepts."""
        others = [profile for profile in self._verbs.values() if len(profile.role.scope) == len(create.role.scope)]
        profiles = [get, *others] if get in others else [create]
        places = [
            [_arguments(profile.tool, {}, full=False).get(name) for name in profile.role.scope] for profile in profiles
        ]
        first = [_arguments(create.tool, {}, full=False).get(name) for name in create.role.scope]
        for accepting in (profiles, [create]):
            for place in places:
                if None not in place and all(_accepts_place(profile, place) for profile in accepting):
                    return dict(zip(create.role.scope, place, strict=True))
        return dict(zip(create.role.scope, first, strict=True))

    def _compare(self, step: str, profile: Profile, body: Any, result: Any) -> dict[str, Any]:
        """Record the values sent that a result lacks although its schema allows them."""
        role = self._verbs["get"].role
        path, shown = locate_entity(result, role)
        values = profile.values if profile.tool.output_parameters else None
        if values is None:
            node: Any = True
            sent = sent_entity(body, shown, role.noun)
        else:
            path, shown = open_part(path, shown, body)
            node = node_at(values, path)
            sent = sent_entity(body, names_of(values, node) or shown, role.noun)
        sent = {name: value for name, value in sent.items() if plain_letters(name) not in self._own_names()}
        lost = list(lost_values(values, sent, shown, node))
        self._note(step, not lost, lost)
        return sent

    def _own_names(self) -> set[str]:
        """Normalised names of the identifying fields, which an update does not change."""
        profiles = [self._verbs[verb] for verb in ("get", "update") if verb in self._verbs]
        keys = {plain_letters(str(profile.role.key)) for profile in profiles}
        names = {plain_letters(name) for name in self._known}
        return keys | names.intersection(*[set(profile.role.fields) for profile in profiles[:1]])

    def _list(self, sent: dict[str, Any]) -> None:
        found = self._listed()
        self._note("list", bool(found), "it is not listed")
        if found and self._verbs["list"].tool.output_parameters:
            path, shown = found[0]
            values = self._verbs["list"].values
            lost = list(lost_values(values, sent, shown, node_at(values, path)))
            self._note("list", not lost, lost)

    def _listed(self) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
        _, result = self._call("list")
        fields = self._verbs["get"].role.fields
        if result.is_error:
            return []
        return find_entities(result.result, fields, self._names(fields)) or find_alike(
            result.result, self._sent, fields
        )

    def _write_patch(self, update: Profile, arguments: dict[str, Any]) -> None:
        """If the tool takes a JSON Patch, change the text of a field that was sent."""
        body = arguments.get(update.body_argument or "")
        field = next((name for name, value in self._sent.items() if isinstance(value, str)), None)
        if field is None or not isinstance(body, list) or not body or not {"op", "path"} <= body[0].keys():
            return
        patch = [{"op": "replace", "path": f"/{field}", "value": "another text"}]
        if SchemaValues(update.tool.parameters).check({**arguments, str(update.body_argument): patch}):
            arguments[str(update.body_argument)] = patch

    def _update(self, get: Profile) -> None:
        update = self._verbs["update"]
        arguments, result = self._call("update")
        self._note("update", not result.is_error, result.error)
        if result.is_error:
            return
        body = body_of(update, arguments)
        if isinstance(body, list) and body and isinstance(body[0], dict) and {"path", "value"} <= body[0].keys():
            body = {str(body[0]["path"]).strip("/"): body[0]["value"]}
        _, got = self._call("get")
        self._note("update", not got.is_error, got.error)
        if not got.is_error:
            sent = self._compare("update", get, body, got.result)
            self._sent = {**self._sent, **sent}
            self._known |= {name: value for name, value in sent.items() if name in self._known}
            self._targets |= sent.keys() & set(LINKS)

    def _key(self, profile: Profile | None) -> str | None:
        """The key by which that tool can identify the entity, from what a caller knows about it."""
        if profile is None or profile.role.key is None:
            return None
        return next((name for name in self._names(profile.role.fields) if self._takes(profile, name)), None)

    def _names(self, fields: tuple[str, ...]) -> list[str]:
        """The values that may identify the entity; of a URL that was sent only if it has no others."""
        own = {name: value for name, value in self._known.items() if name not in self._targets}
        return _calls(own, fields) or _calls(self._known, fields)

    def _can_list(self) -> bool:
        profile = self._verbs.get("list")
        if profile is None or not self._is_among():
            return False
        return profile.is_free or answers_with_id(profile, self._verbs["get"].role.fields, listed=True)

    def _is_among(self) -> bool:
        """False if the list cannot contain the entity, because its `status` filter only allows other values."""
        tool = self._verbs["list"].tool
        properties = tool.parameters.get("properties") or {}
        values = SchemaValues(tool.parameters or {"type": "object"})
        return all(values.checker(properties.get(name, True))(value) for name, value in self._filters().items())

    def _filters(self) -> dict[str, Any]:
        """Required filters of the list, from the entity's known values; without those for its parent."""
        profile = self._verbs["list"]
        needed = [name for name in profile.tool.parameters.get("required") or () if name not in profile.role.scope]
        known = {name: self._known[name] for name in needed if name in self._known}
        # Names may be spelled differently there: `marketplace_id` for `marketplaceId`.
        values, properties = SchemaValues(profile.tool.parameters), profile.tool.parameters.get("properties") or {}
        for name, value in self._known.items():
            alike = [other for other in needed if plain_letters(other) == plain_letters(name) and other not in known]
            known |= {other: value for other in alike if values.checker(properties[other])(value)}
        texts = [value for value in self._known.values() if isinstance(value, str) and _WORDS.fullmatch(value)]
        searched = [name for name in needed if plain_letters(name) in _QUERIES and name not in known]
        # A required page is the first one.
        pages = dict.fromkeys((name for name in needed if plain_letters(name) in _PAGES), 1)
        pages |= dict.fromkeys((name for name in needed if plain_letters(name) in _OFFSETS), 0)
        return {**pages, **known, **dict.fromkeys(searched if texts else (), max(texts, key=len, default=""))}

    def _takes(self, profile: Profile, key: str) -> bool:
        arguments = _arguments(profile.tool, {str(profile.role.key): key}, full=False)
        return SchemaValues(profile.tool.parameters).check(arguments)

    def _call(self, verb: str) -> tuple[dict[str, Any], ToolResult]:
        profile = self._verbs[verb]
        tool = profile.tool
        known = dict(zip(profile.role.scope, self._scope.values(), strict=False))
        if profile.role.key is not None:
            known[profile.role.key] = self._key(profile)
        if verb == "list":
            known |= self._filters()  # those among which it is
        arguments = _arguments(tool, known, full=verb in ("create", "update"))
        if verb == "update":
            self._write_patch(profile, arguments)
        if verb == "create":
            _add_names(tool, arguments, self._verbs["get"].role.fields)
        call = ToolCall(tool.qualified_name, arguments, overload=tool.fingerprint)
        return arguments, self._engine.execute(self._session, [call])[0]


def _accepts_place(profile: Profile, place: list[Any]) -> bool:
    arguments = _arguments(profile.tool, dict(zip(profile.role.scope, place, strict=True)), full=False)
    values, properties = SchemaValues(profile.tool.parameters), profile.tool.parameters.get("properties") or {}
    return all(values.checker(properties.get(name, True))(arguments[name]) for name in profile.role.scope)


def _calls(thing: dict[str, Any], fields: tuple[str, ...]) -> list[str]:
    """The values that may identify an entity, most likely first."""
    values, names = own_values(thing), {plain_letters(name) for name in thing}
    # A field called an id comes before one read from a URL.
    ids = [field for field in fields if field in names and field.endswith("id") and "id" not in names]
    found = [values.get(field) for field in (*ids, *fields)]
    return [str(value) for value in found if is_name(value)]


def _add_names(tool: Tool, arguments: dict[str, Any], fields: tuple[str, ...]) -> None:
    """Add identifying fields that the caller may choose."""
    values = SchemaValues(tool.parameters or {"type": "object"})
    for name, node in (tool.parameters.get("properties") or {}).items():
        if plain_letters(name) in fields and name not in arguments:
            draw = Draw(b"name of %b" % tool.qualified_name.encode())
            with suppress(GaveUp):
                made = values.make_part(values.maker(node, name), values.checker(node), draw)
                if values.check({**arguments, name: made}):
                    arguments[name] = made


def _arguments(tool: Tool, known: dict[str, Any], *, full: bool) -> dict[str, Any]:
    """Arguments for the tool: the known ones and the required ones, or with `full` most optional ones as well."""
    values = SchemaValues(tool.parameters or {"type": "object"})
    try:
        arguments: dict[str, Any] = values.make(Draw(tool.qualified_name.encode()))
    except GaveUp:
        arguments = {}
    if not full:
        needed = tool.parameters.get("required") or ()
        arguments = {name: value for name, value in arguments.items() if name in needed}
    arguments |= known
    if not values.check(arguments):
        declared = tool.parameters.get("properties") or {}
        for name, value in known.items():
            if values.checker(declared.get(name, True))(value):
                continue
            if isinstance(value, str) and value.isdigit():
                arguments[name] = int(value)
            elif not isinstance(value, str):
                arguments[name] = str(value)
    return arguments
