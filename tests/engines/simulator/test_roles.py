"""What tools seem to do, from their names and paths alone."""

import pytest

from toolyard import RestBinding, Tool
from toolyard.engines.simulator.roles import fields_of, role_of
from toolyard.model.bindings import RestBody, RestParameter


def named(name, *parameters, lists=False):
    schema = {"type": "object", "properties": {parameter: {} for parameter in parameters}, "required": list(parameters)}
    role = role_of(Tool(name, "n", parameters=schema), lists=lists)
    return role.verb, role.kind, role.key


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("create_user", "name"), ("create", "n/user", None)),
        (("addUser", "name"), ("create", "n/user", None)),
        (("get_user", "user_id"), ("get", "n/user", "user_id")),
        (("getUserById", "id"), ("get", "n/user", "id")),
        (("users.list",), ("list", "n/user", None)),
        (("search_users", "query"), ("list", "n/user", None)),
        (("get_all_users",), ("list", "n/user", None)),
        (("update_user", "user_id", "name"), ("update", "n/user", "user_id")),
        (("remove-user", "userId"), ("delete", "n/user", "userId")),
        (("delete_blog_post", "post_id"), ("delete", "n/blog post", "post_id")),
        (("get_weather", "city"), ("none", "n", None)),
        (("calculate_area", "width"), ("none", "n", None)),
    ],
)
def test_names_say_what_is_done_to_what(given, expected):
    assert named(*given) == expected


def at(method, path, *arguments, lists=False):
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    parameters = tuple(RestParameter(argument=name, name=name, location="path") for name in names)
    schema = {"type": "object", "properties": {name: {} for name in (*names, *arguments)}}
    role = role_of(Tool("x", "n", parameters=schema, binding=RestBinding(method, path, "", parameters)), lists=lists)
    return role.verb, role.kind, role.key, role.scope


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("POST", "/pets"), ("create", "n/pets", None, ())),
        (("GET", "/pets/{petId}"), ("get", "n/pets", "petId", ())),
        (("PATCH", "/pets/{petId}"), ("update", "n/pets", "petId", ())),
        (("PUT", "/pets/{petId}"), ("replace", "n/pets", "petId", ())),
        (("DELETE", "/pets/{petId}"), ("delete", "n/pets", "petId", ())),
        (("POST", "/users/{user}/pets"), ("create", "n/users/{}/pets", None, ("user",))),
        (("GET", "/users/{user}/pets/{pet}"), ("get", "n/users/{}/pets", "pet", ("user",))),
        (("POST", "/pets/{petId}/archive"), ("act", "n/pets", "petId", ())),
        (("PUT", "/pet", "id"), ("replace", "n/pet", "id", ())),
        (("GET", "/settings"), ("get", "n/settings", None, ())),
        (("DELETE", "/users/all"), ("delete", "n/users", None, ())),
        (("POST", "/users/all"), ("act", "n/users", None, ())),
        (("GET", "/pets/{petId}/all"), ("get", "n/pets/{}/all", None, ("petId",))),
        (("POST", "/pages.json"), ("create", "n/pages", None, ())),
        (("POST", "/projects/{id}/merge_requests"), ("create", "n/projects/{}/merge_requests", None, ("id",))),
        (("POST", "/book-transfers"), ("create", "n/book-transfers", None, ())),
        (("POST", "/create-pets"), ("create", "n/pet", None, ())),
        (("GET", "/add_on"), ("get", "n/add_on", None, ())),
    ],
)
def test_paths_say_what_is_done_to_what(given, expected):
    assert at(*given) == expected


def test_a_path_that_gives_a_list_lists():
    assert at("GET", "/pets", lists=True) == ("list", "n/pets", None, ())
    assert at("GET", "/pet/findByStatus", lists=True) == ("list", "n/pet", None, ())
    assert at("GET", "/add_ons", lists=True) == ("list", "n/add_ons", None, ())


def test_a_path_that_ends_in_what_says_which_ones_lists():
    assert at("GET", "/buckets/{clusterId}", lists=True) == ("list", "n/buckets", None, ())
    assert at("GET", "/buckets/{bucketId}", lists=True) == ("get", "n/buckets", "bucketId", ())


def test_a_path_that_says_how_answers_are_written_is_about_the_same_things():
    for end in ("", ".json", ".xml"):
        binding = RestBinding(
            "GET", f"/pages/{{id}}{end}", "", (RestParameter(argument="id", name="id", location="path"),)
        )
        role = role_of(Tool("x", "n", binding=binding), lists=False)
        assert (role.verb, role.kind, role.noun, role.key) == ("get", "n/pages", "page", "id")


@pytest.mark.parametrize(
    ("name", "path", "verb"),
    [
        ("PostTransfersTransfer", "/v1/transfers/{transfer}", "update"),
        ("PostValueListsValueList", "/v1/value_lists/{value_list}", "update"),
        ("publishTransfer", "/v1/transfers/{transfer}", "act"),
    ],
)
def test_names_of_things_in_a_path_are_no_verbs(name, path, verb):
    key = path.rpartition("{")[2].removesuffix("}")
    binding = RestBinding(
        "POST",
        path,
        "",
        (RestParameter(argument=key, name=key, location="path"),),
        RestBody(media_type="application/json"),
    )
    assert role_of(Tool(name, "n", binding=binding), lists=False).verb == verb


def test_things_have_what_arguments_call_them_by():
    assert fields_of("petId", "pet")[:2] == ("petid", "id")
    assert fields_of("issue_number", "issue")[:2] == ("issuenumber", "number")
    assert "name" in fields_of("repo", "repo")
