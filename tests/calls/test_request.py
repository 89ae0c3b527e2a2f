"""What a caller from outside may see and call."""

import pytest
from call_support import registry_of

from toolyard import PythonToolEngine, ToolCall
from toolyard.calls.batch import CallRequest, check_known, list_refusals
from toolyard.model.errors import StaleDefinition


class Only:
    """Sees some namespaces, and may use them in some modes."""

    can_list_all = False

    def __init__(self, seen, modes=("execute", "simulate")):
        self.seen = seen
        self.modes = modes

    def can_see(self, tool):
        return tool.namespace in self.seen

    can_list = can_see

    def can_call(self, mode, tool):
        return mode in self.modes


def work(word: str) -> str:
    """Work."""
    return word


@pytest.fixture
def engine():
    registry = registry_of(work, namespace="open")
    registry.add(*registry_of(work, namespace="hidden").all_tools())
    with PythonToolEngine(registry) as made:
        yield made


async def run(engine, name, scope, arguments=None, **options):
    call = ToolCall(name, {"word": "x"} if arguments is None else arguments)
    [result] = await engine.arun(CallRequest(calls=[call], scope=scope, **options))
    return result


async def test_what_is_seen_and_allowed_runs(engine):
    assert (await run(engine, "open::work", Only({"open"}))).result == "x"


@pytest.mark.parametrize("name", ["hidden::work", "hidden::nope", "nowhere::work", "hidden::wor", "", "open::"])
async def test_what_is_not_seen_does_not_exist_and_no_hint_tells_of_it(engine, name):
    for arguments in ({"word": "x"}, {}):
        info = (await run(engine, name, Only({"open"}), arguments)).error_info
        assert info.code == "tool.not_found"
        assert "hidden::work" not in f"{info.message.replace(name, '', 1)} {info.hint} {info.details}"
        assert info.details in ({}, {"candidates": ["open::work"]})


async def test_a_bare_name_is_looked_for_among_what_is_seen(engine):
    assert (await run(engine, "work", Only({"open"}))).name == "open::work"
    assert (await run(engine, "work", Only({"hidden"}))).name == "hidden::work"
    assert (await run(engine, "work", Only(()))).error_info.details == {}
    both = (await run(engine, "work", Only({"open", "hidden"}))).error_info
    assert both.code == "tool.not_found" and both.details["candidates"] == ["open::work", "hidden::work"]


async def test_a_bare_name_means_the_one_tool_of_that_name_that_is_seen(engine):
    assert (await run(engine, "work", Only({"open"}))).name == "open::work"
    assert (await run(engine, "work", Only(set()))).error_info.code == "tool.not_found"
    several = (await run(engine, "work", Only({"open", "hidden"}))).error_info
    assert several.details["candidates"] == ["open::work", "hidden::work"]


async def test_what_is_seen_but_not_allowed_is_denied(engine):
    scope = Only({"open"}, ["simulate"])
    assert (await run(engine, "open::work", scope)).error_info.code == "tool.denied"
    assert (await run(engine, "open::work", scope, mode="simulate")).metadata == {"simulated_by": "schema simulator"}


async def test_arguments_of_what_is_seen_are_checked_as_ever(engine):
    info = (await run(engine, "open::work", Only({"open"}), {})).error_info
    assert info.code == "tool.invalid_args" and info.details["violations"]


async def test_without_a_scope_everything_may_be_called_and_hints_are_given(engine):
    info = (await run(engine, "hidden::wor", None)).error_info
    assert "hidden::work" in info.hint


def test_a_definition_the_caller_does_not_know_is_stale(engine):
    [tool] = engine.tool_registry.get("open::work")
    check_known(tool, frozenset({tool.definition_hash, "other"}))
    with pytest.raises(StaleDefinition) as caught:
        check_known(tool, frozenset({"other"}))
    assert caught.value.info.details == {"definition_hash": tool.definition_hash}
    with pytest.raises(StaleDefinition):
        check_known(tool, frozenset())


def test_refusals_are_told_call_by_call(engine):
    calls = [ToolCall(name, {"word": "x"}, name) for name in ("open::work", "hidden::work", "open::nope")]
    request = CallRequest(calls=calls, scope=Only({"open"}))
    allowed, hidden, missing = list_refusals(engine.tool_registry.snapshot, request)
    assert allowed is None
    assert (hidden.call_id, hidden.error_info.code) == ("hidden::work", "tool.not_found")
    assert missing.error_info.code == "tool.not_found"
    everything = CallRequest(calls=calls)
    assert list_refusals(engine.tool_registry.snapshot, everything) == [None, None, None]
    stale = CallRequest(calls=calls[:1], definitions=frozenset())
    assert list_refusals(engine.tool_registry.snapshot, stale)[0].error_info.code == "catalog.stale"
