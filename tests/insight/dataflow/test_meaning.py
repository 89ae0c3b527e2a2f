"""Facets of values, as numbers: one for each that an input asks for."""

import numpy as np
import pytest

from tests.insight.dataflow.builders import TEXT, WHOLE, many, record, tool
from toolyard.insight.dataflow.match import build_tables
from toolyard.insight.dataflow.profile import read_profile

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
def profiles():
    return [read_profile(tool(name, VALUES, VALUES)) for name in NAMES]


def weights_by_kind(side):
    found = [{} for _ in side.kinds]
    for kind, facet, weight in zip(side.facet_kinds, side.facets, side.facet_weights, strict=True):
        found[kind][int(facet)] = weight
    return found


def named(side):
    """For each kind, the weights of its facets by their names."""
    found = [kind.facets for kind in side.kinds]
    return [dict(zip(one.keys, np.array(one.weights, np.float32), strict=True)) for one in found]


def test_tables_have_the_facets_that_inputs_have_too(profiles):
    outputs, inputs, *_ = build_tables(profiles)
    asked = dict.fromkeys(key for facets in named(inputs) for key in facets)
    numbers = {key: number for number, key in enumerate(asked)}
    for side in (inputs, outputs):
        for facets, found in zip(named(side), weights_by_kind(side), strict=True):
            assert found == {numbers[key]: weight for key, weight in facets.items() if key in numbers}
    assert len(set(outputs.facets.tolist())) > 20


def test_facets_of_outputs_that_no_input_has_are_left_out():
    giver = tool("get_weather", gives={"user_id": TEXT, "house": TEXT})
    taker = tool("get_user", {"user_id": TEXT})
    outputs, inputs, *_ = build_tables([read_profile(giver), read_profile(taker)])
    counted = dict(zip((kind.name_text for kind in outputs.kinds), weights_by_kind(outputs), strict=True))
    assert set(counted["user id"]) & set(weights_by_kind(inputs)[0])
    assert not counted["weather house"]
