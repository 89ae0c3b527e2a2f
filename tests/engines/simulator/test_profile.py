"""Families of tools as real services have them: bodies in envelopes, ids of every name, updates by POST, other spellings.

Each holds what it is told: what is created comes back, lists and updates see it, and what is deleted is gone.
"""

import dataclasses
import re

import pytest
from hypothesis import given, strategies as st

from conftest import in_pairs
from engines.engine_support import ask, call
from toolyard import LMToolEngine, RestBinding, Tool, ToolRegistry
from toolyard.model.bindings import RestBody, RestParameter

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
ENVELOPES = {
    "none": (),
    "noun": ("page",),
    "data": ("data",),
    "own word": ("entry",),
    "two": ("response", "page"),
    "list of one": ("pages", "[]"),
}
UPDATES = (("PUT", "put_page"), ("PATCH", "patch_page"), ("POST", "UpdatePage"), ("POST", "post_pages_id"))


def an_object(**properties):
    return {"type": "object", "properties": properties}


def wrapped(schema, envelope):
    for name in reversed(envelope):
        schema = {"type": "array", "items": schema} if name == "[]" else an_object(**{name: schema})
    return schema


def wrap(value, envelope):
    for name in reversed(envelope):
        value = [value] if name == "[]" else {name: value}
    return value


def opened(value, envelope):
    for name in envelope:
        value = value[0] if name == "[]" else value[name]
    return value


def operation(name, method, path, output, body=None):
    """A tool as an OpenAPI document gives it: the properties of the body are arguments."""
    keys = re.findall(r"\{([^{}]+)\}", path)
    fields = {} if body is None else body["properties"]
    return Tool(
        name,
        "n",
        parameters=an_object(**dict.fromkeys(keys, TEXT), **fields),
        output_parameters=output,
        binding=RestBinding(
            method,
            path,
            "",
            tuple(RestParameter(argument=key, name=key, location="path") for key in keys),
            None
            if body is None
            else RestBody(media_type="application/json", properties={field: field for field in fields}),
        ),
    )


class Family:
    """Create, get, list, update and delete of pages, each in its envelope, in a session."""

    def __init__(self, sent, shown, *, asked=(), answered=(), key="id", update=("PUT", "put_page")):
        self.asked, self.answered, self.key = asked, answered, key
        body, answer = wrapped(sent, asked), wrapped(shown, answered)
        item = f"/pages/{{page_{key}}}"
        self.update = update[1]
        # A list in a list would be several lists.
        listed = {"type": "array", "items": answer} if "[]" not in answered else answer
        self.engine = LMToolEngine(
            ToolRegistry(
                [
                    operation("create_page", "POST", "/pages", answer, body),
                    operation("get_page", "GET", item, answer),
                    operation("list_pages", "GET", "/pages", listed),
                    operation(update[1], update[0], item, answer, body),
                    operation("delete_page", "DELETE", item, {}),
                ]
            ),
            lm_config={"type": "schema", "seed": 5},
        )
        self.engine.setup("s")

    def __call__(self, name, sent=None, /, **arguments):
        (result,) = self.engine.execute(
            "s", [call(name, **({} if sent is None else wrap(sent, self.asked)), **arguments)]
        )
        return result

    def shown(self, name, sent=None, /, **arguments):
        result = self(name, sent, **arguments)
        assert result.error is None
        return opened(result.result, self.answered)

    def check_whole(self, first, second):
        """Every step of a life, with the values that were sent; returns what was created."""
        made = self.shown("create_page", first)
        assert made.items() >= first.items()
        at = {f"page_{self.key}": str(made[self.key])}
        assert self.shown("get_page", **at).items() >= made.items()
        (item,) = self("list_pages").result if "[]" not in self.answered else [self("list_pages").result]
        assert opened(item, self.answered) == made
        self(self.update, second, **at)
        assert self.shown("get_page", **at) == {**made, **second}
        assert not self("delete_page", **at).is_error
        assert self("get_page", **at).is_error
        return made


PAGE = an_object(title=TEXT, body=TEXT)


