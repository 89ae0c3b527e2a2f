import json

import pytest

from toolyard import (
    ConfigError,
    FileToolLoader,
    InlineToolLoader,
    MalformedSource,
    SourceUnavailable,
    ToolRegistry,
    get_tool_loader,
)

WEATHER = {
    "name": "get_weather",
    "description": "d",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
SHAPE_1 = {"weather_api": [WEATHER]}
SHAPE_2 = [WEATHER]
SHAPE_3 = {"get_weather": WEATHER}
CONTAINER = {"namespace": "weather_api", "tools": [WEATHER]}


@pytest.fixture(params=["json", "yaml"])
def write(request, tmp_path):
    import yaml

    def write(document, name="tools"):
        path = tmp_path / f"{name}.{request.param}"
        path.write_text(
            json.dumps(document, indent=1) if request.param == "json" else yaml.safe_dump(document, sort_keys=False)
        )
        return path

    return write


@pytest.mark.parametrize(
    ("document", "namespace", "names"),
    [
        (SHAPE_1, None, ["weather_api::get_weather"]),
        (SHAPE_2, None, ["default::get_weather"]),
        (SHAPE_3, None, ["default::get_weather"]),
        (CONTAINER, None, ["weather_api::get_weather"]),
        ({"tools": [WEATHER]}, None, ["default::get_weather"]),
        (WEATHER, None, ["default::get_weather"]),
        (SHAPE_1, "mine", ["mine::get_weather"]),
        (SHAPE_2, "mine", ["mine::get_weather"]),
        (SHAPE_3, "mine", ["mine::get_weather"]),
        (CONTAINER, "mine", ["mine::get_weather"]),
        ({"a": [WEATHER], "b": [WEATHER]}, None, ["a::get_weather", "b::get_weather"]),
        ([{**WEATHER, "namespace": "own"}], "mine", ["own::get_weather"]),
        ({"a": [{**WEATHER, "namespace": "own"}, {**WEATHER, "name": "x"}]}, None, ["own::get_weather", "a::x"]),
        ({"key_name": {"parameters": {}}}, None, ["default::key_name"]),
        ([], None, []),
    ],
)
def test_every_shape_and_the_namespace_precedence(write, document, namespace, names):
    loader = FileToolLoader(write(document), namespace=namespace)
    assert [t.qualified_name for t in loader.load()] == names
    assert loader.report.loaded == len(names)


def test_a_name_that_differs_from_its_key_is_kept_and_listed(write):
    registry = ToolRegistry.from_file(write({"other": WEATHER}))
    assert registry.tool_names() == ["get_weather"]
    assert "listed under 'other'" in registry.report.rewrites[0].change


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"a": [WEATHER], "b": 3}, "'b' holds integer"),
        ({"a": [WEATHER], "b": WEATHER}, "not both"),
        (3, "holds integer"),
        ("text", "holds text"),
        (None, "is empty"),
        ({"namespace": 3, "tools": [WEATHER]}, "'namespace' must be text"),
        ({"namespace": "a", "tools": [WEATHER], "extras": []}, "'extras'"),
    ],
)
def test_another_shape_is_refused_by_name(write, document, says):
    path = write(document)
    with pytest.raises(MalformedSource) as caught:
        FileToolLoader(path).load()
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_bad_entry_raises_with_file_line_and_tool(write):
    path = write([WEATHER, {"name": "broken", "parameters": {"type": "strng"}}])
    with pytest.raises(MalformedSource) as caught:
        FileToolLoader(path).load()
    lines = path.read_text().splitlines()
    number = int(caught.value.where.rpartition(":")[2])
    assert caught.value.where.startswith(str(path))
    assert "broken" in "".join(lines[number - 1 : number + 2])
    assert "broken" in str(caught.value)
    assert "strng" in str(caught.value)


def test_with_skip_the_bad_entries_are_listed_and_the_rest_load(write):
    document = [
        WEATHER,
        {"name": "a::b"},
        {"description": "no name"},
        7,
        {"name": "bad", "parameters": {"type": "strng"}},
    ]
    loader = FileToolLoader(write(document), on_error="skip")
    assert [t.name for t in loader.load()] == ["get_weather"]
    assert [r.error for r in loader.report.rejected] == [
        "InvalidNameError",
        "DefinitionError",
        "DefinitionError",
        "InvalidSchemaError",
    ]
    assert loader.report.entries == len(document)
    assert all(":" in r.where for r in loader.report.rejected)


