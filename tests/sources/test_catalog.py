"""Lists of tools as other systems keep them: what is around them, and what is beside them."""

import json

import pytest

from toolyard import FileToolLoader, MalformedSource


def define(name):
    return {"name": name, "description": "d", "parameters": {"type": "object", "properties": {"city": {}}}}


A, B = define("a"), define("b")
WRAPPED = {"type": "function", "function": A}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [WRAPPED], "tool_choice": "auto"}


def of_service(name):
    return {"tool_name": name, "api_name": "find", "required_parameters": [], "method": "GET"}


def load(tmp_path, text, name="tools.json", **options):
    path = tmp_path / name
    path.write_text(text if isinstance(text, str) else json.dumps(text, indent=1))
    loader = FileToolLoader(path, **options)
    return loader, [tool.qualified_name for tool in loader.load()]


@pytest.mark.parametrize(
    ("document", "names"),
    [
        (CHAT, ["default::a"]),
        ({**CHAT, "messages": [{"role": "tool", "name": "a", "content": "x"}]}, ["default::a"]),
        ([{"query": "q", "tools": [A], "answers": [{"name": "a", "arguments": {}}]}], ["default::a"]),
        ([{"query": "q", "tools": json.dumps([A, B]), "answers": "[]"}], ["default::a", "default::b"]),
        ([{"tools": [A], "tool_calls": [{"type": "function", "function": {"name": "a"}}]}], ["default::a"]),
        ([{"tools": [A], "label": [{"name": "a", "input": {"city": "Oslo"}, "output": {}}]}], ["default::a"]),
        ([{"tools": [A], "people": [{"name": "Bo", "age": 7}], "at": [{"name": "x", "args": {}}]}], ["default::a"]),
        ([{"id": "simple_0", "question": [[]], "function": [A]}], ["default::a"]),
        ({"tool_name": "Weather", "api_list": [A, B], "pricing": "FREE"}, ["Weather::a", "Weather::b"]),
        ([{"query": "q", "api_list": [of_service("Vimeo"), of_service("a::b")]}], ["Vimeo::find", "default::find"]),
        ({"id": "x", "name": "Helper", "tools": [WRAPPED], "metadata": {}}, ["Helper::a"]),
        ([{"category": "x", "tools": [A]}, {"category": "y", "tools": [B]}], ["default::a", "default::b"]),
        ({"message": "hi", "tools": [A]}, ["default::a"]),
        ([{"custom_id": "1", "url": "/v1", "body": CHAT}], ["default::a"]),
        ({"type": "session.update", "session": {"tools": [WRAPPED]}}, ["default::a"]),
        ({"modelId": "m", "toolConfig": {"tools": [{"toolSpec": A}]}}, ["default::a"]),
        ({"group": {"functionSchema": {"functions": [A, B]}}}, ["default::a", "default::b"]),
        ({"1187": {"query": "q", "available_tools": [A], "answer": {}}}, ["default::a"]),
        ({"name": "Helper", "actions": [A]}, ["default::a"]),
        ([{"task": "t", "tool_schemas": json.dumps([A])}], ["default::a"]),
        ([{"functions": [json.dumps(A)], "messages": []}], ["default::a"]),
    ],
)
def test_tools_with_something_around_them_are_read_and_what_is_not_is_told(tmp_path, document, names):
    loader, found = load(tmp_path, document)
    assert found == names
    (warning,) = loader.report.warnings
    assert warning.kind == "incomplete"
    assert "is read here" in warning.text


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ([[A], [B]], ["default::a", "default::b"]),
        ({"git": {"tools": [A]}, "files": {"tools": [B]}}, ["git::a", "files::b"]),
        ({"servers": [{"name": "git", "tools": [A]}]}, ["git::a"]),
        ({"git": {"a": {"parameters": []}, "b": B}}, ["git::a", "git::b"]),
        ({"a": {"filter": {"type": "object", "properties": {}}, "description": "d"}}, ["default::a"]),
        ({"function": [A]}, ["function::a"]),
        ({"namespace": "video", "tools": [of_service("Vimeo")]}, ["video::find"]),
    ],
)
def test_lists_in_lists_and_groups_by_name_are_read(tmp_path, document, names):
    loader, found = load(tmp_path, document)
    assert found == names
    assert not loader.report.warnings