@in_pairs(answered=ENVELOPES, asked=[name for name in ENVELOPES if name != "list of one"], update=UPDATES)
def test_what_is_sent_comes_back_in_whatever_envelopes(asked, answered, update):
    shown = an_object(id=WHOLE, title=TEXT, body=TEXT)
    family = Family(PAGE, shown, asked=ENVELOPES[asked], answered=ENVELOPES[answered], update=update)
    made = family.check_whole({"title": "First", "body": "b"}, {"title": "Second"})
    assert made["id"] == 1001


@pytest.mark.parametrize("update", UPDATES[1:], ids=lambda update: f"{update[0]} {update[1]}")
def test_json_api_keeps_its_attributes_apart_from_the_id(update):
    attributes = {**an_object(title=TEXT, body=TEXT, createdAt=TEXT), "required": ["createdAt"]}
    sent = an_object(type={"const": "pages"}, attributes=PAGE)
    family = Family(
        sent, an_object(id=TEXT, type=TEXT, attributes=attributes), asked=("data",), answered=("data",), update=update
    )
    made = family.shown("create_page", {"type": "pages", "attributes": {"title": "First", "body": "b"}})
    assert made["attributes"].items() >= {"title": "First", "body": "b"}.items() and made["id"]
    family(family.update, {"type": "pages", "attributes": {"title": "Second"}}, page_id=made["id"])
    shown = family.shown("get_page", page_id=made["id"])
    assert (shown["attributes"]["title"], shown["attributes"]["createdAt"]) == (
        "Second",
        made["attributes"]["createdAt"],
    )


@pytest.mark.parametrize("key", ["id", "gid", "sid", "uuid", "guid", "pk", "key", "slug", "number", "code"])
@pytest.mark.parametrize("kind", [TEXT, {"type": ["string", "null"]}, WHOLE], ids=["text", "nullable", "whole"])
def test_what_is_created_can_be_called_by_its_id_whatever_that_is_called(key, kind):
    shown = an_object(title=TEXT, body=TEXT, **{key: kind})
    made = Family(PAGE, shown, answered=("page",), key=key).check_whole({"title": "First"}, {"title": "Second"})
    assert made[key] is not None


def test_a_name_is_an_id_where_paths_are_made_of_names():
    named = an_object(name=TEXT, size=WHOLE)
    made = Family(named, named, asked=("page",), answered=("page",), key="name").check_whole(
        {"name": "blue", "size": 3}, {"size": 4}
    )
    assert made == {"name": "blue", "size": 3}


SPELLINGS = ("friendly_name", "friendlyName", "FriendlyName", "friendly-name", "FRIENDLY_NAME")


@given(
    st.sampled_from(SPELLINGS), st.sampled_from(SPELLINGS), st.sampled_from(UPDATES), st.sampled_from(list(ENVELOPES))
)
def test_a_field_is_one_however_requests_and_answers_spell_it(asked, shown, update, envelope):
    answered = ENVELOPES[envelope]
    family = Family(an_object(**{asked: TEXT}), an_object(sid=TEXT, **{shown: TEXT}), answered=answered, update=update)
    made = family.shown("create_page", {asked: "One"})
    assert made[shown] == "One"
    family(update[1], {asked: "Two"}, page_id=made["sid"])
    assert family.shown("get_page", page_id=made["sid"])[shown] == "Two"


def test_what_answers_show_otherwise_is_the_same_thing():
    """A reference that is sent by id and shown as an object, numbers of forms, items that get ids of their own."""
    sent = an_object(owner=TEXT, size=TEXT, lines={"type": "array", "items": an_object(sku=TEXT)})
    line = {**an_object(id=TEXT, sku=TEXT), "required": ["id", "sku"]}
    owner = {**an_object(gid=TEXT, name=TEXT), "required": ["gid", "name"]}
    shown = an_object(id=TEXT, owner=owner, size=WHOLE, lines={"type": "array", "items": line})
    family = Family(sent, shown)
    made = family.shown("create_page", {"owner": "77", "size": "12", "lines": [{"sku": "a"}, {"sku": "b"}]})
    assert (made["owner"]["gid"], made["size"]) == ("77", 12)
    assert [line["sku"] for line in made["lines"]] == ["a", "b"] and all(line["id"] for line in made["lines"])
    assert family.shown("get_page", page_id=made["id"]) == made


def test_an_object_that_belongs_to_the_thing_is_no_envelope():
    profile = an_object(city=TEXT)
    family = Family(an_object(profile=profile), an_object(id=TEXT, profile=profile))
    made = family.shown("create_page", {"profile": {"city": "Ulm"}})
    assert made["profile"] == {"city": "Ulm"}


