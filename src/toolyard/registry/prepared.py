"""`PreparedTool`: all that can be worked out about a tool once, so that no call has to.

Its validator, the defaults to fill in, where it wants integers, and the function behind it ready to be called.
`dispatch` is made of these, and so is the flow of calls.
`read_arguments` makes what callers hand over into the one thing a tool takes: a JSON object.
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
from toolyard.model.names import copied, json_type, nearest, pointer_of, show
from toolyard.model.tool import DeferredTool, Effects, Schema, Tool
from toolyard.model.tree_size import TooManyValues, is_small, iter_levels
from toolyard.parsing import parse_json
from toolyard.registry.function_call import (
    check_dispatch,
    function_caller,
    integral_arguments,
    plain_function,
    raise_failure,
    wait_for,
)
from toolyard.schema.admission import Kept, keep_schema, read_kept
from toolyard.schema.coerce import mentions_integers
from toolyard.schema.compile import QUICK_BYTES, SMALL_BYTES, CompiledSchema, compile_schema
from toolyard.schema.subschemas import declared_properties
from toolyard.schema.violations import MAX_VIOLATIONS, Violation, describe

Arguments = dict[str, Any]
RawArguments = Arguments | str | bytes | None

MAX_DEPTH = 200
MAX_VALUES = 1_000_000
MAX_BITS = 14_284
"""4,300 digits, the most that JSON text may have; beyond it the validator does not judge."""
_KINDS = frozenset({dict, list, str, int, float, bool, type(None)})

encode = msgspec.json.encode
_decode = msgspec.json.decode


def read_arguments(arguments: RawArguments) -> Arguments:
    """Arguments as an object: None is empty, text is parsed as strict JSON."""
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
    """The arguments as JSON text; raises what `check_json` says if they cannot be written."""
    # An OrderedDict is written as any other dict; inside, JSON knows no such thing.
    if not is_small(arguments if type(arguments) is dict else {**arguments}):
        check_json(arguments)
    try:
        return encode(arguments)
    except (TypeError, ValueError, RecursionError):
        check_json(arguments)
        raise InvalidArguments("arguments hold a value that JSON cannot carry") from None


def plain_copy(arguments: Arguments, text: bytes) -> Arguments:
    """A copy that shares nothing with the caller's, read from its JSON text; raises unless all of it is JSON.

    Writing and reading back at C speed, then comparing, finds whatever JSON would change on the way (a tuple,
    a date, NaN, a key that is no text). Only what differs, or may hold too many values, is walked to say what is wrong.
    """
    copy: Arguments = _decode(text)
    if copy != arguments or len(text) > MAX_VALUES:
        check_json(arguments)
    return copy


def check_json(arguments: Arguments) -> None:
    """Raise unless every value inside is JSON, of a size and depth that JSON text may have.

    Validators look only where something is declared; what is recorded or sent on must be JSON all over.
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
_OF_ONE = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description", "$schema", "$defs"}
)
"""Keywords of an object that a further property, declared and valid by itself, cannot break."""
_HINTED = 50
"""Names compared for a hint: comparing is quadratic, and a hint is not worth a stall."""


