"""References to files: inside the folder, never out of it, never over the network."""

import copy
import json

import pytest

from sources.rest.documents import answer, body, document, operation, parameter
from toolyard import RESTToolLoader

BYTES = {"type": "string", "format": "binary"}
PET = {"type": "object", "properties": {"name": {"type": "string"}, "owner": {"$ref": "sub/owner.yaml#/Owner"}}}


def loaded(folder, content, **options):
    (folder / "spec.json").write_text(json.dumps(content))
    loader = RESTToolLoader(folder / "spec.json", "api", **options)
    return loader, loader.load()


def notes(loader):
    return "\n".join(rewrite.change for rewrite in loader.report.rewrites)


def answering(ref):
    return document({"get": operation(responses=answer({"type": "array", "items": {"$ref": ref}}))})


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    (home / "pet.json").write_text(json.dumps(PET))
    (home / "sub" / "owner.yaml").write_text(
        "Owner:\n  type: object\n  properties:\n    pets:\n      type: array\n      items: {$ref: '../pet.json'}\n"
        "    address: {$ref: '#/Address'}\nAddress: {type: string}\n"
    )
    (tmp_path / "secret.json").write_text(json.dumps({"type": "string", "description": "secret"}))
    return home


def test_files_inside_the_folder_are_followed_also_in_circles(folder):
    loader, (tool,) = loaded(folder, answering("pet.json"))
    assert set(tool.output_parameters["$defs"]) == {"pet", "Owner", "Address"}
    assert loader.report.rewrites[0].change.startswith("the document does not say where")


@pytest.mark.parametrize(
    ("ref", "why"),
    [
        ("../secret.json", "outside of the folder references may lead to; `ref_root`"),
        ("sub/../../secret.json", "outside of the folder"),
        ("..%2Fsecret.json", "outside of the folder"),
        ("/etc/hostname", "outside of the folder"),
        ("link.json", "outside of the folder"),
        ("linked/secret.json", "outside of the folder"),
        ("missing.json", "cannot be read"),
        ("sub", "cannot be read"),
        ("http://127.0.0.1:1/pet.json", "never fetched"),
        ("//127.0.0.1:1/pet.json", "never fetched"),
        ("http://[::1/pet.json", "no valid host"),
        ("file:///etc/hostname", "never fetched"),
        ("pet.json#/nothing/here", "there is nothing at"),
        ("pet.json#anchor", "nothing is called"),
    ],
)
def test_other_references_are_open_and_listed(folder, ref, why):
    (folder / "link.json").symlink_to(folder.parent / "secret.json")
    (folder / "linked").symlink_to(folder.parent)
    loader, (tool,) = loaded(folder, answering(ref))
    assert tool.output_parameters == {"type": "array", "items": {}}
    assert why in notes(loader) and str(folder) not in notes(loader)
    assert loader.report.rejected == ()


def test_the_operator_may_open_a_larger_folder(folder):
    _, (tool,) = loaded(folder, answering("../secret.json"), ref_root=folder.parent)
    assert tool.output_parameters["$defs"]["secret"]["description"] == "secret"


def test_a_document_that_is_given_itself_refers_to_files_in_a_folder_that_is_named(folder):
    (tool,) = RESTToolLoader(answering("sub/owner.yaml#/Owner"), ref_root=folder).load()
    assert set(tool.output_parameters["$defs"]) == {"pet", "Owner", "Address"}


def test_a_broken_file_is_listed_and_read_once(folder):
    (folder / "broken.yaml").write_text("a: 1\n\tb: 2\n")
    loader, _ = loaded(folder, answering("broken.yaml"))
    assert "broken.yaml cannot be read: broken.yaml:2:1: a tab cannot indent YAML" in notes(loader)
    assert str(folder) not in loader.report.rewrites[-1].change


@pytest.mark.parametrize("content", [None, "", "7", "- [1, text]"], ids=["missing", "empty", "number", "list"])
def test_what_a_file_after_an_unusable_one_has_to_tell_is_placed_there(folder, content):
    if content is not None:
        (folder / "gone.yaml").write_text(content)
    (folder / "pets.json").write_text(json.dumps({"properties": {"owner": {"$ref": "nowhere.json"}}}))
    listed = {"type": "object", "properties": {"a": {"$ref": "gone.yaml"}, "b": {"$ref": "pets.json"}}}
    loader, tools = loaded(folder, document({"get": operation(responses=answer(listed))}))
    assert [tool.name for tool in tools] == ["call"]
    told = [rewrite.pointer for rewrite in loader.report.rewrites if "nowhere.json" in rewrite.change]
    assert told == ["pets.json#/properties/owner"]


def test_the_files_together_are_no_larger_than_the_limit(folder):
    (folder / "large.json").write_text(json.dumps({"description": "x" * 5_000}))
    loader, _ = loaded(folder, answering("large.json"), max_bytes=2_000)
    assert "large.json cannot be read" in notes(loader)


