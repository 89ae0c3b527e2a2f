"""References to files: inside the folder, never out of it, never over the network."""

import json

import pytest

from sources.rest.documents import answer, document, operation
from toolyard import RESTToolLoader

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
        ("../secret.json", "outside of the folder"),
        ("sub/../../secret.json", "outside of the folder"),
        ("..%2Fsecret.json", "outside of the folder"),
        ("/etc/hostname", "outside of the folder"),
        ("link.json", "outside of the folder"),
        ("linked/secret.json", "outside of the folder"),
        ("missing.json", "cannot be read"),
        ("sub", "cannot be read"),
        ("http://127.0.0.1:1/pet.json", "never fetched"),
        ("//127.0.0.1:1/pet.json", "never fetched"),
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
    assert why in notes(loader)
    assert loader.report.rejected == ()


def test_the_operator_may_open_a_larger_folder(folder):
    _, (tool,) = loaded(folder, answering("../secret.json"), ref_root=folder.parent)
    assert tool.output_parameters["$defs"]["secret"]["description"] == "secret"


def test_a_broken_file_is_listed_and_read_once(folder):
    (folder / "broken.json").write_text("{")
    loader, _ = loaded(folder, answering("broken.json"))
    assert "broken.json cannot be read" in notes(loader)


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
