"""What a value is, and whose."""

from itertools import compress

import pytest

from tests.insight.dataflow.builders import TEXT, USERS, WHOLE, many, record, tool
from toolyard.insight.dataflow.paths import MAX_FIELDS
from toolyard.insight.dataflow.profile import read_profile
from toolyard.model.bindings import RestBinding


def given_by(tool):
    return read_profile(tool).outputs


def owners(values, path):
    facets = dict(zip(values.paths, values.kinds, strict=True))[path].facets
    return dict(zip(facets.keys, facets.weights, strict=True))


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (tool("find", gives={"user_id": TEXT}), "user_id"),
        (tool("find", gives={"user": record(id=TEXT)}), "user.id"),
        (tool("find", gives={"users": USERS}), "users[].id"),
        (tool("find", gives={"data": record(users=USERS)}), "data.users[].id"),
        (tool("get_user", gives={"id": TEXT}), "id"),
        (tool("get_user", gives={"data": record(id=TEXT)}), "data.id"),
        (tool("x", gives={"id": {"type": "string", "description": "The unique identifier of the user."}}), "id"),
    ],
)
def test_a_user_id_is_recognised_in_every_position(given, path):
    assert owners(given_by(given), path)["id of user"] > 0.8


def test_the_meaning_of_a_parameter_follows_from_name_description_and_tool():
    taker = tool("pick", {"channel": TEXT})
    assert {"channel", "id of channel", "name of channel"} <= owners(read_profile(taker).inputs, "channel").keys()
    taker = tool("pick", {"id": {"type": "string", "description": "ID of the series type rule to list"}})
    assert "id of series type rule" in owners(read_profile(taker).inputs, "id")


def test_a_qualified_owner_also_counts_as_its_last_word_with_less_weight():
    found = owners(given_by(tool("x", gives={"service_plan_id": TEXT})), "service_plan_id")
    assert found["id of service plan"] == 1.0
    assert 0.5 < found["id of plan"] < 1.0
    assert "id of service" not in found


@pytest.mark.parametrize(
    ("given", "asked", "met"),
    [
        ("plan_id", "plan_id", True),
        ("service_plan_id", "plan_id", True),
        ("plan_id", "service_plan_id", True),
        ("app_service_plan_id", "service_plan_id", True),
        ("service_plan_id", "data_plan_id", False),
    ],
)
def test_owners_match_unless_their_qualifiers_contradict(given, asked, met):
    outputs = owners(given_by(tool("x", gives={given: TEXT})), given)
    inputs = owners(read_profile(tool("y", {asked: TEXT})).inputs, asked)
    assert bool(outputs.keys() & inputs.keys()) == met


def test_the_owner_of_an_id_follows_from_the_path_of_an_operation():
    path = "/images/{image_id}/actions/{id}"
    rest = tool("getAction", {"image_id": TEXT, "id": TEXT}, {"action": record(id=TEXT)})
    rest = rest.replace(binding=RestBinding("GET", path, "https://x"))
    profiles = read_profile(rest)
    assert "id of image action" in owners(profiles.inputs, "id")
    assert "id of image action" in owners(profiles.outputs, "action.id")
    assert "id of image" in owners(profiles.inputs, "image_id")


def test_values_that_were_not_read_are_counted():
    crowd = {f"f{number}": TEXT for number in range(MAX_FIELDS + 7)}
    assert read_profile(tool("x", gives=crowd)).unread == 7
    assert read_profile(tool("x", gives=dict(list(crowd.items())[:300]))).unread == 0


def test_counts_and_paging_values_do_not_identify_things():
    outputs = given_by(tool("x", gives={"num_providers": WHOLE, "next_cursor": TEXT, "limit": WHOLE}))
    assert outputs.paths == ["num_providers"]
    assert set(outputs.kinds[outputs.paths.index("num_providers")].facets.keys) == {
        "count of provider",
        "count of a provider",
    }


def test_required_values_are_counted_at_the_leaves():
    body = {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a"]}
    profiles = read_profile(tool("x", {"body": body, "user_id": TEXT, "page": WHOLE}))
    assert profiles.required == 3
    assert set(compress(profiles.inputs.paths, profiles.inputs.needed)) == {"body.a", "user_id"}
    assert read_profile(tool("x", gives={"users": many(TEXT)})).required == 0


def test_the_id_of_a_deleted_thing_feeds_nothing_but_other_values_may():
    outputs = given_by(tool("delete_pet", {"petId": TEXT}, gives={"pet_id": TEXT, "refund_id": TEXT}))
    assert outputs.paths == ["refund_id"]
    assert {len(column) for column in outputs} == {1}
    assert "pet_id" in given_by(tool("get_pet", {"petId": TEXT}, gives={"pet_id": TEXT})).paths
