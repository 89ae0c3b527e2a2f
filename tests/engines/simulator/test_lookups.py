"""What is asked by POST makes nothing, and what is made by POST is made, whatever the tool is called."""

import pytest

from engines.simulator.test_profile import TEXT, WHOLE, Family, an_object, operation
from toolyard import LMToolEngine, ToolCall, ToolRegistry
from toolyard.engines.simulator.profile import Profile

GENE = an_object(id=WHOLE, symbol=TEXT)
MAPPING = {"type": "object", "additionalProperties": TEXT}


def read_verb(name, output, body, path="/genes"):
    return Profile(operation(name, "POST", path, output, an_object(**body)), 1).role.verb


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


def test_a_word_of_the_path_does_not_make_a_post_a_lookup():
    assert read_verb("searches_save", {}, {"text": TEXT}, "/searches") == "create"


def test_a_lookup_answers_the_same_question_with_the_same():
    tool = operation("getMappingUsingPOST", "POST", "/map", MAPPING, an_object(ids={"type": "array", "items": WHOLE}))
    with LMToolEngine(ToolRegistry([tool]), lm_config={"type": "schema", "seed": 5}) as engine:
        engine.setup("s")
        first, second = engine.execute("s", [ToolCall("n::getMappingUsingPOST", {"ids": [1, 2]})] * 2)
    assert first.error is None
    assert first.result == second.result


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
