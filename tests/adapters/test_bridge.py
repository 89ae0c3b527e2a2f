"""What all adapters share, without any of the frameworks."""

import sys
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from client.served import served

from toolyard import ConfigError, Policy, PythonToolEngine, Rule, ToolRegistry, function_tool
from toolyard.adapters.bridge import CORRECTABLE, ToolBridge, approval_of, failure_text
from toolyard.client import RemoteToolEngine
from toolyard.dialects import AnthropicDialect

from .suite import value_in
from .yard import CASES, HELD, TOOLS, Case, answer_of, case_of, make_engine


def leave(_call: Any, _approval: str) -> None:
    """Nobody was asked."""


async def send(bridge: ToolBridge, case: Case, run: object = "r", decide: Any = leave) -> Any:
    block = AnthropicDialect(TOOLS).format_calls([case.call])[0]["content"][0]
    return await bridge.answer(run, block["name"], block["input"], block["id"], decide)


@pytest.mark.parametrize("case", [case for case in CASES if case is not HELD], ids=lambda case: case.id)
async def test_a_call_by_an_offered_name_is_answered_as_by_the_engine(case: Case) -> None:
    said = await send(ToolBridge(make_engine()), case)
    # The first of several overloads has the name of them all.
    assert replace(said, overload=None) == replace(answer_of(case), overload=None)


def test_every_overload_is_offered_under_a_name_of_its_own() -> None:
    offered = ToolBridge(make_engine()).offered_tools()
    assert len({entry.name for entry in offered}) == len(offered) == len(TOOLS) > 30
    assert {entry.tool.fingerprint for entry in offered if entry.tool.name == "find"} == {
        tool.fingerprint for tool in TOOLS if tool.name == "find"
    }


async def test_arguments_may_be_text_and_text_that_is_no_object_is_refused() -> None:
    bridge = ToolBridge(make_engine())
    said = await bridge.answer("r", "desk__any_object", '{"a": 1}', "c1", leave)
    assert said.result == {"a": 1}
    assert (await bridge.answer("r", "desk__any_object", '{"a": ', "c2", leave)).error_info.code == "tool.invalid_args"


async def test_a_name_that_a_model_made_up_is_for_it_to_correct() -> None:
    said = await ToolBridge(make_engine()).answer("r", "desk__nonsense", {}, "c", leave)
    assert said.error_info.code == "tool.not_found" and said.error_info.code in CORRECTABLE


async def test_a_call_id_that_was_answered_is_not_run_again() -> None:
    ran: list[int] = []

    def note(number: int) -> int:
        ran.append(number)
        return len(ran)

    bridge = ToolBridge(PythonToolEngine(ToolRegistry([function_tool(note, namespace="n")])))
    answers = [await bridge.answer("r", "n__note", {"number": 1}, "same", leave) for _ in range(2)]
    assert [answer.result for answer in answers] == [1, 1] and ran == [1]
    assert (await bridge.answer("r", "n__note", {"number": 2}, "same", leave)).error_info.code == "call.conflict"
    assert (await bridge.answer("other run", "n__note", {"number": 1}, "same", leave)).result == 2


async def test_runs_are_sessions_and_one_that_was_given_is_for_all() -> None:
    engine = make_engine()
    bridge = ToolBridge(engine)
    for run in ("a", "b", "a", None, None):
        await send(bridge, CASES[0], run)
    assert engine.begun[:2] == ["a", "b"] and len(engine.begun) == 3
    given = make_engine()
    given.setup("mine")
    for run in ("a", None):
        await send(ToolBridge(given, session_id="mine"), CASES[0], run)
    assert given.begun == ["mine"]


async def test_a_decision_goes_to_the_approval_and_the_call_goes_on() -> None:
    engine = make_engine()
    bridge = ToolBridge(engine)
    held = await send(bridge, HELD)
    asked: list[tuple[str, str]] = []

    def approve(call: Any, approval: str) -> tuple[bool, str]:
        asked.append((call.name, approval))
        return True, "as agreed"

    assert (await send(bridge, HELD, decide=approve)).result == "refunded"
    [approval] = engine.approvals.list().approvals
    assert asked == [("desk::refund", approval_of(held))] == [("desk::refund", approval.id)]
    assert (approval.state, approval.reason) == ("used", "as agreed")


async def test_a_decision_that_was_made_elsewhere_stands() -> None:
    engine = make_engine()

    def deny_first(_call: Any, approval: str) -> tuple[bool, None]:
        engine.approvals.deny(approval, reason="somebody else")
        return True, None

    said = await send(ToolBridge(engine), HELD, decide=deny_first)
    assert said.error_info.code == "tool.denied" and "somebody else" in said.error


