"""A session remembers what its calls made: what is created can be read, listed, changed and removed."""

import pytest

from engines.engine_support import ask, call, refused
from toolyard import LMToolEngine, RestBinding, Tool, ToolRegistry
from toolyard.model.bindings import RestParameter

PET = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "status": {"enum": ["available", "sold"]},
        "born": {"type": "string", "format": "date"},
    },
    "required": ["id", "name", "status", "born"],
}
PETS = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": PET}, "total": {"type": "integer"}},
    "required": ["items", "total"],
}


def tool(name, output, /, *required, **optional):
    properties = {**{item: {"type": "integer" if item.endswith("id") else "string"} for item in required}, **optional}
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return Tool(name, "n", parameters=parameters, output_parameters=output)


TOOLS = [
    tool("create_pet", PET, "name", status={"type": "string"}),
    tool("get_pet", {"type": "object", "properties": {"pet": PET}, "required": ["pet"]}, "pet_id"),
    tool("list_pets", PETS, status={"type": "string"}, limit={"type": "integer"}, page={"type": "integer"}),
    tool("update_pet", PET, "pet_id", name={"type": "string"}, status={"type": "string"}),
    tool(
        "delete_pet",
        {"type": "object", "properties": {"deleted": {"type": "boolean"}}, "required": ["deleted"]},
        "pet_id",
    ),
    tool("create_note", {}, "text"),
    tool("get_note", {}, "id"),
    tool("list_notes", {}),
    tool(
        "send_mail",
        {"type": "object", "properties": {"message_id": {"type": "string"}}, "required": ["message_id"]},
        "to",
    ),
    tool(
        "get_weather",
        {
            "type": "object",
            "properties": {"city": {"type": "string"}, "temperature": {"type": "number"}},
            "required": ["city", "temperature"],
        },
        "city",
    ),
]


@pytest.fixture
def engine():
    with LMToolEngine(ToolRegistry(TOOLS), lm_config={"type": "schema", "seed": 3}) as made:
        made.setup("s")
        yield made


def test_what_is_made_is_read_listed_changed_and_removed(engine):
    made = ask(engine, "create_pet", name="Rex", status="sold")
    assert (made["name"], made["status"]) == ("Rex", "sold")
    assert ask(engine, "get_pet", pet_id=made["id"])["pet"] == made
    assert ask(engine, "list_pets") == {"items": [made], "total": 1}
    changed = ask(engine, "update_pet", pet_id=made["id"], name="Max")
    assert changed == {**made, "name": "Max"}
    assert ask(engine, "get_pet", pet_id=made["id"])["pet"] == changed
    assert ask(engine, "delete_pet", pet_id=made["id"]) == {"deleted": True}
    info = refused(engine, "get_pet", pet_id=made["id"])
    assert (info.code, info.effect) == ("tool.execution_error", "none") and str(made["id"]) in info.message
    assert refused(engine, "delete_pet", pet_id=made["id"]) and refused(engine, "update_pet", pet_id=made["id"])
    assert ask(engine, "list_pets") == {"items": [], "total": 0}


def test_ids_go_up_one_by_one_and_counts_are_counted(engine):
    made = [ask(engine, "create_pet", name=name) for name in ("a", "b", "c", "d", "e")]
    ids = [pet["id"] for pet in made]
    assert ids == list(range(ids[0], ids[0] + 5))
    assert ask(engine, "list_pets") == {"items": made, "total": 5}
    assert ask(engine, "list_pets", limit=2, page=2) == {"items": made[2:4], "total": 5}


def test_lists_show_what_fits_the_question(engine):
    sold = ask(engine, "create_pet", name="Rex", status="sold")
    ask(engine, "create_pet", name="Max", status="available")
    assert ask(engine, "list_pets", status="sold") == {"items": [sold], "total": 1}


def test_what_nobody_made_is_made_up_once(engine):
    first = ask(engine, "get_pet", pet_id=77)
    assert first["pet"]["id"] == 77
    assert ask(engine, "get_pet", pet_id=77) == first
    assert ask(engine, "list_pets")["items"] == [first["pet"]]
    listed = ask(engine, "list_pets", status="sold")["items"]
    for pet in listed:
        assert pet["status"] == "sold" and ask(engine, "get_pet", pet_id=pet["id"])["pet"] == pet


