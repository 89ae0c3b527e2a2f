"""`LMToolEngine`: simulates tools with a language model, or from their schemas alone.

`Prompts` builds the conversation in which a model simulates a tool, and `read_result` turns its answer into the result
of the call.

    system     the instruction
    user       specification and call      for each entry of the session's history,
    assistant  result, or error            whichever engine answered it
    user       specification and call
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from toolyard.calls.call_path import SCHEMA_SIMULATOR
from toolyard.calls.faults import FaultPlan, from_error_categories
from toolyard.calls.invocation import Invocation
from toolyard.engines.base import ToolEngine
from toolyard.links.lm import LMAnswer, LMClient, Message, Spent, likely_tokens
from toolyard.links.lm.config import LMOptions
from toolyard.links.lm.shapes import find_json, strip_thought
from toolyard.model.call import ToolCall
from toolyard.model.errors import ConfigError, InvalidOutput, MalformedSource, ToolFailed
from toolyard.model.json_schema import IN_PLACE, json_type
from toolyard.model.tool import Schema, Tool
from toolyard.plugins import check_options, register_tool_engine
from toolyard.registry import ToolRegistry
from toolyard.schema.compile import CompiledSchema, compile_schema
from toolyard.schema.options import read_arguments
from toolyard.schema.subschemas import REFERENCES, declared_properties, map_children
from toolyard.schema.violations import Violation, describe
from toolyard.sessions.history import read_entry

if TYPE_CHECKING:
    from toolyard.engines.simulator import Simulator

MAX_HISTORY_TOKENS = 16_000
_QUOTED = 8_000
"""Maximum characters of an unusable answer that are repeated to the model."""
_NOTHING = "(nothing)"
_SCHEMA = "schema"


ModelConfig = Annotated[
    LMOptions | None,
    Meta(description="Language model to use; by default results are generated from the schemas."),
]
ErrorCategories = Annotated[
    Sequence[Mapping[str, Any]] | None,
    Meta(description="Errors to simulate, each with type, probability and message."),
]


@register_tool_engine("lm")
class LMToolEngine(ToolEngine):
    """Generates results that are consistent with the tools' definitions and the session, with or without a model.

    `lm_config` selects the model: `type` is `openai` (any server with that API, by `base_url`), `ollama`, `anthropic`,
    `llama` (a small model in this process) or, by default, `schema`: results are generated from the output schemas
    without a model. The model sees every call of the session with its result, whichever engine answered it, within
    `max_history_tokens`; the oldest are dropped first, and the trace says how many.

    An answer that does not conform to the tool's schema is sent back with the violations, up to `repairs` times; then
    the call fails. Where the schema sets no limits, texts are limited to `max_string_length` and lists to `max_items`.
    `error_categories` makes calls fail on purpose. `instruction` replaces the default system prompt.
    """

    type_name = "lm"
    is_last_resort = False
    """True if this is the fallback for tools without an engine; results are then marked as simulated."""

    def __init__(
        self,
        registry: ToolRegistry | None = None,
        *,
        lm_config: ModelConfig = None,
        error_categories: ErrorCategories = None,
        instruction: Annotated[
            str | None, Meta(description="Instruction for the model, in place of the default.")
        ] = None,
        max_history_tokens: Annotated[
            int | None, Meta(ge=0, description="Maximum tokens of session history that the model sees.")
        ] = MAX_HISTORY_TOKENS,
        repairs: Annotated[
            int,
            Meta(ge=0, le=2, description="Attempts of the model to correct an answer that does not match the schema."),
        ] = 2,
        max_string_length: Annotated[int, Meta(ge=1, description="Maximum length of generated text.")] = 400,
        max_items: Annotated[int, Meta(ge=1, description="Maximum length of generated lists.")] = 16,
        timeout: float | None = 300.0,
        output_check: str = "strict",
        **settings: Any,
    ) -> None:
        if output_check != "strict":
            raise ConfigError(f"output_check: the lm engine is always strict, so it cannot be {output_check!r}")
        if error_categories is not None:
            settings["faults"] = _plan_faults(error_categories, settings.get("faults"), lm_config)
        super().__init__(registry, timeout=timeout, output_check="strict", **settings)
        read = read_arguments(
            LMToolEngine,
            max_string_length=max_string_length,
            max_items=max_items,
            max_history_tokens=max_history_tokens,
            repairs=repairs,
            instruction=instruction,
        )
        self._rounds = 1 + read["repairs"]
        self._client: Any = None
        self._simulator: Simulator | None = None
        self._world: tuple[Any, dict[str, Any]] | None = None
        """The registry snapshot, and the initial state of a session with its tools."""
        config: Mapping[str, Any] = {"type": _SCHEMA} if lm_config is None else lm_config
        if isinstance(config, Mapping) and config.get("type") == _SCHEMA:
            self._simulator = _make_simulator(config)
            self.foreseeable = True
            return
        self._client = self._keep_part(LMClient(config))
        settled = self._client.config
        bounds = Bounds(read["max_string_length"], read["max_items"])
        self._prompts = Prompts(instruction, max_history_tokens, bounds, settled.response_format, settled.strict)
        self._hide_secrets(self.secrets)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Configured values that must not be shown."""
        return () if self._client is None else tuple(self._client.secrets)

    @property
    def spent(self) -> dict[str, Spent]:
        """Requests, tokens and cost so far, by model."""
        return {} if self._client is None else dict(self._client.ledger.spent)

    def blocks(self, tool: Tool) -> bool:
        """False: `answer` returns a coroutine, or computes only briefly."""
        return False

    def first_states(self) -> dict[str, dict[str, Any]]:
        """The simulator's world, if it has one; generated once for each registry snapshot."""
        if self._simulator is None or self._simulator.world is None:
            return {}
        root, snapshot = self._root, self._root.tool_registry.snapshot
        if self._world is None or self._world[0] is not snapshot:
            own = [tool for tool in snapshot.tools if root.takes(tool) and root.route(tool) is self]
            self._simulator.use_tools(snapshot.tools)
            self._world = snapshot, self._simulator.first_state(own)
        return {self.name: self._world[1]}

    @property
    def _needs_sessions(self) -> bool:
        return super()._needs_sessions or (self._simulator is not None and self._simulator.world is not None)

    def answer(self, invocation: Invocation) -> Any:
        """The simulator's value; with a model, a coroutine for it."""
        if self._simulator is not None:
            if self.is_last_resort:
                invocation.simulated_by = SCHEMA_SIMULATOR
            self._simulator.use_tools(self._root.tool_registry.snapshot.tools)
            return self._simulator.answer(invocation)
        return self._ask_model(invocation)

    async def _ask_model(self, invocation: Invocation) -> Any:
        invocation.secrets = self._client.config.credentials
        prompt = self._prompts.build(self._root.tool_registry, invocation)
        messages = prompt.messages
        answers: list[LMAnswer] = []
        problem: UnusableAnswer | None = None
        # Set before the first request, so that the trace has it even if the model is unavailable.
        invocation.notes = self._trace_notes(prompt, answers)
        while problem is None or len(answers) < self._rounds:
            request = self._client.request(messages, prompt.response_format)
            answer = await self._client.complete(request, deadline=invocation.deadline)
            answers.append(answer)
            invocation.notes = self._trace_notes(prompt, answers)
            try:
                return read_result(answer.text, prompt.output, prompt.declared, answer.finish_reason == "length")
            except UnusableAnswer as error:
                problem = error
            again = Message("user", REPAIR.format(problem=problem))
            # Some servers refuse an empty assistant message.
            said = answer.text[:_QUOTED] if answer.text.strip() else _NOTHING
            messages = (*messages, Message("assistant", said), again)
        raise _unusable_result(invocation.tool, problem, len(answers))

    def _trace_notes(self, prompt: Prompt, answers: Sequence[LMAnswer]) -> dict[str, Any]:
        """For the trace: the model, its usage, and how much of the history was dropped."""
        return {
            "model": self._client.config.model,
            "requests": len(answers),
            "cached": sum(answer.cached for answer in answers),
            "prompt_tokens": sum(answer.usage.prompt for answer in answers),
            "completion_tokens": sum(answer.usage.completion for answer in answers),
            "history": {"told": prompt.told, "dropped": prompt.dropped},
        }