@pytest.mark.parametrize(
    "document",
    [
        {"tools": [A], "more": [B]},
        {"tools": [A], "namspace": "n"},
        {"tools": [A], "namespace": "n", "extra": 1},
        {"name": "package", "functions": [{"runtime": "node"}]},
        {"name": "flow", "nodes": [{"name": "get", "parameters": {"url": 1}}]},
        {"name": "two", "these": [A], "those": [B]},
        {"name": "agent", "description": "d", "$schema": "x", "instructions": "i"},
    ],
)
def test_what_may_be_meant_for_us_beside_a_list_is_refused(tmp_path, document):
    with pytest.raises(MalformedSource):
        load(tmp_path, document)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"info": {"name": "c", "schema": "v2.1.0"}, "item": [{"name": "get", "request": {}}]}, "a Postman collection"),
        ({"_type": "export", "__export_format": 4, "resources": []}, "an Insomnia export"),
        (
            {
                "kind": "discovery#restDescription",
                "discoveryVersion": "v1",
                "name": "drive",
                "resources": {"files": {}},
            },
            "a Google discovery document",
        ),
        ({"lc": 1, "type": "not_implemented", "id": ["langchain_core", "tools"]}, "an object of LangChain"),
        ({"provider": "m.FunctionTool", "component_type": "tool", "config": {"name": "w"}}, "a component of AutoGen"),
        ({"schema_version": "v1", "name_for_human": "T", "api": {"url": "u"}}, "a manifest of a plugin"),
        ({"namespace": "n", "name_for_human": "T", "functions": [A], "runtimes": []}, "a manifest of a plugin"),
        ({"manifestVersion": "1", "name": {"short": "a"}, "description": {"short": "d"}}, "a manifest of a plugin"),
        ({"applicationName": "a", "apiDependencies": {"graph": {"apiDescriptionUrl": "u"}}}, "a manifest of a plugin"),
        ({"manifest_version": "0.2", "name": "x", "server": {}, "tools": [{"name": "a"}]}, "the manifest of an MCP"),
        (
            {"name": "x", "description": "d", "version": "1", "remotes": [{"url": "u"}]},
            "the registry's entry of an MCP",
        ),
        ({"servers": [{"server": {"name": "x"}}], "metadata": {"count": 1}}, "a registry's list"),
    ],
)
def test_documents_of_other_programs_are_refused_with_the_nearest_form_that_is_read(tmp_path, document, says):
    with pytest.raises(MalformedSource, match=rf"this is {says}.*\{{type: (rest|python|mcp), "):
        load(tmp_path, document)


def test_a_list_beside_what_may_be_a_namespace_is_refused_with_the_key_it_stands_under(tmp_path):
    for document in ({"items": [A], "total": 1}, {"object": "list", "data": [{"id": "x", "tools": [A]}]}):
        with pytest.raises(MalformedSource, match=r"if the tools are those under '(items|data)', keep that key alone"):
            load(tmp_path, document)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"type": "web_search_20250305", "name": "web_search"}, "a tool that a provider runs"),
        ({"googleSearch": {}}, "'googleSearch' is a tool that a provider runs"),
        ({"system": 'Functions: [{"name": "a", "parameters": {}}]', "chat": "hi"}, "the text of 'system' are not read"),
        (
            {"name": "x", "description": "d", "version_detail": {}, "packages": []},
            "the registry's entry of an MCP server",
        ),
        ({"type": "custom", "name": "sql", "description": "d", "format": {"type": "grammar"}}, "takes text"),
    ],
)
def test_an_entry_that_no_tool_can_be_made_of_costs_no_other_and_says_what_it_is(tmp_path, entry, says):
    loader, found = load(tmp_path, [A, entry], on_error="skip")
    assert found == ["default::a"]
    assert says in loader.report.rejected[0].reason


