"""`PreparedTool`: everything about a tool that is computed once instead of per call.

This includes its validator, defaults, integer fields and function; both `dispatch` and the call path use it. The
arguments of a call, a JSON object, are read, written, copied and checked here, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from itertools import chain, islice
from types import CoroutineType
from typing import Any

import msgspec

from toolyard.model.bindings import RestBinding
from toolyard.model.call import ToolContext
from toolyard.model.errors import InvalidArguments, MalformedSource
from toolyard.model.json_schema import TooManyValues, copy_json, is_small, iter_levels, json_type, pointer_of
from toolyard.model.names import find_similar, show
from toolyard.model.tool import DeferredTool, Effects, Schema, is_guess
from toolyard.parsing import parse_json
from toolyard.parsing.json_text import json_decoder
from toolyard.registry.function_call import (
    check_dispatch,
    function_caller,
    integral_arguments,
    plain_function,
    raise_failure,
    wait_for,
)
from toolyard.schema.admission import AdmittedTool, Kept, keep_schema, read_kept
from toolyard.schema.coerce import mentions_integers
from toolyard.schema.compile import QUICK_BYTES, SMALL_BYTES, CompiledSchema, compile_schema
from toolyard.schema.subschemas import declared_properties
from toolyard.schema.violations import MAX_VIOLATIONS, Violation, describe

Arguments = dict[str, Any]
RawArguments = Arguments | str | bytes | None

MAX_DEPTH = 200
MAX_VALUES = 1_000_000
MAX_BITS = 14_284
"""Size of an integer of 4,300 digits, the limit for JSON text; the validator does not support larger ones."""
_KINDS = frozenset({dict, list, str, int, float, bool, type(None)})

_encode = msgspec.json.encode
_decode = json_decoder()


def read_arguments(arguments: RawArguments) -> Arguments:
    """The arguments as an object: None is empty, text is parsed as strict JSON; raises `InvalidArguments`."""
    if isinstance(arguments, dict):
        return arguments
    if arguments is None:
        return {}
    value: Any = arguments
    if isinstance(arguments, (str, bytes)):
        try:
            value = parse_json(arguments, what="arguments")
        except MalformedSource as error:
            raise InvalidArguments(f"arguments are not valid JSON: {error}", hint="send one JSON object") from None
    if not isinstance(value, dict):
        raise InvalidArguments(f"arguments must be a JSON object, not {json_type(value)}", hint="send one JSON object")
    return value


def json_text(arguments: Arguments) -> bytes:
    """The arguments as JSON text; raises `InvalidArguments` as `check_json` does."""
    # Other mappings such as OrderedDict are accepted at the root only.
    if not is_small(arguments if type(arguments) is dict else {**arguments}):
        check_json(arguments)
    try:
        return _encode(arguments)
    except (TypeError, ValueError, RecursionError):
        check_json(arguments)
        raise InvalidArguments("arguments hold a value that JSON cannot carry") from None


def plain_copy(arguments: Arguments, text: bytes) -> Arguments:
    """A deep copy of the arguments, decoded from their JSON `text`; raises `InvalidArguments` unless all of it is JSON.

    Comparing the copy with the original, at C speed, finds whatever JSON would change (tuples, dates, NaN, keys that
    are not text). Only arguments that differ, or may hold too many values, are walked in Python to name the fault.
    """
    copy: Arguments = _decode(text)
    if copy != arguments or len(text) > MAX_VALUES:
        check_json(arguments)
    return copy


def check_json(arguments: Arguments) -> None:
    """Raise `InvalidArguments` unless every value is JSON, within the limits of size and depth.

    Validators only look at declared values, but all arguments are recorded or sent on as JSON.
    """
    try:
        for depth, level in enumerate(iter_levels(arguments, MAX_VALUES), 1):
            if depth > MAX_DEPTH:
                raise InvalidArguments(f"arguments nest deeper than {MAX_DEPTH} levels")
            _check_level(level)
    except TooManyValues:
        raise InvalidArguments(f"arguments hold over {MAX_VALUES:,} values") from None


def _check_level(level: list[Any]) -> None:
    kinds = set(map(type, level))
    if dict in kinds and not set(map(type, chain.from_iterable(item for item in level if type(item) is dict))) <= {str}:
        raise InvalidArguments("arguments hold a key that is not text, which JSON cannot carry")
    if float in kinds and not all(math.isfinite(item) for item in level if type(item) is float):
        raise InvalidArguments("arguments hold NaN or Infinity, which JSON cannot carry")
    if int in kinds and max(item.bit_length() for item in level if type(item) is int) > MAX_BITS:
        raise InvalidArguments("arguments hold an integer of over 4,300 digits")
    if unknown := kinds - _KINDS:
        kind = next(type(item) for item in level if type(item) in unknown)
        raise InvalidArguments(f"arguments hold a value of type {kind.__name__}, which JSON cannot carry")


_OPEN_OBJECT = {"type": "object"}
_OF_ONE_PROPERTY = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description", "$schema", "$defs"}
)
"""Object keywords that stay satisfied when a declared property with a valid value is added."""
_HINTED = 50
"""Most names compared for a hint, since the comparison is quadratic."""


class PreparedTool:
    """The derived data of one registered tool, computed lazily, since most tools are never called.

    Admission has shown that the schema compiles, so nothing here can fail late. Calls are validated by private copies
    of the schemas, because callers can change the dicts of `tool`.
    """

    # Slots for what every call reads: access takes a fifth of the time of an attribute in `__dict__`.
    __slots__ = ("__dict__", "dispatch", "tool")

    source_number: int = 0
    """Index of the tool's source in the registry."""
    place: str = ""
    """As in `AdmittedTool`, like `qualified_only`; set on the instance only if it differs, to save memory."""
    qualified_only: bool = False
    is_ready: bool = False
    """True once `make_ready` was called, so that calls may be validated on an event loop."""

    def __init__(self, admitted: AdmittedTool) -> None:
        self.tool = admitted.tool
        self.dispatch: Callable[[RawArguments, ToolContext | None], Any] | None = None
        """The result of `make_dispatch`; None before its first call."""
        self._kept = admitted.kept
        if admitted.compiled is not None:
            self.compiled = admitted.compiled
        if admitted.place:
            self.place = admitted.place
        if admitted.qualified_only:
            self.qualified_only = True

    @cached_property
    def identity(self) -> tuple[str, str, str | None, str]:
        """Qualified name, definition hash, version and effects, for logs."""
        tool = self.tool
        return tool.qualified_name, tool.definition_hash, tool.version, tool.effects.value

    @cached_property
    def parameters(self) -> Schema:
        """A private copy of the input schema."""
        return self._own_schema("parameters")

    @cached_property
    def output_parameters(self) -> Schema:
        """A private copy of the output schema."""
        return self._own_schema("output_parameters")

    def keep_parameters(self) -> Kept:
        """The stored input schema, for another `PreparedTool` with the same parameters."""
        return keep_schema(self.parameters) if self._kept is None else self._kept[0]

    def _own_schema(self, field: str) -> Schema:
        if isinstance(self.tool, DeferredTool):
            return self.tool.make_schema(field)
        if self._kept is None:
            self._kept = (keep_schema(self.tool.parameters), keep_schema(self.tool.output_parameters))
        return read_kept(self._kept[field != "parameters"])

    @cached_property
    def compiled(self) -> CompiledSchema:
        """The compiled input schema."""
        return compile_schema(self.parameters or _OPEN_OBJECT)

    @property
    def known_compiled(self) -> CompiledSchema | None:
        """The compiled input schema; None if it was not needed yet."""
        return self.__dict__.get("compiled")

    @cached_property
    def small_bytes(self) -> int:
        """Size of JSON text up to which arguments are validated by `judge_small`, without measuring them."""
        return min(SMALL_BYTES, self.compiled.max_bytes)

    @cached_property
    def terms(self) -> tuple[Callable[[Any], bool], int, Schema | None, Arguments]:
        """What every call needs, in one lookup: `judge_small`, `small_bytes`, `integers` and `defaults`."""
        return self.compiled.judge_small, self.small_bytes, self.integers, self.defaults

    def make_ready(self) -> None:
        """Create the validators of arguments and results, which may take long for a large schema."""
        for compiled in (self.compiled, self.output):
            _ = compiled.weight
        self.is_ready = True

    @cached_property
    def output(self) -> CompiledSchema:
        """The compiled output schema; for one that is only a guess, a schema that accepts anything."""
        return compile_schema({} if is_guess(self.tool) else self.output_parameters)

    @cached_property
    def integers(self) -> Schema | None:
        """The input schema if it mentions integers anywhere, else None."""
        return self.parameters if mentions_integers(self.parameters) else None

    @cached_property
    def declared(self) -> frozenset[str]:
        """Names of the declared properties."""
        return declared_properties(self.parameters)

    @cached_property
    def defaults(self) -> Arguments:
        """Defaults of top-level properties, less those that violate the schema."""
        if isinstance(self.tool.binding, RestBinding):
            # In an API description a default documents the server's behaviour; sending it may mean something else.
            return {}
        properties = self.parameters.get("properties") or {}
        given = {name: sub["default"] for name, sub in properties.items() if isinstance(sub, dict) and "default" in sub}
        if not given or self.compiled.accepts(given):
            return given
        wrong = {violation.pointer.split("/")[1] for violation in self.compiled.violations(given) if violation.pointer}
        return {name: value for name, value in given.items() if pointer_of([name])[1:] not in wrong}

    @cached_property
    def _are_independent(self) -> bool:
        """True if no keyword relates several properties, so that adding defaults cannot invalidate arguments."""
        found = self.compiled.violations(self.defaults) if self.parameters.keys() <= _OF_ONE_PROPERTY else None
        return found is not None and len(found) < MAX_VIOLATIONS and not any(one.pointer for one in found)

    @cached_property
    def call_function(self) -> Callable[[Arguments, ToolContext | None], Any]:
        """As `function_caller`: calls the tool's function and returns its value or coroutine."""
        return function_caller(self.tool, self.tool.binding)

    def make_dispatch(self) -> Callable[[RawArguments, ToolContext | None], Any]:
        """Create `dispatch`, which validates, calls and waits; it does not copy arguments, and raises `CallError`s."""
        self.dispatch = dispatch = _make_dispatcher(self)
        return dispatch

    def accepts(self, arguments: Arguments, size: int | None = None) -> bool:
        """Whether the schema accepts the arguments; `size` is that of their JSON text, if known."""
        judge = self.compiled.is_valid
        if size is not None:
            judge = self.compiled.judge_small if size <= self.small_bytes else self.compiled.judge
        try:
            return judge(arguments)
        except ValueError:  # not JSON
            return False

    def with_defaults(self, arguments: Arguments) -> Arguments:
        """The arguments with missing defaults filled in; the same object if none apply or they would be invalid."""
        missing = {name: value for name, value in self.defaults.items() if name not in arguments}
        if not missing:
            return arguments
        # Copy the defaults: a tool that changes its arguments must not change the schema.
        filled = {**arguments, **copy_json(missing)}
        return filled if self._are_independent or self.compiled.is_valid(filled) else arguments

    def explain_invalid(self, arguments: Arguments, violations: list[Violation] | None = None) -> InvalidArguments:
        """The error for arguments that the schema rejects, with every violation."""
        violations = violations or self.compiled.violations(arguments)
        return InvalidArguments(
            f"invalid arguments for {self.tool.qualified_name}: {describe(violations)}",
            hint=self._name_hint(arguments),
            details={"violations": [violation.to_dict() for violation in violations]},
        )

    def _name_hint(self, arguments: Arguments) -> str | None:
        """A hint that names the declared parameter most similar to an undeclared one."""
        declared = sorted(self.declared)[:_HINTED]
        for name in islice(arguments, _HINTED):
            if isinstance(name, str) and name not in self.declared:
                near = find_similar(name[:100], declared)
                if near:
                    return f"did you mean {near[0]!r} instead of {show(name[:100])}?"
        return None

    @property
    def origin(self) -> str:
        """The tool's source and, if known, its place there."""
        return f"{self.tool.source or ''}{self.place}" or "added in code"


