"""What nobody asks for is left out, and nothing else."""

from hypothesis import given, strategies as st

from tests.insight.dataflow.yard import FLAG, TEXT, WHOLE, many, record, tool
from toolyard.insight.dataflow.profile import Kind, WantedInputs, ends_of, outputs_of, told_of
from toolyard.insight.dataflow.value_meanings import add_claim, parts_of


def asked_by(*takers):
    claims = []
    for taker in takers:
        for kind in map(Kind._make, told_of(taker).inputs.kinds):
            add_claim(claims, kind.attribute, kind.own, kind.generic, kind.owners, kind.role)
    return WantedInputs(claims)


def kept(giver, *takers):
    return outputs_of(told_of(giver).given, asked_by(*takers)).paths


def facets_of(values):
    return [set(Kind._make(kind).facets.keys) for kind in values.kinds]


WORDS = ["id", "user", "name", "uuid", "login", "plan", "service", "serviceplan", "list", "text", "status", "created"]
NAMES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map("_".join)
TEXTS = st.sampled_from(["", "The id of the user", "The unique identifier of the service plan", "The plan id"])
PLAIN = st.builds(lambda kind, text: {**kind, "description": text}, st.sampled_from([TEXT, WHOLE, FLAG]), TEXTS)
KINDS = st.one_of(
    PLAIN, PLAIN.map(many), st.builds(lambda part: record(id=part, name=TEXT), PLAIN), st.just(many(record(id=TEXT)))
)
TOOLS = st.builds(
    tool,
    st.sampled_from(["get_user", "create_service_plan", "list_plans", "delete_user", "find-users-id-plans", "x"]),
    st.dictionaries(NAMES, KINDS, max_size=4),
    st.dictionaries(NAMES, KINDS, max_size=4),
)


@given(TOOLS, st.lists(TOOLS, max_size=3))
def test_all_that_shares_a_facet_with_an_input_is_kept_as_it_is(giver, takers):
    asked = asked_by(*takers)
    wanted = set().union(*(facets for taker in takers for facets in facets_of(told_of(taker).inputs)))
    every, some = outputs_of(told_of(giver).given), outputs_of(told_of(giver).given, asked)
    shared = {path for path, facets in zip(every.paths, facets_of(every), strict=True) if facets & wanted}
    assert shared <= set(some.paths)
    assert some.by_path().items() <= every.by_path().items()


@given(*[st.lists(st.sampled_from(WORDS), max_size=4).map(tuple)] * 2)
def test_owners_that_have_a_part_in_common_have_an_end_in_common(one, other):
    if set(parts_of(one)) & set(parts_of(other)):
        assert set(ends_of(one)) & set(ends_of(other))


def test_what_nobody_asks_for_is_left_out():
    giver = tool(
        "get_weather", gives={"wind_speed": WHOLE, "user_id": TEXT, "weatherStations": many(TEXT), "hat": TEXT}
    )
    taker = tool("get_user", {"user_id": TEXT, "weather_station_id": TEXT})
    assert kept(giver, taker) == ["user_id", "weatherStations"]
    assert kept(giver) == []


def test_an_id_is_left_out_where_nobody_asks_for_the_id_of_its_owner():
    giver = tool("x", gives={"cars": many(record(id=TEXT)), "users": many(record(id=TEXT))})
    assert kept(giver, tool("get_user", {"user_id": TEXT})) == ["users", "users[]", "users[].id"]


def test_a_description_may_say_whose_it_is():
    of_user = {**TEXT, "description": "The id of the user"}
    giver = tool("x", gives={"request_id": of_user, "answer_id": TEXT})
    assert kept(giver, tool("get_user", {"user_id": TEXT})) == ["request_id"]


def test_what_a_list_is_of_may_be_asked_for():
    giver = tool("x", gives={"tag_list": many(TEXT)})
    assert kept(giver, tool("get", {"tag": TEXT})) == ["tag_list"]