def test_a_post_that_says_what_it_does_changes_nothing_else():
    """`POST /pages/{id}` of a tool that is called publish is no update."""
    family = Family(PAGE, an_object(id=WHOLE, title=TEXT, body=TEXT), update=("POST", "publish_page"))
    made = family.shown("create_page", {"title": "First"})
    family("publish_page", {"title": "Second"}, page_id=str(made["id"]))
    assert family.shown("get_page", page_id=str(made["id"]))["title"] == "First"


@pytest.mark.parametrize("kind", ["card", "cash", "debit"])
def test_of_several_forms_it_is_the_one_that_has_what_was_sent(kind):
    forms = [
        {**an_object(type={"enum": [name]}, id=TEXT, **{name: TEXT}), "required": ["id", "type"]}
        for name in ("card", "cash", "debit")
    ]
    sent = an_object(method=an_object(type=TEXT, card=TEXT, cash=TEXT, debit=TEXT))
    family = Family(sent, an_object(id=TEXT, method={"anyOf": forms}))
    made = family.shown("create_page", {"method": {"type": kind, kind: "mine"}})
    assert (made["method"]["type"], made["method"][kind]) == (kind, "mine") and made["method"]["id"]


@pytest.mark.parametrize("kind", [WHOLE, TEXT], ids=["number", "text"])
def test_an_answer_that_is_nothing_but_an_id_is_one(kind):
    item = an_object(id=kind, title=TEXT)
    engine = LMToolEngine(
        ToolRegistry(
            [
                operation("create_page", "POST", "/pages", kind, an_object(page=PAGE)),
                operation("get_page", "GET", "/pages/{page_id}", item),
            ]
        )
    )
    engine.setup("s")
    made = ask(engine, "create_page", page={"title": "First"})
    assert ask(engine, "get_page", page_id=str(made)) == {"id": made, "title": "First"}


def test_an_envelope_may_be_called_as_a_text_of_the_thing_is():
    inside = an_object(page=TEXT, title=TEXT)
    family = Family(inside, an_object(id=WHOLE, page=TEXT, title=TEXT), asked=("page",), answered=("page",))
    family.check_whole({"page": "one", "title": "First"}, {"title": "Second"})


def test_fields_of_a_form_say_in_brackets_what_they_belong_to():
    sent = an_object(**{"page[title]": TEXT, "page[body]": TEXT, "owner[city]": TEXT})
    family = Family(sent, an_object(id=WHOLE, title=TEXT, body=TEXT, owner=an_object(city=TEXT)))
    made = family.shown("create_page", {"page[title]": "First", "page[body]": "b", "owner[city]": "Ulm"})
    assert (made["title"], made["body"], made["owner"]) == ("First", "b", {"city": "Ulm"})
    family("put_page", {"page[title]": "Second"}, page_id=str(made["id"]))
    assert family.shown("get_page", page_id=str(made["id"])) == {**made, "title": "Second"}


@pytest.mark.parametrize("key", ["entity_id", "object_id", "recordId"])
def test_a_thing_may_call_its_id_by_any_word_for_things(key):
    shown = {**an_object(title=TEXT, body=TEXT, **{key: TEXT}), "required": [key]}
    family = Family(PAGE, shown)
    made = family.shown("create_page", {"title": "First"})
    assert family.shown("get_page", page_id=made[key])["title"] == "First"


def test_an_answer_that_holds_nothing_but_a_list_is_about_what_is_in_it():
    item = an_object(id=TEXT, title=TEXT, body=TEXT)
    family = Family(PAGE, item, answered=("outcomes", "[]"))
    made = family.shown("create_page", {"title": "First"})
    assert family.shown("get_page", page_id=made["id"])["title"] == "First"


def test_what_the_path_calls_a_thing_by_is_never_null():
    """A participant is called by its `call_sid`, which its schema lets be null."""
    shown = an_object(title=TEXT, call_sid={"type": ["string", "null"]})
    for seed in range(12):
        engine = LMToolEngine(
            ToolRegistry(
                [
                    operation("create_member", "POST", "/members", shown, PAGE),
                    operation("get_member", "GET", "/members/{call_sid}", shown),
                ]
            ),
            lm_config={"type": "schema", "seed": seed},
        )
        engine.setup("s")
        made = ask(engine, "create_member", title="First")
        assert ask(engine, "get_member", call_sid=made["call_sid"])["title"] == "First"


