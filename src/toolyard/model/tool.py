"""`Tool`: the definition that every source produces and every other part reads.

`DeferredTool` creates its schemas on first access. Fingerprints are canonical hashes: the order of keys and of
`required`, `enum` and `type` lists does not matter, everything else does, descriptions included; integral floats equal
integers, as in JSON Schema. An inferred output schema (`is_guess`) is for planning; real results are not held to it.
`SearchResults` are the tools that a search found.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Literal

import msgspec

from toolyard.model.bases import DataclassStruct
from toolyard.model.bindings import Binding
from toolyard.model.errors import DefinitionError
from toolyard.model.json_schema import SCHEMA_LISTS, SCHEMA_MAPS, SCHEMA_SINGLES
from toolyard.model.names import qualify

_encode = msgspec.json.Encoder(order="deterministic").encode


def fingerprint(schema: dict[str, Any] | bool) -> str:
    """Hex SHA-256 of the canonical form of a schema."""
    return hashlib.sha256(_encode(canonical(schema))).hexdigest()


def digest(*parts: object) -> str:
    """Hex SHA-256 over plain JSON values, each in canonical form."""
    return json_digest(list(parts))


def json_digest(value: object) -> str:
    """Hex SHA-256 of the canonical JSON of one plain value."""
    return hashlib.sha256(_encode(_plain_data(value))).hexdigest()


def canonical(schema: Any) -> Any:
    """The schema with set-like lists sorted; the encoder sorts the keys."""
    if not isinstance(schema, dict):
        return _plain_data(schema)
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in SCHEMA_MAPS and isinstance(value, dict):
            out[key] = {name: canonical(sub) for name, sub in value.items()}
        elif key in SCHEMA_LISTS and isinstance(value, list):
            out[key] = [canonical(sub) for sub in value]
        elif key in SCHEMA_SINGLES:
            out[key] = [canonical(sub) for sub in value] if isinstance(value, list) else canonical(value)
        elif key in ("required", "enum", "type") and isinstance(value, list):
            out[key] = value[0] if key == "type" and len(value) == 1 else sorted(map(_plain_data, value), key=_encode)
        else:
            out[key] = _plain_data(value)
    return out


def _plain_data(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _plain_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_data(item) for item in value]
    return value


Schema = dict[str, Any]


class Effects(enum.StrEnum):
    """What a call may change outside the session."""

    READ = "read"
    WRITE = "write"
    UNKNOWN = "unknown"


EffectsName = Literal["read", "write", "unknown"]
EffectsLike = Effects | EffectsName
"""Accepted spellings; a `Tool` always holds the enum."""


class _PositionalFields(DataclassStruct, frozen=True):
    """The positional fields of `Tool`, in the order of its contract; `Tool` adds the keyword-only ones."""

    name: str
    namespace: str
    description: str = ""
    parameters: Schema = {}
    output_parameters: Schema = {}
    metadata: dict[str, Any] = {}


class Tool(_PositionalFields, frozen=True, kw_only=True, dict=True, eq=False):
    """A tool definition. Frozen: use `replace` for a changed copy.

    `metadata` belongs to the user; toolyard passes it on and never acts on it. `binding` says how the tool is
    reached. It is not part of equality: tools are equal if a model could not tell them apart.
    """

    version: str | None = None
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    effects: Effects = Effects.UNKNOWN
    source: str | None = None
    binding: Binding | None = None

    not_data = ("binding",)

    def __post_init__(self) -> None:
        if not (type(self.name) is type(self.namespace) is type(self.description) is str):
            _check_texts(self)
        if type(self.tags) is not tuple:
            msgspec.structs.force_setattr(self, "tags", _read_names(self.tags, "tags"))
        if type(self.aliases) is not tuple:
            msgspec.structs.force_setattr(self, "aliases", _read_names(self.aliases, "aliases"))
        if type(self.effects) is not Effects:
            msgspec.structs.force_setattr(self, "effects", _read_effects(self.effects))

    @property
    def qualified_name(self) -> str:
        """`namespace::name`, the name every call uses."""
        return qualify(self.namespace, self.name)

    @cached_property
    def fingerprint(self) -> str:
        """Canonical hash of the input schema; tells overloads apart."""
        return fingerprint(self.parameters)

    @cached_property
    def definition_hash(self) -> str:
        """Hash of everything a model sees of the tool; a changed hash means a different tool."""
        return digest(
            self.name, self.description, self.fingerprint, fingerprint(self.output_parameters), self.effects.value
        )

    def replace(self, **changes: Any) -> Tool:
        """A copy with some fields changed."""
        unknown = changes.keys() - _FIELDS
        if unknown:
            raise TypeError(f"Tool has no field {sorted(unknown)[0]!r}; fields are {', '.join(FIELDS)}")
        if type(self) is Tool:
            return msgspec.structs.replace(self, **changes)
        return Tool(**{field: changes[field] if field in changes else getattr(self, field) for field in FIELDS})

    __replace__ = replace

    def to_dict(self, *, qualified: bool = False) -> dict[str, Any]:
        """Plain JSON; optional fields only where set, and without the binding."""
        data: dict[str, Any] = {
            "name": self.qualified_name if qualified else self.name,
            "namespace": self.namespace,
            "description": self.description,
            "parameters": self.parameters,
            "output_parameters": self.output_parameters,
            "metadata": self.metadata,
        }
        if self.version is not None:
            data["version"] = self.version
        if self.tags:
            data["tags"] = list(self.tags)
        if self.aliases:
            data["aliases"] = list(self.aliases)
        if self.effects is not Effects.UNKNOWN:
            data["effects"] = self.effects.value
        if self.source is not None:
            data["source"] = self.source
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any], namespace: str | None = None) -> Tool:
        """Inverse of `to_dict`. Unknown keys go to `metadata`; `namespace` fills in a missing one."""
        if not isinstance(data, dict) or not isinstance(data.get("name"), str):
            raise DefinitionError("a tool must be a mapping with a 'name'")
        known = {key: value for key, value in data.items() if key in _FROM_DICT and value is not None}
        extra = {key: value for key, value in data.items() if key not in _FROM_DICT}
        if extra:
            known["metadata"] = {**known.get("metadata", {}), **extra}
        known.setdefault("namespace", namespace)
        if not isinstance(known["namespace"], str):
            raise DefinitionError(f"tool {data['name']!r} has no namespace; pass namespace=... or set the key")
        # `to_dict(qualified=True)` repeats the namespace in the name.
        known["name"] = known["name"].removeprefix(qualify(known["namespace"], ""))
        for field, kind in _FIELD_TYPES.items():
            if field in known and not isinstance(known[field], kind):
                raise DefinitionError(
                    f"{field!r} of tool {data['name']!r} must be {_TYPE_NAMES[kind]}, not {type(known[field]).__name__}"
                )
        return cls(**known)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tool):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in _COMPARED)

    def __hash__(self) -> int:
        return hash((self.namespace, self.name))


FIELDS = Tool.__struct_fields__
_FIELDS = frozenset(FIELDS)
_COMPARED = tuple(field for field in FIELDS if field not in ("binding", "source"))
_FROM_DICT = frozenset(FIELDS) - {"binding"}
_FIELD_TYPES: dict[str, type] = {
    "description": str,
    "parameters": dict,
    "output_parameters": dict,
    "metadata": dict,
    "version": str,
    "source": str,
}
_TYPE_NAMES: dict[type, str] = {str: "text", dict: "a mapping"}


def _check_texts(tool: Tool) -> None:
    for field in ("name", "namespace", "description"):
        if not isinstance(getattr(tool, field), str):
            kind = type(getattr(tool, field)).__name__
            raise DefinitionError(f"{field} of tool {tool.name!r} must be text, not {kind}")


def _read_names(values: Iterable[str] | str, field: str) -> tuple[str, ...]:
    if not isinstance(values, (str, list, tuple, set, frozenset)):
        raise DefinitionError(f"{field} must be a list of text, not {type(values).__name__}")
    names = (values,) if isinstance(values, str) else tuple(values)
    if not all(isinstance(name, str) for name in names):
        raise DefinitionError(f"{field} must be a list of text")
    return names


def _read_effects(value: object) -> Effects:
    try:
        return Effects(str(value).lower())
    except ValueError:
        raise DefinitionError(f"effects must be one of read, write, unknown; not {value!r}") from None


class DeferredTool(Tool, frozen=True, kw_only=True, dict=True, eq=False):
    """Base of tools that keep raw material and create their schemas or binding from it once, on first access.

    A subclass has a field for the raw material and a `cached_property` named after each field that it creates. Its
    schemas are not validated when it enters a registry, so its source must guarantee that they are valid and that
    creating them cannot fail.
    """

    @property  # type: ignore[misc]
    def __class__(self) -> type[Tool]:  # type: ignore[override]
        # `dataclasses.replace` creates its copy with this class: a plain `Tool`, since no raw material is passed on.
        return Tool

    def make_schema(self, field: str) -> Schema:
        """A new copy of `parameters` or `output_parameters`, private to the registry, by which calls are validated."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.qualified_name!r})"

    def __reduce__(self) -> Any:
        # Pickled and deeply copied as a plain `Tool`, without the raw material.
        return self.replace().__reduce__()


