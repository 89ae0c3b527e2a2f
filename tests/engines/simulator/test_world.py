"""A closed world: a session begins with things of every kind, and reads find what is there and make nothing up."""

import dataclasses
import json

import pytest
from hypothesis import given, settings, strategies as st

from conftest import examples
from engines.engine_support import ask, call, refused
from engines.simulator.test_profile import operation
from toolyard import ConfigError, LMToolEngine, MultiToolEngine, Tool, ToolRegistry, Toolyard
from toolyard.sessions.sessions import Sessions
from toolyard.sessions.store.sqlite import SqliteStore

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def an_object(**properties):
    return {"type": "object", "properties": properties}


TASK = {**an_object(id=WHOLE, title=TEXT, due={"type": "string", "format": "date"}), "required": ["id", "title"]}
USER = an_object(gid=TEXT, name=TEXT)
PET = an_object(id=WHOLE, name=TEXT, userId=TEXT)
TOOLS = [
    Tool("create_task", "n", parameters=an_object(title=TEXT), output_parameters=TASK),
    Tool("get_task", "n", parameters=an_object(task_id=WHOLE), output_parameters=TASK),
    Tool("list_tasks", "n", output_parameters={"type": "array", "items": TASK}),
    Tool("update_task", "n", parameters=an_object(task_id=WHOLE, title=TEXT), output_parameters=TASK),
    Tool("delete_task", "n", parameters=an_object(task_id=WHOLE)),
    Tool("search_tasks", "n", parameters=an_object(query=TEXT), output_parameters={"type": "array", "items": TASK}),
    Tool("create_note", "n", parameters={**an_object(text=TEXT), "required": ["text"]}),
    Tool("list_notes", "n"),
    Tool("get_note", "n", parameters=an_object(id=WHOLE)),
    operation("list_users", "GET", "/users", an_object(data={"type": "array", "items": USER})),
    operation("get_user", "GET", "/users/{user_gid}", an_object(data=USER)),
    operation("get_settings", "GET", "/users/{user_gid}/settings", an_object(theme=TEXT)),
    operation("list_pets", "GET", "/users/{user_gid}/pets", {"type": "array", "items": PET}),
    operation("create_pet", "POST", "/users/{user_gid}/pets", PET, an_object(name=TEXT)),
    operation("get_pet", "GET", "/users/{user_gid}/pets/{pet_id}", PET),
    operation("list_stars", "GET", "/skies/{sky}/stars", {"type": "array", "items": an_object(id=TEXT)}),
]
READS = ("list_tasks", "get_task", "search_tasks", "list_notes", "list_users", "get_settings", "list_stars")


def engine_of(sessions=None, **world):
    config = {"type": "schema", "seed": 3, "world": {"entities": 4, **world}}
    return LMToolEngine(ToolRegistry(TOOLS), lm_config=config, sessions=sessions)


@pytest.fixture
def engine():
    with engine_of() as made:
        made.setup("s")
        yield made


def own_state(engine, session="s"):
    return {name: value for name, value in engine.get_session_state(session).items() if name != "tool_executions"}


def test_a_session_begins_with_things_of_every_kind(engine):
    assert own_state(engine)
    assert [task["id"] for task in ask(engine, "list_tasks")] == [1001, 1002, 1003, 1004]
    assert ask(engine, "create_task", title="sow")["id"] == 1005
    notes = ask(engine, "list_notes")["items"]
    assert len(notes) == 4 and all(note["text"] and ask(engine, "get_note", id=note["id"]) == note for note in notes)
    users = ask(engine, "list_users")["data"]
    assert len({user["gid"] for user in users}) == 4
    assert all(ask(engine, "get_user", user_gid=user["gid"])["data"] == user for user in users)


def test_what_belongs_to_others_is_shared_out_among_them(engine):
    users = [user["gid"] for user in ask(engine, "list_users")["data"]]
    pets = [ask(engine, "list_pets", user_gid=user) for user in users]
    assert [len(found) for found in pets] == [1, 1, 1, 1]
    assert ask(engine, "get_pet", user_gid=users[1], pet_id=str(pets[1][0]["id"])) == pets[1][0]
    assert ask(engine, "get_settings", user_gid=users[0]) != ask(engine, "get_settings", user_gid=users[1])
    assert ask(engine, "create_pet", user_gid=users[0], name="Rex")["id"] == 1002
    assert ask(engine, "list_stars", sky="north") == []  # nothing tells which skies there are


def test_what_is_not_there_is_not_found_and_not_made(engine):
    before = own_state(engine)
    for name in ("get_task", "update_task", "delete_task"):
        assert refused(engine, name, task_id=77).message == "there is no task 77"
    assert ask(engine, "search_tasks", query="nobody wrote this") == []
    assert ask(engine, "list_pets", user_gid="stranger") == []
    assert own_state(engine) == before