def test_what_is_sent_far_inside_is_kept_where_null_would_do():
    """However much an answer holds: parts that may be null are null for want of room, unless something is known."""
    deep = TEXT
    for level in range(8):
        part = {**an_object(**{f"part{level}": deep, "other": TEXT}), "required": ["other"]}
        deep = {"anyOf": [part, {"type": "null"}]}
    crowd = {f"field{at}": {**an_object(a=TEXT, b=TEXT), "required": ["a", "b"]} for at in range(150)}
    shown = {**an_object(id=WHOLE, **crowd, settings=deep), "required": ["id", *crowd]}
    sent = "kept"
    for level in range(8):
        sent = {f"part{level}": sent}
    made = Family(an_object(settings={"type": "object"}), shown).shown("create_page", {"settings": sent})
    for level in reversed(range(8)):
        made = made["settings"] if level == 7 else made
        made = made[f"part{level}"]
    assert made == "kept"


def test_what_calls_its_id_pk_is_asked_for_by_it_as_id():
    shown = an_object(pk=WHOLE, title=TEXT)
    get = operation("get_page", "GET", "/pages/{id}", shown)
    engine = LMToolEngine(ToolRegistry([operation("create_page", "POST", "/pages", shown, PAGE), get]))
    engine.setup("s")
    assert ask(engine, "create_page", title="First") == {"pk": 1001, "title": "First"}
    assert ask(engine, "get_page", id="1001") == {"pk": 1001, "title": "First"}


@pytest.mark.parametrize("told", [{}, {"examples": ["141"]}, {"example": "141"}], ids=str)
def test_an_id_that_is_any_text_can_be_asked_for_as_a_number(told):
    """Answers of GitLab's say that an id is text, paths that it is a number."""
    shown = an_object(id={**TEXT, **told}, title=TEXT)
    get = operation("get_page", "GET", "/pages/{page_id}", shown)
    get = dataclasses.replace(get, parameters=an_object(page_id=WHOLE))
    engine = LMToolEngine(ToolRegistry([operation("create_page", "POST", "/pages", shown, PAGE), get]))
    engine.setup("s")
    made = ask(engine, "create_page", title="First")
    assert ask(engine, "get_page", page_id=int(made["id"])) == made


def test_an_id_whose_form_is_said_has_that_form():
    for form in ({"format": "uuid"}, {"pattern": "^P[0-9]{4}$"}, {"examples": ["12", "cus_9s6X"]}):
        made = Family(PAGE, an_object(id={**TEXT, **form}, title=TEXT)).shown("create_page", {"title": "First"})
        assert not made["id"].isdecimal()


def test_new_ones_that_are_sent_in_a_list_are_made_one_by_one():
    new = {"type": "array", "items": PAGE}
    page = an_object(id=TEXT, title=TEXT)
    engine = LMToolEngine(
        ToolRegistry(
            [
                operation(
                    "create_pages",
                    "POST",
                    "/pages",
                    an_object(newPages={"type": "array", "items": page}),
                    an_object(newPages=new),
                ),
                operation("get_page", "GET", "/pages/{page_id}", page),
            ]
        )
    )
    engine.setup("s")
    made = ask(engine, "create_pages", newPages=[{"title": "First"}, {"title": "Second"}])["newPages"]
    assert [page["title"] for page in made] == ["First", "Second"]
    assert [ask(engine, "get_page", page_id=page["id"]) for page in made] == made


def test_yes_and_no_are_one_and_nought_where_numbers_are_shown():
    family = Family(an_object(draft={"type": "boolean"}), an_object(id=WHOLE, draft=WHOLE))
    assert [family.shown("create_page", {"draft": draft})["draft"] for draft in (True, False)] == [1, 0]


@pytest.mark.parametrize(
    ("path", "field"), [("/tags/{tag_id}", "name"), ("/floating_ips/{floating_ip}", "ip")], ids=["name", "last word"]
)
def test_what_has_no_id_is_called_by_its_name_or_by_what_it_is(path, field):
    shown = {**an_object(**{field: TEXT}, note=TEXT), "required": [field]}
    get, create = (
        operation("get", "GET", path, shown),
        operation("create", "POST", path.rpartition("/")[0], shown, shown),
    )
    engine = LMToolEngine(ToolRegistry([get, create]))
    engine.setup("s")
    ask(engine, "create", **{field: "mine"}, note="kept")
    key = path.rpartition("{")[2].removesuffix("}")
    assert ask(engine, "get", **{key: "mine"}) == {field: "mine", "note": "kept"}


