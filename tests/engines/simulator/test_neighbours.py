"""What a tool does that only shows beside the others of its service."""

import dataclasses
import re

import msgspec
import pytest

from engines.engine_support import ask, refused
from engines.simulator.test_profile import TEXT, WHOLE, an_object, operation
from toolyard import LMToolEngine, ToolRegistry
from toolyard.engines.simulator import Simulator
from toolyard.engines.simulator.roles import fields_of
from toolyard.model.bindings import RestParameter

THING = an_object(id=WHOLE, title=TEXT)


def played(*tools):
    engine = LMToolEngine(ToolRegistry(tools), lm_config={"type": "schema", "seed": 5})
    engine.setup("s")
    return engine


def taking(tool, **parameters):
    """The tool with other schemas of its arguments."""
    properties = {**tool.parameters["properties"], **parameters}
    return dataclasses.replace(tool, parameters={**tool.parameters, "properties": properties})


@pytest.mark.parametrize(
    "path", ["/price_list_rows", "/change-requests", "/dry-run", "/transfer", "/users/{user}/status_update_rules"]
)
def test_a_word_is_a_name_where_one_of_those_at_its_path_can_be_asked_for(path):
    listed = an_object(items={"type": "array", "items": THING})
    engine = played(
        operation("make", "POST", path, THING, an_object(title=TEXT)),
        operation("show", "GET", f"{path}/{{id}}", THING),
        operation("every", "GET", path, listed),
        operation("drop", "DELETE", f"{path}/{{id}}", {}),
    )
    whose = {"user": "ann"} if "{user}" in path else {}
    made = ask(engine, "make", title="First", **whose)
    assert ask(engine, "show", id=str(made["id"]), **whose) == made
    assert ask(engine, "every", **whose)["items"] == [made]
    ask(engine, "drop", id=str(made["id"]), **whose)
    assert refused(engine, "show", id=str(made["id"]), **whose)


@pytest.mark.parametrize(("name", "path"), [("findPets", "/pets/search"), ("getPets", "/pets")])
def test_what_only_asks_for_things_makes_none_though_one_can_be_asked_for(name, path):
    pets = an_object(pets={"type": "array", "items": THING})
    tools = [operation(name, "POST", path, pets, an_object(title=TEXT)), operation("x", "GET", f"{path}/{{id}}", THING)]
    simulator = Simulator()
    simulator.use_tools(tools)
    assert simulator.profile(tools[0]).role.verb != "create"


def test_what_can_be_changed_by_a_key_is_shown_by_it_whatever_lists_are_in_it():
    program = an_object(tiers={"type": "array", "items": THING}, programs={"type": "array", "items": THING})
    show = operation("show", "GET", "/programs/{campaignId}", program)
    simulator = Simulator()
    assert simulator.profile(show).role.verb == "list"
    simulator.use_tools([show, operation("change", "PUT", "/programs/{campaignId}", program, program)])
    assert (simulator.profile(show).role.verb, simulator.profile(show).role.key) == ("get", "campaignId")


@pytest.mark.parametrize("form", [{"pattern": "^[A-F]{4}-[0-9]{8}$"}, {"enum": ["left"]}, {"type": "integer"}], ids=str)
def test_an_id_is_one_that_the_tool_that_shows_the_thing_takes(form):
    shown = an_object(id=TEXT, title=TEXT)
    engine = played(
        operation("make", "POST", "/jobs", shown, an_object(title=TEXT)),
        taking(operation("show", "GET", "/jobs/{jobId}", shown), jobId={**TEXT, **form}),
    )
    made = ask(engine, "make", title="First")
    key = int(made["id"]) if form == {"type": "integer"} else made["id"]
    assert ask(engine, "show", jobId=key) == made
    assert re.fullmatch(form.get("pattern", ".*"), made["id"])


@pytest.mark.parametrize("answer", [an_object(email=TEXT, guid=TEXT), an_object(number=TEXT), TEXT, {}], ids=str)
def test_an_answer_says_what_to_ask_for_though_it_has_no_place_for_it(answer):
    engine = played(
        operation("make", "POST", "/returns", answer, an_object(title=TEXT)),
        taking(operation("show", "GET", "/returns/{id}", THING), id=WHOLE),
    )
    made = ask(engine, "make", title="First")
    called = int(made.get("id") or made["guid"] if isinstance(made, dict) else made)
    assert ask(engine, "show", id=called) == {"id": called, "title": "First"}