@settings(max_examples=examples(30))
@given(st.lists(st.tuples(st.sampled_from(READS), st.integers(1000, 1006)), max_size=12))
def test_reads_change_nothing_and_say_the_same_again(reads):
    with engine_of() as engine:
        engine.setup("s")
        before = own_state(engine)
        arguments = {"get_task": "task_id", "search_tasks": "query", "get_settings": "user_gid", "list_stars": "sky"}
        calls = [
            call(name, **({arguments[name]: key if name == "get_task" else str(key)} if name in arguments else {}))
            for name, key in reads
        ]
        first, again = engine.execute("s", calls), engine.execute("s", calls)
        assert [result.result for result in first] == [result.result for result in again]
        assert own_state(engine) == before


def test_what_is_deleted_changed_and_created_is_seen(engine):
    ask(engine, "delete_task", task_id=1002)
    ask(engine, "update_task", task_id=1003, title="reap")
    made = ask(engine, "create_task", title="sow")
    tasks = ask(engine, "list_tasks")
    assert [task["id"] for task in tasks] == [1001, 1003, 1004, made["id"]]
    assert tasks[1]["title"] == "reap" and tasks[3] == made
    assert "deleted" in refused(engine, "get_task", task_id=1002).message


def test_seeds_make_worlds():
    def tasks_of(**world):
        with engine_of(**world) as engine:
            engine.setup("s")
            return ask(engine, "list_tasks"), engine.state_hash("s")

    assert tasks_of() == tasks_of() == tasks_of(seed=3)
    assert tasks_of(seed=4) != tasks_of()
    assert tasks_of(entities=0)[0] == []
    assert len(tasks_of(entities=40)[0]) == 40


def test_forks_and_simulations_go_their_own_ways(engine):
    ask(engine, "delete_task", task_id=1001)
    engine.setup("fork", fork_of="s")
    assert engine.state_hash("fork") == engine.state_hash("s")
    ask(engine, "delete_task", "fork", task_id=1002)
    before = engine.state_hash("s")
    drafts = engine.simulate("s", [call("create_task", title="sow"), call("list_tasks")])
    assert [task["id"] for task in drafts[1].result] == [1002, 1003, 1004, 1005]
    assert engine.state_hash("s") == before
    assert [task["id"] for task in ask(engine, "list_tasks", "fork")] == [1003, 1004]


def test_a_state_that_is_given_takes_the_place_of_the_world(engine):
    ask(engine, "delete_task", task_id=1001)
    engine.setup("again", initial_state=json.loads(json.dumps(engine.get_session_state("s"))))
    assert [task["id"] for task in ask(engine, "list_tasks", "again")] == [1002, 1003, 1004]


def test_a_world_is_kept_with_its_session(tmp_path):
    with engine_of(Sessions(SqliteStore(tmp_path / "s.db"))) as engine:
        engine.setup("s")
        ask(engine, "delete_task", task_id=1001)
        known = own_state(engine), engine.state_hash("s")
    with engine_of(Sessions(SqliteStore(tmp_path / "s.db")), seed=99) as engine:
        assert (own_state(engine), engine.state_hash("s")) == known
        assert [task["id"] for task in ask(engine, "list_tasks")] == [1002, 1003, 1004]


def test_part_of_another_engine_and_config_it_makes_things_of_its_own_tools_alone(tmp_path):
    (tmp_path / "tools.json").write_text(json.dumps({"namespace": "a", "tools": [{"name": "list_cats"}]}))
    config = {
        "tools": {
            "registry": [
                {"type": "file", "path": str(tmp_path / "tools.json"), "engine": "closed"},
                {"type": "inline", "namespace": "b", "tools": [{"name": "list_dogs"}]},
            ],
            "engines": {"closed": {"type": "lm", "lm_config": {"type": "schema", "world": {"entities": 2}}}},
        }
    }
    with Toolyard.from_config(config) as yard:
        assert isinstance(yard.tool_engine, MultiToolEngine)
        yard.tool_engine.setup("s")
        assert own_state(yard.tool_engine).keys() == {"closed"}
        assert all("dog" not in name for name in own_state(yard.tool_engine)["closed"])
        (cats,) = yard.tool_engine.execute("s", [call("a::list_cats")])
        assert cats.result["total"] == 2


async def test_a_call_without_a_session_is_in_a_world_of_its_own():
    from toolyard.calls.batch import CallRequest

    with engine_of() as engine:
        (listed,) = await engine.arun(CallRequest(calls=[call("list_tasks")]))
        assert len(listed.result) == 4


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"world": {"entitys": 3}}, "world: unknown key 'entitys'; did you mean 'entities'?"),
        ({"world": {"entities": -1}}, "world.entities: must be 0 or more"),
        ({"world": 3}, "world: must be a mapping"),
        ({"world": {}, "stateful": False}, "remove stateful: false"),
        ({"type": "openai", "model_id_or_path": "m", "world": {}}, "lm_config.world: .* has no use for it"),
    ],
)
def test_a_world_that_is_none_is_refused(config, said):
    with pytest.raises(ConfigError, match=said):
        LMToolEngine(ToolRegistry(TOOLS), lm_config={"type": "schema", **config})


