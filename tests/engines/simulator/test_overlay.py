"""What was sent is shown wherever an answer admits it: over branches, in maps, after renames and from inside objects."""

from engines.engine_support import ask, refused
from engines.simulator.test_neighbours import played
from engines.simulator.test_profile import TEXT, WHOLE, an_object, operation
from toolyard.engines.simulator.values import SchemaValues


def closed(kind, **properties):
    kinds = {"kind": {"const": kind}, **properties}
    return {**an_object(**kinds), "required": list(kinds), "additionalProperties": False}


def test_an_update_may_make_another_branch_of_a_thing():
    either = {"anyOf": [an_object(kind={"const": "a"}, low=WHOLE), an_object(kind={"const": "b"}, values=TEXT)]}
    thing, sent = {"allOf": [an_object(id=WHOLE), either]}, an_object(kind=TEXT, values=TEXT, low=WHOLE)
    engine = played(
        operation("make", "POST", "/rules", thing, sent),
        operation("show", "GET", "/rules/{id}", thing),
        operation("change", "PUT", "/rules/{id}", thing, sent),
    )
    made = ask(engine, "make", kind="b", values="many")
    ask(engine, "change", id=str(made["id"]), kind="a", low=7)
    shown = ask(engine, "show", id=str(made["id"]))
    assert (shown["kind"], shown["low"]) == ("a", 7)


def test_an_object_inside_is_replaced_where_the_old_and_the_new_one_do_not_go_together():
    either = {"oneOf": [closed("json", url=TEXT), closed("table", dataset=TEXT, filters=TEXT)]}
    engine = played(
        operation("make", "POST", "/sources", an_object(id=WHOLE), an_object(input=either)),
        operation("show", "GET", "/sources/{id}", an_object(id=WHOLE, input=either)),
        operation("change", "PATCH", "/sources/{id}", an_object(id=WHOLE), an_object(input=an_object(filters=TEXT))),
    )
    made = ask(engine, "make", input={"kind": "json", "url": "u"})
    assert ask(engine, "show", id=str(made["id"]))["input"] == {"kind": "json", "url": "u"}
    ask(engine, "change", id=str(made["id"]), input={"filters": "f"})
    assert ask(engine, "show", id=str(made["id"]))["input"]["filters"] == "f"


def test_what_only_another_branch_names_is_shown_if_no_branch_refuses_it():
    talk = {"anyOf": [an_object(id=WHOLE, model=TEXT, tools=TEXT), an_object(id=WHOLE, agent=TEXT)]}
    engine = played(
        operation("make", "POST", "/talks", talk, an_object(tools=TEXT, model=TEXT, agent=TEXT)),
        operation("show", "GET", "/talks/{id}", talk),
    )
    made = ask(engine, "make", tools="t", model="m", agent="a")
    assert ask(engine, "show", id=str(made["id"])) == {"id": made["id"], "tools": "t", "model": "m", "agent": "a"}


def test_entries_of_a_map_that_is_one_of_several_forms_are_those_sent():
    secrets = {"type": "object", "additionalProperties": TEXT}
    form = {"oneOf": [{**an_object(user=TEXT, word=TEXT), "additionalProperties": False}, secrets]}
    engine = played(
        operation("make", "POST", "/logins", an_object(id=WHOLE), an_object(input=secrets)),
        operation("show", "GET", "/logins/{id}", an_object(id=WHOLE, input=form)),
    )
    made = ask(engine, "make", input={"user": "u", "word": "w"})
    assert {"user": "u", "word": "w"}.items() <= ask(engine, "show", id=str(made["id"]))["input"].items()


def test_an_answer_that_is_a_map_of_texts_says_what_to_call_the_thing_by():
    told = {"type": "object", "additionalProperties": TEXT}
    engine = played(
        operation("add", "POST", "/tickets", told, an_object(text=TEXT)),
        operation("show", "GET", "/tickets/{index}", TEXT),
        operation("drop", "DELETE", "/tickets/{index}", told),
    )
    made = ask(engine, "add", text="secret")
    ask(engine, "drop", index=made["id"])
    assert refused(engine, "show", index=made["id"])


def test_a_thing_is_found_by_the_name_it_had_before():
    thing = an_object(id=WHOLE, name=TEXT, title=TEXT)
    engine = played(
        operation("make", "POST", "/links", thing, an_object(name=TEXT)),
        operation("show", "GET", "/links/{id_or_name}", thing),
        operation("change", "PATCH", "/links/{link_id}", thing, an_object(name=TEXT, title=TEXT)),
        operation("drop", "DELETE", "/links/{link_id}", {"type": "object"}),
    )
    made = ask(engine, "make", name="first")
    ask(engine, "change", link_id=str(made["id"]), name="second", title="new")
    for name in ("first", "second"):
        assert ask(engine, "show", id_or_name=name)["title"] == "new"
    other = ask(engine, "make", name="first")
    assert ask(engine, "show", id_or_name="first")["id"] == other["id"]
    ask(engine, "drop", link_id=str(made["id"]))
    assert refused(engine, "show", id_or_name="second")