def test_the_only_part_that_is_sent_is_no_envelope_where_the_thing_is_shown_with_it():
    limits = an_object(retries=WHOLE)
    engine = played(
        operation("make", "POST", "/tasks", {}, an_object(id=TEXT, limits=limits)),
        operation("show", "GET", "/tasks/{id}", an_object(id=TEXT, limits=limits)),
        operation("change", "PUT", "/tasks/{id}", {}, an_object(limits=limits)),
    )
    ask(engine, "make", id="t", limits={"retries": 1})
    ask(engine, "change", id="t", limits={"retries": 2})
    assert ask(engine, "show", id="t") == {"id": "t", "limits": {"retries": 2}}


def test_an_envelope_is_opened_though_things_have_a_number_of_that_name():
    episode = an_object(id=WHOLE, title=TEXT, episode=WHOLE)
    engine = played(
        operation("make", "POST", "/episodes", episode, an_object(title=TEXT)),
        operation("show", "GET", "/episodes/{id}", episode),
        operation("change", "PUT", "/episodes/{id}", episode, an_object(episode=episode, logo=TEXT)),
    )
    made = ask(engine, "make", title="First")
    ask(engine, "change", id=str(made["id"]), episode={"title": "Second"})
    assert ask(engine, "show", id=str(made["id"]))["title"] == "Second"


def test_lists_beside_the_one_that_is_sent_or_inside_of_it_are_no_things_of_their_own():
    field = an_object(id=WHOLE, title=TEXT)
    both = an_object(field=field, fields={"type": "array", "items": field})
    group = an_object(id=WHOLE, title=TEXT, servers={"type": "array", "items": an_object(ip=TEXT)})
    engine = played(
        operation("make_field", "POST", "/field", both, both),
        operation("show_field", "GET", "/field/{id}", both),
        operation("make_group", "POST", "/servers", group, group),
        operation("show_group", "GET", "/servers/{id}", group),
    )
    made = ask(engine, "make_field", field={"title": "mine"}, fields=[{"title": "other"}])["field"]
    assert ask(engine, "show_field", id=str(made["id"]))["field"]["title"] == "mine"
    made = ask(engine, "make_group", title="mine", servers=[{"ip": "10.0.0.1"}])
    assert ask(engine, "show_group", id=str(made["id"])) == made == {**made, "title": "mine"}


def test_of_several_that_are_sent_an_answer_with_one_has_the_first():
    engine = played(
        operation("make", "POST", "/rewards", THING, an_object(rewards={"type": "array", "items": THING})),
        operation("show", "GET", "/rewards/{id}", THING),
    )
    made = ask(engine, "make", rewards=[{"title": "First"}, {"title": "Second"}])
    assert made["title"] == "First"
    assert ask(engine, "show", id=str(made["id"])) == made


def test_several_are_found_in_a_list_whose_name_ends_in_theirs_and_by_their_identifiers():
    order = an_object(orderIdentifier=WHOLE, title=TEXT)
    answer = an_object(createdOrders={"type": "array", "items": order}, failures=WHOLE)
    engine = played(
        operation(
            "make", "POST", "/orders", answer, an_object(items={"type": "array", "items": an_object(title=TEXT)})
        ),
        operation("show", "GET", "/orders/{orderIdentifiers}", {"type": "array", "items": order}),
        operation("drop", "DELETE", "/orders/{orderIdentifiers}", {}),
    )
    first, second = ask(engine, "make", items=[{"title": "First"}, {"title": "Second"}])["createdOrders"]
    assert (first["title"], second["title"]) == ("First", "Second")
    assert ask(engine, "show", orderIdentifiers=str(second["orderIdentifier"])) == [second]


