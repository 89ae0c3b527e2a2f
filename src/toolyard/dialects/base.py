"""`Dialect`: how one provider spells tools, calls and results; and the dialects by name."""

from __future__ import annotations

import importlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar

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
from toolyard.model.names import nearest

Identified = TypeVar("Identified", ToolCall, ToolResult)


class RawCall(NamedTuple):
    """A call as it stands in a provider's answer, nothing checked."""

    name: object
    arguments: object
    call_id: object = None


class Dialect(ABC):
    """Translates between toolyard and one provider.

    What `format_tools` returns is the `tools` of a request; what `format_calls` and `format_results` return
    extends the request's list of messages. `parse_calls` takes calls back, the provider's whole answers, and
    the objects its SDK makes of them.

    Wire names are decoded by the tools a dialect was given or has formatted, so keep the instance that
    wrote the request to read the answer; one made elsewhere from the same tools does as well.
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
        """What the last `format_tools` could not say in full; pointers lead into the input schema."""
        return self._report

    def format_tools(self, tools: Iterable[Tool] | None = None) -> list[Json]:
        """The `tools` of a request: these, or those the dialect was made with.

        Parts of the schemas are the tools' own; copy what you mean to change.
        """
        chosen = self._tools if tools is None else tuple(tools)
        with self._growing:
            # Read under the lock: names another thread is adding must not be lost.
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
        """Put the formatted tools into whatever the request keeps them in."""
        return wire

    @abstractmethod
    def _format_tool(self, tool: Tool, wire_name: str, log: ChangeLog) -> Json:
        """One tool, with what its schema loses on the way in `log`."""

    def parse_calls(self, response: object) -> list[ToolCall]:
        """The calls in a provider's answer, in order; empty if there are none.

        Nothing a model wrote makes this raise: an unknown name stays as it came, and arguments that are
        not a JSON object stay text, for the call path to refuse.
        """
        return [self._make_call(raw) for raw in self._raw_calls(response)]

    def add_event(self, answer: list[Json], event: object) -> str:
        """Add an event of a stream to the answer so far, which begins empty; the text that came with the event.

        What the answer holds at the end extends the request's list of messages, and `parse_calls` reads it. Before, it
        reads what has come of the calls: arguments that are not whole are text.
        """
        raise self._no_conversation()

    def _no_conversation(self) -> TypeError:
        return TypeError(f"{self.name} only formats tools; it has no messages")

    def _raw_calls(self, response: object) -> Iterator[RawCall]:
        """The calls in an answer, wherever it keeps them; whatever is no call is passed over."""
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
        """The names of a tool's properties as this wire spells them."""
        return properties_of(tool)

    def _read_arguments(self, tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
        """Undo what `_format_tool` did to the schema, in the arguments written for it."""
        return arguments

    def format_calls(self, calls: Sequence[ToolCall]) -> list[Json]:
        """The calls as part of a conversation, as if the model had just made them.

        Where the wire demands an id, a call without one is given one: `call_0`, `call_1`, ... Results without
        ids, in the same order, are given the same.
        """
        raise self._no_conversation()

    def _wire_name(self, call: ToolCall) -> str:
        return self._names.encode_name(call.name, call.overload)

    def format_results(self, results: Sequence[ToolResult]) -> list[Json]:
        """The results as the next part of a conversation; errors with code, message, hint and details."""
        raise self._no_conversation()


class CallWords(NamedTuple):
    """How a wire spells an entry that is a call: its kind, and where id and arguments stand."""

    kind: str
    call_id: str
    arguments: str


class ResultWords(NamedTuple):
    """How it spells one that is a result, whose answer is text."""

    kind: str
    call_id: str
    content: str
    failed: str | None = None
    """Where it says that the call failed; None if the text alone tells."""


class EntryDialect(Dialect):
    """A wire whose conversations are entries of some kind, calls and results among them: dialects by their words."""

    kind_key: ClassVar[str] = "type"
    call_words: ClassVar[CallWords]
    result_words: ClassVar[ResultWords]

    def _list_entries(self, payload: object) -> Iterator[Json]:
        """The entries of an answer, of a conversation or of a list, wherever they are kept."""
        return records(payload)

    def _wrap_entries(self, entries: list[Json], role: str) -> list[Json]:
        """Put entries into the messages of whoever writes them, where the wire has such."""
        return entries

    def _write_arguments(self, call: ToolCall) -> Any:
        return arguments_text(call.arguments)

    def _raw_calls(self, response: object) -> Iterator[RawCall]:
        words = self.call_words
        for entry in self._list_entries(response):
            if entry.get(self.kind_key) == words.kind:
                yield RawCall(entry.get("name"), entry.get(words.arguments), pick(entry, words.call_id, "id"))

    def format_calls(self, calls: Sequence[ToolCall]) -> list[Json]:
        """One entry a call."""
        words = self.call_words
        entries = [
            {
                self.kind_key: words.kind,
                words.call_id: call_id,
                "name": self._wire_name(call),
                words.arguments: self._write_arguments(call),
            }
            for call_id, call in with_ids(calls)
        ]
        return self._wrap_entries(entries, "assistant")

    def format_results(self, results: Sequence[ToolResult]) -> list[Json]:
        """One entry a result; they must be the next ones after those of the calls."""
        words, entries = self.result_words, []
        for call_id, result in with_ids(results):
            text = result_text(result)
            entry: Json = {self.kind_key: words.kind, words.call_id: call_id, words.content: text}
            entries.append({**entry, words.failed: True} if words.failed and result.is_error else entry)
        return self._wrap_entries(entries, "user")


def with_ids(given: Sequence[Identified]) -> Iterator[tuple[str, Identified]]:
    """Each with an id, for a wire that demands one: its own, else `call_<place>` or the next that is free."""
    taken = {one.call_id for one in given if one.call_id is not None}
    for place, one in enumerate(given):
        made = one.call_id or next(free for number in count(place) if (free := f"call_{number}") not in taken)
        taken.add(made)
        yield made, one


def properties_of(tool: Tool) -> Iterable[str]:
    """The names of the properties a tool declares at its root."""
    properties = tool.parameters.get("properties")
    return properties if isinstance(properties, dict) else ()


def best_match(
    tools: Sequence[Tool], arguments: dict[str, Any], spelling: Callable[[Tool], Iterable[str]]
) -> Tool | None:
    """Of several overloads, the one whose properties these arguments most look like; None if there is none."""
    if len(tools) <= 1:
        return tools[0] if tools else None

    def fit(tool: Tool) -> tuple[int, int]:
        declared = set(spelling(tool))
        return len(arguments.keys() & declared), -len(declared - arguments.keys())

    return max(tools, key=fit)


def others(data: Json, *known: str) -> Json:
    """The entries that are set, but for those of these names."""
    return {key: value for key, value in data.items() if key not in known and value is not None}


DIALECTS: Mapping[str, str] = MappingProxyType(
    {
        "openai": "toolyard.dialects.openai:OpenAIChatDialect",
        "openai-responses": "toolyard.dialects.openai:OpenAIResponsesDialect",
        "anthropic": "toolyard.dialects.anthropic:AnthropicDialect",
        "gemini": "toolyard.dialects.gemini:GeminiDialect",
        "mcp": "toolyard.dialects.mcp:McpDialect",
    }
)
"""Each dialect's class, as `module:Class`, imported when it is first asked for."""


def get_dialect(name: str, tools: Iterable[Tool] = (), *, names: WireNames | None = None) -> Dialect:
    """The dialect of that name, for these tools."""
    if name not in DIALECTS:
        near = nearest(name, DIALECTS)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"unknown dialect {name!r}; the dialects are {', '.join(DIALECTS)}{guess}")
    module, _, attribute = DIALECTS[name].partition(":")
    cls: type[Dialect] = getattr(importlib.import_module(module), attribute)
    return cls(tools, names=names)
