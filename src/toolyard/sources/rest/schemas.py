"""Convert the schemas of a document to JSON Schema 2020-12, each once and shared by all tools that use it.

The target of a reference becomes a component, wherever it is in the documents; references point at `#/$defs/<name>`.
Conversion never fails: what cannot be expressed becomes an open schema, with a note.

Every schema of an `allOf` judges the whole object by itself, so a closed one (`additionalProperties: false`) rejects
the properties of all others, and nothing fits. Authors mean the properties of all of them together, for which OpenAPI
3.0 has no keyword, so such a schema is opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

import msgspec

from toolyard.sources.rest.document import CIRCULAR, MAIN, UNEXPECTED_FORM, Files, Notes, ResolvedRef
from toolyard.sources.rest.keywords import COMBINED, KEYWORDS, allow_null, read_combined, read_type_of

Node = dict[str, Any]

COMPOSING = frozenset(("allOf", "anyOf", "oneOf"))
_ALL = frozenset(("allOf",))
_OPENED = " without additionalProperties"
"""A suffix that marks a reference to an opened copy of a closed schema."""


class Compositions:
    """Finds closed schemas that contradict the schemas around them; references are followed."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._targets: dict[tuple[str, str], ResolvedRef] = {}
        self._open: dict[int, Node] = {}
        """Schemas already found to be without a closed one, by id, so that chains of them are not followed again."""

    def is_contradictory(self, raw: Node, file: str) -> bool:
        """Whether a closed schema of the composition forbids properties of another."""
        closed = self._closed_nodes(raw, file)
        names = (
            {name for node in self._walk(raw, file, COMPOSING) for name in _property_names(node)} if closed else set()
        )
        return any(names - _property_names(node) for node in closed)

    def open_schema(self, raw: Node, file: str) -> Node:
        """The schema without `additionalProperties: false`; references to closed schemas ask for an opened copy."""
        opened = {key: value for key, value in raw.items() if key != "additionalProperties" or value is not False}
        if type(raw.get("allOf")) is list:
            opened["allOf"] = [self._open_part(part, file) for part in raw["allOf"]]
        return opened

    def opened_target(self, ref: str, file: str) -> ResolvedRef | None:
        """The opened copy for a reference made by `open_schema`; None for any other reference."""
        if not ref.endswith(_OPENED):
            return None
        if (file, ref) not in self._targets:
            here = self._files.resolve(ResolvedRef({"$ref": ref.removesuffix(_OPENED)}, file))
            self._targets[file, ref] = ResolvedRef(self.open_schema(here.node, here.file), here.file)
        return self._targets[file, ref]

    def _open_part(self, part: Any, file: str) -> Any:
        if not self._closed_nodes(part, file):
            return part
        return {**part, "$ref": part["$ref"] + _OPENED} if "$ref" in part else self.open_schema(part, file)

    def _closed_nodes(self, raw: Any, file: str) -> list[Node]:
        """Closed schemas that judge the same object; branches are skipped, since they need not apply."""
        nodes = list(self._walk(raw, file, _ALL, self._open))
        closed = [
            node for node in nodes if node.get("additionalProperties") is False and "patternProperties" not in node
        ]
        if not closed:
            self._open |= {id(node): node for node in nodes}
        return closed

    def _walk(self, raw: Any, file: str, keys: frozenset[str], without: Container[int] = frozenset()) -> Iterator[Node]:
        """The schemas that judge the same object, each once."""
        seen: set[int] = set()
        stack = [ResolvedRef(raw, file)]
        while stack:
            here = stack.pop()
            if type(here.node) is not dict or id(here.node) in seen:
                continue
            seen.add(id(here.node))
            try:
                here = self._files.resolve(here)
            except LookupError:
                continue  # reported when it is converted
            if type(here.node) is dict and id(here.node) not in without:
                yield here.node
                parts = [part for key in sorted(keys) if type(here.node.get(key)) is list for part in here.node[key]]
                stack += [ResolvedRef(part, here.file) for part in parts]


def _property_names(node: Node) -> set[str]:
    properties = node.get("properties")
    return set(properties) if type(properties) is dict else set()