def _unusable_result(tool: Tool, problem: UnusableAnswer, count: int) -> InvalidOutput:
    tries = "" if count == 1 else f" in {count} tries"
    return InvalidOutput(
        f"the model that plays {tool.qualified_name} gave no usable result{tries}: {problem}",
        effect="none",
        details={"violations": [violation.to_dict() for violation in problem.violations]} if problem.violations else {},
    )


def _make_simulator(config: Mapping[str, Any]) -> Simulator:
    from toolyard.engines.simulator import Simulator

    options = {str(key): value for key, value in config.items() if key != "type"}
    check_options(Simulator, options, "lm_config of type 'schema'")
    return Simulator(**options)


def _plan_faults(categories: Any, faults: Any, config: Any) -> FaultPlan:
    """The fault plan of these options, with the seed of `lm_config` if it has one."""
    if faults is not None:
        raise ConfigError("error_categories are rules of a fault plan; write them into faults, or leave that out")
    if isinstance(categories, list | tuple):
        categories = [dict(item) if isinstance(item, Mapping) else item for item in categories]
    seed = config.get("seed") if isinstance(config, Mapping) else None
    return from_error_categories(categories, seed=seed if type(seed) is int else 0)


INSTRUCTION = """\
You play the tools of a software system. Each message gives you the specification of a tool and one call of it, both \
as JSON. Answer with what the tool returns for that call: one JSON object, and nothing else.
Let the call succeed, with a realistic result in full. If the specification has output_parameters, a JSON Schema, the \
result conforms to it; a result that is not an object goes into {"result": ...}.
Stay true to the arguments of the call, and to all that was answered before in this conversation: what was created \
exists, what was changed stays changed, what was deleted is gone."""

