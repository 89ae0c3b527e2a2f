"""Chains of calls that only make sense together: make something, look at it, change it, remove it, look again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolyard import Tool, ToolCall, ToolResult
from toolyard.engines.base import ToolEngine
from toolyard.engines.simulator import Simulator
from toolyard.engines.simulator.draw import Draw, GaveUp
from toolyard.engines.simulator.profile import Profile
from toolyard.engines.simulator.values import SchemaValues
from toolyard.words.identifiers import plain_letters

Kinds = dict[str, dict[str, Profile]]


def run_chains(engine: ToolEngine, tools: list[Tool]) -> Iterator[dict[str, bool]]:
    """Each chain that these tools allow, with the steps that were tried and whether they held."""
    simulator = Simulator()
    kinds: Kinds = {}
    for tool in tools:
        profile = simulator.profile(tool)
        verb = "update" if profile.role.verb == "replace" else profile.role.verb
        if verb in ("none", "act") or profile.role.single:
            continue
        # PATCH says which fields; PUT may make one.
        if verb not in kinds.setdefault(profile.role.kind, {}) or profile.role.verb == "update":
            kinds[profile.role.kind][verb] = profile
    for kind, verbs in kinds.items():
        if "create" in verbs and "get" in verbs:
            chain = Chain(engine, kind, verbs).run()
            if chain:
                yield chain


class Chain:
    """One chain, in a session of its own."""

    def __init__(self, engine: ToolEngine, kind: str, verbs: dict[str, Profile]) -> None:
        self._engine, self._verbs = engine, verbs
        self._session = f"chain {kind}"
        self._held: dict[str, bool] = {}
        self._scope: dict[str, Any] = {}
        self._known: dict[str, Any] = {}

    def run(self) -> dict[str, bool]:
        """The steps; empty if nothing that was made could be called by a name."""
        self._engine.setup(self._session)
        try:
            self._steps()
        finally:
            self._engine.teardown(self._session)
        return self._held

    def _steps(self) -> None:
        arguments, made = self._call("create")
        if made.is_error:
            self._held["create"] = False
            return
        create, get = self._verbs["create"], self._verbs["get"]
        self._scope = {name: arguments.get(name) for name in create.role.scope}
        thing = _inside(made.result, create) or {}
        self._known = {**create.sent_fields(arguments), **thing}
        if self._key(get) is None:
            return
        self._held["create"] = True
        _, got = self._call("get")
        shown = _inside(got.result, get)
        # What is no object, the bytes of a file for instance, can only be there or not.
        self._held["get"] = not got.is_error and (get.entity_path is None or _agree(_showable(thing, get), shown or {}))
        listing = self._can_list()
        if listing:
            self._held["list"] = self._listed()
        if self._key(self._verbs.get("update")) is not None:
            self._update(get)
        if self._key(self._verbs.get("delete")) is not None:
            _, gone = self._call("delete")
            self._held["delete"] = not gone.is_error
            self._held["gone"] = self._call("get")[1].is_error and not (listing and self._listed())

    def _key(self, profile: Profile | None) -> str | None:
        """What that tool can call the thing by, of what a caller knows about it."""
        names = [] if profile is None else _names(self._known, profile.role.fields)
        return next((name for name in names if profile is not None and self._takes(profile, name)), None)

    def _can_list(self) -> bool:
        place = self._verbs["list"].list_path if "list" in self._verbs else None
        if place is None:
            return "list" in self._verbs and self._verbs["list"].is_free
        if not self._is_among():
            return False
        fields = self._verbs["get"].role.fields
        return any(plain_letters(name) in (*fields, "metadata") for name in place.properties)

    def _is_among(self) -> bool:
        """False if the list has to be asked for others: its `status` may only be one that this thing does not have."""
        tool = self._verbs["list"].tool
        properties = tool.parameters.get("properties") or {}
        values = SchemaValues(tool.parameters or {"type": "object"})
        return all(values.checker(properties.get(name, True))(value) for name, value in self._filters().items())

    def _filters(self) -> dict[str, Any]:
        """What the list has to be told, of what is known about the thing; not what says where it is."""
        profile = self._verbs["list"]
        needed = profile.tool.parameters.get("required") or ()
        return {name: self._known[name] for name in needed if name in self._known and name not in profile.role.scope}

    def _update(self, get: Profile) -> None:
        update = self._verbs["update"]
        arguments, result = self._call("update")
        if not result.is_error:
            self._known |= update.sent_fields(arguments)
        _, got = self._call("get")
        shown = _inside(got.result, get)
        place = get.entity_path
        if got.is_error or result.is_error or (shown is None and place is not None):
            self._held["update"] = False
            return
        changed = {plain_letters(name): value for name, value in update.sent_fields(arguments).items()}
        names = [name for name in shown or () if plain_letters(name) in changed]
        values = get.values
        self._held["update"] = all(
            (shown or {})[name] == changed[plain_letters(name)]
            or (
                values is not None
                and place is not None
                and not values.checker(place.properties.get(name, True))(changed[plain_letters(name)])
            )
            for name in names
        )

    def _listed(self) -> bool:
        profile = self._verbs["list"]
        _, result = self._call("list")
        if result.is_error:
            return False
        items: Any = result.result
        for name in profile.list_path.names if profile.list_path is not None else ("items",):
            items = items.get(name) if isinstance(items, dict) else None
        fields = self._verbs["get"].role.fields
        called = set(_names(self._known, fields))
        return any(not called.isdisjoint(_names(item, fields)) for item in items or () if isinstance(item, dict))

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
        call = ToolCall(tool.qualified_name, arguments, overload=tool.fingerprint)
        return arguments, self._engine.execute(self._session, [call])[0]


def _arguments(tool: Tool, known: dict[str, Any], *, full: bool) -> dict[str, Any]:
    """Arguments that the tool takes: those that are known, and what it needs, or most of what it may have."""
    values = SchemaValues(tool.parameters or {"type": "object"})
    x = tool.qualified_name.encode()
    try:
        arguments: dict[str, Any] = values.make(Draw(x))
    except GaveUp:
        arguments = {}
    if not full:
        needed = tool.parameters.get("required") or ()
        arguments = {name: value for name, value in arguments.items() if name in needed}
    arguments |= known
    if not values.check(arguments):
        for name, value in known.items():
            if isinstance(value, str) and value.isdigit():
                arguments[name] = int(value)
            elif not isinstance(value, str):
                arguments[name] = str(value)
    return arguments


def _inside(result: Any, profile: Profile) -> dict[str, Any] | None:
    for name in profile.entity_path.names if profile.entity_path is not None else ():
        result = result.get(name) if isinstance(result, dict) else None
    return result if isinstance(result, dict) else None


def _names(thing: dict[str, Any], fields: tuple[str, ...]) -> list[str]:
    """What a thing can be called by, the likeliest first."""
    inner = thing.get("metadata")
    letters = {plain_letters(name): value for name, value in (inner if isinstance(inner, dict) else {}).items()}
    letters |= {plain_letters(name): value for name, value in thing.items()}
    values = [letters.get(field) for field in fields]
    return [
        str(value) for value in values if isinstance(value, (str, int)) and not isinstance(value, bool) and value != ""
    ]


def _showable(thing: dict[str, Any], get: Profile) -> dict[str, Any]:
    """What of a thing the other tool may show: one that says it makes a task cannot be blamed for not being one."""
    place, values = get.entity_path, get.values
    if place is None or values is None:
        return thing
    return {name: value for name, value in thing.items() if values.checker(place.properties.get(name, True))(value)}


def _agree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """True if both say the same where both say something simple."""
    return all(
        one[name] == other[name] or (type(one[name]) is int and str(one[name]) == other[name])
        for name in one
        if name in other and not isinstance(one[name], (dict, list)) and not isinstance(other[name], (dict, list))
    )
