"""Bodies: flattened where that loses nothing, one argument where it would."""

import json
from base64 import b64encode

import pytest
from hypothesis import given, strategies as st

from sources.rest.documents import accepts, body, document, loader_of, notes_of, operation, tool_of
from toolyard import ToolRegistry
from toolyard.engines.rest.serialise import from_base64
from toolyard.model.errors import InvalidArguments

PET = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}


def taking(request, version="3.0.3", **components):
    content = document({"post": operation(requestBody=request)}, version=version, components=components)
    return tool_of(content)


UPLOAD = taking(body({}, "image/png"))


def test_an_object_becomes_arguments():
    tool = taking(body(PET))
    assert tool.parameters["required"] == ["name"]
    assert tool.binding.body.argument is None
    assert tool.binding.body.properties == {"name": "name", "age": "age"}
    assert tool.binding.body.required


def test_what_an_optional_body_requires_is_required_only_with_a_body():
    schema = taking(body(PET, required=False)).parameters
    assert accepts(schema, {})
    assert accepts(schema, {"name": "x", "age": 1})
    assert not accepts(schema, {"age": 1})


def test_references_and_all_of_are_flattened_together():
    dog = {
        "allOf": [{"$ref": "#/components/schemas/Pet"}, {"properties": {"bark": {"$ref": "#/components/schemas/B"}}}]
    }
    tool = taking(body({"$ref": "#/components/schemas/Dog"}), schemas={"Pet": PET, "Dog": dog, "B": {"type": "number"}})
    assert set(tool.parameters["properties"]) == {"name", "age", "bark"}
    assert tool.parameters["properties"]["bark"] == {"$ref": "#/$defs/B"}
    assert set(tool.parameters["$defs"]) == {"B"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "string"},
        {"type": "object"},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"oneOf": [PET, {"type": "string"}]},
        {**PET, "nullable": True},
        {**PET, "minProperties": 1},
        {},
        True,
    ],
)
def test_what_is_more_than_its_properties_is_one_argument(schema):
    tool = taking(body(schema))
    assert tool.binding.body.argument == "body"
    assert tool.parameters["required"] == ["body"]
    assert tool.binding.locations == {"body": ("body", "")}


def test_read_only_properties_are_not_asked_for():
    schema = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "name": {"type": "string"},
            "inner": {"type": "object", "required": ["at"], "properties": {"at": {"type": "string", "readOnly": True}}},
        },
    }
    tool = taking(body({"$ref": "#/components/schemas/Thing"}), schemas={"Thing": schema})
    assert tool.parameters["required"] == ["name"]
    assert tool.parameters["properties"]["inner"] == {"type": "object", "properties": {}}
    whole = taking(body({"type": "array", "items": {"$ref": "#/components/schemas/Thing"}}), schemas={"Thing": schema})
    assert set(whole.parameters["$defs"]["Thing"]["properties"]) == {"name", "inner"}


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["text/plain", "application/xml", "application/json"], "application/json"),
        (["application/x-www-form-urlencoded", "application/vnd.api+json"], "application/vnd.api+json"),
        (["multipart/form-data", "application/x-www-form-urlencoded"], "application/x-www-form-urlencoded"),
        (["application/octet-stream", "multipart/form-data"], "multipart/form-data"),
        (["application/octet-stream", "text/csv"], "text/csv"),
        (["application/json; charset=utf-8"], "application/json; charset=utf-8"),
        (["*/*"], "application/json"),
    ],
)
def test_of_several_media_types_the_best_is_sent(offered, chosen):
    request = {"required": True, "content": {name: {"schema": PET} for name in offered}}
    assert taking(request).binding.body.media_type == chosen


def test_files_of_a_multipart_body_are_base64_text():
    schema = {
        "type": "object",
        "required": ["file"],
        "properties": {
            "file": {"type": "string", "format": "binary", "description": "The picture."},
            "more": {"type": "array", "items": {"type": "string", "format": "binary"}},
            "note": {"type": "string"},
            "meta": {"type": "object", "properties": {"a": {"type": "string"}}},
        },
    }
    encoding = {"file": {"contentType": "image/png, image/jpeg"}, "meta": {"contentType": "application/json"}}
    tool = taking(body(schema, "multipart/form-data", encoding=encoding))
    properties = tool.parameters["properties"]
    pattern = {"pattern": properties["file"].pop("pattern")}
    assert properties["file"] == {"description": "The picture.", "type": "string", "contentEncoding": "base64"}
    assert properties["more"] == {
        "type": "array",
        "items": {"type": "string", "contentEncoding": "base64", **pattern},
    }
    parts = tool.binding.body.parts
    assert (parts["file"].binary, parts["file"].content_type) == (True, "image/png")
    assert parts["more"].binary
    assert parts["meta"].content_type == "application/json"
    assert "note" not in parts


