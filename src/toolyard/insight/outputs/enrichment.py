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
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from toolyard.insight.base import EnrichmentOptions, ToolEnrichment, track_progress
from toolyard.insight.cache import CacheOption, ItemCache, force_option, item_key
from toolyard.links.lm.config import LMConfig, LMOptions, read_lm_config
from toolyard.links.lm.shapes import find_json
from toolyard.loop.home import home_loop
from toolyard.model.bindings import RestBinding
from toolyard.model.errors import CallError, ConfigError, InvalidSchemaError, MalformedSource
from toolyard.model.tool import INFERRED, Schema, Tool
from toolyard.parsing import paused_gc
from toolyard.plugins import View
from toolyard.schema.admission import admit_schema

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
    client: LMClient, tools: Sequence[Tool], finished: Callable[[int, Schema], None], *, label: str
) -> dict[int, Schema]:
    """Ask a model for the schemas of all tools, concurrently; return them by index.

    `finished` is called in a thread with each schema as it arrives. Tools without a usable answer are left out with a
    warning, as are all remaining tools once the model seems to be unreachable.
    """
    form = None if client.config.response_format == "text" else {"type": "json_object"}

    async def ask_one(place: int, tool: Tool) -> tuple[int, str | CallError]:
        try:
            answer = await client.complete(client.request(build_messages(tool), form))
        except CallError as error:
            return place, error
        return place, answer.text

    found: dict[int, Schema] = {}
    in_a_row = 0
    tasks = [asyncio.ensure_future(ask_one(place, tool)) for place, tool in enumerate(tools)]
    try:
        for ended in track_progress(asyncio.as_completed(tasks), label, len(tools)):
            place, answer = await ended
            schema, problem = (None, str(answer)) if isinstance(answer, CallError) else read_schema(answer)
            if schema is not None:
                await asyncio.to_thread(finished, place, schema)
                found[place] = schema
            else:
                _log.warning("no output schema for %s: %s", tools[place].qualified_name, problem)
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
    found = _unwrap_schema(value)
    if found is None:
        return None, "the model's answer is no JSON Schema of an object"
    found = {"type": "object", **{key: item for key, item in found.items() if key != "required"}}
    if not isinstance(found.get("properties"), dict) or not found["properties"]:
        return None, "the model's schema has no properties"
    try:
        return admit_schema(found, is_input=False).schema, ""
    except InvalidSchemaError as error:
        return None, f"the model's schema cannot be used: {error}"


def _unwrap_schema(value: dict[str, Any]) -> dict[str, Any] | None:
    if _is_object_schema(value):
        return value
    for inner in value.values():
        if isinstance(inner, dict) and _is_object_schema(inner):
            return inner
    if all(isinstance(inner, dict) for inner in value.values()):
        return {"properties": value}
    return None


def _is_object_schema(value: dict[str, Any]) -> bool:
    return isinstance(value.get("properties"), dict) or value.get("type") == "object"


_RULES_KIND = "output_parameters.rules"
_LM_KIND = "output_parameters.lm"
_RULES_VERSION = 7
"""Part of the cache key; increase it when a change of the rules changes a schema."""
_LM_VERSION = 1
_ASK_AGAIN = 600.0
"""Seconds before the model is asked again about a tool it had no usable answer for. A new enrichment asks at once."""
_encode = msgspec.json.encode
_decode = msgspec.json.decode

Infer = Literal["rules", "examples"]


class OutputOptions(EnrichmentOptions, frozen=True, kw_only=True):
    """Options of `OutputParametersEnrichment`."""

    lm_config: Annotated[
        LMOptions | None, Meta(description="Language model to use; by default rules and examples are used.")
    ]
    infer: Annotated[
        Literal["rules", "examples"] | None,
        Meta(description="Infer schemas by rules and examples, or from examples only."),
    ]
    results: Annotated[str | Path | list[dict[str, Any]] | None, Meta(description="File or list of recorded results.")]


class OutputParametersEnrichment(ToolEnrichment):
    """Infers an output schema for tools that have none.

    `lm_config` names a model to ask, or `{type: schema}` for rules based on name, description and parameters, which is
    also the default. `infer: examples` reads the schema from recorded `results`: a cassette, a trace, or the file of a
    session store; for tools without a result, `lm_config` applies if given. Each schema has its origin under
    `x-inferred`. `force` computes all again; `cache` is a folder, or false.
    """

    option_structs: ClassVar[tuple[type, ...]] = (OutputOptions,)

    reads = ("tool.description", "tool.output_parameters")
    writes = ("tool.output_parameters",)

    def __init__(
        self,
        lm_config: LMOptions | Mapping[str, Any] | None = None,
        force: bool = False,
        infer: Infer | None = None,
        results: str | Path | list[dict[str, Any]] | None = None,
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
        self._force = force_option(force, "output_parameters")
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
        from toolyard.insight.outputs.examples import group_by_tool, infer_schema, read_examples

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
        found: dict[int, Schema] = {place: known[key] for place, key in enumerate(keys) if key in known}
        now = time.monotonic()
        vain = {key: asked for key, asked in self._unanswered.items() if now - asked < _ASK_AGAIN}
        # Equal questions are asked once. Every change of the registry asks again for all tools without a schema, so
        # questions that just failed are skipped for a while; otherwise each change would wait for the same failure.
        first: dict[bytes, int] = {}
        for place, key in enumerate(keys):
            if place not in found and (self._force or key not in vain):
                first.setdefault(key, place)
        asking = list(first.values())
        if asking:

            def finished(at: int, schema: Schema) -> None:
                self._cache.put_many(_LM_KIND, [(keys[asking[at]], _encode({**schema, INFERRED: "lm"}))])

            with LMClient(config) as client:
                asked = ask_all(client, [tools[place] for place in asking], finished, label="output schemas")
                answers = home_loop.run(asked, twin="the enrichment in a thread")
            said = {keys[asking[at]]: {**schema, INFERRED: "lm"} for at, schema in answers.items()}
            found.update((place, said[key]) for place, key in enumerate(keys) if place not in found and key in said)
            vain.update(dict.fromkeys((key for key in first if key not in said), time.monotonic()))
        self._unanswered = vain
        return found


def _read_cached(value: bytes) -> Schema | None:
    """Decode a cached schema; None if it is damaged."""
    try:
        return _decode(value, type=dict[str, Any])
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