def test_json_lines_are_read_line_by_line_and_one_broken_line_spoils_no_other(tmp_path):
    path = tmp_path / "tools.jsonl"
    path.write_text("\n".join([json.dumps(WEATHER), "", '{"name": ', json.dumps({**WEATHER, "name": "x"})]))
    loader = FileToolLoader(path, namespace="n", on_error="skip")
    assert [t.qualified_name for t in loader.load()] == ["n::get_weather", "n::x"]
    assert loader.report.rejected[0].where == f"{path}:3"
    with pytest.raises(MalformedSource, match="tools.jsonl:3"):
        FileToolLoader(path).load()


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.yaml", BOMB, "alias"),
        ("a.yaml", "a: 1\nb: 2\na: 3\n", "a.yaml:3:1: key 'a' appears twice"),
        ("a.json", '{"a": 1,\n "a": 2}', "a.json:2:2: key 'a' appears twice"),
        ("a.json", '[{"name": "x"', "a.json:1"),
        ("a.json", '[{"name": "x", "parameters": {"minimum": NaN}}]', "a.json:1"),
        ("a.json", "[" * 100_000, "a.json"),
        ("a.yaml", "- " * 20_000, "a.yaml"),
        ("a.yaml", "a: [1, 2\nb: }", "a.yaml:"),
        ("a.yaml", "a: !!python/object/apply:os.system [echo]", "tag"),
        ("a.yaml", "a: .nan", "a.yaml:1"),
        ("a.json", b"\xff\xfe", "a.json"),
    ],
)
def test_hostile_and_broken_files_get_a_clear_error_with_their_place(tmp_path, name, text, says):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(MalformedSource) as caught:
        ToolRegistry.from_file(path)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_3000_deep_schema_is_refused_in_both_formats(tmp_path):
    deep = '{"items":' * 3_000 + "{}" + "}" * 3_000
    path = tmp_path / "deep.json"
    path.write_text(f'[{{"name": "x", "parameters": {{"type": "object", "properties": {{"a": {deep}}}}}}}]')
    with pytest.raises(MalformedSource, match="deep"):
        ToolRegistry.from_file(path)


def test_an_integer_of_400_digits_is_kept_exactly(tmp_path):
    path = tmp_path / "big.json"
    big = int("9" * 400)
    path.write_text(
        f'[{{"name": "x", "parameters": {{"type": "object", "properties": {{"a": {{"maximum": {big}}}}}}}}}]'
    )
    registry = ToolRegistry.from_file(path)
    assert registry.get("default::x")[0].parameters["properties"]["a"]["maximum"] == big


@pytest.mark.parametrize("name", ["tools.txt", "tools", "tools.toml"])
def test_an_unknown_format_is_a_config_error_that_lists_the_known_ones(tmp_path, name):
    with pytest.raises(ConfigError, match=r"\.yaml, \.yml, \.json or \.jsonl"):
        FileToolLoader(tmp_path / name)


def test_a_directory_and_a_file_over_the_limit_are_refused(tmp_path):
    (tmp_path / "dir.json").mkdir()
    with pytest.raises((MalformedSource, SourceUnavailable), match=r"dir\.json"):
        FileToolLoader(tmp_path / "dir.json").load()
    with pytest.raises(MalformedSource, match="this is a directory; name a file"):
        FileToolLoader(tmp_path).load()
    path = tmp_path / "large.json"
    path.write_text("[" + " " * 2_000 + "]")
    with pytest.raises(MalformedSource, match="1,000 bytes"):
        FileToolLoader(path, max_bytes=1_000).load()


def test_edits_are_seen_by_refresh_and_a_broken_edit_keeps_the_last_good_tools(tmp_path):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps([WEATHER]))
    registry = ToolRegistry.from_file(path)
    path.write_text(json.dumps([WEATHER, {**WEATHER, "name": "new"}]))
    assert registry.refresh().ok
    assert registry.tool_names() == ["get_weather", "new"]
    path.write_text("[{")
    report = registry.refresh()
    assert report.sources[0].state == "stale"
    assert registry.tool_names() == ["get_weather", "new"]


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({"namespace": "n", "get_weather": WEATHER}, ["n::get_weather"]),
        ({"namespace": "n", "a": [WEATHER]}, ["a::get_weather"]),
        ({"functions": [WEATHER]}, ["default::get_weather"]),
        ({"functionDeclarations": [WEATHER], "namespace": "n"}, ["n::get_weather"]),
        ({"tools": {"get_weather": WEATHER}}, ["default::get_weather"]),
        ({"tools": {"description": "d", "parameters": {"type": "object"}}}, ["default::tools"]),
    ],
)
def test_namespaces_beside_other_shapes_and_other_systems_lists(write, document, names):
    assert [t.qualified_name for t in FileToolLoader(write(document)).load()] == names


@pytest.mark.parametrize(
    "field",
    [{"tags": 5}, {"tags": True}, {"aliases": 5}, {"metadata": 5}, {"metadata": [["a", 1]]}, {"tags": {"k": 1}}],
)
def test_a_field_of_the_wrong_type_is_one_bad_entry(write, field):
    loader = FileToolLoader(write([{"name": "bad", **field}, WEATHER]), on_error="skip")
    assert [t.name for t in loader.load()] == ["get_weather"]
    assert loader.report.rejected[0].tool == "bad"


