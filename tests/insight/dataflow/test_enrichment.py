"""The enrichment: edges that make sense, options, and what is kept between runs."""

import subprocess
import sys

import numpy as np
import pytest

from tests.insight.dataflow.builders import NUMBER, TEXT, USERS, WHOLE, View, feeds, flow, many, record, tool
from toolyard import ToolRegistry
from toolyard.insight.dataflow.artifact import pack_paths
from toolyard.insight.dataflow.enrichment import DataflowEnrichment
from toolyard.insight.dataflow.match import token_vectors
from toolyard.model.errors import ConfigError
from toolyard.plugins import get_tool_enrichment

GET_USER = tool("get_user", {"user_id": WHOLE}, {"name": TEXT})


def test_lone_surrogates_in_descriptions_and_paths_are_accepted():
    users = {"user_id": TEXT}
    given, taken = tool("list_users", {}, users), tool("get_user", users, {})
    given = given.replace(description="Lists \udc00 users.")
    _, found = DataflowEnrichment(model=Words(), cache=False).enrich(View([given, taken]))
    assert found["dataflow"].edge(0, 1) is not None
    assert bytes(pack_paths(["user\ud800_id"])[1]).decode("utf-8", "surrogatepass") == "user\ud800_id"


class Words:
    """An embedder by words, that counts what it is asked."""

    name, version, dimensions, batch = "words", "1", 384, 64

    def __init__(self):
        self.texts = []

    def encode(self, texts):
        self.texts += texts
        return token_vectors(texts)


@pytest.mark.parametrize(
    ("gives", "output", "how"),
    [
        ({"user_id": WHOLE}, "user_id", "direct"),
        ({"user_id": {"type": ["integer", "null"]}}, "user_id", "direct"),
        ({"user_id": {"anyOf": [WHOLE, {"type": "null"}]}}, "user_id", "direct"),
        ({"user_id": {}}, "user_id", "direct"),
        ({"user": record(id=WHOLE)}, "user.id", "direct"),
        ({"users": USERS}, "users[].id", "each"),
        ({"data": record(users=USERS)}, "data.users[].id", "each"),
        ({"user_ids": many(WHOLE)}, "user_ids", "each"),
    ],
)
def test_a_user_id_in_any_form_feeds_a_user_id_parameter(gives, output, how):
    found = flow(tool("find", {"query": TEXT}, gives), GET_USER)
    assert feeds(found) == [(output, "user_id", how)]
    assert found.edge(0, 1).covers_required


def test_untyped_parameters_are_fed():
    found = flow(tool("list_users", gives={"users": USERS}), tool("get_user", {"user_id": {}}))
    assert feeds(found) == [("users[].id", "user_id", "each")]


@pytest.mark.parametrize(
    ("gives", "takes"),
    [
        ({"id": TEXT}, {"order_id": TEXT}),
        ({"status": TEXT}, {"status": TEXT}),
        ({"message": TEXT}, {"message": TEXT}),
        ({"unit": TEXT}, {"unit": TEXT}),
        ({"user_id": {"type": "boolean"}}, {"user_id": TEXT}),
        ({"next_cursor": TEXT}, {"cursor": TEXT}),
        ({"num_users": WHOLE}, {"user": TEXT}),
        ({"user": record(id=TEXT)}, {"user_count": WHOLE}),
    ],
)
def test_similar_names_with_other_meanings_do_not_feed(gives, takes):
    assert flow(tool("get_user", gives=gives), tool("update_shipment", takes)).edge(0, 1) is None


def test_a_feed_lists_its_signals_separately():
    feed = flow(tool("list_users", gives={"users": USERS}), GET_USER).edge(0, 1).feeds[0]
    assert feed.signals.keys() == {"name", "type", "text"}
    assert all(0 <= value <= 1 for value in feed.signals.values())
    assert feed.signals["name"] > 0.9


def test_covers_required_is_false_if_a_required_value_is_missing():
    both = tool("book", {"user_id": WHOLE, "room_id": WHOLE})
    found = flow(tool("find_user", gives={"user_id": WHOLE}), both)
    assert found.edge(0, 1).covers_required is False


