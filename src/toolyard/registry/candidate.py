"""One overload, ready to be called: its tool, its validator, and what to fill in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from toolyard.model.bindings import PythonBinding
from toolyard.model.tool import Schema, Tool
from toolyard.registry.arguments import Arguments, read_arguments
from toolyard.schema.compile import CompiledSchema, compile_schema
from toolyard.schema.refs import declared_properties

_SHORT = 400
_decode = msgspec.json.Decoder().decode
_OPEN_OBJECT = {"type": "object"}


class Candidate:
    """Made for every registered tool, so it holds next to nothing until it is first called.

    Admission has already shown that the schema compiles; nothing here can fail late.
    """

    defaults: tuple[tuple[str, Any], ...] = ()
    """Top-level properties that the schema gives a default; known once `validate` has run."""
    function: Callable[..., Any] | None = None
    """The callable itself, where JSON arguments can be its keywords as they are."""
    integers: tuple[str, ...] = ()
    """Keywords that `function` wants as int."""
    nested: tuple[str, ...] = ()
    """Top-level properties that may be objects; known once `validate` has run."""
    _compiled: CompiledSchema | None = None
    _declared: frozenset[str] | None = None

    def __init__(self, tool: Tool, compiled: CompiledSchema | None = None) -> None:
        self.tool = tool
        if compiled is not None:
            self._compiled = compiled
        binding = tool.binding
        if type(binding) is PythonBinding and _is_direct(binding):
            self.function = binding.callable
            self.integers = binding.integers

    def validate(self, arguments: Any) -> None:
        """Raise ValueError unless the arguments fit. The first call replaces this by the validator's own."""
        schema = self.tool.parameters
        self.defaults = _defaults(schema)
        self.nested = tuple(name for name, sub in (schema.get("properties") or {}).items() if _may_be_object(sub))
        self.validate = self.compiled.validate  # type: ignore[method-assign, assignment]
        self.validate(arguments)

    def read(self, text: str) -> Arguments:
        """JSON text as arguments, as `read_arguments` would, but sooner.

        Every key has a colon behind it. So when a text has no more colons than the result has keys, none was
        repeated and dropped, and the costlier proof can be spared; likewise a short text cannot nest deeply.
        """
        if len(text) <= _SHORT:
            try:
                value = _decode(text)
            except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
                return read_arguments(text)
            if type(value) is dict:
                keys = len(value)
                for name in self.nested:
                    inner = value.get(name)
                    if type(inner) is dict:
                        keys += len(inner)
                if text.count(":") == keys:
                    return value
        return read_arguments(text)

    @property
    def compiled(self) -> CompiledSchema:
        """The compiled input schema."""
        if self._compiled is None:
            # Two threads may both compile; either result serves.
            self._compiled = compile_schema(self.tool.parameters or _OPEN_OBJECT)
        return self._compiled

    @property
    def declared(self) -> frozenset[str]:
        """Names of the declared properties."""
        if self._declared is None:
            self._declared = declared_properties(self.tool.parameters)
        return self._declared

    def with_defaults(self, arguments: Arguments) -> Arguments:
        """The arguments with missing defaults filled in; the same object if there are none."""
        missing = [(name, value) for name, value in self.defaults if name not in arguments]
        if not missing:
            return arguments
        return {**arguments, **{name: _fresh(value) for name, value in missing}}


def _is_direct(binding: PythonBinding) -> bool:
    special = binding.is_async or binding.takes_ctx or binding.prepare is not None or binding.returns is not None
    return not special


def _defaults(schema: Schema) -> tuple[tuple[str, Any], ...]:
    properties = schema.get("properties") or {}
    return tuple(
        (name, sub["default"]) for name, sub in properties.items() if isinstance(sub, dict) and "default" in sub
    )


def _may_be_object(schema: Any) -> bool:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind is None or kind == "object" or (isinstance(kind, list) and "object" in kind)


def _fresh(value: Any) -> Any:
    """A default of its own for each call: a tool that changes it must not change the schema."""
    if isinstance(value, dict):
        return {key: _fresh(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_fresh(item) for item in value]
    return value
