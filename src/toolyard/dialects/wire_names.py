"""Reversible wire names: any qualified name, encoded so that every provider accepts it.

Providers require `[A-Za-z0-9_-]{1,64}`, and one of them a leading letter. There are two encodings:

    ns__tool                   plain: both halves are simple, and splitting it decodes it
    slug___abcdefghij234567    hashed: everything else; a readable slug and 80 bits of SHA-256

A plain name has one `__` and never `___`, so the two cannot be confused. Both are pure functions of the tool: another
process, or this one with more tools, encodes it the same way.

Property names are re-encoded for Anthropic, which rejects a whole request over one key such as `filter[id]`. It checks
only the names at the root of an input schema, so only those change. The encoding depends on the name alone; arguments
are decoded with the tool's own schema.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from toolyard.constants import TOOL_NAMESPACE_SEP
from toolyard.dialects.payload import ChangeLog
from toolyard.model import Schema, Tool, ToolCall
from toolyard.model.errors import DefinitionError
from toolyard.model.names import show, split_qualified

WIRE_NAME_LENGTH = 64

Decoded = tuple[str, str | None]
"""A qualified name, and the fingerprint of an overload if the wire name is specific to it."""

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9-]*(?:_[A-Za-z0-9-]+)*__[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*")
_WIRE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_UNREADABLE = re.compile(r"[^A-Za-z0-9-]+")
_DIGEST_BYTES = 10
_SLUG_LENGTH = WIRE_NAME_LENGTH - len("___") - _DIGEST_BYTES * 8 // 5


class WireNames:
    """Encodes and decodes the wire names of a set of tools.

    The first registered overload keeps the wire name of the plain qualified name, so that adding an overload renames
    nothing; each further overload gets a hashed name. The tables are built in the constructor; fingerprints are
    computed only for overloaded names.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._first: dict[str, Tool] = {}
        self._own: dict[str, str] = {}
        self._overloads: dict[str, dict[str, Tool]] = {}
        self._decoded: dict[str, Decoded] = {}
        groups: dict[str, list[Tool]] = {}
        for tool in tools:
            name = tool.qualified_name
            first = self._first.setdefault(name, tool)
            if first is not tool:
                groups.setdefault(name, [first]).append(tool)
        for name in self._first:
            wire = self._own[name] = _own_name(name)
            self._claim_name(wire, (name, None))
        for name, group in groups.items():
            overloads: dict[str, Tool] = {}
            for tool in group:
                overloads.setdefault(tool.fingerprint, tool)
            if len(overloads) > 1:
                self._overloads[name] = overloads
                for fingerprint in overloads:
                    # Also for the first overload: a process with another registration order uses its hashed name.
                    self._claim_name(_overload_name(name, fingerprint), (name, fingerprint))

    def _claim_name(self, wire: str, decoded: Decoded) -> None:
        holder = self._decoded.setdefault(wire, decoded)
        if holder != decoded:
            raise DefinitionError(
                f"tools {show(holder[0])} and {show(decoded[0])} share the wire name {wire!r}; rename one of them"
            )

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of the tables, grouped by name, without duplicate definitions."""
        return tuple(tool for name in self._first for tool in self._overload_group(name))

    def _overload_group(self, name: str) -> Iterable[Tool]:
        overloads = self._overloads.get(name)
        return overloads.values() if overloads is not None else (self._first[name],)

    def __contains__(self, tool: Tool) -> bool:
        """Whether the wire name of `tool` can be decoded."""
        first = self._first.get(tool.qualified_name)
        if first is None or first is tool:
            return first is tool
        return any(tool.fingerprint == known.fingerprint for known in self._overload_group(tool.qualified_name))

    def including(self, tools: Iterable[Tool]) -> WireNames:
        """Return a table with `tools` added; existing wire names do not change. `self` if nothing is new."""
        new = [tool for tool in tools if tool not in self]
        return WireNames((*self.tools, *new)) if new else self

    def encode(self, tool: Tool) -> str:
        """Return the wire name of a tool."""
        name = tool.qualified_name
        first = self._first.get(name, tool)
        if first is tool or tool.fingerprint == first.fingerprint:
            return self._own.get(name) or _own_name(name)
        return _overload_name(name, tool.fingerprint)

    def encode_name(self, name: str, overload: str | None = None) -> str:
        """Return the wire name for a call's name, optionally of one overload.

        A bare name stands for the tool of the one namespace that has it. Any other name without a namespace (invented
        by a model and kept as received) stays unchanged if providers accept it.
        """
        candidates = self._bare_name.get(name, ())
        if len(candidates) == 1:
            name = candidates[0]
        elif TOOL_NAMESPACE_SEP not in name:
            return name if _WIRE.fullmatch(name) else _hash_name("", name, name)
        first = self._first.get(name)
        if overload is None or (first is not None and first.fingerprint == overload):
            return self._own.get(name) or _own_name(name)
        return _overload_name(name, overload)

    def find(self, wire: str) -> Decoded | None:
        """Decode a wire name; None if it is unknown.

        Names missing from the table are still decoded if they are a bare tool name that exactly one namespace has,
        already qualified, or in the plain encoding.
        """
        found = self.known(wire)
        if found is not None:
            return found
        candidates = self._bare_name.get(wire, ())
        if len(candidates) == 1:
            return candidates[0], None
        if TOOL_NAMESPACE_SEP in wire:
            return wire, None
        if not candidates and len(wire) <= WIRE_NAME_LENGTH and _PLAIN.fullmatch(wire):
            return wire.replace("__", TOOL_NAMESPACE_SEP), None
        return None

    def known(self, wire: str) -> Decoded | None:
        """Decode a wire name of this table, without the fallbacks of `find`."""
        return self._decoded.get(wire)

    def tool(self, decoded: Decoded) -> Tool | None:
        """The tool a decoded wire name refers to: the given overload, else the first registered; None if unknown."""
        return next(iter(self.candidates(decoded)), None)

    def candidates(self, decoded: Decoded) -> tuple[Tool, ...]:
        """The tools a decoded wire name may refer to: the given overload, else all of the name; empty if unknown."""
        name, overload = decoded
        group = self._overload_group(name) if name in self._first else ()
        return tuple(tool for tool in group if overload is None or tool.fingerprint == overload)

    @cached_property
    def _bare_name(self) -> dict[str, list[str]]:
        bare: dict[str, list[str]] = {}
        for name, tool in self._first.items():
            bare.setdefault(tool.name, []).append(name)
        return bare


class NamedCatalog(Protocol):
    """An immutable collection of tools, such as a registry snapshot."""

    @property
    def tools(self) -> Sequence[Tool]:
        """All tools of the catalog."""

    def __hash__(self) -> int: ...


_tables: WeakKeyDictionary[NamedCatalog, WireNames] = WeakKeyDictionary()


def wire_names_of(catalog: NamedCatalog) -> WireNames:
    """The wire names of all tools of a catalog; built on first use and cached while the catalog lives."""
    found = _tables.get(catalog)
    if found is None:
        found = _tables[catalog] = WireNames(catalog.tools)
    return found


def read_wire_call(catalog: NamedCatalog, call: ToolCall) -> ToolCall:
    """Translate a call that uses wire names and property names to registry names; return any other unchanged.

    A known wire name takes precedence over a tool's bare name or alias that is spelt the same, so that no later tool
    can take over a wire name issued for another.
    """
    if "__" not in call.name or TOOL_NAMESPACE_SEP in call.name:
        return call
    names = wire_names_of(catalog)
    found = names.known(call.name)
    if found is None:
        return call
    tools, arguments = names.candidates(found), call.arguments
    if len(tools) == 1 and isinstance(arguments, dict) and isinstance(tools[0].parameters.get("properties"), dict):
        arguments = read_arguments(tools[0].parameters, arguments)
    return ToolCall(found[0], arguments, call.call_id, call.overload or found[1])


def _own_name(name: str) -> str:
    plain = name.replace(TOOL_NAMESPACE_SEP, "__", 1)
    if len(plain) <= WIRE_NAME_LENGTH and _PLAIN.fullmatch(plain):
        return plain
    return _hash_name(*split_qualified(name), name)


def _overload_name(name: str, fingerprint: str) -> str:
    return _hash_name(*split_qualified(name), f"{name}\0{fingerprint}")


def _hash_name(namespace: str, name: str, identity: str) -> str:
    return f"{_slug_of(namespace, name)}___{digest(identity)}"


def digest(text: str) -> str:
    """The first 80 bits of a text's SHA-256, as 16 lower-case base32 characters."""
    # Names not checked by the registry's grammar may contain lone surrogates.
    raw = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(raw[:_DIGEST_BYTES]).decode("ascii").lower()