def test_a_tool_with_parameters_and_the_keys_of_a_servers_entry_is_a_tool(tmp_path):
    entry = {"name": "x", "description": "d", "version": "1", "packages": [], "parameters": {"type": "object"}}
    assert load(tmp_path, [A, entry])[1] == ["default::a", "default::x"]


def test_keys_for_extensions_may_hold_what_yaml_repeats(tmp_path):
    text = "x-city: &city {type: string}\nnamespace: n\ntools:\n- {name: a, parameters: {city: *city, town: *city}}\n"
    loader, found = load(tmp_path, text, "tools.yaml")
    assert found == ["n::a"]
    assert "not x-city" in str(loader.report.warnings[0])


def test_a_broken_line_is_told_with_its_own_column(tmp_path):
    loader, _ = load(tmp_path, f"{json.dumps(A)}\n{{bad\n", "rows.jsonl", on_error="skip")
    assert "rows.jsonl:2:2: " in loader.report.rejected[0].reason


@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl"])
def test_a_row_with_two_lists_of_definitions_is_rejected_with_that_reason_and_the_others_load(tmp_path, name):
    rows = [{"tools": [A], "query": "q"}, {"tools": [B], "similar": [define("c")]}]
    text = json.dumps(rows) if name == "rows.json" else "\n".join(map(json.dumps, rows))
    loader, found = load(tmp_path, text, name, on_error="skip")
    assert found == ["default::a"]
    [rejected] = loader.report.rejected
    assert rejected.reason.startswith("key 'similar' beside 'tools' means nothing")


def test_what_stands_beside_the_tools_of_every_row_is_told_once(tmp_path):
    rows = [{"query": "q", "tools": [define(f"t{index}")]} for index in range(50)]
    loader, found = load(tmp_path, "\n".join(map(json.dumps, rows)), "rows.jsonl")
    assert len(found) == 50
    assert len(loader.report.warnings) == 1


def test_json_lines_in_a_file_that_is_called_json_are_read_as_such(tmp_path):
    loader, found = load(tmp_path, f"{json.dumps(A)}\n{json.dumps(B)}\n{{\n", on_error="skip")
    assert found == ["default::a", "default::b"]
    assert loader.report.rejected[0].where.endswith("tools.json:3")


def test_keys_that_are_not_text_are_told_of_too(tmp_path):
    loader, found = load(tmp_path, "tools: [{name: a, parameters: {}}]\n1: x\nb: y\n", "tools.yaml")
    assert found == ["default::a"]
    assert "1, b" in loader.report.warnings[0].text


@pytest.mark.parametrize(
    "document",
    [
        {"t": {"parameters": {"args": {"x": {"type": "string"}}}}},
        {"t": {"description": "d", "tools": ["search", "read"]}},
        {"t": {"description": "d", "functions": []}},
    ],
)
def test_a_definition_that_looks_like_a_group_stays_one_tool(tmp_path, document):
    assert load(tmp_path, document)[1] == ["default::t"]


def test_a_definition_that_says_two_things_costs_no_other(tmp_path):
    odd = {"parameters": {"a": {"type": "string"}}, "input_schema": {"b": {"type": "string"}}}
    for document in ({"odd": odd, "a": A}, [{"name": "odd", "tools": [B], **odd}, A]):
        loader, found = load(tmp_path, document, on_error="skip")
        assert found == ["default::a"]
        assert [rejection.tool for rejection in loader.report.rejected] == ["odd"]


@pytest.mark.parametrize(
    "document",
    [
        {"/pets": {"get": {"description": "d", "parameters": [], "responses": {}}}},
        {"on": {"workflow_dispatch": {"inputs": {"version": {"type": "string", "required": True}}}}},
    ],
)
def test_parts_of_other_documents_are_no_groups_of_tools(tmp_path, document):
    with pytest.raises(MalformedSource, match="no definition of a tool"):
        load(tmp_path, document)