def test_what_was_put_under_a_key_is_removed_by_whatever_another_tool_calls_that_key():
    thing = an_object(size=WHOLE)
    engine = played(
        operation("put", "PUT", "/boxes/{box.ids.box_id}", thing, an_object(size=WHOLE)),
        operation("show", "GET", "/boxes/{box_ids.box_id}", thing),
        operation("drop", "DELETE", "/boxes/{which}", {"type": "object"}),
    )
    ask(engine, "put", **{"box.ids.box_id": "b1", "size": 3})
    assert ask(engine, "show", **{"box_ids.box_id": "b1"})["size"] == 3
    ask(engine, "drop", which="b1")
    assert refused(engine, "show", **{"box_ids.box_id": "b1"})


def test_what_a_thing_shows_is_taken_out_of_the_object_in_which_it_is_sent():
    thing = an_object(id=WHOLE, name=TEXT, account=an_object(mail=TEXT), plan=TEXT, zone=TEXT)
    spec = an_object(account=an_object(mail=TEXT), plan=TEXT, zone=TEXT, nodes=WHOLE)
    engine = played(
        operation("make", "POST", "/clusters", thing, an_object(name=TEXT, spec=spec)),
        operation("show", "GET", "/clusters/{id}", thing),
    )
    made = ask(engine, "make", name="a", spec={"account": {"mail": "m"}, "plan": "p", "zone": "z", "nodes": 3})
    shown = {"id": made["id"], "name": "a", "account": {"mail": "m"}, "plan": "p", "zone": "z"}
    assert made == ask(engine, "show", id=str(made["id"])) == shown


def test_an_update_may_send_the_whole_thing_in_one_of_its_parts():
    place, size = an_object(x=WHOLE), an_object(height=WHOLE)
    thing = an_object(id=WHOLE, data=an_object(title=TEXT), place=place, size=size)
    sent = an_object(data=an_object(title=TEXT, place=place, size=size), file=TEXT)
    engine = played(
        operation("make", "POST", "/pages", thing, an_object(data=an_object(title=TEXT), place=place)),
        operation("show", "GET", "/pages/{id}", thing),
        operation("change", "PATCH", "/pages/{id}", thing, sent),
    )
    made = ask(engine, "make", data={"title": "a"}, place={"x": 1})
    ask(engine, "change", id=str(made["id"]), data={"title": "b", "place": {"x": 2}, "size": {"height": 3}})
    shown = ask(engine, "show", id=str(made["id"]))
    assert (shown["data"]["title"], shown["place"], shown["size"]) == ("b", {"x": 2}, {"height": 3})


def test_a_list_of_related_things_is_a_part_of_one_that_has_no_id_but_an_address():
    related = {"type": "array", "items": an_object(type=TEXT, note=TEXT)}
    thing = an_object(url=TEXT, title=TEXT, aim=TEXT, cause=TEXT, note=TEXT, relatedTypes=related)
    engine = played(
        operation("make", "POST", "/types", thing, an_object(title=TEXT, note=TEXT, relatedTypes=related)),
        operation("show", "GET", "/types/{uuid}", thing),
    )
    made = ask(engine, "make", title="t", note="mine", relatedTypes=[{"type": "x", "note": "other"}])
    shown = ask(engine, "show", uuid=made["url"].rpartition("/")[2])
    assert (shown["title"], shown["note"], shown["relatedTypes"]) == ("t", "mine", [{"type": "x", "note": "other"}])


def test_a_thing_that_is_shown_without_an_id_is_called_as_it_was_made():
    engine = played(
        operation("make", "POST", "/jobs", an_object(jobId=TEXT), an_object(format=TEXT)),
        operation("show", "GET", "/jobs/{job_id}", an_object(state=TEXT)),
        operation("every", "GET", "/jobs", {"type": "array", "items": an_object(id=TEXT, format=TEXT)}),
    )
    made = ask(engine, "make", format="svg")
    assert ask(engine, "show", job_id=made["jobId"])["job_id"] == made["jobId"]
    assert ask(engine, "every") == [{"id": made["jobId"], "format": "svg"}]