_MAX_TOTAL = 10_000_000
"""Maximum number of subschemas in a document; one of the permitted size hardly exceeds it without repetition."""
MAX_DEPTH = 48
"""Maximum depth of one schema; the budget allows 64, and assembly adds a few levels."""
_MAX_COUNT = 20_000
"""Maximum number of subschemas in one schema, twice the limit of a tool, since property maps can repeat endlessly."""

_VALUES = frozenset(
    {
        *("not", "if", "then", "else", "propertyNames", "contains", "contentSchema", "items", "unevaluatedItems"),
        *("additionalProperties", "unevaluatedProperties", "default", "const", "example"),
    }
)
"""Keywords whose value is a schema or data, so a `$ref` in it belongs to the value.

Under other keywords, a mapping with a textual `$ref` means that the author keeps properties, enums or descriptions
elsewhere.
"""
_IN_PLACE = frozenset({"not", "if", "then", "else"})
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\-]+")
_EXTENSION = re.compile(r"\.(?:json|ya?ml)$")
_SAFE = re.compile(r"[A-Za-z0-9_.\-]{1,100}")
_BESIDE_OLD_REF = ("description", "title")


_NO_LINK: Node = {}
_ANY_OBJECT = {"type": "object"}
_encode = msgspec.json.Encoder(order="deterministic").encode
_REMARKS = frozenset(("description", "title", "examples"))


class SchemaPart:
    """A converted schema with the facts that assembly needs."""

    node: Any
    count = 0
    """The number of its subschemas, without those of components."""
    directed = False
    """Whether a part of it is for requests or for responses only."""
    inline: Sequence[SchemaPart] = ()
    """Components that judge the same value as a schema of this part, listed each time they do."""

    def __init__(self, name: str, raw: Any, file: str) -> None:
        self.name = name
        self.raw = raw
        self.file = file
        self.refs: dict[str, SchemaPart] = {}
        """Components it refers to, in the order of their first occurrence."""
        self.link = {"$ref": f"#/$defs/{name}"} if name else _NO_LINK