def test_a_list_parameter_takes_single_values_and_lists():
    mails = tool("mail", {"user_ids": many(WHOLE)})
    assert feeds(flow(tool("find_user", gives={"user_id": WHOLE}), mails)) == [("user_id", "user_ids", "wrap")]
    assert feeds(flow(tool("list_users", gives={"users": USERS}), mails)) == [("users[].id", "user_ids", "direct")]


def test_a_tool_does_not_feed_itself_but_may_feed_its_overloads():
    first = tool("get_user", {"user_id": WHOLE}, {"user": record(id=WHOLE)})
    second = tool("get_user", {"user_id": WHOLE, "full": TEXT}, {"user": record(id=WHOLE)})
    found = flow(first, second)
    assert found.edge(0, 0) is None
    assert found.edge(0, 1) is not None


def test_ids_score_lower_between_namespaces_but_places_do_not():
    give = tool("find", gives={"account_number": TEXT, "city": TEXT}, namespace="a")
    here, there = (tool("pay", {"account_number": TEXT}, namespace=namespace) for namespace in ("a", "b"))
    found = flow(give, here, there, min_score=0.1)
    assert found.edge(0, 1).score > found.edge(0, 2).score


def test_without_an_installed_model_texts_are_compared_by_words(monkeypatch):
    monkeypatch.setattr("toolyard.insight.dataflow.enrichment.default_embedder", lambda: None)
    tools = [tool("list_users", gives={"users": USERS}), GET_USER]
    registry = ToolRegistry(tools, enrichments=[get_tool_enrichment("dataflow", cache=False)])
    found = registry.artifacts["dataflow"]
    assert found.text == "tokens"
    assert feeds(found) == [("users[].id", "user_id", "each")]


def test_with_weights_the_model_compares_texts(tmp_path):
    enrichment = DataflowEnrichment(cache=tmp_path)
    _, artifacts = enrichment.enrich(View([tool("list_users", gives={"users": USERS}), GET_USER]))
    assert "MiniLM" in artifacts["dataflow"].text
    assert feeds(artifacts["dataflow"]) == [("users[].id", "user_id", "each")]


@pytest.mark.parametrize(
    "options",
    [
        {"max_neighbors": 0},
        {"max_neighbors": True},
        {"max_neighbors": 1.5},
        {"min_score": 2},
        {"min_score": "x"},
        {"force": "no"},
        {"model": 3},
        {"model": Words},
    ],
)
def test_invalid_options_are_refused(options):
    (name,) = options
    with pytest.raises(ConfigError, match=name):
        DataflowEnrichment(**options)


def kept(tmp_path, tools, embedder, **options):
    enrichment = DataflowEnrichment(model=embedder, cache=tmp_path, **options)
    return enrichment.enrich(View(tools))[1]["dataflow"]


def test_one_new_tool_embeds_only_its_own_texts(tmp_path):
    tools = [tool("list_users", gives={"users": USERS}), GET_USER]
    kept(tmp_path, tools, Words())
    again = Words()
    whose = {**WHOLE, "description": "Whose invoice it is."}
    found = kept(tmp_path, [*tools, tool("get_invoice", {"user_id": whose}, {"total": NUMBER})], again)
    assert again.texts
    assert all("invoice" in text for text in again.texts)
    assert found.edge(0, 1) is not None


def test_unchanged_tools_are_read_from_the_cache_without_embedding(tmp_path):
    tools = [tool("list_users", gives={"users": USERS}), GET_USER]
    first = kept(tmp_path, tools, Words())
    again = Words()
    second = kept(tmp_path, tools, again)
    assert again.texts == []
    assert all(np.array_equal(one, other) for one, other in zip(first.arrays, second.arrays, strict=True))
    assert not second.arrays.targets.flags.writeable


@pytest.mark.parametrize("options", [{"min_score": 0.5}, {"max_neighbors": 3}, {"force": True}])
def test_other_options_have_other_cache_entries(tmp_path, options):
    tools = [tool("list_users", gives={"users": USERS}), tool("get_person", {"person": WHOLE})]
    strict = kept(tmp_path, tools, Words(), min_score=0.99)
    assert kept(tmp_path, tools, Words(), **options).min_score != strict.min_score
    assert kept(tmp_path, tools, Words(), min_score=0.99).edge_count == strict.edge_count


