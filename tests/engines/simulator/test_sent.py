"""What is sent is shown again, however a service wraps, names and limits it."""

from engines.engine_support import ask, refused
from engines.simulator.test_neighbours import THING, played, taking
from engines.simulator.test_profile import TEXT, WHOLE, an_object, operation
from toolyard import Tool

LISTED = {"type": "array", "items": THING}
NOTHING = {}


def test_what_the_root_of_a_service_holds_can_be_made_and_shown():
    engine = played(
        operation("make", "POST", "/", THING, an_object(title=TEXT)),
        operation("show", "GET", "/{uuid}", THING),
        operation("every", "GET", "/", LISTED),
        operation("drop", "DELETE", "/{uuid}", NOTHING),
    )
    made = ask(engine, "make", title="First")
    assert ask(engine, "show", uuid=str(made["id"])) == made
    assert ask(engine, "every") == [made]
    ask(engine, "drop", uuid=str(made["id"]))
    assert refused(engine, "show", uuid=str(made["id"]))


def test_a_batch_is_made_where_one_can_be_looked_at():
    engine = played(
        operation("make", "POST", "/files/batch", THING, an_object(title=TEXT)),
        operation("show", "GET", "/files/batch/{batch_id}", THING),
    )
    made = ask(engine, "make", title="First")
    assert ask(engine, "show", batch_id=str(made["id"])) == made


def test_a_key_may_be_called_by_the_end_of_what_a_thing_is_called():
    group = an_object(
        groupId=WHOLE, name=TEXT, children={"type": "array", "items": an_object(name=TEXT, groupId=WHOLE)}
    )
    engine = played(
        operation(
            "make", "POST", "/usergroups", {"type": "array", "items": an_object(groupId=WHOLE)}, an_object(name=TEXT)
        ),
        operation("show", "GET", "/usergroups/{groupid}", group),
    )
    made = ask(engine, "make", name="Staff")[0]
    assert ask(engine, "show", groupid=str(made["groupId"]))["name"] == "Staff"


def test_whose_things_are_removed_is_not_which_ones():
    engine = played(
        operation("make", "POST", "/suites/{suiteId}/variables", THING, an_object(title=TEXT)),
        operation("show", "GET", "/suites/{suiteId}/variables/{variableId}", THING),
        operation("drop", "POST", "/suites/{suiteId}/variables/remove", NOTHING, an_object(ids={"type": "array"})),
    )
    made = ask(engine, "make", suiteId="1001", title="First")
    ask(engine, "drop", suiteId="1001", ids=[7])
    assert ask(engine, "show", suiteId="1001", variableId=str(made["id"])) == made


def test_who_indexes_a_document_makes_one():
    engine = played(
        operation("index_document", "POST", "/documents", {"type": "object"}, an_object(text=TEXT)),
        operation("show", "GET", "/documents/{id}", {"type": "object"}),
    )
    made = ask(engine, "index_document", text="a")
    assert ask(engine, "show", id=str(made["id"]))["text"] == "a"


def test_a_thing_that_has_a_number_is_not_an_envelope():
    result = an_object(colors=TEXT, width=WHOLE, height=WHOLE, depth=WHOLE)
    report = an_object(report_number=WHOLE, file=TEXT, result=result)
    engine = played(
        operation("make", "POST", "/reports", report, an_object(file=TEXT)),
        operation("show", "GET", "/reports/{report_number}", report),
    )
    made = ask(engine, "make", file="a.png")
    assert ask(engine, "show", report_number=str(made["report_number"]))["file"] == "a.png"


def test_an_object_is_shown_as_one_where_its_id_would_do():
    checkout = an_object(id=TEXT, url=TEXT, secret=TEXT)
    either = {"anyOf": [TEXT, {**checkout, "required": ["id", "url", "secret"]}]}
    engine = played(
        operation(
            "make",
            "POST",
            "/orders",
            an_object(id=WHOLE, note=TEXT, checkout=either),
            an_object(note=TEXT, checkout=checkout),
        ),
        operation("show", "GET", "/orders/{id}", an_object(id=WHOLE, checkout=TEXT)),
    )
    made = ask(engine, "make", note="a", checkout={"id": "c1", "url": "u"})
    assert made["checkout"]["id"] == "c1" and made["checkout"]["url"] == "u"
    assert ask(engine, "show", id=str(made["id"]))["checkout"] == "c1"