class Schemas:
    """Converts the schemas of one document on demand."""

    def __init__(self, files: Files, notes: Notes, *, modern: bool) -> None:
        self.notes = notes
        self._files = files
        self._compositions = Compositions(files)
        self._modern = modern
        self._by_file: dict[str, dict[str, SchemaPart]] = {}
        self._links: dict[str, SchemaPart] = {}
        """Components by reference, for the file that is being read."""
        self._by_node: dict[int, SchemaPart] = {}
        self._names: set[str] = set()
        self._pending: list[SchemaPart] = []
        self._part = SchemaPart("", None, MAIN)
        self._total = 0
        """The number of subschemas converted so far."""
        self.parts: list[SchemaPart] = []
        self.branching: list[SchemaPart] = []
        """Parts with components that judge the same value."""

    def convert(self, raw: Any, file: str = MAIN) -> SchemaPart:
        """Convert a schema of an operation, with all components it refers to."""
        part = SchemaPart("", raw, file)
        self._convert_part(part)
        while self._pending:
            self._convert_part(self._pending.pop())
        return part

    def _convert_part(self, part: SchemaPart) -> None:
        self._part = part
        self._links = self._by_file.setdefault(part.file, {})
        part.node = {}
        try:
            if self._total <= _MAX_TOTAL:
                part.node = self.node(part.raw, 0)
            else:
                self.notes.at(part.raw, f"what lies beyond {_MAX_TOTAL:,} subschemas of a document is left open")
        except UNEXPECTED_FORM as error:
            # Several operations may share it, so an unexpected form opens this schema and does not fail an operation.
            self.notes.at(part.raw, f"the schema cannot be read ({type(error).__name__}); anything is allowed")
            part.refs, part.inline = {}, ()
        part.raw = None
        self._total += part.count
        self.parts.append(part)
        if part.inline:
            self.branching.append(part)

    def node(self, raw: Any, depth: int) -> Any:
        """Convert one schema object. Called for every subschema, so common cases are handled here directly."""
        if type(raw) is not dict:
            return self._read_bare_value(raw)
        part = self._part
        part.count += 1
        if part.count > _MAX_COUNT:
            self.notes.at(raw, f"what lies beyond {_MAX_COUNT:,} subschemas of one schema is left open")
            return {}
        ref = raw.get("$ref")
        if type(ref) is str:
            if len(raw) == 1 and depth and ref in self._links:
                target = self._links[ref]
                part.refs[target.name] = target
                return target.link
            return self._read_reference(raw, ref, depth)
        return self._read_keywords(raw, depth)

    def _read_keywords(self, raw: Node, depth: int) -> Any:
        if not COMPOSING.isdisjoint(raw) and self._compositions.is_contradictory(raw, self._part.file):
            self.notes.at(raw, "additionalProperties: false left out: it forbids properties of the schemas beside it")
            raw = self._compositions.open_schema(raw, self._part.file)
        out: Node = {}
        for key, value in raw.items():
            read = _READERS.get(key)
            if read is None:
                continue
            if type(value) is dict and key not in _VALUES and type(value.get("$ref")) is str:
                out |= self._read_elsewhere(key, value, depth)
            else:
                read(self, raw, out, key, value, depth)
        if not COMBINED.isdisjoint(out) or type(out.get("items")) is list:
            read_combined(self, raw, out, depth)
        if out.get("additionalProperties") is False and "required" in out and "patternProperties" not in out:
            self._admit_required(raw, out)
        if raw.get("nullable") is True or raw.get("x-nullable") is True:
            self._part.count += 2
            return allow_null(out)
        return out

    def _admit_required(self, raw: Node, out: Node) -> None:
        """Let a closed schema have the properties it requires but does not declare."""
        properties = out.get("properties", {})
        unknown = [name for name in out["required"] if name not in properties]
        if unknown:
            self.notes.at(raw, f"additionalProperties: false does not hold for what is required: {unknown[0][:80]!r}")
            out["properties"] = {**properties, **{name: {} for name in unknown}}

    def _read_elsewhere(self, key: str, value: Node, depth: int) -> Node:
        """Read a keyword whose value, not a schema, is a reference; its content belongs to the target's file."""
        part, file, links = self._part, self._part.file, self._links
        try:
            found = self._files.resolve(ResolvedRef(value, file))
        except LookupError as error:
            self.notes.at(value, f"{key} cannot be read, and is left out: {error.args[0]}")
            return {}
        part.file, self._links = found.file, self._by_file.setdefault(found.file, {})
        out = self._read_keywords({key: found.node}, depth)
        part.file, self._links = file, links
        return out if type(out) is dict else {}

    def _read_direction(self, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
        if value is True:
            self._part.directed = True
            out[key] = True

    def _read_bare_value(self, raw: Any) -> Any:
        self._part.count += 1
        if isinstance(raw, bool):
            return raw
        if type(raw) is str:
            out: Node = {}
            read_type_of(self, {}, out, raw)
            return out
        return {}

    def _read_single(self, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
        if depth >= MAX_DEPTH:
            self.notes.at(raw, f"what lies deeper than {MAX_DEPTH} levels is left open")
            out[key] = {}
        elif type(value) is list and key == "items":
            out[key] = [self.node(item, depth + 1) for item in value]
        elif key == "additionalProperties" and value == _ANY_OBJECT:
            # Generators write this for a map of any values: `Map<String, Object>`.
            self.notes.at(raw, "additionalProperties that are 'type: object' and nothing else may be anything")
            out[key] = True
        else:
            out[key] = self.node(value, depth + 1)
            if key in _IN_PLACE:
                self._add_inline(out[key])

    def _add_inline(self, node: Any) -> None:
        ref = node.get("$ref") if type(node) is dict else None
        if ref is not None:
            self._part.inline = [*self._part.inline, self._part.refs[ref[8:]]]

    def _read_properties(self, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
        if type(value) is not dict or depth >= MAX_DEPTH:
            too_deep = f"what lies deeper than {MAX_DEPTH} levels is left open"
            self.notes.at(raw, too_deep if depth >= MAX_DEPTH else "properties are not a mapping")
            out[key] = {}
            return
        node, below = self.node, depth + 1
        found = {}
        for name, sub in value.items():
            found[name] = node(sub, below)
            if type(sub) is dict and sub.get("required") is True:
                self.notes.at(sub, "'required: true' moved to the list of the object around it")
                names = out.setdefault("required", [])
                if name not in names:
                    out["required"] = [*names, name]
        out[key] = found

    def _read_list(self, raw: Node, out: Node, key: str, value: Any, depth: int) -> None:
        if type(value) is not list or not value or depth >= MAX_DEPTH:
            self.notes.at(raw, f"{key} is not a list of schemas, or lies too deep; left out")
            return
        below = depth + 1
        found = [self.node(sub, below) for sub in value]
        if key == "oneOf":
            # A value that fits one of two equal schemas fits both, which oneOf forbids.
            first: dict[bytes, Any] = {}
            for node in found:
                first.setdefault(_text_without_remarks(node), node)
            found = list(first.values())
        out[key] = found
        for node in found:
            if type(node) is dict and "$ref" in node:
                self._add_inline(node)

    def _read_reference(self, raw: Node, ref: str, depth: int) -> Any:
        part = self._part
        out: Node = {}
        try:
            target = self._links.get(ref) or self._find_component(ref, part.file)
        except LookupError as error:
            self.notes.at(raw, f"reference {ref[:200]!r} cannot be followed, anything is allowed: {error.args[0]}")
        else:
            self._links[ref] = target
            part.refs[target.name] = target
            out["$ref"] = "#/$defs/" + target.name
            if depth == 0 or len(raw) > 1:
                part.inline = [*part.inline, target]
        if len(raw) > 1:
            self._read_siblings(raw, out, depth)
            if raw.get("nullable") is True or raw.get("x-nullable") is True:
                part.count += 2
                return {"anyOf": [out, {"type": "null"}]} if "$ref" in out else out
        return out

    def _read_siblings(self, raw: Node, out: Node, depth: int) -> None:
        """Read the keywords beside a reference: since 3.1 all apply; before, only descriptions and flags are used."""
        if self._modern:
            rest = {key: value for key, value in raw.items() if key not in ("$ref", "nullable", "x-nullable")}
            out |= self.node(rest, depth)
            return
        for key in _BESIDE_OLD_REF:
            if type(raw.get(key)) is str:
                out[key] = raw[key]
        for key in ("readOnly", "writeOnly"):
            # The specification ignores these here, but authors mean them.
            if raw.get(key) is True:
                self._part.directed = True
                out[key] = True

    def _find_component(self, ref: str, file: str) -> SchemaPart:
        """The component that a reference leads to; `LookupError` says why there is none."""
        found = self._compositions.opened_target(ref, file) or self._files.follow(ref, file)
        passed: set[int] = set()
        while len(found.mapping) == 1 and "$ref" in found.mapping:
            # A component that is only a reference to the actual one.
            ref = found.node["$ref"]
            if id(found.node) in passed or type(ref) is not str:
                raise LookupError(CIRCULAR)
            passed.add(id(found.node))
            found = self._files.follow(ref, found.file)
        node = found.node
        if not isinstance(node, (dict, bool)):
            raise LookupError("it leads to no schema")
        known = self._by_node.get(id(node)) if type(node) is dict else None
        if known is None:
            known = SchemaPart(self._name_component(ref), node, found.file)
            self._by_node[id(node)] = known
            self._pending.append(known)
        return known

    def _name_component(self, ref: str) -> str:
        tail = ref.rpartition("/")[2]
        if ref[:2] == "#/" and tail not in self._names and _SAFE.fullmatch(tail):
            self._names.add(tail)
            return tail
        tail = ref.rstrip("/#").rpartition("/")[2].rpartition("#")[2] or "schema"
        if "#" not in ref:
            tail = _EXTENSION.sub("", tail)
        base = tail if _SAFE.fullmatch(tail) else _UNSAFE.sub("_", tail.replace("~1", "_").replace("~0", "_"))[:100]
        name = base
        number = 2
        while name in self._names:
            name = f"{base}_{number}"
            number += 1
        self._names.add(name)
        return name


def _text_without_remarks(node: Any) -> bytes:
    # Compared as text, since True equals 1 in Python but not in JSON Schema.
    bare = {key: value for key, value in node.items() if key not in _REMARKS} if type(node) is dict else node
    return _encode(bare)


_READERS: dict[str, Callable[[Schemas, Node, Node, str, Any, int], None]] = {
    **KEYWORDS,
    **dict.fromkeys(("properties", "dependentSchemas"), Schemas._read_properties),
    **dict.fromkeys(_VALUES - KEYWORDS.keys(), Schemas._read_single),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), Schemas._read_list),
    **dict.fromkeys(("readOnly", "writeOnly"), Schemas._read_direction),
}