REPAIR = """\
That answer cannot be used: {problem}.
Answer the same call again, with the whole corrected JSON and nothing else."""

_encode = msgspec.json.encode
_MAX_FORMATS = 8192


class Prompt(msgspec.Struct, frozen=True):
    """A prompt, how much of the history it contains, and the format of the answer."""

    messages: tuple[Message, ...]
    told: int
    dropped: int
    response_format: Schema | None
    output: CompiledSchema | None
    declared: frozenset[str]


AnswerFormat: TypeAlias = tuple[Schema | None, CompiledSchema | None, frozenset[str]]
"""The response format, the schema of an answer, and the properties that it declares."""


class Prompts:
    """Builds prompts. `max_tokens` limits the history, None for no limit; the oldest entries are dropped first."""

    def __init__(
        self,
        instruction: str | None = None,
        max_tokens: int | None = None,
        bounds: Bounds | None = None,
        most: str = "json_schema",
        strict: bool = False,
    ) -> None:
        self._system = Message("system", INSTRUCTION if instruction is None else instruction)
        self._max_tokens = max_tokens
        self._form = (bounds or Bounds(400, 16), most, strict)
        self._formats: dict[int, tuple[Tool, AnswerFormat]] = {}

    def build(self, registry: ToolRegistry, invocation: Invocation) -> Prompt:
        """The conversation up to this call."""
        tool = invocation.tool
        entries = list(invocation.session.history)
        pairs = self._history_messages(registry, entries)
        call = Message("user", f"{_tool_head(tool)}{_encode(invocation.arguments).decode()}}}")
        return Prompt(
            (self._system, *pairs, call),
            len(pairs) // 2,
            len(entries) - len(pairs) // 2,
            *self._answer_format(tool),
        )

    def _answer_format(self, tool: Tool) -> AnswerFormat:
        """The format of the tool's answers; cached, since compiling a large schema each time would block the loop."""
        known = self._formats.get(id(tool))
        if known is None or known[0] is not tool:
            if len(self._formats) >= _MAX_FORMATS:
                self._formats.clear()
            schema = tool.output_parameters
            output = compile_schema(schema) if schema else None
            declared = declared_properties(schema) if schema else frozenset[str]()
            known = self._formats[id(tool)] = tool, (response_format(tool, *self._form), output, declared)
        return known[1]

    def _history_messages(self, registry: ToolRegistry, entries: Sequence[bytes]) -> list[Message]:
        """Pairs of messages for the newest entries that fit the token limit, oldest first."""
        heads: dict[str, str | None] = {}
        pairs: list[Message] = []
        left = self._max_tokens
        for text in reversed(entries):
            entry = read_entry(text)
            name, arguments, output = entry.tool_output.name, entry.tool_call.arguments, entry.tool_output
            if name not in heads:
                tools = registry.get(name)
                # With several overloads, the specification depends on the arguments.
                heads[name] = None if len(tools) > 1 else _tool_head(tools[0]) if tools else _call_head(name)
            head = heads[name]
            if head is None:
                tool = registry.match(ToolCall(name, arguments))
                head = _call_head(name) if tool is None else _tool_head(tool)
            call = f"{head}{_encode(arguments).decode()}}}"
            said = _encode(output.result if output.error is None else {FAILURE: output.error}).decode()
            if left is not None:
                left -= likely_tokens(call) + likely_tokens(said)
                if left < 0:
                    break
            pairs += (Message("assistant", said), Message("user", call))
        pairs.reverse()
        return pairs


def _call_head(name: str) -> str:
    return f'Tool call:\n{{"name":{_encode(name).decode()},"arguments":'


def _tool_head(tool: Tool) -> str:
    told: dict[str, Any] = {"name": tool.qualified_name, "description": tool.description, "parameters": tool.parameters}
    if tool.output_parameters:
        told["output_parameters"] = tool.output_parameters
    return f"Tool specification:\n{_encode(told).decode()}\n\n{_call_head(tool.qualified_name)}"