def test_one_value_is_shown_where_a_list_of_such_is():
    engine = played(
        operation(
            "make", "POST", "/files", an_object(id=WHOLE, tags={"type": "array", "items": TEXT}), an_object(tags=TEXT)
        ),
        operation("show", "GET", "/files/{id}", an_object(id=WHOLE)),
    )
    assert ask(engine, "make", tags="new")["tags"] == ["new"]


def test_an_object_that_a_thing_does_not_have_is_opened_if_it_has_all_that_is_inside():
    thing = an_object(id=WHOLE, name=TEXT, area=TEXT, split=WHOLE)
    engine = played(
        operation("make", "POST", "/trials", thing, an_object(name=TEXT, config=an_object(area=TEXT, split=WHOLE))),
        operation("show", "GET", "/trials/{id}", thing),
    )
    made = ask(engine, "make", name="a", config={"area": "north", "split": 7})
    assert made == {"id": made["id"], "name": "a", "area": "north", "split": 7}
    assert ask(engine, "show", id=str(made["id"])) == made


def test_an_object_with_an_id_is_the_thing_itself_only_if_it_has_most_of_what_is_shown():
    recipe = an_object(id=WHOLE, title=TEXT, story=TEXT, servings=WHOLE)
    owner = an_object(id=WHOLE, title=TEXT)
    engine = played(
        operation("make", "POST", "/recipes", recipe, an_object(draft=recipe, owner=owner)),
        operation("show", "GET", "/recipes/{recipeId}", recipe),
    )
    made = ask(engine, "make", draft={"title": "Soup", "story": "Stir.", "servings": 4}, owner={"id": 7, "title": "Mx"})
    assert made == {"id": 1001, "title": "Soup", "story": "Stir.", "servings": 4}
    sent = {"id": 5, "title": "Stew", "story": "Wait.", "servings": 2}
    assert ask(engine, "make", draft=sent, owner={"id": 7, "title": "Mx"}) == sent
    assert ask(engine, "show", recipeId="5") == sent


def test_what_a_thing_refers_to_is_another_one_though_it_has_the_fields_that_are_shown():
    step = an_object(id=WHOLE, title=TEXT, minutes=WHOLE, tool=TEXT)
    folder, category = an_object(id=WHOLE, title=TEXT), an_object(id=WHOLE, title=TEXT)
    engine = played(
        operation("make_folder", "POST", "/folders", folder, an_object(title=TEXT, parent=folder)),
        operation("make_step", "POST", "/steps", step, an_object(title=TEXT, minutes=WHOLE, after=step)),
        operation(
            "make_item", "POST", "/items", an_object(id=WHOLE, title=TEXT), an_object(category=category, price=WHOLE)
        ),
    )
    assert ask(engine, "make_folder", title="In", parent={"id": 7, "title": "Out"}) == {"id": 1001, "title": "In"}
    first = {"id": 7, "title": "Chop", "minutes": 5, "tool": "knife"}
    made = ask(engine, "make_step", title="Fry", minutes=3, after=first)
    assert (made["id"], made["title"], made["minutes"]) == (1001, "Fry", 3)
    assert ask(engine, "make_item", category={"id": 7, "title": "Toys"}, price=2)["id"] == 1001


def test_a_list_that_one_thing_shows_is_a_part_of_it_though_the_answer_to_making_it_says_nothing():
    parts = {"type": "array", "items": an_object(address=TEXT)}
    engine = played(
        operation("make", "POST", "/sites", {"type": "object"}, an_object(name=TEXT, sites=parts)),
        operation("show", "GET", "/sites/{id}", an_object(id=WHOLE, name=TEXT, sites=parts)),
    )
    made = ask(engine, "make", name="a", sites=[{"address": "here"}])
    shown = ask(engine, "show", id=str(made["id"]))
    assert (shown["name"], shown["sites"]) == ("a", [{"address": "here"}])


def test_those_that_were_made_are_among_the_successes():
    told = an_object(failures={"type": "array", "items": an_object(title=TEXT)}, successes=LISTED)
    one = operation(
        "make", "POST", "/variables", told, an_object(variables={"type": "array", "items": an_object(title=TEXT)})
    )
    engine = played(one, operation("show", "GET", "/variables/{id}", THING))
    made = ask(engine, "make", variables=[{"title": "a"}, {"title": "b"}])["successes"]
    assert [item["title"] for item in made] == ["a", "b"]
    assert ask(engine, "show", id=str(made[1]["id"])) == made[1]