def _slug_of(namespace: str, name: str) -> str:
    """A readable slug of namespace and name; if space is short, the tool's name takes precedence."""
    own = readable(name)[:_SLUG_LENGTH]
    front = readable(namespace)[: max(0, _SLUG_LENGTH - len(own) - 1)].strip("_-")
    slug = "_".join(part for part in (front, own) if part)
    if not slug[:1].isalpha():
        slug = f"tool_{slug}"
    return slug[:_SLUG_LENGTH].strip("_-")


def readable(text: str) -> str:
    """The text reduced to ASCII letters, digits, dashes and single underscores; may be empty."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    return _UNREADABLE.sub("_", text).strip("_-")


_ACCEPTED = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_READABLE_LENGTH = 47


def wire_key(name: str) -> str:
    """The name itself if Anthropic accepts it, else a readable prefix and a digest."""
    if _ACCEPTED.fullmatch(name):
        return name
    return f"{readable(name)[:_READABLE_LENGTH]}_{digest(name)}"


def spell_properties(schema: Schema, log: ChangeLog) -> Schema:
    """Return an object schema whose property names Anthropic accepts; each changed name is logged."""
    properties: dict[str, Any] = schema["properties"]
    spelt = {name: wire_key(name) for name in properties if not _ACCEPTED.fullmatch(name)}
    for name in spelt:
        log.add(("properties", name), "renamed for Anthropic; arguments are renamed back")
    if not spelt:
        return schema
    out = {**schema, "properties": {spelt.get(name, name): sub for name, sub in properties.items()}}
    if isinstance(schema.get("required"), list):
        out["required"] = [spelt.get(name, name) for name in schema["required"]]
    return out


def spell_arguments(schema: Schema, arguments: dict[str, Any]) -> dict[str, Any]:
    """Rename arguments as `spell_properties` renamed the properties."""
    return {wire_key(name) if name in schema["properties"] else name: value for name, value in arguments.items()}


def read_arguments(schema: Schema, arguments: dict[str, Any]) -> dict[str, Any]:
    """Undo `spell_arguments`; unknown names stay unchanged."""
    originals = {wire_key(name): name for name in schema["properties"]}
    return {originals.get(key, key): value for key, value in arguments.items()}
