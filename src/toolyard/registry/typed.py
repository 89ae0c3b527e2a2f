"""`Registry`: functions that each take one typed model, by name, with input and output validated.

Input follows pydantic's rules: its conversions apply, and invalid input raises its `ValidationError`. Exceptions from
a tool propagate unchanged, except those that a caller would mistake for invalid input or an unknown name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import CoroutineType
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from toolyard.constants import TOOL_DEFAULT_NAMESPACE
from toolyard.model.call import ToolContext
from toolyard.model.errors import DefinitionError, ToolFailed, UnknownToolError
from toolyard.model.names import check_tool_name, find_similar_tools, show
from toolyard.model.tool import Effects, EffectsLike, Tool
from toolyard.registry.function_call import await_function, function_caller, wait_for
from toolyard.schema.derive.function import derive_model
from toolyard.schema.strict import hide_input

F = TypeVar("F", bound=Callable[..., Any])


class TypedEntry(msgspec.Struct, frozen=True):
    """One registered function: its input model, and its tool as shown by registries and prompts."""

    input_schema: type[BaseModel]
    function: Callable[..., Any]
    tool: Tool
    taker: Tool
    """The same tool, bound to take the validated model."""
    call_function: Callable[[Any, ToolContext | None], Any]


class Registry:
    """A dispatcher for `model -> model` functions. Safe to share by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: Mapping[str, TypedEntry] = {}

    def register(
        self,
        name: str,
        input_schema: type[BaseModel],
        *,
        description: str | None = None,
        effects: EffectsLike = Effects.UNKNOWN,
        tags: tuple[str, ...] = (),
        version: str | None = None,
    ) -> Callable[[F], F]:
        """Decorator that registers a function and returns it unchanged; a duplicate name is a ValueError.

        Bind state that a tool needs (a connection, a client) beforehand, by closure or `functools.partial`.
        """
        check_tool_name(name)
        if not (isinstance(input_schema, type) and issubclass(input_schema, BaseModel)):
            raise DefinitionError(f"input_schema of {name!r} must be a StrictModel class, not {input_schema!r}")

        def claim(function: F) -> F:
            derived = derive_model(function, input_schema)
            # A typed tool must return a model even if its annotation does not say which.
            binding = replace(derived.binding, returns=derived.binding.returns or BaseModel, plain=False)
            tool = Tool(
                name=name,
                namespace=TOOL_DEFAULT_NAMESPACE,
                description=derived.description if description is None else description,
                parameters=derived.parameters,
                output_parameters=derived.output_parameters,
                binding=binding,
                effects=cast("Effects", effects),
                tags=tags,
                version=version,
            )
            validated = replace(binding, prepare=derived.place)
            taker = tool.replace(binding=validated)
            entry = TypedEntry(input_schema, function, tool, taker, function_caller(taker, validated))
            with self._lock:
                if name in self._entries:
                    raise DefinitionError(f"a tool called {name!r} is already registered; pick another name")
                # Replace, never mutate: readers may hold the old mapping.
                self._entries = {**self._entries, name: entry}
            return function

        return claim

    def dispatch(self, name: str, raw_input: Any) -> Any:
        """Validate the input, call the tool and return its model. Async tools run on the home loop."""
        entry, model = self._prepare_input(name, raw_input)
        try:
            value = entry.call_function(model, None)
            return wait_for(entry.taker, value) if type(value) is CoroutineType else value
        except ToolFailed as failure:
            own = _unwrap_failure(failure, entry)
        # Raised outside the handler, so that the `ToolFailed` made of it does not become its context.
        raise own

    async def adispatch(self, name: str, raw_input: Any) -> Any:
        """`dispatch` for async callers."""
        entry, model = self._prepare_input(name, raw_input)
        try:
            value = entry.call_function(model, None)
            return await await_function(entry.taker, value) if type(value) is CoroutineType else value
        except ToolFailed as failure:
            own = _unwrap_failure(failure, entry)
        raise own

    def names(self) -> list[str]:
        """Registered names, sorted."""
        return sorted(self._entries)

    def tools(self, namespace: str = TOOL_DEFAULT_NAMESPACE) -> list[Tool]:
        """The registered functions as tools of one namespace, in registration order."""
        return [entry.tool.replace(namespace=namespace) for entry in self._entries.values()]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def _prepare_input(self, name: str, raw_input: Any) -> tuple[TypedEntry, BaseModel]:
        entry = self._entries.get(name)
        if entry is None:
            near = find_similar_tools(str(name), self._entries)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(self.names()) or 'none'}"
            raise UnknownToolError(f"no tool is called {show(name)}", hint=hint)
        failure: ValidationError | None = None
        try:
            return entry, _validate_input(entry.input_schema, raw_input)
        except ValidationError as error:
            failure = hide_input(error)
        # Raised outside the handler, so that the original error, which holds the values, does not become its context.
        raise failure


def _unwrap_failure(failure: ToolFailed, entry: TypedEntry) -> BaseException:
    """The function's own exception, unless callers would mistake it for their error or for a cancellation."""
    cause = failure.__cause__ if failure.raised_in is entry.taker else None
    passes = isinstance(cause, Exception | SystemExit) and not isinstance(cause, ValidationError | KeyError)
    return cause if passes and cause is not None else failure


def _validate_input(model: type[BaseModel], raw_input: Any) -> BaseModel:
    if not isinstance(raw_input, BaseModel):
        return model.model_validate(raw_input)
    # An instance may have been changed since it was validated, so its fields are validated again.
    values = {**raw_input.__dict__, **(raw_input.model_extra or {})}
    return model.model_validate(values, by_name=True, by_alias=True)