def test_what_one_answer_cannot_show_is_shown_by_the_next():
    other = {"type": "string", "enum": ["x", "y"]}
    engine = played(
        operation("make", "POST", "/domains", an_object(id=WHOLE, type=other), an_object(type=TEXT)),
        operation("show", "GET", "/domains/{id}", an_object(id=WHOLE, type=TEXT)),
    )
    made = ask(engine, "make", type="static")
    assert made["type"] in ("x", "y")
    assert ask(engine, "show", id=str(made["id"]))["type"] == "static"


def test_what_no_answer_can_show_is_shown_by_all_as_the_first_made_it_up():
    few = {"type": "string", "enum": ["a", "b", "c", "d", "e"]}
    engine = played(
        operation("make", "POST", "/jobs", an_object(id=WHOLE, status=few), an_object(status=TEXT, title=TEXT)),
        operation("show", "GET", "/jobs/{id}", an_object(name=TEXT, made=TEXT, id=WHOLE, title=TEXT, status=few)),
        operation("every", "GET", "/jobs", {"type": "array", "items": an_object(id=WHOLE, status=few)}),
    )
    for title in ("one", "two", "three"):
        made = ask(engine, "make", status="unfit", title=title)
        assert ask(engine, "show", id=str(made["id"]))["status"] == made["status"]
        assert ask(engine, "every")[-1] == made


def test_nothing_is_no_list_of_nothing_and_another_name_of_a_thing_is_kept_beside_its_id():
    listed = an_object(id=WHOLE, uid=TEXT, tags={"type": "array"})
    engine = played(
        operation("make", "POST", "/files", listed, an_object(id=TEXT, uid=TEXT, tags=NOTHING)),
        taking(operation("show", "GET", "/files/{id}", listed), id=WHOLE),
    )
    made = ask(engine, "make", id="mine", uid="u-1", tags=None)
    assert made["tags"] != [None]
    assert ask(engine, "show", id=made["id"])["uid"] == "u-1"


def test_an_id_by_which_nobody_can_ask_is_not_taken():
    engine = played(
        operation("make", "POST", "/patterns", {"type": "object"}, an_object(id=TEXT, name=TEXT)),
        taking(operation("show", "GET", "/patterns/{patternId}", an_object(id=TEXT, name=TEXT)), patternId=WHOLE),
    )
    made = ask(engine, "make", id="mine", name="a")
    assert ask(engine, "show", patternId=int(made["id"]))["name"] == "a"


def test_when_every_id_is_taken_no_more_can_be_made_until_one_is_gone():
    few = {"type": "string", "enum": ["east", "west", "north"]}
    engine = played(
        operation("make", "POST", "/zones", an_object(id=few, size=WHOLE), an_object(size=WHOLE)),
        taking(operation("show", "GET", "/zones/{id}", an_object(id=few, size=WHOLE)), id=few),
        taking(operation("drop", "DELETE", "/zones/{id}", NOTHING), id=few),
        operation("every", "GET", "/zones", {"type": "array", "items": an_object(id=few, size=WHOLE)}),
    )
    made = [ask(engine, "make", size=size)["id"] for size in (1, 2, 3)]
    assert sorted(made) == ["east", "north", "west"]
    assert "each of the 3 ids is taken" in refused(engine, "make", size=4).message
    assert [zone["id"] for zone in ask(engine, "every")] == made
    ask(engine, "drop", id="west")
    assert ask(engine, "make", size=5)["id"] == "west"
    assert ask(engine, "show", id="west")["size"] == 5


def test_an_answer_that_is_a_list_of_ids_has_the_one_that_was_made():
    upload = an_object(upload={"type": "array", "items": TEXT})
    engine = played(
        operation("make", "POST", "/attachments", {"type": "array", "items": WHOLE}, upload),
        operation("show", "GET", "/attachments/{attachmentId}", an_object(id=WHOLE, fileName=TEXT)),
        operation("drop", "DELETE", "/attachments/{attachmentId}", NOTHING),
    )
    (made,) = ask(engine, "make", upload=["one"])
    assert ask(engine, "show", attachmentId=str(made))["id"] == made
    ask(engine, "drop", attachmentId=str(made))
    assert refused(engine, "show", attachmentId=str(made))