INFERRED = "x-inferred"
"""Schema keyword that names the origin of an inferred output schema."""
SOURCES = ("rules", "lm", "examples")
"""Values of `INFERRED`."""


def is_guess(tool: Tool) -> bool:
    """True if the tool has a binding and an inferred output schema; its results are not checked against it.

    A tool without a binding is simulated from the schema itself, so its schema is not a guess.
    """
    return tool.binding is not None and INFERRED in tool.output_parameters


def promises_output(tool: Tool) -> bool:
    """True if the tool has an output schema that its results are checked against."""
    return bool(tool.output_parameters) and not is_guess(tool)


Fit = Literal["sure", "likely", "nearest"]
SearchMode = Literal["hybrid", "lexical"]


class Hit(msgspec.Struct, frozen=True):
    """One tool that may match the query."""

    tool: Tool
    score: float
    """Probability that the tool is the one wanted, from 0 to 1; 1 if the query is its name."""
    fit: Fit
    """The score as a category; a `nearest` hit may be irrelevant."""
    reasons: Mapping[str, float] = {}
    """Evidence: `words` (share of the query found in the tool), `name` (share of its name in the query), `meaning`
    (vector similarity; absent from lexical searches)."""


class SearchResults(list[Hit]):
    """The hits, best first; fewer than requested, possibly none, if fewer are relevant."""

    def __init__(self, hits: Iterable[Hit] = (), *, mode: SearchMode, note: str = "") -> None:
        super().__init__(hits)
        self.mode = mode
        """`lexical` if only words were compared."""
        self.note = note
        """Why the search was lexical or could find nothing, and the remedy; empty otherwise."""

    def __repr__(self) -> str:
        found = ", ".join(f"{hit.tool.qualified_name} {hit.fit} {hit.score:.2f}" for hit in self)
        return f"SearchResults([{found}], mode={self.mode!r})"