def test_nothing_is_made_in_what_is_not_there_or_was_deleted():
    tools = [*TOOLS, operation("drop_user", "DELETE", "/users/{user_gid}", {})]
    with LMToolEngine(ToolRegistry(tools), lm_config={"type": "schema", "seed": 3, "world": {"entities": 4}}) as engine:
        engine.setup("s")
        assert refused(engine, "create_pet", user_gid="stranger", name="Rex").message == "there is no user 'stranger'"
        user = ask(engine, "list_users")["data"][0]["gid"]
        pet = ask(engine, "create_pet", user_gid=user, name="Rex")
        ask(engine, "drop_user", user_gid=user)
        for name, arguments in (
            ("list_pets", {}),
            ("get_pet", {"pet_id": str(pet["id"])}),
            ("create_pet", {"name": "Tom"}),
        ):
            assert "was deleted" in refused(engine, name, user_gid=user, **arguments).message


@pytest.mark.parametrize("path", ["/repos/{owner}", "/{parent}", "/v1/{parent}"])
def test_what_is_asked_for_below_a_path_by_something_else_need_not_be_there(path):
    kind = path.rpartition("/")[0]
    tools = [
        operation("list_repos", "GET", kind, {"type": "array", "items": an_object(id=TEXT, name=TEXT)}),
        operation("create_issue", "POST", f"{path}/issues", an_object(id=TEXT, name=TEXT), an_object(name=TEXT)),
    ]
    with LMToolEngine(ToolRegistry(tools), lm_config={"type": "schema", "seed": 3, "world": {"entities": 4}}) as engine:
        engine.setup("s")
        owner = path.rpartition("{")[2].rstrip("}")
        assert ask(engine, "create_issue", **{owner: "ann"}, name="Slow")["name"] == "Slow"


def test_nothing_is_made_below_what_another_tool_shows_by_that_key_and_is_not_there():
    book = an_object(isbn=TEXT, name=TEXT)
    tools = [
        operation("list_books", "GET", "/books", {"type": "array", "items": book}),
        operation("show_book", "GET", "/books/{isbn}", book),
        operation(
            "create_review", "POST", "/books/{isbn}/reviews", an_object(id=TEXT, text=TEXT), an_object(text=TEXT)
        ),
    ]
    with LMToolEngine(ToolRegistry(tools), lm_config={"type": "schema", "seed": 3, "world": {"entities": 4}}) as engine:
        engine.setup("s")
        [first, *_] = ask(engine, "list_books")
        assert ask(engine, "create_review", isbn=first["isbn"], text="Long")["text"] == "Long"
        assert refused(engine, "create_review", isbn="none", text="Long")


def test_there_are_no_more_things_of_a_kind_than_ids_for_them():
    zone = {"type": "string", "enum": ["north", "south"]}
    show = operation("show_zone", "GET", "/zones/{zoneId}", an_object(zoneId=zone, name=TEXT))
    show = dataclasses.replace(show, parameters={**an_object(zoneId=zone), "required": ["zoneId"]})
    tools = [
        operation("make_zone", "POST", "/zones", an_object(zoneId=zone, name=TEXT), an_object(name=TEXT)),
        operation("list_zones", "GET", "/zones", {"type": "array", "items": an_object(zoneId=zone, name=TEXT)}),
        show,
    ]
    with LMToolEngine(ToolRegistry(tools), lm_config={"type": "schema", "seed": 3, "world": {"entities": 4}}) as engine:
        engine.setup("s")
        assert sorted(one["zoneId"] for one in ask(engine, "list_zones")) == ["north", "south"]


@pytest.mark.parametrize("seed", range(4))
def test_a_thing_whose_type_is_its_id_takes_one_id(seed):
    kind = {"type": "string", "enum": ["validity", "compatibility", "integrity"]}
    show = operation("show_rule", "GET", "/rules/{rule}", an_object(type=kind, config=TEXT))
    show = dataclasses.replace(show, parameters={**an_object(rule=kind), "required": ["rule"]})
    make = operation("make_rule", "POST", "/rules", {}, an_object(type=kind, config=TEXT))
    make = dataclasses.replace(make, parameters={**make.parameters, "required": ["type"]})
    config = {"type": "schema", "seed": seed, "world": {"entities": 4}}
    with LMToolEngine(ToolRegistry([make, show]), lm_config=config) as engine:
        engine.setup("s")
        assert all(ask(engine, "show_rule", rule=rule) for rule in kind["enum"])