def test_paths_in_files_are_operations(folder):
    item = {"parameters": [{"$ref": "#/Page"}], "get": operation(), "post": operation(operationId="make")}
    (folder / "paths.json").write_text(
        json.dumps({"things": item, "Page": {"name": "page", "in": "query", "schema": {"type": "integer"}}})
    )
    _, tools = loaded(folder, {**document(), "paths": {"/things": {"$ref": "paths.json#/things"}}})
    assert [(tool.name, tool.binding.method) for tool in tools] == [("call", "GET"), ("make", "POST")]
    assert tools[0].parameters["properties"] == {"page": {"type": "integer"}}


def test_operations_inside_of_other_files_can_be_referred_to_through_references(folder):
    (folder / "a.json").write_text(json.dumps({"x": {"$ref": "b.json"}}))
    (folder / "b.json").write_text(json.dumps({"properties": {"y": {"type": "boolean"}}}))
    _, (tool,) = loaded(folder, answering("a.json#/x/properties/y"))
    assert tool.output_parameters["$defs"]["y"] == {"type": "boolean"}


def test_a_reference_back_to_the_document_is_the_document(folder):
    (folder / "back.json").write_text(json.dumps({"$ref": "spec.json#/components/schemas/A"}))
    content = {**answering("back.json"), "components": {"schemas": {"A": {"type": "integer"}}}}
    _, (tool,) = loaded(folder, content)
    assert tool.output_parameters["$defs"] == {"A": {"type": "integer"}}