def test_forms_keep_style_and_explode():
    schema = {"type": "object", "properties": {"ids": {"type": "array", "items": {"type": "string"}}, "o": {}}}
    encoding = {"ids": {"style": "pipeDelimited"}, "o": {"style": "deepObject", "explode": True}}
    parts = taking(body(schema, "application/x-www-form-urlencoded", encoding=encoding)).binding.body.parts
    assert (parts["ids"].style, parts["ids"].explode) == ("pipeDelimited", False)
    assert (parts["o"].style, parts["o"].explode) == ("deepObject", True)


@pytest.mark.parametrize("media_type", ["application/octet-stream", "image/png", "application/pdf"])
def test_bytes_are_one_argument_of_base64(media_type):
    tool = taking(body({"type": "string", "format": "binary"}, media_type))
    assert tool.binding.body.binary
    argument = tool.parameters["properties"]["body"]
    assert (argument["contentMediaType"], argument["contentEncoding"]) == (media_type, "base64")


@given(
    text=st.text(st.sampled_from("aB9+/= \n-_é"), max_size=12) | st.binary().map(lambda data: b64encode(data).decode())
)
def test_an_argument_of_bytes_is_valid_if_and_only_if_the_engine_can_read_it(text):
    schema = UPLOAD.parameters["properties"]["body"]
    try:
        from_base64(text, "body")
    except InvalidArguments:
        assert not accepts(schema, text)
    else:
        assert accepts(schema, text)


BYTES = {"type": "string", "format": "binary"}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(
    ("schema", "encoding"),
    [
        (BYTES, {"style": "form"}),
        (BYTES, {"style": "form", "explode": True, "contentType": "image/png"}),
        ({**BYTES, "nullable": True}, {}),
        ({"type": ["string", "null"], "format": "binary"}, {}),
        ({"anyOf": [BYTES, {"type": "null"}]}, {"style": "form"}),
        ({"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/File"}]}, {}),
        ({"allOf": [{"$ref": "#/components/schemas/File"}], "description": "d"}, {}),
        ({"$ref": "#/components/schemas/File", "nullable": True}, {}),
        ({"type": "string"}, {"contentType": "application/pdf"}),
        ({}, {"contentType": "image/png, image/jpeg"}),
        ({"type": "string", "contentMediaType": "image/png"}, {}),
    ],
)
def test_a_file_is_sent_as_bytes_however_a_document_says_it_is_one(schema, encoding, version):
    for part in (
        schema,
        {"type": "array", "items": schema},
        {"anyOf": [{"type": "array", "items": schema}, {"type": "null"}]},
    ):
        whole = {"type": "object", "properties": {"file": part}}
        for schema in (whole, {**whole, "additionalProperties": True}):
            tool = taking(
                body(schema, "multipart/form-data", encoding={"file": encoding}), version, schemas={"File": BYTES}
            )
            found = tool.binding.body.parts["file"]
            assert (found.binary, found.style) == (True, None)
            properties = tool.parameters["properties"].get("body", tool.parameters)["properties"]
            assert '"contentEncoding": "base64"' in json.dumps(properties["file"])


@pytest.mark.parametrize("media_type", ["application/octet-stream", "text/plain", "application/pdf", "x/y"])
@pytest.mark.parametrize(
    "kinds", [["string", "null"], ["object", "null"], ["string", "object"], [], ["odd"], [[]], [{}], 7]
)
def test_a_body_of_several_types_is_one_argument(media_type, kinds):
    argument = taking(body({"type": kinds}, media_type), "3.1.0").parameters["properties"]["body"]
    is_data = kinds == ["object", "null"] and media_type != "text/plain"
    assert argument["type"] == (["object", "null"] if is_data else "string")


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/xml", "application/soap+xml", "application/x-ndjson"]
)
def test_text_and_xml_are_one_argument_of_text_that_says_what_belongs_into_it(media_type):
    tool = taking(body({"$ref": "#/components/schemas/Pet"}, media_type), schemas={"Pet": PET})
    assert not tool.binding.body.binary
    said = {"contentMediaType": media_type, "contentSchema": {"$ref": "#/$defs/Pet"}}
    assert tool.parameters["properties"]["body"] == {"type": "string", **said}
    assert tool.parameters["$defs"]["Pet"]["properties"].keys() == {"name", "age"}
    assert accepts(tool.parameters, {"body": "<pet name='Rex'/>"})


def test_somebodys_own_media_type_for_plain_data_is_sent_as_data():
    assert taking(body(PET, "application/vnd.mine")).binding.body.properties == {"name": "name", "age": "age"}


def test_references_to_bodies_are_followed():
    tool = taking({"$ref": "#/components/requestBodies/New"}, requestBodies={"New": body(PET)})
    assert set(tool.parameters["properties"]) == {"name", "age"}


