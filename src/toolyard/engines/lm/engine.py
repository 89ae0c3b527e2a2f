"""`LMToolEngine`: simulates tools with a language model, or from their schemas alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from toolyard.calls.answerer import SCHEMA_SIMULATOR
from toolyard.calls.invocation import Invocation
from toolyard.engines.base import ToolEngine
from toolyard.links.lm.config import LMOptions
from toolyard.model.errors import ConfigError, InvalidOutput
from toolyard.model.tool import Tool
from toolyard.plugins import register_tool_engine
from toolyard.registry import ToolRegistry
from toolyard.schema.options import read_arguments

if TYPE_CHECKING:
    from toolyard.calls.faults import FaultPlan
    from toolyard.engines.lm.conversation import Prompt, UnusableAnswer
    from toolyard.links.lm import LMAnswer, Spent

MAX_HISTORY_TOKENS = 16_000
_QUOTED = 8_000
"""Maximum characters of an unusable answer that are repeated to the model."""
_NOTHING = "(nothing)"
_SCHEMA = "schema"


class LMEngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the engine that generates results with a model or from the schemas alone."""

    lm_config: Annotated[
        LMOptions | None,
        Meta(description="Language model to use; by default results are generated from the schemas."),
    ]
    error_categories: Annotated[
        Sequence[Mapping[str, Any]] | None,
        Meta(description="Errors to simulate, each with type, probability and message."),
    ]
    instruction: Annotated[str | None, Meta(description="Instruction for the model, in place of the default.")]
    max_history_tokens: Annotated[
        int | None, Meta(ge=0, description="Maximum tokens of session history that the model sees.")
    ]
    repairs: Annotated[
        int, Meta(ge=0, le=2, description="Attempts of the model to correct an answer that does not match the schema.")
    ]
    max_string_length: Annotated[int, Meta(ge=1, description="Maximum length of generated text.")]
    max_items: Annotated[int, Meta(ge=1, description="Maximum length of generated lists.")]


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

    option_structs: ClassVar[tuple[type, ...]] = (LMEngineOptions,)

    type_name = "lm"
    is_last_resort = False
    """True if this is the fallback for tools without an engine; results are then marked as simulated."""

    def __init__(
        self,
        registry: ToolRegistry | None = None,
        *,
        lm_config: LMOptions | None = None,
        error_categories: Sequence[Mapping[str, Any]] | None = None,
        instruction: str | None = None,
        max_history_tokens: int | None = MAX_HISTORY_TOKENS,
        repairs: int = 2,
        max_string_length: int = 400,
        max_items: int = 16,
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
            LMEngineOptions,
            max_string_length=max_string_length,
            max_items=max_items,
            max_history_tokens=max_history_tokens,
            repairs=repairs,
            instruction=instruction,
        )
        self._rounds = 1 + read["repairs"]
        self._client: Any = None
        self._simulator: Any = None
        self._world: tuple[Any, dict[str, Any]] | None = None
        """The registry snapshot, and the initial state of a session with its tools."""
        config: Mapping[str, Any] = {"type": _SCHEMA} if lm_config is None else lm_config
        if isinstance(config, Mapping) and config.get("type") == _SCHEMA:
            self._simulator = _make_simulator(config)
            self.foreseeable = True
            return
        from toolyard.engines.lm.conversation import Bounds, Prompts
        from toolyard.links.lm import LMClient

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
        from toolyard.engines.lm.conversation import REPAIR, UnusableAnswer, read_result
        from toolyard.links.lm import Message

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


def _make_simulator(config: Mapping[str, Any]) -> Any:
    from toolyard.engines.simulator import Simulator
    from toolyard.plugins import check_options

    options = {str(key): value for key, value in config.items() if key != "type"}
    check_options(Simulator, options, "lm_config of type 'schema'")
    return Simulator(**options)


def _plan_faults(categories: Any, faults: Any, config: Any) -> FaultPlan:
    """The fault plan of these options, with the seed of `lm_config` if it has one."""
    from toolyard.calls.faults import from_error_categories

    if faults is not None:
        raise ConfigError("error_categories are rules of a fault plan; write them into faults, or leave that out")
    if isinstance(categories, list | tuple):
        categories = [dict(item) if isinstance(item, Mapping) else item for item in categories]
    seed = config.get("seed") if isinstance(config, Mapping) else None
    return from_error_categories(categories, seed=seed if type(seed) is int else 0)