LINKED = {
    "uri": an_object(uri=TEXT, title=TEXT),
    "absolute": an_object(title=TEXT, href={"type": "string", "format": "uri"}),
    "self": an_object(title=TEXT, self=TEXT),
    "hal": an_object(title=TEXT, _links=an_object(self=an_object(href=TEXT))),
    "list of links": an_object(
        title=TEXT, links={"type": "array", "items": an_object(rel=TEXT, href=TEXT), "minItems": 1}
    ),
}


def link_of(value):
    """The address that an answer gives as its own, wherever that stands."""
    if isinstance(value, str):
        return value if "/" in value else None
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((link for link in map(link_of, inside) if link), None)


@pytest.mark.parametrize("album", LINKED.values(), ids=LINKED)
def test_what_has_a_link_and_no_id_is_found_by_what_its_link_says(album):
    body, at = an_object(title=TEXT), "/users/{user}/albums"
    tools = [
        operation("make", "POST", at, album, body),
        operation("show", "GET", f"{at}/{{album_id}}", album),
        operation("every", "GET", at, {"type": "array", "items": album}),
        operation("change", "PATCH", f"{at}/{{album_id}}", album, body),
        operation("remove", "DELETE", f"{at}/{{album_id}}", {}),
    ]
    with LMToolEngine(ToolRegistry(tools)) as engine:
        engine.setup("s")
        links = [link_of(ask(engine, "make", user="7", title=title)) for title in ("first", "second")]
        assert [link.removeprefix("https://api.example.com") for link in links] == [
            "/users/7/albums/1001",
            "/users/7/albums/1002",
        ]
        ask(engine, "change", user="7", album_id="1001", title="changed")
        shown = ask(engine, "show", user="7", album_id="1001")
        assert (link_of(shown), shown["title"]) == (links[0], "changed")
        assert list(map(link_of, ask(engine, "every", user="7"))) == links
        ask(engine, "remove", user="7", album_id="1001")
        assert list(map(link_of, ask(engine, "every", user="7"))) == links[1:]
        assert link_of(ask(engine, "show", user="7", album_id="55")).endswith("/users/7/albums/55")


@pytest.mark.parametrize("field", ["url", "uri", "href", "location", "link"])
@pytest.mark.parametrize("end", ["/hook", "/in/hook", "/in/hook?of=hooks", "/hook/"])
def test_an_address_that_a_thing_was_given_is_not_its_name(field, end):
    hook = an_object(**{field: TEXT, "note": TEXT})
    tools = [
        operation("make", "POST", "/hooks", hook, hook),
        operation("every", "GET", "/hooks", {"type": "array", "items": hook}),
        operation("remove", "DELETE", "/hooks/{hook_id}", {}),
    ]
    with LMToolEngine(ToolRegistry(tools)) as engine:
        engine.setup("s")
        made = [{field: f"https://{host}.example{end}", "note": host} for host in ("hooks", "b")]
        named = [{"id": at, **one} for at, one in enumerate(made, 1001)]
        assert [ask(engine, "make", **one) for one in made] == named
        ask(engine, "remove", hook_id="hook")
        assert ask(engine, "every") == named


@pytest.mark.parametrize("link", ["/videos/123", "https://api.example.com/me/videos/123/", "/videos/123?fields=uri"])
def test_an_address_among_things_of_its_kind_is_the_name_of_one(link):
    video = an_object(uri=TEXT, title=TEXT)
    tools = [
        operation("make", "POST", "/videos", video, video),
        operation("show", "GET", "/videos/{video_id}", video),
    ]
    with LMToolEngine(ToolRegistry(tools)) as engine:
        engine.setup("s")
        ask(engine, "make", uri=link, title="mine")
        assert ask(engine, "show", video_id="123") == {"uri": link, "title": "mine"}