def test_a_list_of_what_nobody_made_can_be_read_one_by_one(engine):
    listed = ask(engine, "list_pets")
    assert listed["total"] == len(listed["items"]) >= 2
    for pet in listed["items"]:
        assert ask(engine, "get_pet", pet_id=pet["id"])["pet"] == pet
    assert ask(engine, "list_pets") == listed


def test_tools_without_an_output_schema_remember_too(engine):
    made = ask(engine, "create_note", text="milk")
    assert made["text"] == "milk"
    assert ask(engine, "get_note", id=made["id"]) == made
    assert ask(engine, "list_notes") == {"items": [made], "total": 1}


def test_what_only_reads_depends_on_its_arguments_alone_and_what_acts_on_how_often(engine):
    assert ask(engine, "get_weather", city="Ulm") == ask(engine, "get_weather", city="Ulm")
    assert ask(engine, "get_weather", city="Ulm")["city"] == "Ulm"
    assert ask(engine, "get_weather", city="Bonn") != ask(engine, "get_weather", city="Ulm")
    assert ask(engine, "send_mail", to="a") != ask(engine, "send_mail", to="a")


def test_simulate_says_what_execute_would_and_leaves_nothing(engine):
    before = engine.state_hash("s")
    calls = [call("create_pet", name="Rex"), call("list_pets")]
    drafts = engine.simulate("s", calls)
    assert engine.state_hash("s") == before
    assert [result.result for result in engine.execute("s", calls)] == [result.result for result in drafts]
    assert drafts[1].result["items"] == [drafts[0].result]


def test_forks_go_their_own_ways(engine):
    rex = ask(engine, "create_pet", name="Rex")
    engine.setup("fork", fork_of="s")
    ask(engine, "delete_pet", "fork", pet_id=rex["id"])
    assert ask(engine, "get_pet", pet_id=rex["id"])["pet"] == rex
    assert refused(engine, "get_pet", "fork", pet_id=rex["id"])
    engine.setup("other")
    assert ask(engine, "create_pet", "other", name="Rex") == rex  # the same seed, call and history


def test_another_seed_is_another_world(engine):
    with LMToolEngine(ToolRegistry(TOOLS), lm_config={"type": "schema", "seed": 4}) as other:
        other.setup("s")
        assert ask(other, "create_pet", name="Rex") != ask(engine, "create_pet", name="Rex")


def test_it_can_be_told_to_forget():
    with LMToolEngine(ToolRegistry(TOOLS), lm_config={"type": "schema", "stateful": False}) as engine:
        engine.setup("s")
        made = ask(engine, "create_pet", name="Rex")
        ask(engine, "delete_pet", pet_id=made["id"])
        assert ask(engine, "get_pet", pet_id=made["id"])
        assert engine.get_session_state("s").keys() == {"tool_executions"}


def rest(method, path, output, *arguments):
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    parameters = tuple(RestParameter(argument=name, name=name, location="path") for name in names)
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in (*names, *arguments)}}
    name = f"{method}{path.replace('/', '.')}"
    return Tool(
        name, "n", parameters=schema, output_parameters=output, binding=RestBinding(method, path, "", parameters)
    )


def test_things_belong_to_those_whose_path_they_are_under():
    issue = {
        "type": "object",
        "properties": {"number": {"type": "integer"}, "title": {"type": "string"}, "repo": {"type": "string"}},
        "required": ["number", "title", "repo"],
    }
    tools = [
        rest("POST", "/repos/{repo}/issues", issue, "title"),
        rest("GET", "/repos/{repo}/issues", {"type": "array", "items": issue}),
        rest("GET", "/repos/{repo}/issues/{issue_number}", issue),
    ]
    with LMToolEngine(ToolRegistry(tools)) as engine:
        engine.setup("s")
        made = ask(engine, tools[0].name, repo="a", title="Broken")
        assert made == {"number": 1, "title": "Broken", "repo": "a"}
        assert ask(engine, tools[1].name, repo="a") == [made]
        assert ask(engine, tools[2].name, repo="a", issue_number="1") == made
        assert ask(engine, tools[2].name, repo="b", issue_number="1")["repo"] == "b"