def test_what_is_sent_under_the_name_of_the_answers_list_is_made_whatever_is_sent_beside_it():
    listed = an_object(items=LISTED, pagination=an_object(page=WHOLE))
    engine = played(
        operation("make", "POST", "/statements", listed, listed),
        operation("show", "GET", "/statements/{statementId}", THING),
    )
    made = ask(engine, "make", items=[{"title": "First"}, {"title": "Second"}], pagination={"page": 1})["items"]
    assert [one["title"] for one in made] == ["First", "Second"]
    assert ask(engine, "show", statementId=str(made[1]["id"])) == made[1]


def test_metadata_beside_what_is_said_of_the_call_is_the_thing():
    network = an_object(metadata=an_object(name=TEXT, type=TEXT), status=TEXT, status_code=WHOLE, type=TEXT)
    engine = played(
        operation("make", "POST", "/networks", NOTHING, an_object(name=TEXT, type=TEXT)),
        operation("show", "GET", "/networks/{name}", network),
        operation("change", "PATCH", "/networks/{name}", NOTHING, an_object(type=TEXT)),
    )
    ask(engine, "make", name="lan", type="bridge")
    assert ask(engine, "show", name="lan")["metadata"] == {"name": "lan", "type": "bridge"}
    ask(engine, "change", name="lan", type="macvlan")
    assert ask(engine, "show", name="lan")["metadata"] == {"name": "lan", "type": "macvlan"}


def test_a_list_is_a_thing_where_one_of_them_can_be_changed():
    engine = played(
        operation("make", "POST", "/contact/list", THING, an_object(title=TEXT)),
        operation("show", "GET", "/contact/list/{id}", THING),
        operation("drop", "DELETE", "/contact/list/{id}", NOTHING),
    )
    made = ask(engine, "make", title="First")
    assert ask(engine, "show", id=str(made["id"])) == made
    ask(engine, "drop", id=str(made["id"]))
    assert refused(engine, "show", id=str(made["id"]))


def test_bare_fields_are_kept_where_a_thing_has_most_of_itself_in_its_attributes():
    fields = {"name": TEXT, "type": TEXT, "description": TEXT, "size": WHOLE}
    thing = an_object(type={"const": "accounts"}, id=TEXT, attributes=an_object(**fields, created=TEXT))
    engine = played(
        operation("make", "POST", "/accounts", an_object(data=thing), an_object(**fields)),
        operation("show", "GET", "/accounts/{id}", an_object(data=thing)),
        operation("every", "GET", "/accounts", an_object(data={"type": "array", "items": thing})),
        operation("change", "PUT", "/accounts/{id}", an_object(data=thing), an_object(**fields)),
    )
    sent = {"name": "Harbor", "type": "asset", "description": "The first.", "size": 7}
    made = ask(engine, "make", **sent)["data"]
    assert sent.items() <= made["attributes"].items() and made["type"] == "accounts"
    assert ask(engine, "show", id=made["id"])["data"] == made
    changed = ask(engine, "change", id=made["id"], **{**sent, "name": "Bay", "size": 8})["data"]
    assert changed == {**made, "attributes": {**made["attributes"], "name": "Bay", "size": 8}}
    assert ask(engine, "every")["data"] == [changed]


def test_what_is_sent_beside_the_attributes_is_not_taken_for_one_of_them():
    thing = an_object(
        type=TEXT,
        id=TEXT,
        attributes={"type": "object", "properties": {"type": TEXT, "name": TEXT, "size": WHOLE, "created": TEXT}},
    )
    engine = played(
        operation("make", "POST", "/actions", an_object(data=thing), an_object(data=thing)),
        operation(
            "change",
            "PATCH",
            "/actions/{id}",
            an_object(data=thing),
            {"type": "object", "properties": {"data": {**thing, "required": ["type"]}}},
        ),
    )
    made = ask(engine, "make", data={"type": "actions", "id": "a1", "attributes": {"type": "walk", "name": "Home"}})[
        "data"
    ]
    changed = ask(engine, "change", id=made["id"], data={"type": "actions"})["data"]
    assert (changed["type"], changed["attributes"]["type"]) == ("actions", "walk")


def test_an_object_that_covers_a_thing_is_the_thing_though_one_of_its_fields_has_that_name():
    asset = an_object(inum=TEXT, document=TEXT, service=TEXT, revision=WHOLE)
    engine = played(
        operation("make", "POST", "/assets/upload", asset, an_object(document=asset, file=TEXT)),
        operation("show", "GET", "/assets/{inum}", asset),
    )
    sent = {"inum": "a1", "document": "elm", "service": "heath", "revision": 5}
    assert ask(engine, "make", document=sent, file="...") == sent
    assert ask(engine, "show", inum="a1") == sent