def test_values_in_envelopes_of_their_own_come_back_as_the_answer_has_them():
    inside = an_object(**{name: an_object(value=TEXT) for name in ("attributeID", "title")})
    shown = an_object(attributeID=TEXT, title=TEXT, count=WHOLE)
    tools = [
        operation("make", "POST", "/attribute", {"type": "object"}, inside),
        operation("show", "GET", "/attribute/{attributeId}", shown),
        operation("every", "GET", "/attribute", an_object(records={"type": "array", "items": shown})),
        operation("change", "PUT", "/attribute/{attributeId}", {"type": "object"}, inside),
    ]
    with LMToolEngine(ToolRegistry(tools)) as engine:
        engine.setup("s")
        ask(engine, "make", attributeID={"value": "size"}, title={"value": "Size"})
        assert ask(engine, "show", attributeId="size")["title"] == "Size"
        ask(engine, "change", attributeId="size", title={"value": "Width"})
        [listed] = ask(engine, "every")["records"]
        assert (listed["attributeID"], listed["title"]) == ("size", "Width")


@pytest.mark.parametrize("asked", [(), ("page",), ("data",)], ids=["none", "noun", "data"])
@pytest.mark.parametrize("answered", [(), ("page",), ("pages", "[]")], ids=["none", "noun", "list of one"])
def test_what_no_property_is_named_for_is_shown_with_an_id_all_the_same(asked, answered):
    body = an_object(note=TEXT, owner=an_object(id=TEXT))
    made = Family(body, body, asked=asked, answered=answered).check_whole(
        {"note": "first", "owner": {"id": "7"}}, {"note": "second"}
    )
    assert made == {"id": 1001, "note": "first", "owner": {"id": "7"}}


def test_an_id_is_not_shown_where_the_schema_is_closed_or_there_is_another_name():
    closed = {**an_object(note=TEXT), "additionalProperties": False}
    assert Family(PAGE, closed).shown("create_page", {"note": "mine"}) == {"note": "mine"}
    named = an_object(slug=TEXT, note=TEXT)
    by_slug = Family(named, named, key="slug")
    assert by_slug.shown("create_page", {"slug": "a", "note": "b"}) == {"slug": "a", "note": "b"}


def test_an_id_that_only_some_answers_call_after_the_thing_is_one_id():
    body, shown = an_object(note=TEXT), an_object(employeeId=WHOLE, note=TEXT)
    tools = [
        operation("make", "POST", "/employees", {}, body),
        operation("every", "GET", "/employees", {"type": "array", "items": shown}),
    ]
    with LMToolEngine(ToolRegistry(tools)) as engine:
        engine.setup("s")
        ask(engine, "make", note="mine")
        assert ask(engine, "every") == [{"employeeId": 1001, "note": "mine"}]


@pytest.mark.parametrize("part", ["content", "data", "body", "value"])
def test_a_part_that_is_called_as_envelopes_are_is_one_of_many(part):
    fields = {part: an_object(raw=TEXT), "kind": TEXT, "title": TEXT, "revision": WHOLE}
    sent = {part: {"raw": "text"}, "kind": "note", "title": "First", "revision": 3}
    made = Family(an_object(**fields), an_object(**fields, id=WHOLE)).check_whole(sent, {part: {"raw": "other"}})
    assert made == {"id": 1001, **sent}
    shown = Family(an_object(**fields), an_object(**fields, slug=TEXT), key="slug").shown("create_page", sent)
    assert shown.items() >= sent.items()


@pytest.mark.parametrize("name", ["links", "_links", "Links"])
def test_an_answer_says_beside_a_thing_where_that_is_and_what_was_sent_beside_it(name):
    consent = an_object(title=TEXT, id=TEXT)
    answer = an_object(data=consent, risk=an_object(level=TEXT), **{name: an_object(self=TEXT)})
    body = an_object(data=an_object(title=TEXT), risk=an_object(level=TEXT))
    tools = [
        operation("make", "POST", "/v1/consents", answer, body),
        operation("show", "GET", "/v1/consents/{consent_id}", answer),
    ]
    with LMToolEngine(ToolRegistry(tools)) as engine:
        engine.setup("s")
        made = ask(engine, "make", data={"title": "mine"}, risk={"level": "low"})
        called = made["data"]["id"]
        assert made == {
            "data": {"title": "mine", "id": called},
            "risk": {"level": "low"},
            name: {"self": f"/v1/consents/{called}"},
        }
        assert ask(engine, "show", consent_id=called) == made