ENVELOPE = "result"
FAILURE = "error"
"""The only key of an answer that reports a failure; prompts show earlier failures in the same form."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME_LENGTH = 64
_WITHOUT_BOUNDS = frozenset({"not", "if", "allOf"})
"""Keywords under which no limits are added: in the first two they would widen the schema, in the last contradict it."""
_SELF_BOUNDED = frozenset({"enum", "const", "pattern", *IN_PLACE})


class Bounds(NamedTuple):
    """Maximum length of texts and lists for which the schema sets no limit.

    Without limits, a small model may continue until its output is cut off, leaving incomplete JSON.
    """

    length: int
    items: int


def response_format(tool: Tool, bounds: Bounds, most: str = "json_schema", strict: bool = False) -> Schema | None:
    """The tool's schema if it has one, else any object. `most` is the strictest format that the server supports."""
    if most == "text":
        return None
    if not tool.output_parameters or most != "json_schema":
        return {"type": "json_object"}
    name = _NOT_IN_NAMES.sub("_", tool.name)[:_MAX_NAME_LENGTH] or ENVELOPE
    described: Schema = {"name": name, "schema": answer_schema(tool.output_parameters, bounds)}
    return {"type": "json_schema", "json_schema": {**described, "strict": True} if strict else described}


def answer_schema(schema: Schema, bounds: Bounds) -> Schema:
    """The schema with limits added; wrapped in an envelope unless it describes an object."""
    if is_object(schema):
        plain: Schema = _bound_schema(schema, bounds, "#")
        return plain if "type" in plain else {"type": "object", **plain}
    # The schema moves into `$defs`, so its references to the root must be rewritten.
    inner = _bound_schema(schema, bounds, f"#/$defs/{ENVELOPE}")
    inner.pop("$schema", None)
    return {
        "type": "object",
        "properties": {ENVELOPE: {"$ref": f"#/$defs/{ENVELOPE}"}},
        "required": [ENVELOPE],
        "additionalProperties": False,
        "$defs": {ENVELOPE: inner},
    }


def is_object(schema: Schema) -> bool:
    """True if the root of the schema allows only objects."""
    kind = schema.get("type")
    return kind == "object" or kind == ["object"] or (kind is None and "properties" in schema)


def _bound_schema(node: Schema, bounds: Bounds, root: str, bounding: bool = True) -> Schema:
    out: Schema = {}
    for key, value in node.items():
        below = bounding and key not in _WITHOUT_BOUNDS
        out |= map_children({key: value}, partial(_bound_schema, bounds=bounds, root=root, bounding=below))
        if key in REFERENCES and isinstance(value, str) and (value == "#" or value.startswith("#/")):
            out[key] = root + value[1:]
    if bounding and _SELF_BOUNDED.isdisjoint(node):
        _bound_node(out, bounds)
    return out


def _bound_node(node: Schema, bounds: Bounds) -> None:
    kind = node.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "string" in kinds and "maxLength" not in node:
        node["maxLength"] = max(bounds.length, _read_minimum(node.get("minLength")))
    if "array" in kinds and "maxItems" not in node:
        known = node.get("prefixItems")
        node["maxItems"] = max(
            bounds.items, _read_minimum(node.get("minItems")), len(known) if isinstance(known, list) else 0
        )


def _read_minimum(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


class UnusableAnswer(ValueError):
    """The text is not a valid result; the message says why in terms the model can act on."""

    def __init__(self, problem: str, violations: list[Violation] | None = None) -> None:
        super().__init__(problem)
        self.violations = violations or []


def read_result(text: str, output: CompiledSchema | None, declared: frozenset[str], cut: bool = False) -> Any:
    """The value in the model's answer; raises `UnusableAnswer` if there is none, or none that the schema allows.

    Without a schema it must be an object. With one, an envelope that the schema does not declare is removed. An answer
    in the form of a failure raises `ToolFailed`, unless the schema declares a property of that name.
    """
    try:
        value = find_json(text)
    except MalformedSource as error:
        if not strip_thought(text):
            raise UnusableAnswer("it is empty") from None
        problem = "it was cut off before its end; make it shorter" if cut else f"it is not JSON: {error}"
        raise UnusableAnswer(problem) from None
    failure = value[FAILURE] if isinstance(value, dict) and value.keys() == {FAILURE} else None
    if isinstance(failure, str) and failure.strip() and FAILURE not in declared:
        raise ToolFailed(failure, effect="none")
    if output is None:
        if not isinstance(value, dict):
            raise UnusableAnswer(f"it must be a JSON object, not {json_type(value)}")
        return value
    if isinstance(value, dict) and value.keys() == {ENVELOPE} and ENVELOPE not in declared:
        inner = value[ENVELOPE]
        if output.is_valid(inner):
            return inner
    violations = output.violations(value)
    if violations:
        raise UnusableAnswer(f"it does not fit output_parameters: {describe(violations)}", violations)
    return value
