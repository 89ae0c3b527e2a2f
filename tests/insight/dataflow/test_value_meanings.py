"""Facets counted out for all values at once are those of each value by itself."""

import numpy as np
import pytest

from tests.insight.dataflow.yard import TEXT, WHOLE, many, record, tool
from toolyard.insight.dataflow import match
from toolyard.insight.dataflow.names import forget
from toolyard.insight.dataflow.profile import Kind, told_of
from toolyard.insight.dataflow.tables import tables_of

VALUES = {
    "id": {**TEXT, "description": "The unique identifier of the balance account"},
    "user_id": WHOLE,
    "symbol": TEXT,
    "stock_symbol": TEXT,
    "login": TEXT,
    "uuid": TEXT,
    "status": TEXT,
    "number_of_items": WHOLE,
    "city": TEXT,
    "tag_list": many(TEXT),
    "owner": record(id=TEXT, login=TEXT, very_long_service_plan_name=TEXT),
}
NAMES = ("get_user", "create_user", "list_team_members", "get-accounts-id-limits")


@pytest.fixture
def told():
    return [told_of(tool(name, VALUES, VALUES)) for name in NAMES]


def weights_by_kind(side):
    found = [{} for _ in side.kinds]
    for kind, facet, weight in zip(side.facet_kinds, side.facets, side.facet_weights, strict=True):
        found[kind][int(facet)] = max(found[kind].get(int(facet), 0.0), weight)
    return found


def named(side):
    """For each kind, the weights of its facets by their names."""
    found = [Kind(*kind).facets for kind in side.kinds]
    return [dict(zip(one.keys, np.array(one.weights, np.float32), strict=True)) for one in found]


def test_arrays_have_the_facets_of_each_value_that_the_other_side_knows_too(told):
    tables = tables_of(told)
    sides = tables.outputs, tables.inputs
    shared = set.intersection(*({key for facets in named(side) for key in facets} for side in sides))
    keys = {}
    for side in sides:
        for facets, found in zip(named(side), weights_by_kind(side), strict=True):
            for number, weight in found.items():
                fitting = {key for key, own in facets.items() if own == weight}
                keys[number] = keys.get(number, fitting) & fitting
    assert all(keys.values()), "a number stands for one facet"
    for side in sides:
        for facets, found in zip(named(side), weights_by_kind(side), strict=True):
            wanted = sorted(own for key, own in facets.items() if key in shared)
            numbers = [number for number in found if keys[number] & shared]
            assert sorted(found[number] for number in numbers) == wanted
    assert len({number for number in keys if keys[number] & shared}) == len(shared) > 20


def test_nothing_is_counted_out_that_only_one_side_knows():
    giver = tool("get_weather", gives={"user_id": TEXT})
    taker = tool("get_user", {"user_id": TEXT, "house": TEXT})
    outputs, inputs, *_ = tables_of([told_of(giver), told_of(taker)])
    counted = dict(zip((Kind(*kind).spoken for kind in inputs.kinds), weights_by_kind(inputs), strict=True))
    assert set(counted["user id"]) & set(weights_by_kind(outputs)[0])
    assert not counted["user house"]


def test_a_facet_that_is_there_twice_counts_once_and_with_the_greater_weight(told):
    side = tables_of(told).outputs
    once = match._deduplicate_facets(side)
    assert len(once.facets) < len(side.facets)
    assert weights_by_kind(once) == weights_by_kind(side)
    assert sum(map(len, weights_by_kind(once))) == len(once.facets)


def test_what_was_remembered_makes_no_difference(told):
    forget()
    assert [told_of(tool(name, VALUES, VALUES)) for name in NAMES] == told
