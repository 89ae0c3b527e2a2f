"""What a review of the OpenAPI source found, and must not come back."""

from sources.rest.documents import loader_of, tool_of

OK = {"200": {"description": "fine"}}


def document(path, *parameters):
    return {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "servers": [{"url": "https://a.example"}],
        "paths": {path: {"get": {"operationId": "x", "parameters": list(parameters), "responses": OK}}},
    }


def test_headers_that_follow_from_the_message_are_no_arguments():
    content = document("/x", {"name": "Content-Length", "in": "header", "required": True, "schema": {}})
    assert tool_of(content).parameters.get("properties", {}) == {}
    assert any("Content-Length" in rewrite.change for rewrite in loader_of(content).report.rewrites)


def test_bytes_in_a_body_that_is_one_argument_are_bytes_all_the_same():
    content = document("/up")
    file = {"type": "string", "format": "binary"}
    schema = {"type": "object", "properties": {"f": file, "n": {"type": "integer"}}, "additionalProperties": True}
    body = {"content": {"multipart/form-data": {"schema": schema, "encoding": {"f": {"contentType": "image/png"}}}}}
    content["paths"]["/up"] = {"post": {"operationId": "x", "requestBody": body, "responses": OK}}
    tool = tool_of(content)
    assert tool.binding.body.argument == "body"
    assert tool.binding.body.parts["f"].binary and tool.binding.body.parts["f"].content_type == "image/png"
    assert tool.parameters["properties"]["body"]["properties"]["f"]["contentEncoding"] == "base64"