def test_a_thousand_bad_entries_are_listed_without_reading_the_file_a_thousand_times(write):
    loader = FileToolLoader(write([{"name": "a::b"}] * 300), on_error="skip")
    assert loader.load() == []
    wheres = [r.where for r in loader.report.rejected]
    assert len(wheres) == 300
    assert wheres[-1].endswith("#/299")


def with_name(name):
    return {**WEATHER, "name": name}


GEMINI = {
    "name": "g",
    "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
    "response": {"type": "OBJECT", "properties": {"sky": {"type": "STRING"}}},
}


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({"jsonrpc": "2.0", "id": 1, "result": {"tools": [with_name("a")], "_meta": {}}}, ["a"]),
        ({"result": {"tools": [with_name("a")]}}, ["a"]),
        (
            [
                {"jsonrpc": "2.0", "id": 1, "result": {"tools": [with_name("a")], "nextCursor": "2"}},
                {"jsonrpc": "2.0", "id": 2, "result": {"tools": [with_name("b")]}},
            ],
            ["a", "b"],
        ),
        ([{"tools": [with_name("a")]}, {"tools": [with_name("b")]}], ["a", "b"]),
        ({"function_declarations": [GEMINI]}, ["g"]),
        ([{"functionDeclarations": [GEMINI]}, {"function_declarations": [with_name("a")]}], ["g", "a"]),
        ({"tools": [{"functionDeclarations": [GEMINI]}]}, ["g"]),
        ({"result": {"description": "a tool of that name", "parameters": {}}}, ["result"]),
    ],
)
def test_lists_of_other_systems_are_read_with_what_is_around_them(write, document, names):
    tools = FileToolLoader(write(document)).load()
    assert [tool.name for tool in tools] == names
    assert all(tool.parameters["properties"]["city"] == {"type": "string"} for tool in tools if tool.name != "result")
    assert all(tool.output_parameters["properties"] for tool in tools if tool.name == "g")


def test_a_page_of_tools_may_be_one_line_among_others(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(f"{json.dumps({'result': {'tools': [with_name('a')]}})}\n{json.dumps(with_name('b'))}\n")
    assert [tool.name for tool in FileToolLoader(path).load()] == ["a", "b"]


PAGE = {"tools": [with_name("a")], "nextCursor": "2"}
LAST = {"tools": [with_name("b")]}


@pytest.mark.parametrize(
    ("pages", "early"),
    [
        ([PAGE], True),
        ([{"jsonrpc": "2.0", "id": 1, "result": PAGE}], True),
        ([LAST, PAGE], True),
        ([PAGE, LAST], False),
        ([LAST], False),
        ([{**PAGE, "nextCursor": None}], False),
        ([{**PAGE, "nextCursor": ""}], False),
    ],
)
def test_a_saved_page_after_which_there_was_another_is_noted(tmp_path, pages, early):
    whole, lines = tmp_path / "t.json", tmp_path / "t.jsonl"
    whole.write_text(json.dumps(pages if len(pages) > 1 else pages[0]))
    lines.write_text("".join(json.dumps(page) + "\n" for page in pages))
    for path in (whole, lines):
        registry = ToolRegistry.from_file(path)
        assert len(registry) == len(pages)
        found = [(item.tool, item.kind) for item in registry.report.warnings]
        assert found == ([(str(path), "incomplete")] if early else [])


def test_one_page_that_lists_nothing_costs_no_other(write):
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "no"}}
    loader = FileToolLoader(write([error, {"tools": [with_name("a")]}]), on_error="skip")
    assert [tool.name for tool in loader.load()] == ["a"]
    assert len(loader.report.rejected) == 1
    with pytest.raises(MalformedSource, match="without a list of tools"):
        FileToolLoader(write(error)).load()


@pytest.mark.parametrize("name", ["tools.csv", "tools.TSV", "tools.md", "tools.xlsx"])
def test_a_file_of_a_tables_kind_is_refused_with_the_nearest_form(tmp_path, name):
    with pytest.raises(ConfigError, match=r"this is a table.*JSON lines instead.*\"parameters\""):
        FileToolLoader(tmp_path / name)


