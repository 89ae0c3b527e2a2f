"""The enrichment: edges that make sense, options, and what is kept between runs."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from conftest import examples
from tests.insight.dataflow.builders import FLAG, NUMBER, TEXT, USERS, WHOLE, View, feeds, flow, many, record, tool
from toolyard import ToolRegistry
from toolyard.insight.dataflow import enrichment, match
from toolyard.insight.dataflow.artifact import Dataflow, pack_paths
from toolyard.insight.dataflow.enrichment import DataflowEnrichment, EdgeLimits, compute_edges
from toolyard.insight.dataflow.match import TOKENS, fit_types, token_vectors
from toolyard.insight.dataflow.meaning import FOREIGN
from toolyard.insight.dataflow.names import SORTS
from toolyard.insight.dataflow.profile import read_profile, unpack_shape
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


def naive(tools, min_score):
    """(source, target) -> score, by trying every output with every parameter."""
    profiles = [read_profile(one) for one in tools]
    found = {}
    for (i, first), (j, second) in itertools.permutations(enumerate(profiles), 2):
        apart = tools[i].namespace != tools[j].namespace
        given_values = zip(first.outputs.kinds, first.outputs.nested, strict=True)
        for (output, nested), wanted in itertools.product(given_values, second.inputs.kinds):
            if not apart and (output.role | wanted.role) & FOREIGN:
                continue
            given = dict(zip(output.facets.keys, output.facets.weights, strict=True))
            shared = zip(wanted.facets.keys, wanted.facets.weights, strict=True)
            name = max((given[key] * weight for key, weight in shared if key in given), default=0.0)
            kind = fit_types(*unpack_shape(output.shape), *unpack_shape(wanted.shape), wanted.required)[0]
            if name < match.MIN_NAME or kind <= match.MIN_TYPE:
                continue
            logit = TOKENS.base + TOKENS.name * name + TOKENS.text * _alike(output.text, wanted.text)
            logit += TOKENS.type * 3 * (kind - 1) + TOKENS.state * (output.state or wanted.state)
            logit += TOKENS.required * wanted.required
            logit += apart * (TOKENS.apart + TOKENS.scoped * wanted.facets.scoped)
            logit += TOKENS.sorted * (wanted.attribute in SORTS) + TOKENS.nested * nested
            score = 1 / (1 + math.exp(-logit))
            if score >= min_score:
                found[i, j] = max(found.get((i, j), 0.0), score)
    return found


def _alike(first, second):
    one, other = token_vectors([first, second])
    return min(max(float(one @ other), 0.0), 1.0)


def found_in(tools, min_score, neighbors=1000):
    profiles = [read_profile(one) for one in tools]
    return Dataflow(tools, compute_edges(tools, profiles, token_vectors, EdgeLimits(min_score, neighbors), tokens=True))


NAMES = st.sampled_from(["id", "user_id", "name", "status", "users", "city", "owner", "order", "price", "uuid"])
KINDS = st.sampled_from([TEXT, WHOLE, NUMBER, FLAG, many(TEXT), record(id=TEXT, city=TEXT), many(record(id=WHOLE)), {}])
TOOLS = st.builds(
    tool,
    st.sampled_from(["get_user", "create_order", "list_users", "find-orders-id-items", "cancel", "search_city"]),
    st.dictionaries(NAMES, KINDS, max_size=3),
    st.dictionaries(NAMES, KINDS, max_size=3),
    namespace=st.sampled_from(["a", "b"]),
    description=st.sampled_from(["", "Finds users.", "An order of a user"]),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(TOOLS, min_size=2, max_size=7), st.sampled_from([0.3, 0.6, 0.8]))
def test_edges_found_in_blocks_equal_edges_found_by_brute_force(tools, min_score):
    expected = naive(tools, min_score)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(match, "_BLOCK", 3)
        patch.setattr(enrichment, "_BLOCK_ROWS", 5)
        patch.setattr(enrichment, "_POOL_ROWS", 4)
        small = found_in(tools, min_score)
    whole = found_in(tools, min_score)
    for found in (small, whole):
        scores = {(i, j): score for i in range(len(tools)) for j, score in found.out_edges(i)}
        # A score on the very limit may fall on either side.
        sure = {pair for pair, score in expected.items() if score > min_score + 1e-3}
        assert sure <= scores.keys() <= {pair for pair, score in naive(tools, min_score - 1e-3).items()}
        assert all(scores[pair] == pytest.approx(expected[pair], abs=2e-3) for pair in sure)
    assert all(np.array_equal(one, other) for one, other in zip(small.arrays, whole.arrays, strict=True))


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(TOOLS, min_size=2, max_size=9), st.integers(1, 3))
def test_an_edge_is_kept_if_it_is_among_the_best_of_its_source_or_of_a_parameter(tools, neighbors):
    every = found_in(tools, 0.3)
    kept = found_in(tools, 0.3, neighbors)
    feeds = {}
    for target in range(len(tools)):
        for source, _ in every.in_edges(target):
            for feed in every.edge(source, target).feeds:
                feeds.setdefault((target, feed.parameter), []).append((-feed.score, source))
    expected = set()
    for space in ("a", "b"):
        for place in range(len(tools)):
            best = [other for other, _ in every.out_edges(place) if tools[other].namespace == space][:neighbors]
            expected |= {(place, other) for other in best}
        for (target, _), sources in feeds.items():
            best = [other for _, other in sorted(sources) if tools[other].namespace == space][:neighbors]
            expected |= {(other, target) for other in best}
    pairs = [(place, other) for place in range(len(tools)) for other, _ in kept.out_edges(place)]
    assert set(pairs) == expected
    assert kept.arrays.cut.sum() == every.edge_count - len(pairs)


def test_every_parameter_keeps_its_best_source_and_remarks_count_the_rest():
    users = [tool(f"find_user_{number}", gives={"user_id": TEXT}) for number in range(9)]
    rooms = [tool(f"find_room_{number}", gives={"room": record(id=TEXT)}) for number in range(2)]
    found = found_in([*users, *rooms, tool("book", {"user_id": TEXT, "room_id": TEXT})], 0.5, 1)
    fed = [feed.parameter for place, _ in found.in_edges(11) for feed in found.edge(place, 11).feeds]
    assert {"user_id", "room_id"} == set(fed)
    assert found.remarks() == []
    takers = [tool(f"drop_{number}", {"user_id": TEXT}) for number in range(3)]
    found = found_in([*users, *takers], 0.5, 1)
    assert sum(found.arrays.cut) == 27 - found.edge_count > 0
    assert any("n::drop_2" in remark and "max_neighbors" in remark for remark in found.remarks())


def test_an_edge_has_only_the_best_output_of_each_parameter():
    found = found_in(
        [tool("find_user", gives={"user_id": TEXT, "user": record(id=TEXT)}), tool("drop", {"user_id": TEXT})], 0.5
    )
    assert [feed.parameter for feed in found.edge(0, 1).feeds] == ["user_id"]