def test_a_list_in_a_part_is_part_of_a_thing_though_both_end_in_the_same_word():
    step = an_object(name=TEXT, image=TEXT, command=TEXT, timeout=WHOLE)
    spec = an_object(entry=TEXT, templates={"type": "array", "items": step})
    thing = an_object(kind=TEXT, metadata=an_object(name=TEXT, labels=an_object(team=TEXT)), spec=spec)
    engine = played(
        operation("make", "POST", "/workflow-templates", thing, an_object(template=thing)),
        operation("show", "GET", "/workflow-templates/{name}", thing),
    )
    sent = {"kind": "w", "metadata": {"name": "a1", "labels": {"team": "x"}}, "spec": {"entry": "s", "templates": []}}
    assert ask(engine, "make", template=sent) == sent
    assert ask(engine, "show", name="a1") == sent


def test_what_was_sent_is_shown_by_a_free_answer_though_the_outcome_had_a_field_of_that_name():
    outcome = an_object(id=WHOLE, type={"type": "string", "enum": ["success", "error"]})
    engine = played(
        operation("make", "POST", "/maps", outcome, an_object(type=TEXT, target=TEXT)),
        operation("show", "GET", "/maps/{id}", {"type": "object"}),
    )
    made = ask(engine, "make", type="sender", target="x")
    assert ask(engine, "show", id=str(made["id"])) == {"id": made["id"], "type": "sender", "target": "x"}


def test_a_list_of_ids_says_what_of_a_collection_is_deleted():
    engine = played(
        operation("make", "POST", "/pets", THING, an_object(title=TEXT)),
        operation("show", "GET", "/pets/{petId}", THING),
        operation("every", "GET", "/pets", LISTED),
        operation("drop", "DELETE", "/pets", NOTHING, an_object(petIds={"type": "array"})),
    )
    first, second, third = (ask(engine, "make", title=title)["id"] for title in "abc")
    ask(engine, "drop", petIds=[first, third])
    assert [one["id"] for one in ask(engine, "every")] == [second]
    assert refused(engine, "show", petId=str(first))
    ask(engine, "drop")
    assert ask(engine, "every") == []


def test_what_was_in_a_thing_that_was_deleted_is_not_in_a_new_one_of_the_same_id():
    engine = played(
        operation("make", "POST", "/pets", THING, an_object(id=WHOLE, title=TEXT)),
        operation("drop", "DELETE", "/pets/{petId}", NOTHING),
        operation("give", "POST", "/pets/{petId}/toys", THING, an_object(title=TEXT)),
        operation("show", "GET", "/pets/{petId}/toys/{toyId}", THING),
    )
    for pet in (1, 2):
        ask(engine, "make", id=pet, title="First")
    toys = [ask(engine, "give", petId=str(pet), title="Ball") for pet in (1, 2)]
    ask(engine, "drop", petId="1")
    ask(engine, "make", id=1, title="Second")
    assert ask(engine, "show", petId="1", toyId=str(toys[0]["id"]))["title"] != "Ball"
    assert ask(engine, "show", petId="2", toyId=str(toys[1]["id"])) == toys[1]


def test_the_id_in_a_thing_that_is_sent_as_a_whole_says_which_one_is_meant():
    whole = an_object(pet=THING)
    by_path = [
        operation("make", "POST", "/pets", THING, an_object(title=TEXT)),
        operation("show", "GET", "/pets/{id}", THING),
        operation("put", "PUT", "/pets", THING, whole),
    ]
    takes = {"create_cat": an_object(title=TEXT), "get_cat": an_object(id=WHOLE), "update_cat": an_object(cat=THING)}
    by_name = [Tool(name, "n", parameters=schema, output_parameters=THING) for name, schema in takes.items()]
    for tools, holder in ((by_path, "pet"), (by_name, "cat")):
        engine, (make, show, put) = played(*tools), (tool.name for tool in tools)
        made = ask(engine, make, title="First")
        changed = {**made, "title": "Second"}
        assert ask(engine, put, **{holder: changed}) == changed
        assert ask(engine, show, id=str(made["id"])) == changed