class PreparedTool:
    """Made for every registered tool, so it holds next to nothing until it is first called.

    Admission has already shown that the schema compiles; nothing here can fail late. Calls are judged by schemas that
    nobody else has: those of the tool are handed out, and whoever has them may change them.
    """

    # Read for every call: an attribute beside the `__dict__` is found in a fifth of the time.
    __slots__ = ("__dict__", "dispatch", "tool")

    source_number: int = 0
    """Which source of the registry gave it."""
    place: str = ""
    """Where in its source the tool was defined, to be put behind the source's name."""
    qualified_only: bool = False
    """True: bare names never mean it."""
    is_ready: bool = False
    """True once `make_ready` was called: an event loop may have calls judged."""

    def __init__(
        self, tool: Tool, compiled: CompiledSchema | None = None, kept: tuple[Kept, Kept] | None = None
    ) -> None:
        self.tool = tool
        self.dispatch: Callable[[RawArguments, ToolContext | None], Any] | None = None
        """What `make_dispatch` made, if somebody has needed it yet."""
        self._kept = kept
        if compiled is not None:
            self.compiled = compiled

    @cached_property
    def identity(self) -> tuple[str, str, str | None, str]:
        """Qualified name, definition hash, version and effects: what logs say of the tool."""
        tool = self.tool
        return tool.qualified_name, tool.definition_hash, tool.version, tool.effects.value

    @cached_property
    def parameters(self) -> Schema:
        """The input schema, for nobody else."""
        return self._own_schema("parameters")

    @cached_property
    def output_parameters(self) -> Schema:
        """The output schema, for nobody else."""
        return self._own_schema("output_parameters")

    def keep_parameters(self) -> Kept:
        """The input schema, for a tool that differs from this one in other things."""
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
        """The compiled input schema, if somebody has needed it yet."""
        return self.__dict__.get("compiled")

    @cached_property
    def small_bytes(self) -> int:
        """Arguments whose JSON text is no longer are judged without being measured."""
        return min(SMALL_BYTES, self.compiled.max_bytes)

    @cached_property
    def terms(self) -> tuple[Callable[[Any], bool], int, Schema | None, Arguments]:
        """What every call needs of it: the verdict on small arguments, `small_bytes`, `integers` and `defaults`."""
        return self.compiled.judge_small, self.small_bytes, self.integers, self.defaults

    def make_ready(self) -> None:
        """Make all that judging arguments and answers takes, which may be long for a large schema."""
        for compiled in (self.compiled, self.output):
            _ = compiled.weight
        self.is_ready = True

    @cached_property
    def output(self) -> CompiledSchema:
        """The compiled output schema."""
        return compile_schema(self.output_parameters)

    @cached_property
    def integers(self) -> Schema | None:
        """The schema, if it may want integers somewhere; None for nowhere."""
        return self.parameters if mentions_integers(self.parameters) else None

    @cached_property
    def declared(self) -> frozenset[str]:
        """Names of the declared properties."""
        return declared_properties(self.parameters)

    @cached_property
    def defaults(self) -> Arguments:
        """Top-level properties that the schema gives a default it also accepts."""
        if isinstance(self.tool.binding, RestBinding):
            # In an API's description a default is what the server does by itself; to send it may mean something else.
            return {}
        properties = self.parameters.get("properties") or {}
        given = {name: sub["default"] for name, sub in properties.items() if isinstance(sub, dict) and "default" in sub}
        if not given or self.compiled.accepts(given):
            return given
        wrong = {violation.pointer.split("/")[1] for violation in self.compiled.violations(given) if violation.pointer}
        return {name: value for name, value in given.items() if pointer_of([name])[1:] not in wrong}

    @cached_property
    def _are_free(self) -> bool:
        """True if no rule is about several properties at once: then whatever is sent, defaults may be added to it."""
        found = self.compiled.violations(self.defaults) if self.parameters.keys() <= _OF_ONE else None
        return found is not None and len(found) < MAX_VIOLATIONS and not any(one.pointer for one in found)

    @cached_property
    def call_function(self) -> Callable[[Arguments, ToolContext | None], Any]:
        """Calls the function behind the tool with valid arguments: its value, or the coroutine it returned."""
        return function_caller(self.tool, self.tool.binding)

    def make_dispatch(self) -> Callable[[RawArguments, ToolContext | None], Any]:
        """Validates, calls and waits; raises a `CallError`. Arguments are passed on as they are, not copied."""
        self.dispatch = dispatch = _dispatcher(self)
        return dispatch

    def accepts(self, arguments: Arguments, size: int | None = None) -> bool:
        """The verdict, as of `dispatch`; or on arguments whose JSON text has so many bytes."""
        judge = self.compiled.is_valid
        if size is not None:
            judge = self.compiled.judge_small if size <= self.small_bytes else self.compiled.judge
        try:
            return judge(arguments)
        except ValueError:  # not JSON
            return False

    def with_defaults(self, arguments: Arguments) -> Arguments:
        """The arguments with missing defaults filled in; the same object if there are none."""
        missing = {name: value for name, value in self.defaults.items() if name not in arguments}
        if not missing:
            return arguments
        # A default of its own for each call: a tool that changes it must not change the schema.
        filled = {**arguments, **copied(missing)}
        return filled if self._are_free or self.compiled.is_valid(filled) else arguments

    def refusal(self, arguments: Arguments, violations: list[Violation] | None = None) -> InvalidArguments:
        """The error for arguments that it does not accept, with every violation."""
        violations = violations or self.compiled.violations(arguments)
        return InvalidArguments(
            f"invalid arguments for {self.tool.qualified_name}: {describe(violations)}",
            hint=self._name_hint(arguments),
            details={"violations": [violation.to_dict() for violation in violations]},
        )

    def _name_hint(self, arguments: Arguments) -> str | None:
        """For an argument nobody declared: the declared name it was probably meant to be."""
        declared = sorted(self.declared)[:_HINTED]
        for name in islice(arguments, _HINTED):
            if isinstance(name, str) and name not in self.declared:
                near = nearest(name[:100], declared)
                if near:
                    return f"did you mean {near[0]!r} instead of {show(name[:100])}?"
        return None

    @property
    def origin(self) -> str:
        """Where the tool came from, as exactly as is known."""
        return f"{self.tool.source or 'added in code'}{self.place}"


def takes_long(candidates: tuple[PreparedTool, ...], arguments: RawArguments) -> bool:
    """True unless an event loop has time to bind such arguments, whatever is wrong with them: a few milliseconds.

    A validator may still have to be made, or there are many values, or there is much text, to look at.
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


def _dispatcher(prepared: PreparedTool) -> Callable[[RawArguments, ToolContext | None], Any]:
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
            raise prepared.refusal(checked)
        if defaults:
            checked = prepared.with_defaults(checked)
        if integers:
            checked = integral_arguments(integers, checked)
        if function is None:
            value = prepared.call_function(checked, ctx)
        else:
            try:
                value = function(**checked)
            except BaseException as error:  # noqa: BLE001 - told apart and raised again
                raise_failure(prepared.tool, error)
        return wait_for(prepared.tool, value) if type(value) is CoroutineType else value

    return dispatch
