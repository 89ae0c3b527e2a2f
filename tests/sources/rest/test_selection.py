"""Selection: which operations become tools."""

import pytest

from sources.rest.documents import OK, document, loader_of, tools_of
from toolyard import ConfigError

PATHS = {
    "/pets": {
        "get": {"operationId": "listPets", "tags": ["pets", "read"], "responses": OK},
        "post": {"operationId": "addPet", "tags": ["pets"], "responses": OK},
    },
    "/pets/{id}": {"get": {"operationId": "getPet", "tags": ["pets"], "responses": OK}},
    "/admin/users": {"delete": {"operationId": "dropUsers", "tags": ["admin"], "responses": OK}},
}
SPEC = {**document(), "paths": PATHS}


def chosen(**options):
    return [tool.name for tool in tools_of(SPEC, **options)]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"include": {"tags": ["pets"]}}, ["listPets", "addPet", "getPet"]),
        ({"include": {"methods": "get"}}, ["listPets", "getPet"]),
        ({"include": {"paths": ["/pets/*"]}}, ["getPet"]),
        ({"include": {"operations": ["*Pet"]}}, ["addPet", "getPet"]),
        ({"include": {"tags": ["pets"], "methods": ["POST"]}}, ["addPet"]),
        ({"include": [{"operations": "addPet"}, {"tags": ["admin"]}]}, ["addPet", "dropUsers"]),
        ({"exclude": {"tags": ["admin"]}}, ["listPets", "addPet", "getPet"]),
        ({"include": {"tags": ["pets"]}, "exclude": [{"methods": ["POST"]}, {"paths": "*{id}"}]}, ["listPets"]),
    ],
)
def test_rules_choose_by_tag_path_method_and_operation(options, names):
    assert chosen(**options) == names


def test_a_pattern_that_matches_no_operation_is_warned_of(caplog):
    chosen(include=[{"tags": ["pets", "admins"]}, {"paths": "/admin/*"}], exclude={"methods": "DELET"})
    assert list(dict.fromkeys(record.getMessage().partition(": ")[2] for record in caplog.records)) == [
        "include.tags: admins matches no operation; did you mean admin?",
        "exclude.methods: DELET matches no operation; did you mean DELETE?",
    ]


def test_what_is_left_out_is_counted():
    (note,) = [r for r in loader_of(SPEC, include={"tags": ["admin"]}).report.rewrites if "left out" in r.change]
    assert note.count == 3


@pytest.mark.parametrize("rule", [{"tag": ["x"]}, [], {}, "pets", {"tags": []}, {"tags": [7]}, [["a"]]])
def test_a_rule_nobody_can_mean_is_a_config_error(rule):
    if rule == []:
        assert len(chosen(include=rule)) == 4
        return
    with pytest.raises(ConfigError):
        chosen(include=rule)
