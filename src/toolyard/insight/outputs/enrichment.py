"""`output_parameters`: adds an output schema to tools that lack one, by a model, rules or recorded results.

```yaml
- type: output_parameters
  lm_config: {type: openai, model_id_or_path: ...}     # ask a model
- type: output_parameters
  lm_config: {type: schema}                            # by rules, offline
- type: output_parameters
  infer: examples                                      # from recorded results
  results: cassette.jsonl
```
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from toolyard.insight.base import Force, ToolEnrichment, track_progress
from toolyard.insight.cache import CacheOption, ItemCache, item_key
from toolyard.links.lm.config import LMConfig, LMOptions, read_lm_config
from toolyard.links.lm.shapes import find_json
from toolyard.loop.home import home_loop
from toolyard.model.bindings import RestBinding
from toolyard.model.errors import CallError, ConfigError, InvalidSchemaError, MalformedSource, SourceError
from toolyard.model.json_schema import file_type, json_type
from toolyard.model.tool import INFERRED, Schema, Tool
from toolyard.parsing import iter_json_lines, parse_json, parse_yaml, paused_gc, read_bytes
from toolyard.plugins import View
from toolyard.schema.admission import admit_schema
from toolyard.schema.options import read_option

if TYPE_CHECKING:
    from toolyard.links.lm import LMClient, Message


INSTRUCTION = """\
You are given the specification of a tool as JSON: its name, what it does, and its parameters. Say what the tool \
returns when it succeeds: answer with one JSON Schema of type "object" and nothing else.
Give each value a property of its own with a type and a short description; use arrays and nested objects where the \
tool returns several things or things with parts. Name properties as the parameters are named, and call an id by what \
it is the id of. Leave out "required", and leave out errors."""
_MAX_FAILURES = 20
"""Consecutive failures, without any success before, after which the model is not asked any more."""
_log = logging.getLogger(__name__)


def build_messages(tool: Tool) -> tuple[Message, ...]:
    """The messages that ask a model for a tool's output schema."""
    from toolyard.links.lm import Message

    specification = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return Message("system", INSTRUCTION), Message("user", _write_json(specification))


def _write_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        # Servers reject lone surrogates, so they are replaced by question marks.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace").decode()


async def ask_all(
    client: LMClient, tools: Mapping[bytes, Tool], keep: Callable[[bytes, Schema], None]
) -> dict[bytes, Schema]:
    """Ask a model for the schemas of all tools, concurrently; return them by the tools' keys.

    `keep` is called in a thread with each schema as it arrives. Tools without a usable answer are left out with a
    warning, as are all remaining tools once the model seems to be unreachable.
    """
    form = None if client.config.response_format == "text" else {"type": "json_object"}

    async def ask_one(key: bytes, tool: Tool) -> tuple[bytes, str | CallError]:
        try:
            answer = await client.complete(client.request(build_messages(tool), form))
        except CallError as error:
            return key, error
        return key, answer.text

    found: dict[bytes, Schema] = {}
    in_a_row = 0
    tasks = [asyncio.ensure_future(ask_one(key, tool)) for key, tool in tools.items()]
    try:
        for ended in track_progress(asyncio.as_completed(tasks), "output schemas", len(tools)):
            key, answer = await ended
            schema, problem = (None, str(answer)) if isinstance(answer, CallError) else read_schema(answer)
            if schema is not None:
                found[key] = {**schema, INFERRED: "lm"}
                await asyncio.to_thread(keep, key, found[key])
            else:
                _log.warning("no output schema for %s: %s", tools[key].qualified_name, problem)
            in_a_row = in_a_row + 1 if isinstance(answer, CallError) else 0
            if in_a_row >= _MAX_FAILURES and not found:
                _log.warning("the model failed %d times and never answered; it is not asked any more", in_a_row)
                break
    finally:
        # All requests must have ended before the client is closed.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return found


def read_schema(text: str) -> tuple[Schema | None, str]:
    """Read an object schema from a model's answer; None and the reason if there is none.

    A schema wrapped in another object is unwrapped, and bare properties are put into a schema.
    """
    try:
        value = find_json(text, dict)
    except MalformedSource:
        value = None
    if not isinstance(value, dict) or not value:
        return None, "the model did not answer with a JSON object"
    parts = [part for part in (value, *value.values()) if isinstance(part, dict)]
    found = next(filter(_is_object_schema, parts), None)
    if found is None:
        if len(parts) <= len(value):
            return None, "the model's answer is no JSON Schema of an object"
        found = {"properties": value}
    found = {"type": "object", **{key: item for key, item in found.items() if key != "required"}}
    if not isinstance(found.get("properties"), dict) or not found["properties"]:
        return None, "the model's schema has no properties"
    try:
        return admit_schema(found, is_input=False).schema, ""
    except InvalidSchemaError as error:
        return None, f"the model's schema cannot be used: {error}"