def test_things_are_found_by_the_whole_of_an_id_that_they_have():
    thing = an_object(id=WHOLE, serviceId=TEXT)
    engine = played(
        operation("make", "POST", "/incidents", thing, an_object(serviceId=TEXT)),
        operation("show", "GET", "/incidents/{id}", thing),
        operation("every", "GET", "/incidents", {"type": "array", "items": thing}, an_object(query=TEXT)),
    )
    made = ask(engine, "make", serviceId="ef7279")
    assert ask(engine, "every", query="ef7279") == [made]
    assert ask(engine, "every", query="f727") == []


def test_keys_may_stand_behind_a_name_in_parentheses():
    thing = an_object(ProductID=WHOLE, ProductName=TEXT)
    engine = played(
        operation("make", "POST", "/Products", thing, an_object(ProductName=TEXT)),
        operation("show", "GET", "/Products({ProductID})", thing),
        operation("drop", "DELETE", "/Products('{ProductID}')", {"type": "object"}),
    )
    made = ask(engine, "make", ProductName="a")
    assert ask(engine, "show", ProductID=str(made["ProductID"])) == made
    ask(engine, "drop", ProductID=str(made["ProductID"]))
    assert refused(engine, "show", ProductID=str(made["ProductID"]))


def test_three_envelopes_are_opened():
    thing = an_object(ticket_no=WHOLE, subject=TEXT)
    wrapped = an_object(response=an_object(status=TEXT, result=an_object(ticket=thing)))
    engine = played(
        operation("make", "POST", "/tickets", wrapped, an_object(ticket=an_object(subject=TEXT))),
        operation("show", "GET", "/tickets/{ticket_no}", wrapped),
    )
    made = ask(engine, "make", ticket={"subject": "a"})["response"]["result"]["ticket"]
    assert made["subject"] == "a"
    assert ask(engine, "show", ticket_no=str(made["ticket_no"]))["response"]["result"]["ticket"] == made


def test_a_part_that_is_called_like_a_thing_is_no_envelope_beside_all_that_the_thing_has():
    transit = an_object(id=TEXT, asn=WHOLE)
    thing = an_object(vpgId=TEXT, range=TEXT, kind=TEXT, zone=TEXT, transitGateway=transit)
    sent = an_object(range=TEXT, transitGateway=an_object(asn=WHOLE))
    engine = played(
        operation("make", "POST", "/private_gateways", thing, sent),
        operation("show", "GET", "/private_gateways/{vpg_id}", thing),
    )
    made = ask(engine, "make", range="r", transitGateway={"asn": 7})
    assert (made["range"], made["transitGateway"]["asn"]) == ("r", 7)
    assert ask(engine, "show", vpg_id=made["vpgId"]) == made


def test_one_tool_shows_what_is_sent_within_an_object_and_another_the_object():
    spec = an_object(label=TEXT, local=WHOLE)
    engine = played(
        operation(
            "make", "POST", "/zones", an_object(id=TEXT, label=TEXT, local=WHOLE), an_object(type=TEXT, spec=spec)
        ),
        operation("show", "GET", "/zones/{zoneID}", an_object(id=TEXT, type=TEXT, spec=spec)),
    )
    made = ask(engine, "make", type="z", spec={"label": "a", "local": 1})
    assert made == {"id": made["id"], "label": "a", "local": 1}
    assert ask(engine, "show", zoneID=made["id"])["spec"] == {"label": "a", "local": 1}


def test_no_part_of_a_thing_has_the_id_of_the_thing():
    known = {"type": "string", "format": "uuid"}
    part = {**an_object(id=known, note=TEXT), "required": ["id"]}
    thing = an_object(id=known, account=part)
    engine = played(
        operation("make", "POST", "/orders", thing, an_object(title=TEXT)),
        operation("show", "GET", "/orders/{id}", thing),
        operation("change", "PATCH", "/orders/{id}", thing, an_object(account=an_object(note=TEXT))),
    )
    made = ask(engine, "make", title="a")
    assert ask(engine, "change", id=made["id"], account={"note": "b"})["account"]["id"] != made["id"]


def test_a_map_of_objects_has_no_texts_turned_into_objects():
    told = {"type": "object", "additionalProperties": {"type": "object"}}
    engine = played(
        operation("make", "POST", "/apps", told, an_object(title=TEXT, look={"type": "object"})),
        operation("show", "GET", "/apps/{id}", an_object(id=TEXT)),
    )
    made = ask(engine, "make", title="a", look={"dark": True})
    assert made["look"] == {"dark": True} and "title" not in made


