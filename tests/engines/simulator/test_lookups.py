"""What is asked by POST makes nothing, and what is made by POST is made, whatever the tool is called."""

import pytest

from engines.simulator.test_profile import TEXT, WHOLE, Family, an_object, operation
from toolyard import LMToolEngine, ToolCall, ToolRegistry
from toolyard.engines.simulator.profile import Profile

GENE = an_object(id=WHOLE, symbol=TEXT)
MAPPING = {"type": "object", "additionalProperties": TEXT}


def read_verb(name, output, body, path="/genes"):
    return Profile(operation(name, "POST", path, output, an_object(**body)), 1).role.verb


def call_twice(tool, arguments, seed=5):
    with LMToolEngine(ToolRegistry([tool]), lm_config={"type": "schema", "seed": seed}) as engine:
        engine.setup("s")
        results = engine.execute("s", [ToolCall(f"n::{tool.name}", arguments)] * 2)
    assert [result.error for result in results] == [None, None]
    return [result.result for result in results]


@pytest.mark.parametrize(
    ("name", "output", "body", "verb"),
    [
        ("getMappingUsingPOST", MAPPING, {"ids": {"type": "array", "items": WHOLE}}, "none"),
        ("fetchGenes", {"type": "array", "items": GENE}, {"ids": {"type": "array", "items": WHOLE}}, "list"),
        ("genes_by_body", {"type": "array", "items": GENE}, {"filter": TEXT, "limit": WHOLE}, "list"),
        ("genes_by_body", an_object(genes={"type": "array", "items": GENE}), {"query": TEXT}, "list"),
        ("getOrMakeGene", GENE, {"symbol": TEXT}, "create"),
        ("saveGene", an_object(data=GENE), {"symbol": TEXT, "limit": WHOLE}, "create"),
        ("post_genes", {"type": "array", "items": GENE}, {"symbol": TEXT}, "create"),
        ("genes", MAPPING, {"symbol": TEXT}, "create"),
    ],
)
def test_a_post_that_reads_and_shows_no_one_thing_is_a_lookup(name, output, body, verb):
    assert read_verb(name, output, body) == verb


@pytest.mark.parametrize(
    ("name", "path", "asked"),
    [
        ("createAlert", "/alerts", ("name", "query", "limit")),
        ("createAlert", "/alerts/create", ("name", "query")),
        ("createQuery", "/queries", ("query",)),
        ("createList", "/lists", ("name", "filter")),
        ("create_webhooks", "/webhooks", ("filter",)),
        ("segments_create", "/segments", ("criteria",)),
        ("register_devices", "/devices", ("name", "limit")),
        ("newAlert", "/alerts", ("name", "where")),
        ("scheduleReport", "/reports", ("name", "sort")),
    ],
)
def test_a_name_that_says_that_something_is_made_wins_over_filters(name, path, asked):
    tool = operation(name, "POST", path, {"type": "array", "items": GENE}, an_object(**dict.fromkeys(asked, TEXT)))
    assert [[gene["id"] for gene in made] for made in call_twice(tool, dict.fromkeys(asked, "x"))] == [[1001], [1002]]


def test_new_things_that_are_asked_for_are_not_made():
    assert read_verb("getNewGenes", {"type": "array", "items": GENE}, {"limit": WHOLE}) == "list"


def test_several_are_made_though_an_offset_is_sent_with_them():
    several = an_object(genes={"type": "array", "items": an_object(symbol=TEXT)}, offset=WHOLE)
    tool = operation("bulkCreateGenes", "POST", "/genes", an_object(genes={"type": "array", "items": GENE}), several)
    made, _ = call_twice(tool, {"genes": [{"symbol": "A2M"}, {"symbol": "NAT2"}], "offset": 0})
    assert made == {"genes": [{"id": 1001, "symbol": "A2M"}, {"id": 1002, "symbol": "NAT2"}]}


@pytest.mark.parametrize("name", ["get_or_create_gene", "findOrCreateGene"])
def test_what_is_looked_for_or_else_made_is_there_afterwards(name):
    make = operation(name, "POST", "/genes", an_object(symbol=TEXT), an_object(symbol=TEXT))
    listed = operation("list_genes", "GET", "/genes", {"type": "array", "items": an_object(symbol=TEXT)})
    with LMToolEngine(ToolRegistry([make, listed]), lm_config={"type": "schema", "seed": 5}) as engine:
        engine.setup("s")
        calls = [ToolCall(f"n::{name}", {"symbol": "A2M"}), ToolCall("n::list_genes", {})]
        _, found = engine.execute("s", calls)
    assert [gene["symbol"] for gene in found.result] == ["A2M"]


@pytest.mark.parametrize("path", ["/lookup-users", "/view-users", "/info-users"])
def test_a_path_that_begins_with_a_word_of_asking_makes_nothing(path):
    shown = {"type": "array", "items": an_object(id=WHOLE, email=TEXT)}
    first, second = call_twice(operation("users", "POST", path, shown, an_object(email=TEXT)), {"email": "a@b.example"})
    assert first == second


@pytest.mark.parametrize("path", ["/upload-files", "/merge-contacts", "/pay-invoices", "/start-jobs", "/place-orders"])
@pytest.mark.parametrize("flag", ["ok", "success"])
def test_an_action_that_worked_says_so(path, flag):
    tool = operation("act", "POST", path, an_object(**{flag: {"type": "boolean"}}), an_object(note=TEXT))
    told = [answer[flag] for seed in range(6) for answer in call_twice(tool, {"note": "x"}, seed)]
    assert told == [True] * 12