def _is_object_schema(value: dict[str, Any]) -> bool:
    return isinstance(value.get("properties"), dict) or value.get("type") == "object"


_SQLITE = (".db", ".sqlite", ".sqlite3")
_YAML = (".yaml", ".yml")
_JSONL = (".jsonl", ".ndjson")
_MOST_EXAMPLES = 200
"""Maximum number of results used per tool."""
_MOST_ITEMS = 50
_MOST_PROPERTIES = 200
_MOST_LEVELS = 12
_MAX_BYTES = 1024 * 1024 * 1024
_FORMATS = (
    ("date-time", re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)?")),
    ("date", re.compile(r"\d{4}-\d\d-\d\d")),
    ("uuid", re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")),
    ("email", re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")),
    ("uri", re.compile(r"[a-z][a-z0-9+.-]*://\S+")),
)


class Example(msgspec.Struct, frozen=True):
    """A recorded result and its call."""

    name: str
    result: Any
    arguments: Mapping[str, Any] = {}
    overload: str | None = None


def read_examples(results: str | Path | Sequence[Mapping[str, Any]]) -> Iterator[Example]:
    """Iterate over the successful results of a cassette, a trace, a list, or the file of an SQLite session store."""
    if isinstance(results, str | Path):
        items = _list_recorded(Path(results).expanduser())
    else:
        items = ((item, f"results[{place}]") for place, item in enumerate(results))
    for item, where in items:
        yield from _read_example(item, where)


def _list_recorded(path: Path) -> Iterator[tuple[Any, str]]:
    """The entries of a file, each with its place."""
    if not path.is_file():
        raise ConfigError(f"results: there is no file {path}")
    suffix = path.suffix.lower()
    if suffix in _SQLITE:
        yield from _list_stored(path)
        return
    data = read_bytes(path, max_bytes=_MAX_BYTES)
    if suffix in _JSONL:
        for number, line in iter_json_lines(data):
            yield parse_json(line, what=f"{path}:{number}"), f"{path}:{number}"
        return
    if suffix not in (*_YAML, ".json"):
        raise ConfigError(f"results: {path} must end in .jsonl, .json, .yaml, or .db, which say how it is written")
    items = (parse_yaml if suffix in _YAML else parse_json)(data, what=str(path))
    if not isinstance(items, list):
        raise MalformedSource("recorded results are a list", where=str(path))
    yield from ((item, f"{path}[{place}]") for place, item in enumerate(items))


def _list_stored(path: Path) -> Iterator[tuple[Any, str]]:
    """The entries of all sessions of a store, each with its place."""
    from toolyard.sessions.store.base import Key
    from toolyard.sessions.store.sqlite import SqliteStore

    try:
        store = SqliteStore(path)
    except sqlite3.Error as error:
        raise SourceError(f"results: {path}: {error}") from error
    with closing(store):
        for info in store.sessions():
            stored = store.load(Key(info.owner, info.session_id))
            for kept in () if stored is None else stored.entries:
                yield msgspec.json.decode(kept.entry), f"{path}, session {info.session_id}"


def _read_example(item: Any, where: str) -> Iterator[Example]:
    """Read a cassette entry, a trace event or a session entry; yields nothing for a failed call."""
    if not isinstance(item, Mapping):
        raise MalformedSource(f"a recorded result is a mapping, not {file_type(item)}", where=where)
    call, output = item.get("tool_call", item), item.get("tool_output", item)
    name = call.get("name") if isinstance(call, Mapping) else None
    if not isinstance(name, str) or not isinstance(output, Mapping):
        raise MalformedSource("a recorded result needs the 'name' of its tool, and a 'result'", where=where)
    if "result" not in output or any(output.get(key) is not None for key in ("error", "error_info", "code", "fault")):
        return
    arguments, overload = call.get("arguments"), call.get("overload")
    arguments = arguments if isinstance(arguments, Mapping) else {}
    yield Example(name, output["result"], arguments, overload if isinstance(overload, str) else None)


def group_by_tool(tools: Sequence[Tool], examples: Iterable[Example]) -> dict[int, list[Any]]:
    """Group results by tool index. A bare name counts only if it is unambiguous."""
    places: dict[str, list[int]] = {}
    for place, tool in enumerate(tools):
        for name in (tool.qualified_name, tool.name):
            places.setdefault(name, []).append(place)
    found: dict[int, list[Any]] = {}
    for example in examples:
        for place in _resolve_tool(tools, places.get(example.name, []), example):
            results = found.setdefault(place, [])
            if len(results) < _MOST_EXAMPLES:
                results.append(example.result)
    return found


def _resolve_tool(tools: Sequence[Tool], places: Sequence[int], example: Example) -> Sequence[int]:
    if len({tools[place].qualified_name for place in places}) > 1:
        return ()
    if len(places) < 2:
        return places
    if example.overload is not None:
        return [place for place in places if tools[place].fingerprint.startswith(example.overload)]
    taking = [place for place in places if example.arguments.keys() <= _list_parameters(tools[place])]
    return taking if len(taking) == 1 else ()


def _list_parameters(tool: Tool) -> set[str]:
    properties = tool.parameters.get("properties")
    return set(properties) if isinstance(properties, dict) else set()


def infer_schema(values: Sequence[Any], level: int = 0) -> Schema:
    """Infer a schema that all values match; mixed types and null are listed in `type`."""
    kinds = {json_type(value) for value in values}
    nullable = "null" in kinds
    kinds.discard("null")
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    if not kinds or level >= _MOST_LEVELS:
        return {}
    if len(kinds) > 1:
        plain = not kinds & {"object", "array"}
        return {"type": sorted(kinds | ({"null"} if nullable else set()))} if plain else {}
    (kind,) = kinds
    made: dict[str, Any] = {"type": [kind, "null"] if nullable else kind}
    present = [value for value in values if value is not None]
    if kind == "object":
        properties = _infer_properties(present, level)
        if properties:
            made["properties"] = properties
    elif kind == "array":
        items = infer_schema([item for value in present for item in value[:_MOST_ITEMS]], level + 1)
        if items:
            made["items"] = items
    elif kind == "string":
        forms = [name for name, pattern in _FORMATS if all(map(pattern.fullmatch, present))]
        made |= {"format": forms[0]} if forms else {}
    return made


def _infer_properties(values: Sequence[dict[str, Any]], level: int) -> dict[str, Schema]:
    seen: dict[str, list[Any]] = {}
    for value in values:
        for key, item in value.items():
            if isinstance(key, str):
                seen.setdefault(key, []).append(item)
    if len(seen) > _MOST_PROPERTIES:
        return {}  # the keys are data, such as ids or dates
    return {key: infer_schema(items, level + 1) for key, items in seen.items()}


_RULES_KIND = "output_parameters.rules"
_LM_KIND = "output_parameters.lm"
_RULES_VERSION = 8
"""Part of the cache key; increase it when a change of the rules changes a schema."""
_LM_VERSION = 1
_ASK_AGAIN = 600.0
"""Seconds before the model is asked again about a tool it had no usable answer for. A new enrichment asks at once."""
_encode = msgspec.json.encode

Infer = Literal["rules", "examples"]


class OutputParametersEnrichment(ToolEnrichment):
    """Infers an output schema for tools that have none.

    `lm_config` names a model to ask, or `{type: schema}` for rules based on name, description and parameters, which is
    also the default. `infer: examples` reads the schema from recorded `results`: a cassette, a trace, or the file of a
    session store; for tools without a result, `lm_config` applies if given. Each schema has its origin under
    `x-inferred`. `force` computes all again; `cache` is a folder, or false.
    """

    reads = ("tool.description", "tool.output_parameters")
    writes = ("tool.output_parameters",)

    def __init__(
        self,
        lm_config: Annotated[
            LMOptions | None, Meta(description="Language model to use; by default rules and examples are used.")
        ] = None,
        force: Force = False,
        infer: Annotated[
            Infer | None, Meta(description="Infer schemas by rules and examples, or from examples only.")
        ] = None,
        results: Annotated[
            str | Path | list[dict[str, Any]] | None, Meta(description="File or list of recorded results.")
        ] = None,
        cache: CacheOption = None,
    ) -> None:
        if infer not in (None, "rules", "examples"):
            raise ConfigError(f"infer: must be 'rules' or 'examples', not {infer!r}")
        if (infer == "examples") != (results is not None):
            lack = "results: which cassette, trace or session file?" if results is None else "infer: examples"
            raise ConfigError(f"recorded results need both `infer: examples` and `results`; add {lack}")
        self._lm = _read_model(lm_config)
        if infer == "rules" and self._lm is not None:
            raise ConfigError("infer: 'rules' asks no model; leave out lm_config, or infer")
        self._by_rules = self._lm is None and (infer != "examples" or lm_config is not None)
        self._results = results
        self._force = read_option(OutputParametersEnrichment, "force", force, "force")
        self._cache = ItemCache(cache)
        self._known: dict[int, tuple[Tool, Tool]] = {}
        """Tools and their replacements from the last run, by the tool's `id`."""
        self._unanswered: dict[bytes, float] = {}
        """When a model had no usable answer, by cache key."""

    def enrich(self, snapshot: View) -> tuple[Sequence[Tool], Mapping[str, Any]]:
        """Return the tools, with those that lack an output schema replaced."""
        tools = list(snapshot.tools)
        known: dict[int, tuple[Tool, Tool]] = {}
        lacking: list[int] = []
        for place, tool in enumerate(tools):
            if tool.output_parameters:
                continue
            before = self._known.get(id(tool))
            if before is not None and before[0] is tool:
                known[id(tool)] = before
                tools[place] = before[1]
            else:
                lacking.append(place)
        if lacking:
            originals = [tools[place] for place in lacking]
            found = self._infer_schemas(originals)
            with paused_gc():
                for at, schema in found.items():
                    old = originals[at]
                    new = old.replace(output_parameters=schema)
                    tools[lacking[at]] = new
                    known[id(old)] = (old, new)
        self._known = known
        return tools, {}

    def _infer_schemas(self, tools: Sequence[Tool]) -> dict[int, Schema]:
        found = self._from_results(tools) if self._results is not None else {}
        rest = [place for place in range(len(tools)) if place not in found]
        if not rest or not (self._by_rules or self._lm is not None):
            return found
        asked = [tools[place] for place in rest]
        more = self._from_rules(asked) if self._lm is None else self._from_model(asked, self._lm)
        return {**found, **{rest[at]: schema for at, schema in more.items()}}

    def _from_results(self, tools: Sequence[Tool]) -> dict[int, Schema]:
        assert self._results is not None
        results = group_by_tool(tools, read_examples(self._results))
        found: dict[int, Schema] = {}
        for place, values in track_progress(results.items(), "output schemas", len(results)):
            schema = infer_schema(values)
            if schema:
                found[place] = {**schema, INFERRED: "examples"}
        return found

    def _from_rules(self, tools: Sequence[Tool]) -> dict[int, Schema]:
        from toolyard.insight.outputs.rules import output_schema

        keys = [item_key(_RULES_KIND, _RULES_VERSION, *_describe_tool(tool)) for tool in tools]

        def compute(places: list[int]) -> list[bytes]:
            return [_encode(output_schema(tools[place])) for place in places]

        values = self._cache.fill(_RULES_KIND, keys, compute, chunk=2048, force=self._force, label="output schemas")
        with paused_gc():
            found = {place: _read_cached(value) for place, value in enumerate(values)}
        return {place: output_schema(tools[place]) if kept is None else kept for place, kept in found.items()}

    def _from_model(self, tools: Sequence[Tool], config: LMConfig) -> dict[int, Schema]:
        from toolyard.links.lm import LMClient

        keys = [_model_key(tool, config) for tool in tools]
        kept = {} if self._force else self._cache.get_many(_LM_KIND, keys)
        known = {key: schema for key, value in kept.items() if (schema := _read_cached(value)) is not None}
        now = time.monotonic()
        vain = {key: asked for key, asked in self._unanswered.items() if now - asked < _ASK_AGAIN}
        # Equal questions are asked once. Every change of the registry asks again for all tools without a schema, so
        # questions that just failed are skipped for a while; otherwise each change would wait for the same failure.
        asking: dict[bytes, Tool] = {}
        for key, tool in zip(keys, tools, strict=True):
            if key not in known and (self._force or key not in vain):
                asking.setdefault(key, tool)
        if asking:

            def keep(key: bytes, schema: Schema) -> None:
                self._cache.put_many(_LM_KIND, [(key, _encode(schema))])

            with LMClient(config) as client:
                said = home_loop.run(ask_all(client, asking, keep), twin="the enrichment in a thread")
            known |= said
            vain.update(dict.fromkeys(asking.keys() - said.keys(), time.monotonic()))
        self._unanswered = vain
        return {place: known[key] for place, key in enumerate(keys) if key in known}


def _read_cached(value: bytes) -> Schema | None:
    """Decode a cached schema; None if it is damaged."""
    try:
        return msgspec.json.decode(value, type=dict[str, Any])
    except (msgspec.DecodeError, TypeError):
        return None


def _describe_tool(tool: Tool) -> tuple[str, ...]:
    """Everything about a tool that the rules read; parameters as text, since their order matters."""
    binding = tool.binding
    how = binding.method if isinstance(binding, RestBinding) else type(binding).__name__
    return tool.name, tool.description, _encode(tool.parameters).decode(), how


def _model_key(tool: Tool, config: LMConfig) -> bytes:
    asked = [message.content for message in build_messages(tool)]
    how = (config.response_format, config.temperature, config.max_tokens, config.seed, config.extra)
    return item_key(_LM_KIND, _LM_VERSION, config.type, config.base_url, config.model, how, asked)


def _read_model(block: Any) -> LMConfig | None:
    if block is None:
        return None
    if isinstance(block, Mapping) and block.get("type") == "schema":
        for key in block:
            if key != "type":
                raise ConfigError(f"lm_config: rules have no option {key!r}; {{type: schema}} is all they need")
        return None
    return read_lm_config(block)