def test_things_sent_in_a_list_of_any_name_are_made_one_by_one_where_the_answer_lists_them():
    contact = an_object(contactId=TEXT, note=TEXT)
    listed = an_object(contacts={"type": "array", "items": contact})
    body = an_object(contactList={"type": "array", "items": an_object(note=TEXT)})
    tools = [
        operation("make", "POST", "/contacts", listed, body),
        operation("show", "GET", "/contacts/{contactId}", listed),
    ]
    with LMToolEngine(ToolRegistry(tools)) as engine:
        engine.setup("s")
        made = ask(engine, "make", contactList=[{"note": "a"}, {"note": "b"}])["contacts"]
        assert [one["note"] for one in made] == ["a", "b"]
        assert ask(engine, "show", contactId=made[1]["contactId"])["contacts"] == made[1:]


def test_parts_of_a_thing_that_are_called_after_its_last_word_are_no_list_of_things():
    rules = {"type": "array", "items": an_object(rule_key=TEXT)}
    shown = an_object(shared_rules_key=TEXT, title=TEXT, rules=rules)
    tools = [
        operation("make", "POST", "/shared_rules", an_object(result=shown), an_object(title=TEXT, rules=rules)),
        operation("show", "GET", "/shared_rules/{sharedRulesKey}", an_object(result=shown)),
    ]
    with LMToolEngine(ToolRegistry(tools)) as engine:
        engine.setup("s")
        made = ask(engine, "make", title="mine", rules=[{"rule_key": "a"}])
        assert made["result"].items() >= {"title": "mine", "rules": [{"rule_key": "a"}]}.items()
        assert ask(engine, "show", sharedRulesKey=made["result"]["shared_rules_key"]) == made


def test_a_list_of_one_beside_its_total_is_what_is_asked_for():
    connect = an_object(connectId=TEXT, note=TEXT)
    found = an_object(configurations={"type": "array", "items": connect}, totalRecords=TEXT)
    tools = [
        operation("make", "POST", "/connects", connect, an_object(note=TEXT)),
        operation("change", "PATCH", "/connects/{connectId}", connect, an_object(note=TEXT)),
        operation("show", "GET", "/connects/{connectId}", found),
    ]
    with LMToolEngine(ToolRegistry(tools)) as engine:
        engine.setup("s")
        made = ask(engine, "make", note="first")
        ask(engine, "change", connectId=made["connectId"], note="second")
        assert ask(engine, "show", connectId=made["connectId"])["configurations"] == [{**made, "note": "second"}]


def test_attributes_that_are_all_that_is_sent_stay_attributes():
    draft = an_object(id=TEXT, attributes=an_object(title=TEXT))
    tools = [
        operation("make", "POST", "/drafts", {}, an_object(attributes=an_object(title=TEXT))),
        operation("show", "GET", "/drafts/{draft_id}", draft),
    ]
    with LMToolEngine(ToolRegistry(tools)) as engine:
        engine.setup("s")
        made = ask(engine, "make", attributes={"title": "mine"})
        assert ask(engine, "show", draft_id=str(made["id"])) == {"id": "1001", "attributes": {"title": "mine"}}


def test_an_id_that_was_told_is_shown_beside_another_name():
    shown = {"type": "array", "items": an_object(name=TEXT, note=TEXT)}
    tools = [operation("make", "POST", "/hosts", {}, PAGE), operation("every", "GET", "/hosts", shown)]
    with LMToolEngine(ToolRegistry(tools)) as engine:
        engine.setup("s")
        made = ask(engine, "make", title="mine")
        assert [one["id"] for one in ask(engine, "every")] == [made["id"]]


@pytest.mark.parametrize("update", UPDATES[1:3], ids=lambda update: f"{update[0]} {update[1]}")
def test_a_name_that_stands_in_for_an_id_may_be_changed(update):
    named = an_object(name=TEXT, size=WHOLE)
    family = Family(named, named, update=update)
    family.shown("create_page", {"name": "first", "size": 3})
    family(update[1], {"name": "second"}, page_id="first")
    for name in ("second", "first"):
        assert family.shown("get_page", page_id=name) == {"name": "second", "size": 3}
    family("delete_page", page_id="second")
    assert family("get_page", page_id="first").is_error
