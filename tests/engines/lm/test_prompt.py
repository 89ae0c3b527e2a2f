"""Prompts: as much of the history as fits, always its end, and each tool described once."""

import pytest
from hypothesis import given, strategies as st

from engines.lm.support import FREE, WEATHER, call, text
from toolyard.engines.base import ToolEngine
from toolyard.engines.lm.prompt import Prompts
from toolyard.links.lm import likely_tokens
from toolyard.registry import ToolRegistry

REGISTRY = ToolRegistry([WEATHER, FREE])


class Building(ToolEngine):
    """Repeats what it is told, and keeps what each of these would have told a model at the last call."""

    def __init__(self, *prompts):
        super().__init__(REGISTRY)
        self.prompts = prompts

    def answer(self, invocation):
        if invocation.arguments.get("text") == "now":
            self.built = [prompts.build(REGISTRY, invocation) for prompts in self.prompts]
        return {"said": invocation.arguments.get("text", "")}


def built_by(*prompts, after):
    with Building(*prompts) as engine:
        engine.setup("s")
        engine.execute("s", [*(call("note", text=said) for said in after), call("note", text="now")])
        return engine.built


@given(st.lists(st.text(max_size=40), max_size=12), st.integers(0, 1500))
def test_what_is_told_is_the_end_of_the_history_and_fits(texts, budget):
    built, whole = built_by(Prompts(max_tokens=budget), Prompts(), after=texts)
    system, *history, now = built.messages
    assert (system.role, now.role) == ("system", "user")
    assert built.told + built.dropped == len(texts)
    assert [message.role for message in history] == ["user", "assistant"] * built.told
    assert sum(likely_tokens(message.content) for message in history) <= budget
    assert [message.content for message in history[1::2]] == [
        text({"said": said}) for said in texts[len(texts) - built.told :]
    ]
    if built.dropped:
        more = whole.messages[1:-1][-2 * (built.told + 1) :]
        assert sum(likely_tokens(message.content) for message in more) > budget


def test_each_tool_is_described_once_however_long_the_history():
    prompts = Prompts()
    built, again = built_by(prompts, prompts, after=map(str, range(2_000)))
    assert len(built.messages) == 2 * 2_000 + 2
    assert len(prompts._sheets) == 1
    assert again == built


def test_a_tool_that_was_replaced_is_described_anew():
    prompts = Prompts()
    before = prompts.sheet(WEATHER).head
    after = prompts.sheet(WEATHER.replace(description="Other.")).head
    assert before != after and prompts.sheet(WEATHER).head == before


@pytest.mark.parametrize(("said", "tokens"), [("", 4), ("a" * 40, 14), ("\u6f22" * 40, 34)])
def test_tokens_are_estimated_by_bytes(said, tokens):
    assert likely_tokens(said) == tokens