def test_a_price_that_one_answer_has_as_text_is_a_number_in_another():
    engine = played(
        operation("make", "POST", "/offers", THING, an_object(price={"type": "number"})),
        operation("show", "GET", "/offers/{id}", an_object(id=WHOLE, price={"type": "number"})),
        operation("change", "PUT", "/offers/{id}", an_object(price=TEXT), an_object(price={"type": "number"})),
    )
    made = ask(engine, "make", price=1.5)
    assert ask(engine, "change", id=str(made["id"]), price=67.34)["price"] == "67.34"
    assert ask(engine, "show", id=str(made["id"]))["price"] == 67.34


def test_a_key_is_found_under_the_longest_ending_that_it_has():
    assert "reservationuid" in fields_of("uid", "reservation")
    assert "orderidentifier" in fields_of("orderIdentifiers", "order")


def test_tools_that_come_later_are_met_too():
    make = operation("make", "POST", "/transfer", THING, an_object(title=TEXT))
    registry = ToolRegistry([make])
    with LMToolEngine(registry, lm_config={"type": "schema", "seed": 5}) as engine:
        engine.setup("s")
        ask(engine, "make", title="First")
        registry.add(operation("show", "GET", "/transfer/{id}", THING))
        made = ask(engine, "make", title="Second")
        assert ask(engine, "show", id=str(made["id"])) == made


@pytest.mark.parametrize(
    "form", [{"type": "integer", "minimum": 1, "maximum": 100}, {"type": "string", "maxLength": 3}]
)
def test_ids_are_different_though_few_are_allowed(form):
    show = taking(operation("show", "GET", "/things/{id}", an_object(id=form, title=TEXT)), id=form)
    make = operation("make", "POST", "/things", an_object(id=form, title=TEXT), an_object(title=TEXT))
    engine = played(make, show)
    made = [ask(engine, "make", title=f"t{number}")["id"] for number in range(30)]
    assert len(set(made)) == 30
    assert [ask(engine, "show", id=each)["title"] for each in made] == [f"t{number}" for number in range(30)]


def test_what_is_known_of_a_namespace_stays_while_another_changes_and_goes_with_its_own():
    show = operation("show", "GET", "/things/{id}", THING)
    simulator = Simulator()
    simulator.use_tools((show, *(other := [dataclasses.replace(show, namespace="other")])))
    before = simulator.profile(show), simulator.profile(other[0])
    more = dataclasses.replace(show, name="more", namespace="other")
    simulator.use_tools((show, other[0], more))
    assert simulator.profile(show) is before[0] and simulator.profile(other[0]) is not before[1]
    assert set(simulator._namespaces) == {show.namespace, "other"}
    simulator.use_tools((show,))
    assert set(simulator._namespaces) == {show.namespace}


@pytest.mark.parametrize("form", [{"pattern": "^report_[0-9a-z]{12}$"}, {"minLength": 9}])
@pytest.mark.parametrize("said", [{}, TEXT])
def test_what_create_says_of_itself_in_no_form_is_called_as_it_shows_itself_later(form, said):
    report = an_object(report_id={"type": "string", **form}, title=TEXT)
    engine = played(
        operation("make", "POST", "/reports", said, an_object(title=TEXT)),
        operation("show", "GET", "/reports/{report_id}", report),
        operation("every", "GET", "/reports", an_object(items={"type": "array", "items": report})),
    )
    made = [ask(engine, "make", title=f"t{number}") for number in range(3)]
    called = [one if said is TEXT else one["id"] for one in made]
    shown = [ask(engine, "show", report_id=each) for each in called]
    assert [one["report_id"] for one in shown] == called and len(set(called)) == 3
    assert [one["title"] for one in shown] == ["t0", "t1", "t2"]
    assert ask(engine, "every")["items"] == shown


def test_a_list_says_what_things_are_called_by_that_are_asked_for_by_a_bare_key():
    listed = an_object(items={"type": "array", "items": an_object(ContactKey=TEXT, title=TEXT)})
    engine = played(
        operation("make", "POST", "/contacts", {}, an_object(title=TEXT)),
        operation("show", "GET", "/contacts/{key}", {}),
        operation("every", "GET", "/contacts", listed),
    )
    made = ask(engine, "make", title="First")
    assert ask(engine, "every")["items"] == [{"ContactKey": str(made["id"]), "title": "First"}]