@pytest.mark.parametrize("name", ["t.json", "t.yaml", "t.jsonl"])
@pytest.mark.parametrize(
    "text",
    [
        "name,description,parameters\nadd,Adds.,a b\n",
        '"Tool Name";"Description"\n"add";"Adds."\n',
        "name\tdescription\nadd\tAdds.\n",
        "| Name | Description |\n|---|---|\n| add | Adds. |\n",
    ],
)
def test_a_table_under_another_name_is_refused_as_one(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(MalformedSource, match="this is a table"):
        FileToolLoader(tmp_path / name, on_error="skip").load()


def test_rows_in_json_are_a_table_too(write):
    with pytest.raises(MalformedSource, match=r"this is a table.*\"name\": ..., \"about\": ..."):
        FileToolLoader(write([["name", "about"], ["add", "Adds."]])).load()


HUGE = 3 << 20


@pytest.mark.parametrize(
    "schema",
    [
        {"default": "x" * HUGE},
        {"enum": ["x" * HUGE]},
        {"enum": ["x" * 1000] * (HUGE // 1000)},
        {"default": [1] * (HUGE // 3)},
        {"description": "x" * HUGE},
        {"type": "object", "properties": {"x" * HUGE: {}}},
    ],
    ids=["default", "enum", "enum of many", "list", "description", "name"],
)
def test_a_schema_with_a_huge_value_costs_its_entry_alone(tmp_path, schema):
    path = tmp_path / "t.json"
    bad = {**WEATHER, "name": "bad", "parameters": {"type": "object", "properties": {"a": schema}}}
    path.write_text(json.dumps([bad, {**WEATHER, "name": "worse", "description": "x" * HUGE}, WEATHER]))
    loader = FileToolLoader(path, on_error="skip")
    assert [tool.name for tool in loader.load()] == ["get_weather"]
    assert "bytes" in loader.report.rejected[0].reason or "enum" in loader.report.rejected[0].reason
    assert "characters" in loader.report.rejected[1].reason


def test_the_limit_of_a_file_names_its_option(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps([WEATHER]))
    with pytest.raises(MalformedSource, match="raise max_bytes"):
        FileToolLoader(path, max_bytes=10).load()
    with path.open("r+b") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(MalformedSource, match="67,108,864 bytes"):
        FileToolLoader(path).load()


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.yaml", "- name: x\n- name: y\n\n- name: x\n", 4),
        ("a#b.yaml", "tools:\n- name: x\n- name: x\n", 3),
        ("a.json", '[{"name": "x"},\n\n {"name": "x"}]', 3),
        ("a.jsonl", '{"name": "x"}\n{"name": "y"}\n{"name": "x"}\n', 3),
    ],
)
def test_a_duplicate_that_is_left_out_is_listed_with_its_line(tmp_path, name, text, line):
    path = tmp_path / name
    path.write_text(text)
    with ToolRegistry.from_loaders([FileToolLoader(path, namespace="n", on_duplicate="skip")]) as registry:
        [rejected] = registry.report.rejected
        assert (rejected.where, rejected.error, rejected.tool) == (f"{path}:{line}", "DuplicateToolError", "n::x")


def test_a_duplicate_of_a_file_that_is_gone_meanwhile_keeps_its_pointer(tmp_path):
    class Vanishing(FileToolLoader):
        def load(self):
            tools = super().load()
            self.path.unlink()
            return tools

    path = tmp_path / "a.yaml"
    path.write_text("- name: x\n- name: x\n")
    with ToolRegistry.from_loaders([Vanishing(path, namespace="n", on_duplicate="skip")]) as registry:
        assert [rejected.where for rejected in registry.report.rejected] == [f"{path}#/1"]


def test_of_many_duplicates_the_first_have_lines(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("- name: x\n" * 100)
    with ToolRegistry.from_loaders([FileToolLoader(path, namespace="n", on_duplicate="skip")]) as registry:
        places = [rejected.where for rejected in registry.report.rejected]
    assert places[:50] == [f"{path}:{line}" for line in range(2, 52)]
    assert places[50:] == [f"{path}#/{index}" for index in range(51, 100)]


def test_a_list_and_a_mapping_of_definitions_load():
    listed = InlineToolLoader([{"name": "a"}, {"name": "b", "namespace": "own"}], namespace="ns").load()
    assert [t.qualified_name for t in listed] == ["ns::a", "own::b"]
    mapped = get_tool_loader("inline", tools={"a": {"description": "d"}}).load()
    assert [(t.qualified_name, t.description) for t in mapped] == [("default::a", "d")]


def test_a_bad_entry_is_named_by_its_position():
    with pytest.raises(MalformedSource, match=r"inline#/1"):
        InlineToolLoader([{"name": "a"}, {"nam": "b"}]).load()
    loader = InlineToolLoader([{"name": "a"}, {"nam": "b"}], on_error="skip")
    assert len(loader.load()) == 1
    assert loader.report.rejected[0].where == "inline#/1"


@pytest.mark.parametrize("tools", ["text", 3, None])
def test_what_is_no_list_is_refused(tools):
    with pytest.raises(MalformedSource, match="list or a mapping"):
        InlineToolLoader(tools).load()
