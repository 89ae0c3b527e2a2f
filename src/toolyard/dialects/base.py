"""`Dialect`, the base class of all provider formats, and the table of dialects by name."""

from __future__ import annotations

import importlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from toolyard.dialects.payload import (
    ChangeLog,
    Json,
    arguments_text,
    pick,
    read_arguments,
    read_id,
    records,
    result_text,
)
from toolyard.dialects.wire_names import WireNames
from toolyard.model import Rewrite, Tool, ToolCall, ToolResult
from toolyard.model.errors import ConfigError
from toolyard.model.names import find_similar
from toolyard.schema.subschemas import mapping_of

Identified = TypeVar("Identified", ToolCall, ToolResult)


class RawCall(NamedTuple):
    """A call as read from a provider's response, with nothing validated."""

    name: object
    arguments: object
    call_id: object = None


class Recorded(Protocol):
    """A call with its result, such as an entry of `get_session_history`."""

    @property
    def tool_call(self) -> ToolCall:
        """What was called."""

    @property
    def tool_output(self) -> ToolResult:
        """What it answered."""


class Dialect(ABC):
    """Translates between toolyard's types and one provider's JSON.

    `format_tools` returns the `tools` of a request; `format_calls` and `format_results` return messages to append to
    the request's conversation. `parse_calls` accepts bare calls, whole responses, and the objects the provider's SDK
    builds from them.

    Wire names are decoded with the tools a dialect was given or has formatted, so read the response with the instance
    that wrote the request, or with another made from the same tools.
    """

    name: ClassVar[str]

    def __init__(self, tools: Iterable[Tool] = (), *, names: WireNames | None = None) -> None:
        given = tuple(tools)
        self._names = WireNames(given) if names is None else names.including(given)
        self._tools = given if names is None or given else names.tools
        self._report: tuple[Rewrite, ...] = ()
        self._growing = threading.Lock()

    @property
    def names(self) -> WireNames:
        """The wire names this dialect issues and understands."""
        return self._names

    @property
    def report(self) -> tuple[Rewrite, ...]:
        """What the last `format_tools` changed or lost; pointers lead into the input schema."""
        return self._report

    def format_tools(self, tools: Iterable[Tool] | None = None) -> list[Json]:
        """Return the `tools` of a request, for `tools` or else for those given to the constructor.

        The result shares parts of the tools' schemas; copy what you mean to change.
        """
        chosen = self._tools if tools is None else tuple(tools)
        with self._growing:
            # Read under the lock, so that names added by another thread are not lost.
            names = self._names = self._names.including(chosen)
        wire: list[Json] = []
        report: list[Rewrite] = []
        for tool in chosen:
            log = ChangeLog()
            wire.append(self._format_tool(tool, names.encode(tool), log))
            report.extend(log.rewrites(tool.qualified_name))
        self._report = tuple(report)
        return self._wrap_tools(wire)

    def _wrap_tools(self, wire: list[Json]) -> list[Json]:
        """Wrap the formatted tools in the container that the request expects."""
        return wire

    @abstractmethod
    def _format_tool(self, tool: Tool, wire_name: str, log: ChangeLog) -> Json:
        """Format one tool; record what its schema loses in `log`."""

    def parse_calls(self, response: object) -> list[ToolCall]:
        """Return the calls in a provider's response, in order; empty if there are none.

        Model output never raises: an unknown name is kept unchanged, and arguments that are not a JSON object stay
        text, so that the call path rejects them. An error that the provider sent instead raises `ToolFailed`.
        """
        return [self._make_call(raw) for raw in self._raw_calls(response)]

    def add_event(self, answer: list[Json], event: object) -> str:
        """Add one stream event to `answer`, which starts empty; return the text the event carried.

        When the stream ends, `answer` can be appended to the request's messages and read by `parse_calls`. Reading it
        earlier also works: the arguments of an unfinished call are then text. An error in the stream raises
        `ToolFailed`.
        """
        raise self._no_conversation()

    def format_history(self, entries: Iterable[Recorded]) -> list[Json]:
        """Return the messages of recorded calls, each call before its result.

        Calls without an id of their own get one; some providers count from zero in every answer.
        """
        recorded = list(entries)
        calls: list[ToolCall] = []
        seen: set[str | None] = set()
        for entry in recorded:
            call = entry.tool_call
            calls.append(replace(call, call_id=None) if call.call_id in seen else call)
            seen.add(call.call_id)
        messages: list[Json] = []
        for (call_id, call), entry in zip(assign_ids(calls), recorded, strict=True):
            messages += self.format_calls([replace(call, call_id=call_id)])
            messages += self.format_results([replace(entry.tool_output, call_id=call_id)])
        return messages

    def _no_conversation(self) -> TypeError:
        return TypeError(f"{self.name} has a format for tools only, not for conversations")

    def _raw_calls(self, response: object) -> Iterator[RawCall]:
        """Find the calls in a response; anything else is skipped."""
        raise self._no_conversation()

    def _make_call(self, raw: RawCall) -> ToolCall:
        wire = raw.name if isinstance(raw.name, str) else ""
        arguments = read_arguments(raw.arguments)
        found = self._names.find(wire)
        if found is None:
            return ToolCall(wire, arguments, read_id(raw.call_id))
        if isinstance(arguments, dict):
            tool = best_match(self._names.candidates(found), arguments, self._wire_properties)
            arguments = arguments if tool is None else self._read_arguments(tool, arguments)
        return ToolCall(found[0], arguments, read_id(raw.call_id), found[1])

    def _wire_properties(self, tool: Tool) -> Iterable[str]:
        """The names of a tool's properties as this provider spells them."""
        return properties_of(tool)

    def _read_arguments(self, tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
        """Undo, in the arguments, what `_format_tool` did to the schema."""
        return arguments

    def format_calls(self, calls: Sequence[ToolCall]) -> list[Json]:
        """Return the calls as messages of a conversation, as if the model had just made them.

        Where the provider requires an id, calls without one are given `call_0`, `call_1`, ... `format_results` assigns
        the same ids to results in the same order.
        """
        raise self._no_conversation()

    def _wire_name(self, call: ToolCall) -> str:
        return self._names.encode_name(call.name, call.overload)

    def format_results(self, results: Sequence[ToolResult]) -> list[Json]:
        """Return the results as messages of a conversation; errors carry code, message, hint and details."""
        raise self._no_conversation()


class CallKeys(NamedTuple):
    """The keys of a call entry: the value that marks its kind, and the fields of id and arguments."""

    kind: str
    call_id: str
    arguments: str


class ResultKeys(NamedTuple):
    """The keys of a result entry, whose content is text."""

    kind: str
    call_id: str
    content: str
    failed: str | None = None
    """The flag that marks a failed call; None if only the text shows it."""


class EntryDialect(Dialect):
    """A dialect whose conversations are lists of entries; subclasses describe calls and results by their keys."""

    kind_key: ClassVar[str] = "type"
    call_keys: ClassVar[CallKeys]
    result_keys: ClassVar[ResultKeys]

    def _list_entries(self, payload: object) -> Iterator[Json]:
        """The entries of a response, a conversation or a list."""
        return records(payload)

    def _wrap_entries(self, entries: list[Json], role: str) -> list[Json]:
        """Wrap the entries in messages of `role`, if the format has messages."""
        return entries

    def _write_arguments(self, call: ToolCall) -> Any:
        return arguments_text(call.arguments)

    def _raw_calls(self, response: object) -> Iterator[RawCall]:
        keys = self.call_keys
        for entry in self._list_entries(response):
            if entry.get(self.kind_key) == keys.kind:
                yield RawCall(entry.get("name"), entry.get(keys.arguments), pick(entry, keys.call_id, "id"))

    def format_calls(self, calls: Sequence[ToolCall]) -> list[Json]:
        """Return one entry per call."""
        keys = self.call_keys
        entries = [
            {
                self.kind_key: keys.kind,
                keys.call_id: call_id,
                "name": self._wire_name(call),
                keys.arguments: self._write_arguments(call),
            }
            for call_id, call in assign_ids(calls)
        ]
        return self._wrap_entries(entries, "assistant")

    def format_results(self, results: Sequence[ToolResult]) -> list[Json]:
        """Return one entry per result; they must directly follow the entries of the calls."""
        keys, entries = self.result_keys, []
        for call_id, result in assign_ids(results):
            text = result_text(result)
            entry: Json = {self.kind_key: keys.kind, keys.call_id: call_id, keys.content: text}
            entries.append({**entry, keys.failed: True} if keys.failed and result.is_error else entry)
        return self._wrap_entries(entries, "user")


def assign_ids(given: Sequence[Identified]) -> Iterator[tuple[str, Identified]]:
    """Pair each item with an id: its own, else `call_<index>` or the next one that is free."""
    taken = {one.call_id for one in given if one.call_id is not None}
    for place, one in enumerate(given):
        made = one.call_id or next(free for number in count(place) if (free := f"call_{number}") not in taken)
        taken.add(made)
        yield made, one


def properties_of(tool: Tool) -> Iterable[str]:
    """The names of the properties a tool declares at its root."""
    return mapping_of(tool.parameters, "properties")


def best_match(
    tools: Sequence[Tool], arguments: dict[str, Any], spelling: Callable[[Tool], Iterable[str]]
) -> Tool | None:
    """The overload whose property names best match the arguments; None if `tools` is empty."""
    if len(tools) <= 1:
        # Nearly every name; the properties of a large tool take longer to compare than its call to read.
        return tools[0] if tools else None

    def fit(tool: Tool) -> tuple[int, int]:
        declared = set(spelling(tool))
        return len(arguments.keys() & declared), -len(declared - arguments.keys())

    return max(tools, key=fit)


def drop_none(data: Json) -> Json:
    """The items of `data` that are not None."""
    return {key: value for key, value in data.items() if value is not None}


DIALECTS: Mapping[str, str] = MappingProxyType(
    {
        "openai": "toolyard.dialects.openai:OpenAIChatDialect",
        "openai-responses": "toolyard.dialects.openai:OpenAIResponsesDialect",
        "anthropic": "toolyard.dialects.anthropic:AnthropicDialect",
        "gemini": "toolyard.dialects.gemini:GeminiDialect",
        "mcp": "toolyard.dialects.mcp:McpDialect",
    }
)
"""Each dialect's class as `module:Class`, imported by `get_dialect`."""


def get_dialect(name: str, tools: Iterable[Tool] = (), *, names: WireNames | None = None) -> Dialect:
    """Create the dialect of that name for `tools`; `ConfigError` if the name is unknown."""
    if name not in DIALECTS:
        near = find_similar(name, DIALECTS)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"unknown dialect {name!r}; the dialects are {', '.join(DIALECTS)}{guess}")
    module, _, attribute = DIALECTS[name].partition(":")
    cls: type[Dialect] = getattr(importlib.import_module(module), attribute)
    return cls(tools, names=names)