def test_what_the_answers_to_making_and_showing_a_thing_cannot_say_is_said_by_the_list():
    strict, loose = an_object(mode={"enum": ["a", "b"]}), an_object(mode={"enum": ["a", "b", None]})
    engine = played(
        operation("make", "POST", "/rules", an_object(id=WHOLE, price=strict), an_object(price=loose)),
        operation("show", "GET", "/rules/{id}", an_object(id=WHOLE, price=strict)),
        operation("every", "GET", "/rules", {"type": "array", "items": an_object(id=WHOLE, price=loose)}),
        operation("change", "PUT", "/rules/{id}", an_object(id=WHOLE, price=strict), an_object(price=loose)),
    )
    made = ask(engine, "make", price={"mode": None})
    assert made["price"]["mode"] in ("a", "b")
    assert ask(engine, "every")[0]["price"] == {"mode": None}
    ask(engine, "change", id=str(made["id"]), price={"mode": "b"})
    assert ask(engine, "every")[0]["price"] == {"mode": "b"}


def test_an_update_may_name_another_of_several_places_of_which_one_is_to_be_there():
    places = dict.fromkeys(("folder", "snippet", "device"), TEXT)
    one = {"oneOf": [{"required": [name]} for name in places]}
    thing = {**an_object(id=TEXT, title=TEXT, **places), **one}
    engine = played(
        operation("make", "POST", "/rules", thing, an_object(title=TEXT, **places)),
        operation("show", "GET", "/rules/{id}", thing),
        operation("change", "PUT", "/rules/{id}", thing, an_object(title=TEXT, **places)),
    )
    made = ask(engine, "make", title="a", folder="f")
    assert made == {"id": made["id"], "title": "a", "folder": "f"}
    changed = ask(engine, "change", id=made["id"], title="b", device="d")
    assert changed == ask(engine, "show", id=made["id"]) == {"id": made["id"], "title": "b", "device": "d"}


def test_an_answer_may_have_the_thing_in_what_it_calls_metadata():
    thing = an_object(name=TEXT, size=TEXT, place=TEXT, owner=TEXT)
    wrapped = an_object(metadata=thing, status=TEXT, code=WHOLE)
    engine = played(
        operation("make", "POST", "/profiles", {"type": "object"}, an_object(name=TEXT, size=TEXT)),
        operation("show", "GET", "/profiles/{name}", wrapped),
    )
    ask(engine, "make", name="a", size="s")
    assert ask(engine, "show", name="a")["metadata"]["size"] == "s"


def test_what_stands_beside_metadata_with_a_name_is_the_thing():
    marks = an_object(source=TEXT, campaign=TEXT, channel=TEXT, partner=TEXT)
    thing = an_object(name=TEXT, size=TEXT, metadata=marks)
    engine = played(
        operation("make", "POST", "/buckets", thing, thing),
        operation("show", "GET", "/buckets/{name}", thing),
    )
    made = ask(engine, "make", name="a", size="s", metadata={"source": "web"})
    assert made["metadata"].keys() <= marks["properties"].keys()
    assert ask(engine, "show", name="a") == made


def test_an_update_does_not_forget_what_it_does_not_name():
    told, shown = an_object(id=TEXT, size=WHOLE, color=TEXT), an_object(id=TEXT, size=TEXT, color=TEXT)
    told["required"] = shown["required"] = ["id", "size", "color"]
    engine = played(
        operation("make", "POST", "/shirts", told, an_object(size=TEXT, color=TEXT)),
        operation("change", "PATCH", "/shirts/{id}", told, an_object(size=TEXT, color=TEXT)),
        operation("show", "GET", "/shirts/{id}", shown),
    )
    made = ask(engine, "make", size="large", color="blue")
    ask(engine, "change", id=made["id"], color="red")
    assert ask(engine, "show", id=made["id"]) == {"id": made["id"], "size": "large", "color": "red"}


def test_the_names_of_an_update_that_no_branch_takes_are_tried_a_bounded_number_of_times():
    class Counting(SchemaValues):
        looked = 0

        def checker(self, node):
            check = super().checker(node)

            def count(value):
                self.looked += 1
                return check(value)

            return count

    names = range(100)
    values = Counting({"oneOf": [closed(kind, **{f"{kind}{n}": TEXT for n in names}) for kind in ("old", "new")]})
    made, sent = {"kind": "old", **{f"old{n}": "x" for n in names}}, {f"new{n}": "y" for n in names}
    assert values.overlay(values.root, made, sent, frozenset(sent)) == made
    assert values.looked < 10 * len(names)


def test_items_are_laid_over_only_if_the_list_still_holds_together():
    item = an_object(id=WHOLE, tag=TEXT)
    values = SchemaValues({"type": "array", "items": item, "uniqueItems": True})
    made = [{"id": 1, "tag": "a"}, {"id": 1, "tag": "b"}]
    assert values.overlay(values.root, made, [{"tag": "c"}, {"tag": "c"}]) == made
    assert values.overlay(values.root, made, [{"tag": "c"}, {}]) == [{"id": 1, "tag": "c"}, {"id": 1, "tag": "b"}]
