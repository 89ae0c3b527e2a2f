"""Lists in pages, searches by words, and things made several at a time: numbers are kept by code."""

import pytest

from engines.engine_support import ask
from engines.simulator.test_neighbours import played, taking
from engines.simulator.test_profile import operation
from toolyard import LMToolEngine, RestBinding, Tool, ToolRegistry
from toolyard.engines.simulator import Simulator
from toolyard.engines.simulator.roles import role_of

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def an_object(required=(), /, **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


ROOM = an_object(["roomId", "title"], roomId={"type": "string", "format": "uuid"}, title=TEXT)
ROOMS = an_object(
    ["data", "total"],
    data={"type": "array", "items": ROOM},
    total=WHOLE,
    count=WHOLE,
    totalPages=WHOLE,
    hasMore={"type": "boolean"},
    nextCursor={"type": ["string", "null"]},
    paging=an_object(["next_page"], next_page={"type": ["integer", "null"]}),
)
LABEL = an_object(["id", "name"], id=WHOLE, name=TEXT)
LABELS = an_object(["labels"], labels={"type": "array", "items": LABEL}, created=WHOLE)
TOOLS = [
    Tool("createRoom", "n", parameters=an_object(["title"], title=TEXT), output_parameters=ROOM),
    Tool(
        "listRooms",
        "n",
        parameters=an_object(page=WHOLE, pageSize=WHOLE, cursor=TEXT, query=TEXT),
        output_parameters=ROOMS,
    ),
    Tool(
        "bulk_create_labels",
        "n",
        parameters=an_object(["labels"], labels={"type": "array", "items": an_object(name=TEXT)}),
        output_parameters=LABELS,
    ),
    Tool("get_label", "n", parameters=an_object(["id"], id=WHOLE), output_parameters=LABEL),
    Tool("list_labels", "n", output_parameters={"type": "array", "items": LABEL}),
    Tool(
        "search_labels",
        "n",
        parameters=an_object(["query"], query=TEXT),
        output_parameters={
            "oneOf": [an_object(labels=LABELS["properties"]["labels"]), {"type": "array", "items": LABEL}]
        },
    ),
]


class _Yard:
    def __init__(self):
        self.engine = LMToolEngine(ToolRegistry(TOOLS))
        self.engine.setup("s")

    def __call__(self, name, /, **arguments):
        return ask(self.engine, name, **arguments)


def _rooms(count):
    yard = _Yard()
    for at in range(count):
        yard("createRoom", title=f"room {at}")
    return yard


def test_a_page_says_how_much_there_is_and_whether_there_is_more():
    yard = _rooms(5)
    first, last = yard("listRooms", page=1, pageSize=2), yard("listRooms", page=3, pageSize=2)
    told = ("total", "count", "totalPages", "hasMore", "paging")
    assert [first.get(name) for name in told] == [5, 2, 3, True, {"next_page": 2}]
    assert [last.get(name) for name in told] == [5, 1, 3, False, {"next_page": None}]


def test_who_follows_cursors_sees_everything_once_and_comes_to_an_end():
    yard = _rooms(5)
    page, seen = yard("listRooms", pageSize=2), []
    while True:
        seen += [room["title"] for room in page["data"]]
        if page["nextCursor"] is None:
            break
        page = yard("listRooms", pageSize=2, cursor=page["nextCursor"])
    assert seen == [f"room {at}" for at in range(5)]


def test_who_counts_pages_without_a_size_comes_to_an_end():
    assert _rooms(3)("listRooms", page=2)["data"] == []


def test_a_search_finds_what_has_its_words():
    yard = _rooms(3)
    assert [room["title"] for room in yard("listRooms", query="Room 1")["data"]] == ["room 1"]
    assert yard("listRooms", query="nowhere")["total"] == 0


def test_a_search_that_finds_nothing_shows_nothing_in_whatever_form():
    yard = _Yard()
    made = yard("bulk_create_labels", labels=[{"name": "a"}])["labels"]
    assert made[0] in (yard("search_labels", query="a") or [])
    assert yard("search_labels", query="nowhere") in ([], {"labels": []})


def test_several_things_are_made_by_one_call():
    yard = _Yard()
    made = yard("bulk_create_labels", labels=[{"name": "a"}, {"name": "b"}])
    assert [label["name"] for label in made["labels"]] == ["a", "b"]
    assert made.get("created", 2) == 2
    assert yard("get_label", id=made["labels"][1]["id"]) == made["labels"][1]
    assert yard("list_labels") == made["labels"]


def test_a_path_that_ends_in_batch_is_about_what_stands_before_it():
    one, many = (
        role_of(Tool(f"t{at}", "n", binding=RestBinding("POST", path, "http://x.test")), lists=False)
        for at, path in enumerate(("/labels", "/labels/batch"))
    )
    assert (one.kind, one.verb) == (many.kind, many.verb) == ("n/labels", "create")


def test_an_array_of_names_lists_the_things_that_can_be_asked_for():
    thing = an_object(id=TEXT, title=TEXT)
    engine = played(
        operation("make", "POST", "/networks", thing, an_object(id=TEXT, title=TEXT)),
        operation("show", "GET", "/networks/{id}", thing),
        operation("every", "GET", "/networks", {"type": "array", "items": TEXT}),
        operation("drop", "DELETE", "/networks/{id}", {}),
    )
    made_up = ask(engine, "every")
    assert made_up and all(ask(engine, "show", id=name)["id"] == name for name in made_up)
    ask(engine, "make", id="west", title="First")
    assert ask(engine, "every") == [*made_up, "west"]
    ask(engine, "drop", id="west")
    assert ask(engine, "every") == made_up


def test_an_array_of_names_that_things_cannot_have_is_made_up():
    names = {"type": "array", "items": {"enum": ["north", "south"]}}
    engine = played(
        operation("show", "GET", "/zones/{id}", an_object(id=TEXT)), operation("every", "GET", "/zones", names)
    )
    assert set() < {*ask(engine, "every")} <= {"north", "south"}


def test_an_array_of_names_shows_each_of_a_few_ids_once():
    engine = played(
        taking(operation("show", "GET", "/zones/{id}", an_object(id=TEXT)), id={"enum": ["north"]}),
        operation("every", "GET", "/zones", {"type": "array", "items": TEXT}),
    )
    assert ask(engine, "every") == ["north"]


@pytest.mark.parametrize("listed", [{"type": "array", "items": {"type": "object"}}, {"type": "object"}, {}])
def test_what_shows_any_objects_at_the_path_of_a_collection_lists_it(listed):
    engine = played(
        operation("make", "POST", "/assets", {"type": "object"}, an_object(title=TEXT)),
        operation("show", "GET", "/assets/{id}", {"type": "object"}),
        operation("every", "GET", "/assets", listed),
    )
    made = ask(engine, "make", title="First")
    shown = ask(engine, "every")
    assert (shown if "items" in listed else shown["items"]) == [ask(engine, "show", id=str(made["id"]))]


def test_an_array_of_arrays_lists_no_names():
    rows = {"type": "array", "items": {"type": "array", "items": TEXT}}
    tools = [operation("show", "GET", "/tables/{id}", an_object(id=TEXT)), operation("every", "GET", "/tables", rows)]
    simulator = Simulator()
    simulator.use_tools(tools)
    assert simulator.profile(tools[1]).role.verb == "get"
