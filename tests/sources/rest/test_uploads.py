"""Files are sent as files wherever the schema of a multipart body has them."""

import io
from base64 import b64encode

import pytest
from hypothesis import given, strategies as st
from werkzeug.formparser import parse_form_data

from sources.rest.documents import accepts, body, document, notes_of, operation, tool_of
from toolyard.engines.rest.serialise import write_body

FILE = {"type": "string", "format": "binary"}
TEXT = {"type": "string"}
DATA = b"\x00hello"
GIVEN = b64encode(DATA).decode()


def a(**properties):
    return {"type": "object", "required": list(properties), "properties": properties}


def upload(schema, encoding=None, **schemas):
    request = body(schema, "multipart/form-data", **({"encoding": encoding} if encoding else {}))
    return document({"post": operation(requestBody=request)}, version="3.1.0", components={"schemas": schemas})


def send(tool, value):
    """What a service receives: texts and files by name."""
    arguments = value if tool.binding.body.argument is None else {tool.binding.body.argument: value}
    assert accepts(tool.parameters, arguments)
    media_type, data = write_body(tool.binding.body, arguments)
    environ = {"REQUEST_METHOD": "POST", "CONTENT_TYPE": media_type, "CONTENT_LENGTH": str(len(data))}
    _, form, files = parse_form_data(
        environ | {"wsgi.input": io.BytesIO(data)}, stream_factory=lambda **_: io.BytesIO()
    )
    return form.to_dict(flat=False), {name: [file.read() for file in found] for name, found in files.lists()}


UP = {"$ref": "#/components/schemas/Up"}


@pytest.mark.parametrize("branches", ["oneOf", "anyOf"])
@pytest.mark.parametrize("up", [UP, a(file=FILE), {"allOf": [UP, {"title": "t"}]}, {"oneOf": [UP, {"type": "null"}]}])
def test_a_file_in_a_variant_of_the_body(branches, up):
    tool = tool_of(upload({branches: [up, a(url=TEXT, size={"type": "integer"})]}, Up=a(file=FILE)))
    assert send(tool, {"file": GIVEN}) == ({}, {"file": [DATA]})
    assert not accepts(tool.parameters, {"body": {"file": "no base64!"}})


def test_a_file_that_only_its_encoding_says_is_one_in_a_variant():
    encoding = {"picture": {"contentType": "image/png"}, "data": {"contentType": "application/json"}}
    tool = tool_of(upload({"oneOf": [a(picture=TEXT), a(data=a(file=FILE))]}, encoding))
    assert send(tool, {"picture": GIVEN}) == ({}, {"picture": [DATA]})
    assert send(tool, {"data": {"file": GIVEN}}) == ({"data": [f'{{"file":"{GIVEN}"}}']}, {})


@pytest.mark.parametrize("of", [{"type": "file"}, {"type": "file", "format": "binary"}, {"type": ["file", "null"]}])
def test_a_file_may_have_the_type_that_it_had_in_swagger_2(of):
    listed = {"type": "array", "items": of}
    tool = tool_of(upload(a(doc=of, several=listed)))
    assert send(tool, {"doc": GIVEN, "several": [GIVEN, GIVEN]}) == ({}, {"doc": [DATA], "several": [DATA, DATA]})
    assert send(tool_of(upload(of)), {"file": GIVEN}) == ({}, {"file": [DATA]})


@pytest.mark.parametrize("of", [FILE, {"$ref": "#/components/schemas/File"}])
def test_a_property_that_is_one_file_or_several(of):
    tool = tool_of(upload(a(image={"anyOf": [of, {"type": "array", "items": of}]}), File=FILE))
    assert send(tool, {"image": GIVEN}) == ({}, {"image": [DATA]})
    assert send(tool, {"image": [GIVEN, GIVEN]}) == ({}, {"image": [DATA, DATA]})


def test_a_property_that_is_a_file_or_text_is_a_file_if_it_is_base64_and_that_is_listed():
    content = upload(a(image={"anyOf": [FILE, {"type": "string", "format": "uri"}]}))
    tool = tool_of(content)
    assert send(tool, {"image": GIVEN}) == ({}, {"image": [DATA]})
    assert send(tool, {"image": "https://a.example/b.png"}) == ({"image": ["https://a.example/b.png"]}, {})
    assert "'image' is a file or text: base64 is sent as a file" in notes_of(content)


def test_files_inside_objects_and_their_arrays_are_parts_with_the_way_to_them_and_that_is_listed():
    document_of = a(file=FILE, title=TEXT)
    content = upload(a(document=document_of, pages={"type": "array", "items": UP}, plain=a(x=TEXT)), Up=a(scan=FILE))
    sent = {"document": {"file": GIVEN, "title": "t"}, "pages": [{"scan": GIVEN}, {"scan": GIVEN}], "plain": {"x": "y"}}
    texts = {"document[title]": ["t"], "plain": ['{"x":"y"}']}
    files = {"document[file]": [DATA], "pages[0][scan]": [DATA], "pages[1][scan]": [DATA]}
    assert send(tool_of(content), sent) == (texts, files)
    assert "'document' holds files: it is sent as parts like document[field]" in notes_of(content)


def test_a_map_of_files():
    tool = tool_of(upload({"type": "object", "properties": {"note": TEXT}, "additionalProperties": FILE}))
    assert send(tool, {"note": "n", "a.png": GIVEN}) == ({"note": ["n"]}, {"a.png": [DATA]})


def test_a_body_that_is_nothing_but_a_file():
    assert send(tool_of(upload(FILE)), {"file": GIVEN}) == ({}, {"file": [DATA]})


def test_objects_that_hold_themselves_end():
    node = {"properties": {"file": FILE, "next": {"$ref": "#/components/schemas/Node"}}}
    tool = tool_of(upload({"oneOf": [{"$ref": "#/components/schemas/Node"}, TEXT]}, Node=node))
    assert send(tool, {"file": GIVEN}) == ({}, {"file": [DATA]})


def test_doubling_schemas_are_not_written_out():
    ref = "#/components/schemas/"
    levels = {f"L{n}": a(a={"$ref": f"{ref}L{n + 1}"}, b={"$ref": f"{ref}L{n + 1}"}) for n in range(40)}
    tool = tool_of(upload({"oneOf": [{"$ref": f"{ref}L0"}, a(file=FILE)]}, L40=a(file=FILE), **levels))
    assert send(tool, {"file": GIVEN}) == ({}, {"file": [DATA]})


def wrapped(inner):
    return st.one_of(
        st.builds(lambda one: {"anyOf": [one, {"type": "null"}]}, inner),
        st.builds(lambda one: {"allOf": [one], "description": "d"}, inner),
        st.builds(lambda one: {"oneOf": [{"type": "integer"}, one]}, inner),
    )


ONE = st.recursive(st.just(FILE), wrapped, max_leaves=3)


@given(ONE, st.recursive(ONE.map(lambda one: {"type": "array", "items": one}), wrapped, max_leaves=3))
def test_the_schema_of_a_file_or_of_several_may_be_wrapped_in_any_way(one, several):
    tool = tool_of(upload(a(one=one, several=several)))
    assert send(tool, {"one": GIVEN, "several": [GIVEN] * 2}) == ({}, {"one": [DATA], "several": [DATA] * 2})
