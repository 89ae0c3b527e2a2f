"""Held calls and their approvals, through the remote client."""

import pytest
from serving.routes.test_approvals import PAID, bank

from toolyard import ToolCall
from toolyard.client import RemoteToolEngine
from toolyard.model.errors import ApprovalError, ApprovalForbiddenError, DefinitionError, UnknownApprovalError


def test_a_held_call_comes_through_with_its_code_and_runs_once_somebody_approved_it_from_afar(tmp_path):
    PAID.clear()
    with bank(tmp_path) as yard:
        agent = RemoteToolEngine(yard.url, api_key=yard.key("bank:list,execute", name="robot"))
        boss = RemoteToolEngine(yard.url, api_key=yard.key("bank:list,approve", name="chief"))
        with agent, boss:
            agent.setup("s")
            send = lambda: agent.execute("s", [ToolCall("bank::pay", {"amount": 5})])[0]  # noqa: E731
            held = send()
            assert held.error_info.code == "tool.held"
            [found] = boss.approvals.list(state="pending", tool="bank::pay", session_id="s").approvals
            assert found.id == held.error_info.details["approval"]["id"] and found.expires > found.created
            with pytest.raises(ApprovalForbiddenError, match="a call of your own"):
                agent.approvals.approve(found.id)
            approved = boss.approvals.approve(found.id, "fine")
            assert (approved.state, approved.decided_by, approved.reason) == ("approved", "chief", "fine")
            assert send().result == 5 and PAID == [5]
            assert agent.approvals.get(found.id).outcome.code == "ok"
            with pytest.raises(ApprovalError, match="is decided already"):
                boss.approvals.deny(found.id)


def test_what_is_not_there_and_cursors_made_up_are_errors_of_their_kind(tmp_path):
    with bank(tmp_path) as yard, RemoteToolEngine(yard.url, api_key=yard.key("bank:list", name="robot")) as engine:
        for look in (engine.approvals.get, engine.approvals.approve, engine.approvals.deny):
            with pytest.raises(UnknownApprovalError):
                look("no/thing")
        with pytest.raises(DefinitionError):
            engine.approvals.list(cursor="made up")
