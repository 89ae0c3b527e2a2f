"""`Simulator`: answers tools without a model and without anything behind them."""

from __future__ import annotations

from threading import Lock
from typing import Any

from toolyard.calls.invocation import Invocation
from toolyard.engines.simulator.crud import CrudCall
from toolyard.engines.simulator.draw import Draw, GaveUp, encode
from toolyard.engines.simulator.profile import Profile
from toolyard.model.errors import InvalidOutput
from toolyard.model.tool import Tool
from toolyard.words.identifiers import plain_letters

_KEPT = 20_000
"""Tools whose profiles are kept."""


class Simulator:
    """Values that fit a tool's output schema, the same for the same seed, tool, arguments and session so far.

    Entities that calls create, change and delete are kept in the session's state, and later calls show them. Which
    tools belong together is worked out from their paths, names and parameters. May be called from any thread.
    """

    def __init__(self, seed: int | str = 0, *, stateful: bool = True) -> None:
        self.seed = seed
        self._stateful = stateful
        self._profiles: dict[int, Profile] = {}
        self._lock = Lock()

    def answer(self, invocation: Invocation) -> Any:
        """The call's value; raises `ToolFailed` where a real service would not find what is asked for."""
        tool, arguments = invocation.tool, invocation.arguments
        profile = self._profiles.get(id(tool))
        if profile is None or profile.tool is not tool:
            profile = self.profile(tool)
        if profile.plain or not self._stateful:
            return self._value_by_arguments(profile, arguments)
        try:
            return CrudCall(profile, self.seed, invocation.state).answer(arguments)
        except GaveUp as error:
            raise _contradiction_error(tool, error) from None

    def value(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        """A value for these arguments, as if nothing had happened before."""
        profile = self._profiles.get(id(tool))
        if profile is None or profile.tool is not tool:
            profile = self.profile(tool)
        return self._value_by_arguments(profile, arguments)

    def profile(self, tool: Tool) -> Profile:
        """What is worked out about a tool."""
        found = self._profiles.get(id(tool))
        if found is not None and found.tool is tool:
            return found
        made = Profile(tool, self.seed)
        with self._lock:
            if len(self._profiles) >= _KEPT:
                for key in list(self._profiles)[: _KEPT // 4]:
                    del self._profiles[key]
            self._profiles[id(tool)] = made
        return made

    def _value_by_arguments(self, profile: Profile, arguments: dict[str, Any]) -> Any:
        values = profile.values
        try:
            if values is None or profile.is_free:
                return CrudCall(profile, self.seed, {}).answer(arguments)
            return values.make(Draw(profile.prefix + encode(arguments), echo_of(arguments) if arguments else None))
        except GaveUp as error:
            raise _contradiction_error(profile.tool, error) from None


def _contradiction_error(tool: Tool, error: GaveUp) -> InvalidOutput:
    return InvalidOutput(
        f"no result of {tool.qualified_name} was found that its output schema allows: {error}",
        hint="look at the tool's output_parameters: they contradict themselves, or ask for more than is made up here",
        effect="none",
    )


def echo_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Values by their names in plain letters; those inside an object by theirs, where nothing else has it."""
    found = {}
    inside = None
    for name, value in arguments.items():
        found[plain_letters(name)] = value
        if type(value) is dict:
            inside = {**value, **inside} if inside else value
    if inside:
        for name, value in inside.items():
            found.setdefault(plain_letters(name), value)
    return found