WHOLE = document(
    {
        "parameters": [parameter("id", "path")],
        "servers": [{"url": "https://api.example"}],
        "post": operation(
            summary="Make a pet.",
            description="With a picture.",
            parameters=[
                parameter("page"),
                parameter("filter", content={"application/json": {"schema": PET}}, schema=0),
            ],
            requestBody=body(
                {
                    "properties": {"kind": {"enum": ["cat", "dog"], "description": "which"}, "file": BYTES},
                    "allOf": [{"properties": {"tag": {"type": "string", "maxLength": 3}}}],
                    "required": ["kind"],
                },
                "multipart/form-data",
                encoding={"kind": {"contentType": "text/plain"}},
            ),
            responses=answer({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}),
            security=[{"key": []}],
        ),
    },
    path="/pets/{id}",
    components={"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
)
del WHOLE["paths"]["/pets/{id}"]["post"]["parameters"][1]["schema"]
IN_BODY = ("requestBody", "content", "multipart/form-data")
IN_ANSWER = ("responses", "200", "content", "application/json")
OF_OPERATION = [
    *((), ("summary",), ("description",), ("parameters",), ("parameters", 0), ("parameters", 1, "content")),
    *(("parameters", 1, "content", "application/json"), IN_BODY[:1], IN_BODY[:2], IN_BODY, (*IN_BODY, "encoding")),
    *((*IN_BODY, "encoding", "kind"), (*IN_BODY, "schema", "properties"), (*IN_BODY, "schema", "required")),
    *((*IN_BODY, "schema", "allOf"), (*IN_BODY, "schema", "allOf", 0, "properties")),
    *((*IN_BODY, "schema", "properties", "kind", key) for key in ("enum", "description")),
    *(IN_ANSWER[:1], IN_ANSWER[:2], IN_ANSWER[:3], IN_ANSWER, (*IN_ANSWER, "schema", "properties")),
]
PLACES = [
    *(("paths",), ("paths", "/pets/{id}"), ("components",), ("components", "securitySchemes")),
    *(("components", "securitySchemes", "key"),),
    *(("paths", "/pets/{id}", key) for key in ("parameters", "servers")),
    *(("paths", "/pets/{id}", "post", *path) for path in OF_OPERATION),
]


def refer(content, place, ref):
    """The document with a reference in that place, and what stood there."""
    changed = copy.deepcopy(content)
    node = changed
    for key in place[:-1]:
        node = node[key]
    moved, node[place[-1]] = node[place[-1]], {"$ref": ref}
    return changed, moved


@pytest.mark.parametrize("place", PLACES, ids=lambda place: "/".join(map(str, place[1:])) or place[0])
@pytest.mark.parametrize("where", ["document", "file", "chain"])
def test_a_reference_stands_for_what_it_leads_to_wherever_a_document_puts_one(tmp_path, place, where):
    _, (expected,) = loaded(tmp_path, WHOLE)
    changed, moved = refer(WHOLE, place, "#/x-shared" if where == "document" else "sub/a.json#/deep/there")
    changed["x-shared"] = moved
    (tmp_path / "sub").mkdir()
    # References inside of what is moved, to a file of its own, are read by where they stand now.
    links = {f"n{step}": {"$ref": f"#/n{step + 1}"} for step in range(100 if where == "chain" else 0)}
    end = json.loads(json.dumps(moved).replace("sub/owner", "owner"))
    shared = {"deep": {"there": {"$ref": "#/n0"} if links else end}, **links, "n100": end}
    (tmp_path / "sub" / "a.json").write_text(json.dumps(shared))
    loader, (tool,) = loaded(tmp_path, changed)
    assert (tool.to_dict(), tool.binding) == (expected.to_dict(), expected.binding)
    assert not [
        rewrite for rewrite in loader.report.rewrites if "cannot be" in rewrite.change and "owner" not in rewrite.change
    ]


@pytest.mark.parametrize(
    "place",
    [place for place in PLACES if "schema" not in place and place[0] == "paths"],
    ids=lambda place: "/".join(map(str, place[1:])) or place[0],
)
def test_a_reference_in_a_circle_costs_its_operation_and_says_where(tmp_path, place):
    other = {"/other": {"get": operation(operationId="other")}}
    content = {**WHOLE, "paths": {**WHOLE["paths"], **other}}
    changed, _ = refer(content, place, "ring.json#/a")
    (tmp_path / "ring.json").write_text(json.dumps({"a": {"$ref": "#/b"}, "b": {"$ref": "ring.json#/a"}}))
    loader, tools = loaded(tmp_path, changed)
    (rejected,) = loader.report.rejected
    assert "leads back to itself" in rejected.reason
    assert rejected.where.rpartition("#")[2].startswith("/paths")
    assert [tool.name for tool in tools] == (["other"] if len(place) > 1 else [])


def test_what_stands_beside_a_reference_counts_more_and_is_read_by_its_own_file(tmp_path):
    (tmp_path / "sub").mkdir()
    shared = operation(operationId="shared", description="far", requestBody={"$ref": "#/Body"})
    (tmp_path / "sub" / "a.json").write_text(json.dumps({"op": shared, "Body": body({"properties": {"far": BYTES}})}))
    near = {"$ref": "sub/a.json#/op", "operationId": "near", "parameters": [{"$ref": "#/components/parameters/Q"}]}
    item = {"get": operation(requestBody={"$ref": "#/Body"}), "put": operation(operationId="hidden")}
    (tmp_path / "item.json").write_text(json.dumps({**item, "Body": body({"properties": {"inner": BYTES}})}))
    content = document({"$ref": "item.json", "put": near}, components={"parameters": {"Q": parameter()}})
    _, tools = loaded(tmp_path, content)
    found = {tool.name: (set(tool.parameters["properties"]), tool.description) for tool in tools}
    assert found == {"call": ({"inner"}, ""), "near": ({"far", "q"}, "far")}


def test_one_entry_of_parameters_may_refer_to_a_list_of_them(tmp_path):
    for version, key in (("3.0.3", "schema"), ("2.0", "type")):
        listed = [
            {"name": name, "in": "query", key: {"type": "string"} if key == "schema" else "string"} for name in "ab"
        ]
        content = document(
            {"get": operation(parameters=[{"$ref": "#/x-paging"}])}, version=version, **{"x-paging": listed}
        )
        _, (tool,) = loaded(tmp_path, content)
        assert set(tool.parameters["properties"]) == {"a", "b"}


@pytest.mark.parametrize("ref", ["gone.json", "../outside.json", "https://host.example/a.json", "#/nowhere", 5])
def test_an_operation_that_cannot_be_found_is_rejected_and_no_empty_tool(tmp_path, ref):
    loader, (tool,) = loaded(tmp_path, document({"get": {"$ref": ref}, "post": operation()}))
    assert tool.name == "call"
    assert [(item.where.rpartition("#")[2], "cannot be read" in item.reason) for item in loader.report.rejected] == [
        ("/paths/~1things/get", True)
    ]


def test_an_answer_that_cannot_be_found_is_listed(tmp_path):
    loader, (tool,) = loaded(tmp_path, document({"get": operation(responses={"200": {"$ref": "#/nowhere"}})}))
    assert tool.output_parameters == {}
    assert "'#/nowhere' cannot be read" in notes(loader)


def test_properties_that_refer_to_themselves_end(tmp_path):
    inner = {"properties": {"$ref": "#/components/schemas/A/properties"}}
    content = document(
        {"get": operation(responses=answer({"$ref": "#/components/schemas/A"}))},
        components={"schemas": {"A": {"properties": {"x": inner, "y": inner}}}},
    )
    loader, (tool,) = loaded(tmp_path, content)
    assert set(tool.output_parameters["properties"]) == {"x", "y"}
    assert "left open" in notes(loader)


@pytest.mark.parametrize("fragment", ["", "#", "#/"])
def test_a_file_may_be_named_whole_with_a_slash(tmp_path, fragment):
    (tmp_path / "root.yaml").write_text(json.dumps({"get": operation(operationId="root")}))
    content = {**document(), "paths": {"/": {"$ref": f"./root.yaml{fragment}"}}}
    loader, tools = loaded(tmp_path, content)
    assert [tool.name for tool in tools] == ["root"]
    assert loader.report.rejected == ()