def may_block_loop(candidates: tuple[PreparedTool, ...], arguments: RawArguments) -> bool:
    """True if binding the arguments, valid or not, may take more than the few milliseconds an event loop can spare.

    The reasons: a validator is still to be created, or there are many values or much text.
    """
    if not all(candidate.is_ready for candidate in candidates):
        return True
    if type(arguments) is dict:
        if not is_small(arguments):
            return True
        size = len(json_text(arguments))
    else:
        size = len(arguments or b"")
    return any(size > min(QUICK_BYTES, candidate.small_bytes) for candidate in candidates)


def _make_dispatcher(prepared: PreparedTool) -> Callable[[RawArguments, ToolContext | None], Any]:
    is_valid, defaults, writes = prepared.compiled.is_valid, prepared.defaults, prepared.tool.effects is Effects.WRITE
    function, integers = plain_function(prepared.tool.binding)

    def dispatch(arguments: RawArguments, ctx: ToolContext | None = None) -> Any:
        if writes:
            check_dispatch(prepared.tool)
        checked = arguments if type(arguments) is dict else read_arguments(arguments)
        try:
            fits = is_valid(checked)
        except ValueError:  # not JSON
            fits = False
        if not fits:
            raise prepared.explain_invalid(checked)
        if defaults:
            checked = prepared.with_defaults(checked)
        if integers:
            checked = integral_arguments(integers, checked)
        if function is None:
            value = prepared.call_function(checked, ctx)
        else:
            try:
                value = function(**checked)
            except BaseException as error:  # noqa: BLE001 - converted and raised again
                raise_failure(prepared.tool, error)
        return wait_for(prepared.tool, value) if type(value) is CoroutineType else value

    return dispatch
