"""Edges found block by block are those that comparing everything with everything finds."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from conftest import examples
from tests.insight.dataflow.builders import FLAG, NUMBER, TEXT, WHOLE, many, record, tool
from toolyard.insight.dataflow import edges, match
from toolyard.insight.dataflow.artifact import Dataflow
from toolyard.insight.dataflow.edges import EdgeLimits, compute_edges
from toolyard.insight.dataflow.match import TOKENS, fit_types, token_vectors
from toolyard.insight.dataflow.profile import read_profile, unpack_shape
from toolyard.insight.dataflow.sorts import SORTS


def naive(tools, min_score):
    """(source, target) -> score, by trying every output with every parameter."""
    profiles = [read_profile(one) for one in tools]
    found = {}
    for (i, first), (j, second) in itertools.permutations(enumerate(profiles), 2):
        apart = tools[i].namespace != tools[j].namespace
        given_values = zip(first.outputs.kinds, first.outputs.nested, strict=True)
        for (output, nested), wanted in itertools.product(given_values, second.inputs.kinds):
            given = dict(zip(output.facets.keys, output.facets.weights, strict=True))
            shared = zip(wanted.facets.keys, wanted.facets.weights, strict=True)
            name = max((given[key] * weight for key, weight in shared if key in given), default=0.0)
            kind = fit_types(*unpack_shape(output.shape), *unpack_shape(wanted.shape), wanted.required)[0]
            if name < match.MIN_NAME or kind <= 0.2:
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
        patch.setattr(edges, "_BLOCK_ROWS", 5)
        patch.setattr(edges, "_POOL_ROWS", 4)
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
