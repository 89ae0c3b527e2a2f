"""Facets counted out for all values at once are those of each value by itself."""

import numpy as np
import pytest

from tests.insight.dataflow.yard import TEXT, WHOLE, many, record, tool
from toolyard.insight.dataflow import match
from toolyard.insight.dataflow.profile import forget, told_of
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


def test_arrays_have_the_facets_of_each_value(told):
    tables = tables_of(told)
    keys = {}
    for side in (tables.outputs, tables.inputs):
        for profile, found in zip(side.kinds, weights_by_kind(side), strict=True):
            facets = profile.facets
            assert sorted(found.values()) == sorted(np.array(facets.weights, np.float32))
            for number, weight in found.items():
                named = {key for key, own in zip(facets.keys, facets.weights, strict=True) if np.float32(own) == weight}
                keys[number] = keys.get(number, named) & named
    assert all(keys.values()), "a number stands for one facet"
    numbers = {key for side in told for profile in (*side.outputs, *side.inputs) for key in profile.facets.keys}
    assert len(keys) == len(numbers)


def test_a_facet_that_is_there_twice_counts_once_and_with_the_greater_weight(told):
    side = tables_of(told).outputs
    once = match._once(side)
    assert len(once.facets) < len(side.facets)
    assert weights_by_kind(once) == weights_by_kind(side)
    assert sum(map(len, weights_by_kind(once))) == len(once.facets)


def test_what_was_remembered_makes_no_difference(told):
    forget()
    assert [told_of(tool(name, VALUES, VALUES)) for name in NAMES] == told