def test_a_body_that_says_nothing_is_listed():
    content = document({"post": operation(requestBody={"description": "some"})})
    assert tool_of(content).binding.body is None
    assert "says nothing about its content" in notes_of(content)


def test_a_body_of_read_only_properties_alone_is_sent_all_the_same_and_listed():
    amount = {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer", "readOnly": True}}}
    content = document({"post": operation(requestBody=body(amount))})
    tool = tool_of(content)
    assert accepts(tool.parameters, {"amount": 5}) and not accepts(tool.parameters, {})
    assert "every property is readOnly" in notes_of(content)


def test_a_body_that_cannot_be_found_may_be_anything_and_is_listed():
    content = document({"post": operation(requestBody={"$ref": "#/components/requestBodies/Gone"})})
    assert tool_of(content).parameters["properties"] == {"body": {}}
    assert "'#/components/requestBodies/Gone' cannot be read" in notes_of(content)


def test_a_recursive_body_is_no_endless_flattening():
    node = {"allOf": [{"$ref": "#/components/schemas/Node"}], "properties": {"x": {"type": "string"}}}
    assert taking(body({"$ref": "#/components/schemas/Node"}), schemas={"Node": node}).binding.body.argument == "body"


def test_a_required_property_nobody_describes_can_still_be_sent():
    tool = taking(body({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}}}))
    assert accepts(tool.parameters, {"a": "x", "b": [1]})
    assert not accepts(tool.parameters, {"a": "x"})


def swagger(parameters, **fields):
    operations = {"post": operation(parameters=parameters, **fields)}
    return tool_of(document(operations, version="2.0", definitions={"Pet": PET}))


def test_a_swagger_body_parameter_is_the_body():
    tool = swagger([{"name": "pet", "in": "body", "required": "true", "schema": {"$ref": "#/definitions/Pet"}}])
    assert tool.binding.body.media_type == "application/json"
    assert tool.parameters["required"] == ["name"]


def test_swagger_form_parameters_are_the_body():
    form = [
        {"name": "a", "in": "formData", "type": "integer", "required": "true"},
        {"name": "b", "in": "formData", "type": "array", "items": {"type": "string"}, "collectionFormat": "multi"},
    ]
    tool = swagger(form, consumes=["application/x-www-form-urlencoded"])
    assert tool.binding.body.media_type == "application/x-www-form-urlencoded"
    assert tool.parameters["properties"]["a"] == {"type": "integer"}
    assert tool.parameters["required"] == ["a"]
    assert tool.binding.body.parts["b"].explode


def test_a_swagger_file_makes_the_form_multipart():
    tool = swagger([{"name": "f", "in": "formData", "type": "file", "required": True}])
    assert tool.binding.body.media_type == "multipart/form-data"
    assert tool.binding.body.parts["f"].binary
    assert tool.parameters["properties"]["f"]["contentEncoding"] == "base64"


@pytest.mark.parametrize(
    "more", [{"additionalProperties": True}, {"nullable": True}, {"type": ["object", "null"]}, {"minProperties": 1}]
)
@pytest.mark.parametrize("media_type", ["multipart/form-data", "application/x-www-form-urlencoded", "application/json"])
def test_what_a_body_in_one_argument_refers_to_comes_along(more, media_type):
    components = {
        "Up": {"type": "object", "properties": {"file": BYTES, "user": {"$ref": "#/components/schemas/U"}}, **more},
        "U": {"type": "object", "properties": {"id": {"$ref": "#/components/schemas/Id"}}},
        "Id": {"type": "string"},
    }
    content = document(
        {"post": operation(requestBody=body({"$ref": "#/components/schemas/Up"}, media_type)), "get": operation()},
        components={"schemas": components},
    )
    registry = ToolRegistry([item.tool for item in loader_of(content).admitted])
    assert len(registry.to_dicts()) == 2
    assert {"U", "Id"} <= set(registry.get("api::call_post_things")[0].parameters["$defs"])


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["message/imdn+xml", "message/cpim", "message/rfc822", "message/partial"], "message/rfc822"),
        (["application/zip", "application/octet-stream"], "application/octet-stream"),
        (["text/x-odd", "text/plain"], "text/plain"),
        (["multipart/mixed", "multipart/form-data"], "multipart/form-data"),
        (["application/merge-patch+json", "application/json"], "application/json"),
        (["image/png", "image/jpeg"], "image/png"),
    ],
)
def test_of_several_media_types_the_usual_one_is_sent(offered, chosen):
    media = {"schema": {"type": "object", "properties": {"raw": {"type": "string"}}}}
    assert taking({"content": dict.fromkeys(offered, media)}).binding.body.media_type == chosen