def test_verbs_in_paths_are_no_part_of_what_is_made_and_shown():
    engine = played(
        operation("make", "POST", "/events/add", THING, an_object(title=TEXT)),
        operation("show", "GET", "/events/view/{eventId}", THING),
        operation("every", "GET", "/events", {"type": "array", "items": THING}),
        operation("change", "POST", "/events/edit/{eventId}", THING, an_object(title=TEXT)),
        operation("drop", "POST", "/events/delete/{eventId}", {}),
        operation("tag", "POST", "/api/add/tag", THING, an_object(title=TEXT)),
        operation("show_tag", "GET", "/api/get/tag/{id}", THING),
        operation("note", "POST", "/notes/add/{eventId}", THING, an_object(title=TEXT)),
        operation("show_note", "GET", "/notes/view/{id}", THING),
    )
    made = ask(engine, "make", title="First")
    event = {"eventId": str(made["id"])}
    assert ask(engine, "show", **event) == made
    assert ask(engine, "every") == [made]
    assert ask(engine, "change", title="Second", **event)["title"] == "Second"
    assert ask(engine, "show", **event)["title"] == "Second"
    ask(engine, "drop", **event)
    assert refused(engine, "show", **event)
    assert ask(engine, "every") == []
    tag, note = ask(engine, "tag", title="Urgent"), ask(engine, "note", eventId="7", title="Seen")
    assert ask(engine, "show_tag", id=str(tag["id"])) == tag
    assert ask(engine, "show_note", id=str(note["id"])) == note


def test_a_verb_in_the_path_of_a_get_changes_nothing():
    engine = played(
        operation("show", "GET", "/events/view/{eventId}", THING),
        operation("drop", "GET", "/events/delete/{eventId}", {}),
        operation("make", "GET", "/events/add/{eventId}", THING),
    )
    shown = ask(engine, "show", eventId="5")
    ask(engine, "drop", eventId="5")
    ask(engine, "make", eventId="5")
    assert ask(engine, "show", eventId="5") == shown


def test_verbs_in_paths_are_found_whatever_the_namespace_is_called():
    paths = [("POST", "/events/add"), ("GET", "/events/view/{id}"), ("GET", "/events/view/{id}/seats")]
    tools = [dataclasses.replace(operation(path, method, path, THING), namespace="calendar/") for method, path in paths]
    simulator = Simulator()
    simulator.use_tools(tools)
    assert [simulator.profile(tool).role.noun for tool in tools] == ["event", "event", "seat"]


def test_a_single_verb_in_a_path_may_be_the_name_of_a_thing():
    show = operation("show", "GET", "/users/{user}/view/{viewId}", THING)
    simulator = Simulator()
    simulator.use_tools([show])
    assert simulator.profile(show).role.noun == "view"


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
def test_a_change_of_several_adds_none(method):
    engine = played(
        operation("make", "POST", "/pets", THING, an_object(title=TEXT)),
        operation("show", "GET", "/pets/{id}", THING),
        operation("every", "GET", "/pets", {"type": "array", "items": THING}),
        operation("change", method, "/pets", an_object(changed=WHOLE), an_object(ids={"type": "array"}, title=TEXT)),
    )
    made = ask(engine, "make", title="First")
    ask(engine, "change", ids=[made["id"]], title="Second")
    assert len(ask(engine, "every")) == 1


def test_what_is_one_thing_is_changed_as_one_though_there_are_others_below_its_path():
    settings = an_object(theme=TEXT, language=TEXT)
    engine = played(
        operation("show", "GET", "/settings", settings),
        operation("change", "PUT", "/settings", {}, settings),
        operation("adjust", "PATCH", "/settings", settings, settings),
        operation("show_one", "GET", "/settings/{key}", an_object(key=TEXT, value=TEXT)),
    )
    ask(engine, "change", theme="dark", language="no")
    assert ask(engine, "show") == {"theme": "dark", "language": "no"}
    assert ask(engine, "adjust", theme="light") == ask(engine, "show") == {"theme": "light", "language": "no"}