def test_a_word_of_the_path_does_not_make_a_post_a_lookup():
    assert read_verb("searches_save", {}, {"text": TEXT}, "/searches") == "create"


def test_a_lookup_answers_the_same_question_with_the_same():
    tool = operation("getMappingUsingPOST", "POST", "/map", MAPPING, an_object(ids={"type": "array", "items": WHOLE}))
    first, second = call_twice(tool, {"ids": [1, 2]})
    assert first == second


def test_a_lookup_lists_what_was_made():
    search = operation("genes_by_body", "POST", "/genes/", {"type": "array", "items": GENE}, an_object(filter=TEXT))
    make = operation("make_gene", "PUT", "/genes/{id}", GENE, an_object(symbol=TEXT))
    with LMToolEngine(ToolRegistry([search, make]), lm_config={"type": "schema", "seed": 5}) as engine:
        engine.setup("s")
        engine.execute("s", [ToolCall("n::make_gene", {"id": "7", "symbol": "A2M"})])
        (found,) = engine.execute("s", [ToolCall("n::genes_by_body", {"filter": "any"})])
    assert found.result == [{"id": 7, "symbol": "A2M"}]


def test_data_with_an_id_is_the_thing_however_much_is_said_beside_it():
    shown = an_object(data=an_object(id=WHOLE), operation=TEXT, resource=TEXT, service=TEXT, status=TEXT, code=WHOLE)
    made = Family(an_object(title=TEXT), shown)("create_page", {"title": "First"}).result
    assert made["data"] == {"id": 1001}
    assert "id" not in made


def test_an_id_may_be_told_in_an_envelope_of_its_own():
    page = an_object(id=WHOLE, title=TEXT)
    tools = [
        operation("create_page", "POST", "/pages", an_object(Id=an_object(id=WHOLE)), an_object(title=TEXT)),
        operation("get_page", "GET", "/pages/{item_id}", page),
    ]
    with LMToolEngine(ToolRegistry(tools), lm_config={"type": "schema", "seed": 5}) as engine:
        engine.setup("s")
        made = engine.execute("s", [ToolCall("n::create_page", {"title": "First"})])[0].result
        got = engine.execute("s", [ToolCall("n::get_page", {"item_id": str(made["Id"]["id"])})])[0].result
    assert made == {"Id": {"id": 1001}}
    assert got == {"id": 1001, "title": "First"}


def test_the_items_of_an_order_are_its_parts():
    item = an_object(id=WHOLE, price=WHOLE)
    order = an_object(number=TEXT, email=TEXT, street=TEXT, note=TEXT, items={"type": "array", "items": item})
    shown = Profile(operation("create_order", "POST", "/orders", order, order), 1).entity_path
    assert shown is not None
    assert shown.names == ()
    wrapped = an_object(items={"type": "array", "items": item}, total=WHOLE)
    assert Profile(operation("create_order", "POST", "/orders", wrapped, item), 1).entity_path.names == ("items", "[]")


def test_an_object_among_others_that_is_called_as_envelopes_are_is_a_part_of_the_thing():
    link = an_object(title=TEXT, url=TEXT, summary=TEXT)
    sent = an_object(object=link, relationship=TEXT, application=TEXT)
    first = {"object": {"title": "First", "url": "u", "summary": "s"}, "relationship": "r", "application": "a"}
    family = Family(sent, an_object(id=WHOLE, object=link, relationship=TEXT, application=TEXT))
    family.check_whole(first, {"object": {"title": "Second", "url": "v", "summary": "t"}})
    bare = operation("create_page", "POST", "/pages", an_object(id=WHOLE), sent)
    assert Profile(bare, 1).envelope == ()


def test_where_one_or_several_are_made_the_answer_is_of_the_form_that_fits():
    gene = an_object(code=TEXT, symbol=TEXT)
    one, several = an_object(gene=gene), an_object(genes={"type": "array", "items": gene})
    forms = {"oneOf": [{**one, "required": ["gene"]}, {**several, "required": ["genes"]}]}
    tools = [
        operation("create_genes", "POST", "/genes", forms, an_object(gene=gene, genes=several["properties"]["genes"])),
        operation("get_gene", "GET", "/genes/{code}", gene),
    ]
    with LMToolEngine(ToolRegistry(tools), lm_config={"type": "schema", "seed": 5}) as engine:
        engine.setup("s")
        first, second = {"code": "a", "symbol": "A2M"}, {"code": "b", "symbol": "A1BG"}
        calls = [ToolCall("n::create_genes", {"genes": [first, second]}), ToolCall("n::get_gene", {"code": "b"})]
        calls.append(ToolCall("n::create_genes", {"gene": {"code": "c", "symbol": "NAT2"}}))
        made, got, alone = [result.result for result in engine.execute("s", calls)]
    assert made == {"genes": [first, second]}
    assert got == second
    assert alone == {"gene": {"code": "c", "symbol": "NAT2"}}


def test_a_property_that_nothing_fits_is_left_out_though_it_was_sent():
    shown = an_object(id=WHOLE, status={"type": "integer", "enum": ["draft", "live"]})
    family = Family(an_object(status=WHOLE), shown)
    assert family("create_page", {"status": 1}).result == {"id": 1001}
