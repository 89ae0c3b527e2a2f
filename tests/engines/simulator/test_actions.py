"""Actions on one entity change its state, as later calls show and a preview foresees."""

from contextlib import closing

import pytest

from toolyard import LMToolEngine, Policy, RestBinding, Rule, Tool, ToolCall, ToolRegistry
from toolyard.engines.simulator.actions import find_changes, first_states
from toolyard.engines.simulator.roles import role_of
from toolyard.model.bindings import RestParameter
from toolyard.words.identifiers import STATES_BY_ACTION

TEXT, FLAG, NUMBER = {"type": "string"}, {"type": "boolean"}, {"type": "integer"}


def one_of(*values):
    return {"enum": list(values)}


@pytest.mark.parametrize(
    ("action", "properties", "known", "changed"),
    [
        ("cancel", {"status": one_of("OPEN", "CANCELED")}, {"status": "OPEN"}, {"status": "CANCELED"}),
        ("cancel", {"status": one_of("open", "done")}, {"status": "open"}, {}),
        ("refund", {"status": TEXT}, {"status": "paid"}, {"status": "refunded"}),
        ("resolve", {}, {"ticketStatus": "Open"}, {"ticketStatus": "Resolved"}),
        ("ship", {}, {"payment_status": "paid", "status": "open"}, {"status": "shipped"}),
        ("resume", {"state": one_of("paused", "running")}, {}, {"state": "running"}),
        ("close", {"state": TEXT}, {"state": "Ohio"}, {}),
        ("archive", {"archived": FLAG, "name": TEXT}, {"name": "archived"}, {"archived": True}),
        ("unarchive", {"is_archived": FLAG}, {"is_archived": True}, {"is_archived": False}),
        ("deactivate", {"isActive": {"type": ["boolean", "null"]}}, {}, {"isActive": False}),
        ("enable", {"enabled": TEXT}, {"enabled": "no"}, {}),
        ("rename", {"status": TEXT}, {"status": "open"}, {}),
    ],
)
def test_an_action_changes_the_state_that_the_schema_or_the_entity_has(action, properties, known, changed):
    nodes = {name: ({}, node) for name, node in properties.items()}
    assert find_changes(action, known, nodes) == changed


def test_a_new_entity_is_in_a_state_in_which_things_begin():
    nodes = {
        "status": ({}, one_of("shipped", "Pending", "open_later")),
        "state": ({}, TEXT),
        "phase": ({}, one_of("x")),
    }
    assert first_states(nodes) == {"status": "Pending"}


def test_states_are_normalised_as_they_are_compared():
    assert all(state.isalpha() and state.islower() for states in STATES_BY_ACTION.values() for state in states)


@pytest.mark.parametrize(
    ("name", "argument", "effects"), [("resolve_dns", "host", "unknown"), ("close_order", "order_id", "read")]
)
def test_what_is_done_to_nothing_in_particular_or_only_reads_is_no_action(name, argument, effects):
    tool = Tool(name, "n", parameters={"type": "object", "properties": {argument: TEXT}}, effects=effects)
    role = role_of(tool, lists=False)
    assert (role.verb, role.writes) == ("none", False)


ORDER = {"type": "object", "properties": {"order_id": NUMBER, "status": one_of("shipped", "paid", "open", "refunded")}}
DONE = {"type": "object", "properties": {"ok": FLAG}}


def named(name, output=ORDER, **parameters):
    schema = {"type": "object", "properties": parameters, "required": list(parameters)}
    return Tool(name, "shop", parameters=schema, output_parameters=output)


def at(method, path, name):
    parameters = (RestParameter(argument="id", name="id", location="path"),) if "{id}" in path else ()
    schema = {"type": "object", "properties": {"id": NUMBER} if parameters else {"total": NUMBER}}
    order = {
        "type": "object",
        "properties": {"id": NUMBER, "total": NUMBER, "status": one_of("done", "open", "closed")},
    }
    return Tool(
        name, "shop", parameters=schema, output_parameters=order, binding=RestBinding(method, path, "", parameters)
    )


NAMED = [
    named("create_order", total=NUMBER),
    named("get_order", order_id=NUMBER),
    named("pay_order", DONE, order_id=NUMBER),
    named("ship_order", order_id=NUMBER),
    named("refund_order", order_id=NUMBER),
]
IN_PATHS = [
    at("POST", "/orders", "add"),
    at("GET", "/orders/{id}", "show"),
    at("POST", "/orders/{id}/resolve", "settle"),
    at("POST", "/orders/{id}/reopen", "again"),
]


@pytest.mark.parametrize(
    ("tools", "actions", "states"),
    [
        (NAMED, ("pay_order", "ship_order", "refund_order"), ["open", "paid", "shipped", "refunded"]),
        (IN_PATHS, ("settle", "again"), ["open", "closed", "open"]),
    ],
)
def test_what_an_action_did_is_seen_by_later_calls(tools, actions, states):
    make, show = tools[0], tools[1]
    with closing(LMToolEngine(ToolRegistry(tools))) as engine:
        engine.setup("s")

        def answer(name, **arguments):
            return engine.execute("s", [ToolCall(f"shop::{name}", arguments)])[0].result

        made = answer(make.name, total=3)
        [key] = show.parameters["properties"]
        seen = [made["status"]]
        for action in actions:
            answer(action, **{key: made[key]})
            seen.append(answer(show.name, **{key: made[key]})["status"])
        assert seen == states


def test_an_approver_sees_which_state_an_action_would_bring():
    with closing(LMToolEngine(ToolRegistry(NAMED), policy=Policy([Rule("ask", "shop::refund_order")]))) as engine:
        engine.setup("s")
        pay, refund = ToolCall("shop::pay_order", {"order_id": 7}), ToolCall("shop::refund_order", {"order_id": 7})
        engine.execute("s", [ToolCall("shop::get_order", {"order_id": 7}), pay, refund])
        [held] = engine.approvals.list().approvals
        assert held.preview.changes == ("order 7: status paid -> refunded",)
