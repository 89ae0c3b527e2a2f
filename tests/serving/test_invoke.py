"""What every wire asks of the engine."""

import asyncio
import time

import pytest
from hypothesis import given, strategies as st

from serving.mcp.mcp_support import Session, Stateless
from serving.service_support import RAN, desk_tools, served
from toolyard import Tool, ToolRegistry, function_tool
from toolyard.calls.batch import CallRequest
from toolyard.model.call import ToolCall
from toolyard.serving.invoke import ServedNames


def names_of(*qualified, domains=("core",)):
    tools = [Tool(name, namespace) for namespace, _, name in (each.partition("::") for each in qualified)]
    return ServedNames(ToolRegistry(tools).snapshot, domains)


def test_tools_of_domains_are_spelt_bare_and_all_others_qualified():
    names = names_of("core::echo", "desk::add")
    assert (names.spell_name("core::echo"), names.spell_name("desk::add")) == ("echo", "desk::add")


def test_requests_may_use_either_spelling():
    names = names_of("core::echo", "desk::add")
    assert names.find_name("echo") == names.find_name("core::echo") == "core::echo"
    assert names.find_name("add") == names.find_name("desk::add") == "desk::add"
    assert names.find_name("nope") is None


def test_a_domains_tool_keeps_its_bare_name_when_others_have_it_too():
    names = names_of("desk::echo", "core::echo")
    assert names.find_name("echo") == "core::echo"
    assert names.spell_name("desk::echo") == "desk::echo"


def test_of_two_domains_with_one_name_the_first_has_it_and_both_can_be_told_apart():
    names = names_of("core::echo", "web::echo", domains=("web", "core"))
    assert (names.spell_name("core::echo"), names.spell_name("web::echo")) == ("echo", "web::echo")
    assert names.find_name("echo") == "core::echo"


def test_a_bare_name_of_several_other_namespaces_stands_for_none():
    assert names_of("a::x", "b::x").find_name("x") is None


def test_an_id_begins_with_tool_and_a_tool_may_do_so_too():
    names = names_of("core::x", "core::tool_x")
    assert names.tool_id("core::x") == "tool_x" and names.tool_id("core::tool_x") == "tool_tool_x"
    assert names.find_id("tool_x") == "core::x" and names.find_id("tool_tool_x") == "core::tool_x"
    assert names.find_id("x") is None and names.find_id("tool_") is None


@given(
    st.lists(
        st.tuples(st.sampled_from(["core", "web", "desk", "b"]), st.sampled_from(["x", "tool_x", "y", "tool_tool_x"])),
        unique=True,
    )
)
def test_every_tool_has_one_spelling_and_one_id_that_lead_back_to_it(pairs):
    names = names_of(*(f"{namespace}::{name}" for namespace, name in pairs), domains=("core", "web"))
    every = [f"{namespace}::{name}" for namespace, name in pairs]
    assert [names.find_name(names.spell_name(each)) for each in every] == every
    assert [names.find_id(names.tool_id(each)) for each in every] == every
    assert len({names.tool_id(each) for each in every}) == len(every)


async def test_calls_without_a_session_have_no_key_that_another_could_share():
    from toolyard import ToolEngine, ToolRegistry

    seen = []

    class Looking(ToolEngine):
        async def answer(self, invocation):
            seen.append(invocation.idempotency_key)

    with Looking(ToolRegistry([Tool("a", "x")])) as engine:
        await engine.arun(CallRequest(calls=[ToolCall("x::a", {}, "call_0")]))
        engine.setup("s")
        await engine.arun(CallRequest(calls=[ToolCall("x::a", {}, "call_0")], session_id="s"))
    assert seen[0] is None and seen[1] is not None


async def test_a_long_batch_lets_other_tasks_run():
    from toolyard import PythonToolEngine, ToolRegistry

    async def busy(n: int) -> int:
        time.sleep(0.002)  # noqa: ASYNC251 - what a tool should not do, and some do
        return n

    with PythonToolEngine(ToolRegistry([function_tool(busy, namespace="w")])) as engine:
        turns = 0

        async def other():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await engine.arun(CallRequest(calls=[ToolCall("w::busy", {"n": n}) for n in range(50)]))
        task.cancel()
    assert turns > 5


def ruled(folder, **policy):
    """A config with that policy and keys."""
    return {"tools": [], "policy": policy, "sessions": {"store": "sqlite", "path": str(folder / "s.db")}}


BUDGET = [{"max_calls": 2}]


