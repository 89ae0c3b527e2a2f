"""One overload, ready to be called: its tool, its validator, and what to fill in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolyard.model.bindings import RestBinding
from toolyard.model.json_words import copied, pointer_of
from toolyard.model.tool import Tool
from toolyard.registry.arguments import Arguments
from toolyard.schema.coerce import IntegerPlan, integer_plan
from toolyard.schema.compile import CompiledSchema, compile_schema
from toolyard.schema.refs import declared_properties
from toolyard.schema.typed_json import exact_decoder

_OPEN_OBJECT = {"type": "object"}


def _undecided(text: bytes | str) -> Arguments:
    raise ValueError("no type says what this schema says")


class Candidate:
    """Made for every registered tool, so it holds next to nothing until it is first called.

    Admission has already shown that the schema compiles; nothing here can fail late.
    """

    defaults: tuple[tuple[str, Any], ...] = ()
    """Top-level properties that the schema gives a default it also accepts; known once `validate` has run."""
    place: str = ""
    """Where in its source the tool was defined, to be put behind the source's name."""
    _compiled: CompiledSchema | None = None
    _output: CompiledSchema | None = None
    _integers: IntegerPlan | None = None
    _decode: Callable[[bytes | str], Any] | None = None
    _declared: frozenset[str] | None = None

    def __init__(self, tool: Tool, compiled: CompiledSchema | None = None) -> None:
        self.tool = tool
        if compiled is not None:
            self._compiled = compiled

    def validate(self, arguments: Any) -> None:
        """Raise ValueError unless the arguments fit. The first call replaces this by the validator's own."""
        self.defaults = self._fitting_defaults()
        self.validate = self.compiled.validate  # type: ignore[method-assign, assignment]
        self.validate(arguments)

    @property
    def compiled(self) -> CompiledSchema:
        """The compiled input schema."""
        if self._compiled is None:
            # Two threads may both compile; either result serves.
            self._compiled = compile_schema(self.tool.parameters or _OPEN_OBJECT)
        return self._compiled

    @property
    def decode(self) -> Callable[[bytes | str], Arguments]:
        """Arguments from JSON text, checked on the way; ValueError means that only `validate` can tell."""
        if self._decode is None:
            self.defaults = self._fitting_defaults()
            self._decode = exact_decoder(self.tool.parameters) or _undecided
        return self._decode

    @property
    def output(self) -> CompiledSchema:
        """The compiled output schema."""
        if self._output is None:
            self._output = compile_schema(self.tool.output_parameters)
        return self._output

    @property
    def integers(self) -> IntegerPlan:
        """Where the schema wants integers."""
        if self._integers is None:
            self._integers = integer_plan(self.tool.parameters)
        return self._integers

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
        # A default of its own for each call: a tool that changes it must not change the schema.
        filled = {**arguments, **{name: copied(value) for name, value in missing}}
        # Rules about several properties at once may refuse what each default alone satisfies.
        return filled if self.compiled.is_valid(filled) else arguments

    def _fitting_defaults(self) -> tuple[tuple[str, Any], ...]:
        if isinstance(self.tool.binding, RestBinding):
            # In an API's description a default is what the server does by itself; to send it may mean something else.
            return ()
        properties = self.tool.parameters.get("properties") or {}
        given = {name: sub["default"] for name, sub in properties.items() if isinstance(sub, dict) and "default" in sub}
        if not given:
            return ()
        wrong = {violation.pointer.split("/")[1] for violation in self.compiled.violations(given) if violation.pointer}
        return tuple((name, value) for name, value in given.items() if pointer_of([name])[1:] not in wrong)

    @property
    def origin(self) -> str:
        """Where the tool came from, as exactly as is known."""
        return f"{self.tool.source or 'added in code'}{self.place}"