def test_a_changed_description_is_compared_again(tmp_path):
    described = {"type": "string", "description": "The unique identifier of the user."}
    tools = [tool("list_users", gives={"users": many(record(id=TEXT))}), tool("go", {"id": TEXT})]
    assert kept(tmp_path, tools, Words()).edge(0, 1) is None
    assert kept(tmp_path, [tools[0], tool("go", {"id": described})], Words()).edge(0, 1) is not None


@pytest.mark.process
def test_the_same_in_every_process():
    code = (
        "from tests.insight.dataflow.builders import *\n"
        "tools = [tool(f'get_{n}', {f'{n}_id': TEXT}, {'owner': record(id=TEXT), f'{m}_ids': many(TEXT)})\n"
        "         for n, m in (('user', 'order'), ('order', 'user'), ('item', 'order'))]\n"
        "found = flow(*tools, min_score=0.3)\n"
        "print([edge.to_dict() for edge in found.edges()])\n"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(said) == 1
    assert "get_user" in said.pop()


def test_an_empty_result_is_cached_too(tmp_path):
    tools = [tool("ping", {"host": TEXT}, {"delay": NUMBER}), tool("add", {"a": NUMBER})]
    assert kept(tmp_path, tools, Words()).edge_count == 0
    again = Words()
    found = kept(tmp_path, tools, again)
    assert (found.edge_count, again.texts, dict(found)) == (0, [], {"out": {}, "in": {}})
    assert kept(tmp_path, [], again).edge_count == 0


def test_a_tuple_feeds_its_values_but_not_its_positions():
    pair = {"type": "array", "prefixItems": [record(user_id=TEXT)], "items": False}
    takes = tool("get_user", {"user_id": TEXT})
    assert feeds(flow(tool("list_users", gives={"users": pair}), takes)) == [("users[].user_id", "user_id", "each")]


LIST_USERS = tool("list_users", gives={"users": USERS})
OTHERS = [tool(f"get_{word}", {f"{word}_id": TEXT}, {f"{word}_id": TEXT}) for word in ("order", "invoice", "team")]


def test_a_tool_that_a_registry_gets_later_is_compared_with_the_others():
    registry = ToolRegistry([LIST_USERS, *OTHERS], enrichments=[DataflowEnrichment(model=Words(), cache=False)])
    registry.add(GET_USER)
    assert feeds(registry.artifacts["dataflow"], 0, 4) == [("users[].id", "user_id", "each")]
    whole = ToolRegistry(registry.all_tools(), enrichments=[DataflowEnrichment(model=Words(), cache=False)])
    assert list(registry.artifacts["dataflow"].edges()) == list(whole.artifacts["dataflow"].edges())


@pytest.mark.parametrize(
    ("later", "options"),
    [
        ([LIST_USERS, *OTHERS[1:], GET_USER], {}),
        ([*OTHERS, LIST_USERS, GET_USER], {}),
        ([LIST_USERS, OTHERS[0].replace(description="Another."), *OTHERS[1:], GET_USER], {}),
        ([LIST_USERS, *OTHERS, GET_USER, tool("one", {"a": TEXT}), tool("two", {"b": TEXT})], {}),
        ([LIST_USERS, *OTHERS, GET_USER], {"force": True}),
    ],
    ids=["one is gone", "another order", "one was changed", "many are new", "force"],
)
def test_earlier_results_do_not_change_later_ones(later, options):
    enrichment = DataflowEnrichment(model=Words(), cache=False, **options)
    enrichment.enrich(View([LIST_USERS, *OTHERS]))
    again = enrichment.enrich(View(later))[1]["dataflow"]
    anew = DataflowEnrichment(model=Words(), cache=False).enrich(View(later))[1]["dataflow"]
    assert list(again.edges()) == list(anew.edges())


def test_a_warning_names_the_remedy_if_no_tool_has_an_output_schema(caplog):
    silent = [tool(f"get_{number}", {"user_id": TEXT}) for number in range(37)]
    _, found = DataflowEnrichment(model=Words(), cache=False).enrich(View(silent))
    assert found["dataflow"].edge_count == 0
    [said] = [record.getMessage() for record in caplog.records if "37 tools" in record.getMessage()]
    assert "add the enrichment output_parameters" in said