def test_a_put_to_a_collection_names_what_it_changes_as_those_are_asked_for():
    person = an_object(email=TEXT, title=TEXT)
    engine = played(
        operation("write", "PUT", "/people", {}, person),
        operation("show", "GET", "/people/{email}", person),
        operation("every", "GET", "/people", {"type": "array", "items": person}),
    )
    for title in ("Dr", "Prof"):
        ask(engine, "write", email="a@b.example", title=title)
        assert ask(engine, "show", email="a@b.example") == {"email": "a@b.example", "title": title}
    assert ask(engine, "every") == [{"email": "a@b.example", "title": "Prof"}]


def test_a_required_argument_beside_the_path_of_a_collection_selects_one_as_it_does_for_changes():
    def selecting(name, method, output, body=None):
        tool = operation(name, method, "/tags", output, body)
        return dataclasses.replace(tool, parameters={**taking(tool, tag_id=TEXT).parameters, "required": ["tag_id"]})

    engine = played(
        operation("every", "GET", "/tags", {"type": "array", "items": THING}),
        selecting("show", "GET", THING),
        operation("make", "POST", "/tags", THING, an_object(title=TEXT)),
        selecting("change", "PUT", THING, an_object(title=TEXT)),
        selecting("drop", "DELETE", {}),
    )
    made = ask(engine, "make", title="First")
    whose = {"tag_id": str(made["id"])}
    assert ask(engine, "show", **whose) == made
    ask(engine, "change", title="Second", **whose)
    assert ask(engine, "every") == [ask(engine, "show", **whose)] == [{**made, "title": "Second"}]
    ask(engine, "drop", **whose)
    assert refused(engine, "show", **whose)


@pytest.mark.parametrize(
    ("taken", "shown"),
    [
        ({"type": "array", "items": TEXT}, an_object(renders={"type": "array", "items": THING})),
        (TEXT, {"type": "array", "items": THING}),
    ],
)
def test_where_an_argument_or_the_answer_is_an_array_an_id_may_select_several(taken, shown):
    show = taking(operation("show", "GET", "/renders", shown), id=taken)
    tools = [
        dataclasses.replace(show, parameters={**show.parameters, "required": ["id"]}),
        operation("make", "POST", "/renders", THING, an_object(title=TEXT)),
    ]
    simulator = Simulator()
    simulator.use_tools(tools)
    assert simulator.profile(tools[0]).role.verb == "list"


def test_what_is_asked_for_by_its_name_is_changed_by_it_though_the_answer_to_a_change_shows_nothing_of_it():
    remote = an_object(name=TEXT, title=TEXT)
    engine = played(
        operation("make", "POST", "/remotes", remote, remote),
        operation("show", "GET", "/remotes/{remote_id}", remote),
        operation("every", "GET", "/remotes", {"type": "array", "items": remote}),
        operation("change", "PATCH", "/remotes/{remote_id}", an_object(task=TEXT), an_object(title=TEXT)),
    )
    ask(engine, "make", name="west", title="First")
    ask(engine, "change", remote_id="west", title="Second")
    assert ask(engine, "every") == [ask(engine, "show", remote_id="west")] == [{"name": "west", "title": "Second"}]


@pytest.mark.parametrize("made", [[], ["First", "Second"]])
def test_a_collection_is_deleted_unless_the_call_chooses_some_of_it(made):
    path, bob = "/users/{user}/pets", {"user": "bob"}
    drop = operation("drop", "DELETE", path, {}, an_object(ids={"type": "array"}))
    header = RestParameter(argument="trace", name="X-Trace", location="header")
    engine = played(
        operation("make", "POST", path, THING, an_object(title=TEXT)),
        operation("show", "GET", f"{path}/{{id}}", THING),
        operation("every", "GET", path, {"type": "array", "items": THING}),
        dataclasses.replace(
            taking(drop, trace=TEXT),
            binding=msgspec.structs.replace(drop.binding, parameters=(*drop.binding.parameters, header)),
        ),
    )
    other = ask(engine, "make", user="ann", title="Other")
    pets = [ask(engine, "make", title=title, **bob) for title in made]
    ask(engine, "drop", ids=[7], **bob)
    assert [ask(engine, "show", id=str(pet["id"]), **bob) for pet in pets] == pets
    ask(engine, "drop", trace="t", **bob)
    assert ask(engine, "every", **bob) == []
    assert all(refused(engine, "show", id=str(pet["id"]), **bob) for pet in pets)
    assert ask(engine, "every", user="ann") == [other]
