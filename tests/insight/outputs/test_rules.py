"""What tools are taken to answer, by their names, descriptions and parameters."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from conftest import material
from toolyard import Effects, RestBinding, Tool, ToolRegistry
from toolyard.insight.outputs.rules import output_schema
from toolyard.model.bindings import McpBinding
from toolyard.schema.admission import admit_schema
from toolyard.words.identifiers import singular, split_identifier

TEXT = {"type": "string"}
NUMBER = {"type": "number"}
WHOLE = {"type": "integer"}


def a_tool(name, description="", **parameters):
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in parameters.items()}}
    return Tool(name, "n", description, schema)


def brief(schema):
    """Types alone: {"users": [{"id": "string"}]}."""
    if schema.get("type") == "array":
        return [brief(schema["items"])] if "items" in schema else []
    if schema.get("type") == "object":
        return {key: brief(part) for key, part in schema.get("properties", {}).items()}
    return schema["type"] + ("/" + schema["format"] if "format" in schema else "")


def answers(name, description="", **parameters):
    schema = output_schema(a_tool(name, description, **parameters))
    assert schema["x-inferred"] == "rules"
    return brief(schema)


CALCULATED = [
    ("calculate_area", "Calculate the area of a circle given its radius.", {"area": "number"}),
    ("calculateFlowRate", "Calculate the flow rate of wastewater", {"flow_rate": "number"}),
    ("calculate_triangle_area", "Calculate the area of a triangle", {"area": "number"}),
    ("bmi_calculator", "Calculate the Body Mass Index (BMI) of a person.", {"body_mass_index": "number"}),
    ("predict_price", "Predict the price of a house.", {"price": "number"}),
]
FETCHED = [
    ("get_stock_price", "Get the current price of a stock.", {"price": "number"}),
    ("get_current_time", "Get the current time.", {"time": "string"}),
    ("get_order_status", "Get the status of an order.", {"status": "string"}),
    ("get_population", "Retrieve the population of a country.", {"population": "number"}),
    ("get_release_date", "Get the release date of a movie.", {"release_date": "string"}),
    ("get_synonyms", "Get synonyms for a given word", {"synonyms": ["string"]}),
    ("get_lyrics", "Get the lyrics of a song based on its title", {"lyrics": "string"}),
    ("order_status", "Retrieve the status of an order.", {"status": "string"}),
]
ASKED = [
    ("is_prime", "Check whether a number is prime.", {"is_prime": "boolean"}),
    ("verify_email", "Verify if an email address is valid", {"result": "boolean"}),
    ("validate_card", "Validate a credit card.", {"result": "boolean"}),
    ("check_allergens", "Check if a food item contains any common allergens", {"result": "boolean"}),
    ("is_open", "Returns true if the shop is open.", {"is_open": "boolean"}),
]
TURNED = [
    ("translate", "Translate a text into another language.", {"translated_text": "string"}),
    ("summarize_text", "Summarize a given text.", {"summarized_text": "string"}),
    ("encrypt_message", "Encrypt a message using a key.", {"encrypted_message": "string"}),
    ("sort_numbers", "Sort numbers in ascending order.", {"sorted_numbers": ["string"]}),
    ("generate_password", "Generate a random password.", {"password": "string"}),
]


@pytest.mark.parametrize(("name", "description", "expected"), [*CALCULATED, *FETCHED, *ASKED, *TURNED])
def test_properties_are_named_after_the_nouns_of_the_description(name, description, expected):
    assert answers(name, description) == expected


def test_search_tools_return_a_list_with_the_search_parameters_as_properties():
    found = answers(
        *("search_hotels", "Search for hotels in a city."),
        city="string",
        stars="integer",
        limit="integer",
        sort_by="string",
        max_price="number",
    )
    assert found == {"hotels": [{"id": "string", "name": "string", "city": "string", "stars": "integer"}]}
    assert answers("Flights_4_SearchOnewayFlight", "Search for a flight.", origin="string") == {
        "flights": [{"id": "string", "name": "string", "origin": "string"}]
    }
    assert answers("list_users", "List all users in the workspace.") == {"users": [{"id": "string", "name": "string"}]}
    assert answers("movies.search", "Searches movies.") == {"movies": [{"id": "string", "name": "string"}]}


@pytest.mark.parametrize(
    ("name", "description", "identifier"),
    [
        ("create_order", "Create a new order.", "order_id"),
        ("schedule_meeting", "Schedule a meeting with a colleague.", "meeting_id"),
        ("reserve_table", "Reserve a table at a restaurant.", "table_id"),
        ("create_user", "Create a new user profile.", "user_id"),
    ],
)
def test_tools_that_create_return_an_id(name, description, identifier):
    assert answers(name, description) == {identifier: "string", "status": "string"}


def test_tools_that_change_return_success():
    for name, description in (
        ("cancel_order", "Cancel an order."),
        ("update_address", "Modify the address of a user."),
        ("calibrateGripper", "Calibrate the gripper of the robot"),
        ("add_track", "Add a track to a playlist"),
    ):
        assert answers(name, description, reason="string") == {"success": "boolean"}


def test_id_parameters_are_part_of_the_result():
    done = {"order_id": "integer", "success": "boolean"}
    assert answers("cancel_order", "Cancel an order.", order_id="integer", reason="string") == done
    assert answers("get_user_info", "Retrieve details of a user.", user_id="integer") == {
        "user_id": "integer",
        "user_info": "string",
    }
    assert answers("calculate_age", "Calculate the age of a user.", user_id="integer") == {"age": "number"}


def test_a_service_returns_the_record_with_its_parameters():
    given = {"type": "object", "properties": {"title": {"type": "string"}, "due": TEXT, "limit": WHOLE, "tags": {}}}
    record = {"id": "string", "name": "string", "title": "string", "due": "string", "tags": "string"}
    for method in ("GET", "POST", "PUT"):
        binding = RestBinding(base_url="https://api.example.com", method=method, path="/tasks")
        for name, description, expected in (
            ("updateTask", "Updates a task.", record),
            ("get_task", "Get a task", record),
            ("list_tasks", "Lists tasks", {"tasks": [record]}),
        ):
            assert brief(output_schema(Tool(name, "n", description, given, binding=binding))) == expected
    mcp = McpBinding("server", "get_task")
    assert brief(output_schema(Tool("get_task", "n", "Get a task", given, binding=mcp))) == record
    assert answers("get_task", "Get a task", title="string") == {"task": "string"}


def test_property_names_have_the_case_style_of_the_parameters():
    assert answers("getReleaseDate", "Get the release date of a film.", filmTitle="string") == {"releaseDate": "string"}


def test_without_a_known_verb_the_http_method_decides():
    def bound(method):
        binding = RestBinding(base_url="https://api.example.com", method=method, path="/x")
        return brief(output_schema(Tool("x", "n", "", {"type": "object"}, binding=binding, effects=Effects.UNKNOWN)))

    assert bound("delete") == {"success": "boolean"}
    assert "success" not in bound("get")


def test_a_tool_without_usable_words_returns_a_result_property():
    assert answers("do_it") == {"success": "boolean"}
    assert answers("工具") == {"result": "string"}


@given(st.text(max_size=30), st.text(max_size=120), st.lists(st.text(max_size=12), max_size=4))
def test_any_tool_gets_a_schema_that_is_admitted_as_it_is(name, description, parameters):
    properties = {key: {"type": "string"} for key in parameters}
    schema = output_schema(Tool(name, "n", description, {"type": "object", "properties": properties}))
    plain = {key: part for key, part in schema.items() if key != "x-inferred"}
    assert admit_schema(plain, is_input=False).schema == plain
    assert schema["properties"] and all(schema["properties"])


def _catalog_tools():
    for path in material("catalogs/*.jsonl"):
        yield from ToolRegistry.from_file(path, namespace="n", on_error="skip", on_duplicate="skip")


def test_real_catalogs_get_schemas_that_are_admitted_and_mostly_more_than_a_result():
    tools = list(_catalog_tools())
    assert tools
    bare = 0
    for one in tools:
        schema = output_schema(one)
        plain = {key: part for key, part in schema.items() if key != "x-inferred"}
        admitted = admit_schema(plain, is_input=False)
        assert not admitted.changes, one.qualified_name
        bare += brief(schema) == {"result": "string"}
    assert bare <= len(tools) * 0.02


def test_most_outputs_that_authors_declared_are_named_alike():
    """Of tools that come with an output schema: how often the rules find a property of the same last word."""
    tools = [one for one in _catalog_tools() if one.output_parameters.get("properties")]
    alike = sum(bool(_last_words(one.output_parameters) & _last_words(output_schema(one))) for one in tools)
    assert not tools or alike >= len(tools) * 0.5


def _last_words(schema):
    status = {"success", "status", "message", "confirmation"}
    found = {singular(words[-1]) for key in schema["properties"] if (words := split_identifier(key))}
    return found | (status if found & status else set())


_PRINT = """
import json, sys
from toolyard import Tool
from toolyard.insight.outputs.rules import output_schema
for name, description in json.load(sys.stdin):
    print(json.dumps(output_schema(Tool(name, "n", description, {"properties": {"city": {}, "user_id": {}}}))))
"""


@pytest.mark.process
def test_the_same_tool_gives_the_same_schema_in_every_process():
    asked = json.dumps([row[:2] for row in (*CALCULATED, *FETCHED, *ASKED, *TURNED)])
    printed = {
        subprocess.run(
            [sys.executable, "-c", _PRINT],
            input=asked,
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(printed) == 1 and printed.pop().count("\n") == len(json.loads(asked))