async def test_what_pauses_a_run_leaves_the_call_as_it_was() -> None:
    engine = make_engine()

    def pause(_call: Any, _approval: str) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        await send(ToolBridge(engine), HELD, decide=pause)
    assert engine.histories() == [[]]
    assert [approval.state for approval in engine.approvals.list().approvals] == ["pending"]


def test_tools_that_may_be_held_are_known_before_they_are_called() -> None:
    asked = [offered.name for offered in offers(make_engine()) if ToolBridge(make_engine()).may_ask(offered.tool)]
    assert asked == ["desk__refund"]
    decided = PythonToolEngine(ToolRegistry(TOOLS), policy=Policy([Rule("ask", "*")], approver=lambda _: True))
    assert not any(ToolBridge(decided).may_ask(tool) for tool in TOOLS)


def offers(engine: Any) -> Any:
    return ToolBridge(engine).offered_tools()


def test_what_the_policy_denies_whatever_is_sent_is_not_offered() -> None:
    def read(name: str) -> str:
        """Read."""
        return name

    def wipe(name: str) -> str:
        """Wipe."""
        return name

    def trim(name: str) -> str:
        """Trim."""
        return name

    registry = ToolRegistry([function_tool(function, namespace="disk") for function in (read, wipe, trim)])
    rules = [
        Rule("allow", "disk::wipe", keys=["ops"]),
        Rule("deny", "disk::wipe"),
        Rule("allow", "disk::trim", sessions=["mine"]),
        Rule("deny", "disk::trim"),
    ]
    with PythonToolEngine(registry, policy=Policy(rules)) as engine:
        offered = {entry.tool.name for entry in ToolBridge(engine).offered_tools()}
    assert offered == {"read", "trim"}


def test_the_tools_are_those_of_now() -> None:
    registry = ToolRegistry(TOOLS[:1])
    bridge = ToolBridge(PythonToolEngine(registry))
    assert len(bridge.offered_tools()) == 1
    registry.add(TOOLS[4])
    assert len(bridge.offered_tools()) == 2


async def test_tools_may_be_heard_while_they_run() -> None:
    heard: list[Any] = []
    bridge = ToolBridge(make_engine(), notify=lambda call, notice: heard.append((call.call_id, notice)))
    case = case_of("progress")
    assert (await send(bridge, case)).result == "told"
    assert [call_id for call_id, _ in heard] == [case.call.call_id] * 2
    assert (heard[0][1].progress, heard[1][1].data) == (1, "nearly")


@pytest.mark.parametrize(
    ("case", "advice"),
    [
        ("wrong arguments", "Correct the call"),
        ("error", "It is unknown whether the call took effect"),
        ("timeout", "It is unknown whether the call took effect"),
        ("wrong result", "It took effect"),
        ("unavailable", "it may work later"),
        ("denied", "Do not repeat"),
        ("held", "waits for a person"),
    ],
)
def test_an_error_says_its_effect_and_what_to_do(case: str, advice: str) -> None:
    expected = answer_of(case_of(case))
    said = value_in(failure_text(expected) or "")
    assert said["error"] == expected.error_info.to_dict() and "effect" in said["error"]
    assert advice in said["advice"]


def test_an_answer_is_no_failure() -> None:
    assert failure_text(answer_of(CASES[0])) is None


async def test_a_yard_at_a_server_is_answered_in_sessions_there_and_its_held_calls_go_on() -> None:
    engine = make_engine()
    with served(engine.tool_registry, engine=engine) as service:
        remote = await RemoteToolEngine.aopen(service.url)
        bridge = ToolBridge(remote)
        assert [await send(bridge, CASES[0], "there") for _ in range(2)] == [answer_of(CASES[0])] * 2
        assert engine.histories() == [[(CASES[0].call.call_id, {"sum": 3})]]

        def approve_there(_call: Any, approval: str) -> tuple[bool, None]:
            # Whoever calls without a key may not decide on it; somebody else does.
            engine.approvals.approve(approval)
            return True, None

        assert approval_of(await send(bridge, HELD, decide=lambda _call, _approval: (True, None))) is not None
        assert (await send(bridge, HELD, decide=approve_there)).result == "refunded"
        await remote.aclose()


@pytest.mark.parametrize(
    ("adapter", "package"),
    [
        ("pydantic_ai", "pydantic_ai"),
        ("langchain", "langchain_core"),
        ("openai_agents", "agents"),
        ("agent_framework", "agent_framework"),
    ],
)
def test_a_framework_that_is_missing_names_its_extra(
    adapter: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"toolyard.adapters.{adapter}", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    extra = adapter.replace("_", "-")
    with pytest.raises(ConfigError, match=rf"needs {package}; run: pip install 'toolyard\[{extra}\]'"):
        import_module(f"toolyard.adapters.{adapter}")