class TestPolicies:
    @pytest.mark.parametrize("wire", ["invoke", "calls", "arp", "mcp", "mcp session", "mixed"])
    def test_a_budget_of_a_session_binds_calls_without_one_by_their_key(self, wire, tmp_path):
        with served(ruled(tmp_path, budgets=BUDGET), tools=desk_tools()) as yard:
            one, other = (yard.key("*:list,execute,simulate", name=name) for name in ("one", "other"))
            assert [self._call(yard, wire, one, number) for number in range(4)] == [True, True, False, False]
            assert self._call(yard, wire, other, 9)
            # In a session of its own it begins anew.
            yard.post("/v1/sessions", {"session_id": "s"}, token=one)
            body = {"calls": [{"name": "desk::add", "arguments": {"a": 1, "b": 1}}] * 3}
            found = yard.post("/v1/sessions/s/execute", body, token=one).json["results"]
            assert [item.get("error") is None for item in found] == [True, True, False]

    def _call(self, yard, wire, token, number):
        wire = ("invoke", "calls", "arp", "mcp")[number % 4] if wire == "mixed" else wire
        arguments = {"a": number, "b": 1}
        if wire == "invoke":
            return yard.invoke("desk::add", arguments, token=token).json.get("error") is None
        if wire == "arp":
            return "denied" not in yard.arp(f"i{number}", "desk::add", arguments, token=token).body.decode()
        if wire == "calls":
            body = {"calls": [{"name": "desk::add", "arguments": arguments}]}
            return yard.post("/v1/calls", body, token=token).json["results"][0].get("error") is None
        client = Stateless(yard, token) if wire == "mcp" else Session(yard, token=token)
        return not client.call("desk__add", arguments).json["result"].get("isError", False)

    def test_a_batch_without_a_session_is_counted_call_by_call_and_a_simulation_spends_nothing(self, tmp_path):
        with served(ruled(tmp_path, budgets=BUDGET), tools=desk_tools()) as yard:
            body = {"calls": [{"name": "desk::add", "arguments": {"a": 1, "b": 1}}] * 3}
            for _ in range(2):
                tried = yard.post("/v1/calls", {**body, "mode": "simulate", "calls": body["calls"][:1]}).json["results"]
                assert tried[0].get("error") is None
            found = yard.post("/v1/calls", body).json["results"]
            assert [item.get("error") is None for item in found] == [True, True, False]
            assert yard.post("/v1/calls", {**body, "mode": "simulate"}).json["results"][0].get("error") is not None

    @pytest.mark.parametrize("with_key", [False, True])
    def test_a_rule_that_allows_by_session_is_met_by_no_name_that_the_caller_chose(self, with_key, tmp_path, caplog):
        policy = {"default": "deny", "rules": [{"allow": "desk::*", "sessions": ["trusted-*"]}]}
        with served(ruled(tmp_path, **policy), tools=desk_tools()) as yard:
            assert "policy.rules[0]" in caplog.text and "add keys to say whose sessions" in caplog.text
            token = yard.key("*:list,execute") if with_key else None
            assert self._in_session(yard, token) == "tool.denied"
            engine = yard.service.yard.tool_engine
            engine.setup("trusted-by-the-program")
            assert engine.execute("trusted-by-the-program", [ToolCall("desk::add", {"a": 1, "b": 1})])[0].error is None

    def test_a_rule_that_names_a_key_lets_it_call_in_and_outside_of_sessions(self, tmp_path):
        policy = {"default": "deny", "rules": [{"allow": "desk::*", "keys": ["gate*"]}]}
        with served(ruled(tmp_path, **policy), tools=desk_tools()) as yard:
            gateway, guest = yard.key("*:list,execute", name="gateway"), yard.key("*:list,execute", name="guest")
            assert self._in_session(yard, gateway) is None
            assert self._in_session(yard, guest) == "tool.denied"
            assert yard.invoke("desk::add", {"a": 1, "b": 1}, token=gateway).status == 200

    def _in_session(self, yard, token):
        assert yard.post("/v1/sessions", {"session_id": "trusted-me"}, token=token).status == 201
        body = {"calls": [{"name": "desk::add", "arguments": {"a": 1, "b": 1}}]}
        [found] = yard.post("/v1/sessions/trusted-me/execute", body, token=token).json["results"]
        return (found.get("error_info") or {}).get("code")


class TestHeldAnswers:
    @pytest.mark.parametrize("wire", ["invoke", "calls", "arp", "mcp"])
    def test_an_answer_with_a_held_call_is_not_stored_under_its_key_but_the_next_one_is(self, wire, tmp_path):
        RAN.clear()
        with served(ruled(tmp_path, rules=[{"ask": "desk::count"}]), tools=desk_tools()) as yard:
            approvals = yard.service.yard.tool_engine.approvals
            assert "tool.held" in self._send(yard, wire) and "tool.held" in self._send(yard, wire)
            [held] = approvals.list().approvals
            approvals.approve(held.id)
            first = self._send(yard, wire)
            assert "tool.held" not in first and RAN == ["one"]
            assert "tool.held" not in self._send(yard, wire) and RAN == ["one"]
            assert approvals.get(held.id).outcome.code == "ok"

    def _send(self, yard, wire):
        headers = {"idempotency-key": "k"}
        if wire == "invoke":
            return yard.invoke("desk::count", {"word": "one"}, headers=headers).body.decode()
        if wire == "calls":
            return yard.post("/v1/calls", self.batch("desk::count"), headers=headers).body.decode()
        if wire == "arp":
            return yard.arp("i1", "desk::count", {"word": "one"}).body.decode()
        return (
            Stateless(yard).call("desk__count", {"word": "one"}, meta={"toolyard/idempotency_key": "k"}).body.decode()
        )

    @staticmethod
    def batch(*names):
        return {"calls": [{"name": name, "arguments": {"word": "one"}} for name in names]}

    def test_of_a_batch_what_has_run_does_not_run_again_for_the_sake_of_what_is_held(self, tmp_path):
        RAN.clear()
        with served(ruled(tmp_path, rules=[{"ask": "desk::add"}]), tools=desk_tools()) as yard:
            body = {
                "calls": [*self.batch("desk::count")["calls"], {"name": "desk::add", "arguments": {"a": 1, "b": 1}}]
            }
            answers = [yard.post("/v1/calls", body, headers={"idempotency-key": "k"}).json for _ in range(2)]
            assert answers[0] == answers[1] and RAN == ["one"]
