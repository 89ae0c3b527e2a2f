import json

import pytest

from toolyard import DefinitionError, Effects, MalformedSource, ToolRegistry
from toolyard.schema.admission import admit_schema
from toolyard.schema.definition import read_definition

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def read(raw, **options):
    return read_definition(raw, **{"namespace": "ns", **options})


@pytest.mark.parametrize(
    ("raw", "changed"),
    [
        ({"name": "t", "parameters": SCHEMA}, False),
        ({"type": "function", "function": {"name": "t", "parameters": SCHEMA}}, True),
        ({"type": "function", "name": "t", "parameters": SCHEMA}, True),
        ({"name": "t", "input_schema": SCHEMA}, True),
        ({"name": "t", "inputSchema": SCHEMA}, True),
        ({"name": "t", "parametersJsonSchema": SCHEMA}, True),
        ({"name": "t", "fn_schema": SCHEMA}, True),
        ({"type": "library.tools.Tool", "data": {"name": "t", "parameters": SCHEMA}}, True),
        ({"metadata": {"name": "t", "fn_schema": SCHEMA}}, True),
    ],
)
def test_the_same_tool_in_every_dialect(raw, changed):
    tool, changes = read(raw)
    assert (tool.qualified_name, tool.parameters, tool.metadata) == ("ns::t", SCHEMA, {})
    assert bool(changes) is changed


@pytest.mark.parametrize(
    "key", ["output_parameters", "output_schema", "outputSchema", "returns", "responseJsonSchema", "return_data"]
)
def test_output_schemas_are_found_under_their_names(key):
    assert read({"name": "t", key: SCHEMA})[0].output_parameters == SCHEMA


def test_a_description_of_several_texts_is_the_one_for_models_or_in_english():
    for texts in (
        {"human": {"en_US": "no"}, "llm": "Find."},
        {"zh_Hans": "no", "en_US": "Find."},
        {"de": "no", "en": "Find."},
    ):
        assert read({"name": "t", "description": texts, "parameters": SCHEMA})[0].description == "Find."


@pytest.mark.parametrize("other", [{"title": "T", **SCHEMA}, {"id": "i", "parameters": SCHEMA}])
def test_what_serves_as_a_name_replaces_no_key_that_the_tool_is_listed_under(other):
    assert read(other, name="t")[0].name == "t"


def test_what_stands_beside_a_nested_name_stays_in_the_metadata():
    identity = {"name": "t", "author": "Ada"}
    assert read({"identity": identity, "parameters": SCHEMA})[0].metadata == {"identity": identity}


def test_text_under_returns_is_not_a_schema():
    tool, _ = read({"name": "t", "returns": "the weather"})
    assert tool.output_parameters == {}
    assert tool.metadata == {"returns": "the weather"}


def test_fields_are_read_and_everything_else_is_the_users():
    tool, _ = read(
        {"name": "t", "tags": ["x"], "version": "1", "effects": "read", "aliases": ["u"], "strict": True, "_f": 1}
    )
    assert (tool.tags, tool.version, tool.effects, tool.aliases) == (("x",), "1", Effects.READ, ("u",))
    assert tool.metadata == {"strict": True, "_f": 1}


@pytest.mark.parametrize(
    ("annotations", "effects"),
    [
        ({"readOnlyHint": True}, Effects.READ),
        ({"readOnlyHint": False}, Effects.WRITE),
        ({"destructiveHint": True}, Effects.WRITE),
        ({"title": "x"}, Effects.UNKNOWN),
        (None, Effects.UNKNOWN),
    ],
)
def test_mcp_annotations_become_effects_and_stay_in_metadata(annotations, effects):
    tool, _ = read({"name": "t", "annotations": annotations})
    assert tool.effects is effects
    assert tool.metadata["annotations"] == annotations


def test_the_entrys_own_namespace_wins_and_a_qualified_name_is_not_qualified_twice():
    assert read({"name": "t", "namespace": "own"})[0].qualified_name == "own::t"
    assert read({"name": "own::t", "namespace": "own"})[0].qualified_name == "own::t"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"description": "x"}, "needs a 'name'"),
        ({"id": "call_1", "arguments": {"city": "Oslo"}}, "needs a 'name'"),
        ({"type": "web_search_preview"}, "a tool that a provider runs"),
        ({"nmae": "t", "namespace": "n"}, "did you mean 'name' by 'nmae'?"),
        ({"tool_name": "t"}, "no definition of a tool"),
        (
            {"role": "API", "api_name": "t", "param_dict": {"a": 1}, "result": {"output": "b"}},
            "no definition of a tool",
        ),
        ({"path": "tools.yaml"}, "sources are a list, each with its type"),
        ({"name": "t", "type": "rest", "spec": "api.yaml"}, "sources are a list, each with its type"),
        ({"name": 5}, "'name' must be text, not integer"),
        ([1], "must be a mapping, not list"),
        (None, "must be a mapping, not null"),
        ({"name": "t", "description": 5}, "'description'"),
        ({"name": "t", "parameters": SCHEMA, "inputSchema": {}}, "say different things"),
        ({"name": "t", "effects": "sometimes"}, "read, write, unknown"),
    ],
)
def test_a_definition_that_cannot_be_read_says_why(raw, says):
    with pytest.raises(DefinitionError) as caught:
        read(raw)
    assert says in str(caught.value)


INPUT_NAMES = [
    "arguments", "args", "parameter", "params", "inputs", "input_parameters", "inputParameters", "input-args",
    "Parameters", "function_parameters", "arguments_schema", "inputs_schema", "tool_input", "argument_list",
]  # fmt: skip
FORMS = {
    "items": [{"name": "a", "type": "string", "desc": "x", "required": True}],
    "items with schemas": [{"name": "a", "in": "query", "required": True, "schema": {"type": "string"}}],
    "single maps": [{"a": {"type": "str"}}],
    "a map": {"a": {"type": "string"}},
    "type words": {"a": "string"},
    "names": ["a"],
    "a schema": SCHEMA,
}


@pytest.mark.parametrize("key", INPUT_NAMES)
@pytest.mark.parametrize("form", FORMS)
def test_parameters_are_found_under_any_name_and_in_any_form(key, form):
    report, tools = load({"name": "t", "description": "d", key: FORMS[form]})
    assert list(tools[0].parameters["properties"]) == ["a"]
    assert tools[0].metadata == {}
    assert f"{key!r} read as 'parameters'" in [rewrite.change for rewrite in report.rewrites]


def load(*raw, **options):
    registry = ToolRegistry.from_dicts(raw, **options)
    return registry.report, registry.all_tools()


def test_the_arguments_of_a_docker_registry_entry_keep_type_text_and_what_is_optional():
    _, tools = load(
        {
            "name": "place_order",
            "arguments": [
                {"name": "exchange", "type": "string", "desc": "Where."},
                {"name": "codes", "type": "array", "items": {"type": "string"}, "desc": "What.", "optional": True},
            ],
        }
    )
    assert tools[0].parameters == {
        "type": "object",
        "properties": {
            "exchange": {"type": "string", "description": "Where."},
            "codes": {"type": "array", "items": {"type": "string"}, "description": "What."},
        },
        "required": ["exchange"],
    }


def test_required_and_optional_parameters_in_two_lists_are_one_schema():
    _, tools = load(
        {
            "name": "stays",
            "required_parameters": [{"name": "day", "type": "DATE (YYYY-MM-DD)", "description": "d"}],
            "optional_parameters": [{"name": "kind", "type": "ENUM", "default": "CITY"}],
        }
    )
    assert tools[0].parameters["required"] == ["day"]
    assert tools[0].parameters["properties"] == {
        "day": {"type": "string", "format": "date", "description": "d"},
        "kind": {"type": "string", "default": "CITY"},
    }


@pytest.mark.parametrize("optional", [[], [{"name": "kind", "type": "STRING"}]])
def test_two_lists_that_describe_parameters_count_more_than_the_schema_of_the_result_beside_them(optional):
    entry = {"name": "stays", "required_parameters": [], "optional_parameters": optional, "schema": SCHEMA}
    tool, _ = read(entry)
    assert (tool.parameters, tool.metadata) == ([{"required": False, **item} for item in optional], {"schema": SCHEMA})
    named, _ = read({**entry, "required_parameters": ["a"], "optional_parameters": []})
    assert named.parameters == SCHEMA


def test_one_empty_list_does_not_count_more_than_a_schema():
    tool, _ = read({"name": "stays", "required_parameters": [], "schema": SCHEMA})
    assert tool.parameters == SCHEMA


def test_properties_beside_the_name_are_the_parameters():
    tool, _ = read({"name": "t", "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    assert (tool.parameters, tool.metadata) == ({**SCHEMA, "required": ["a"]}, {})


@pytest.mark.parametrize(
    "entry",
    [
        {"form": [{"name": "a", "type": "string"}]},
        {"fields": {"a": {"type": "string"}}},
        {"description": "d", "fields": {"a": {"description": "Which one.", "example": 1}}},
        {"signature": SCHEMA},
        {"description": "d", "signature": "t(a: str, b: int = 3) -> str"},
        {"arguments": "a: string"},
        {"arguments": {"a": "Paris"}},
        {
            "description": "d",
            "api_schema": {"url": "u", "query": {"type": "object", "properties": {"a": {"type": "string"}}}},
        },
        {"parameters": SCHEMA, "arguments": [{"name": "b", "type": "string"}]},
        {"parameters": {"title": "The title.", "body": "The text."}},
        {"description": "Add.\n\nArgs:\n    a: The first.\n    b: The second."},
        {"description": "Add. :param a: the first", "parameters": {"type": "object", "properties": {}}},
        {"description": "Adds.\n\n### Parameters\n- `a`: the first"},
    ],
)
def test_parameters_that_are_not_read_are_noted(entry):
    _, changes = read({"name": "t", **entry})
    assert any(
        words in change.what
        for change in changes
        for words in ("looks like parameters", "means nothing in a schema", "names some")
    )


@pytest.mark.parametrize(
    "entry",
    [
        {"fields": {"return_fields": ["id"]}, "label": ["x"], "type": "Search", "_field": "a/b"},
        {"annotations": {"title": "x", "readOnlyHint": True}, "_meta": {"a": {"b": 1}}, "icons": [{"src": "x"}]},
        {"description": "Lists what the parameters of a model are. Takes no arguments."},
        {"parameters": SCHEMA, "examples": [{"a": "x"}], "strict": True, "url": "x", "method": "GET"},
        {"parameters": SCHEMA, "signature": "t(a: str) -> str"},
        {"signature": "t() -> str", "note": "see (a, b)", "licence": "MIT (see file)"},
    ],
)
def test_what_is_no_parameter_gets_no_remark(entry):
    assert read({"name": "t", "description": "d", **entry})[1] == []


def test_a_name_with_white_space_around_it_is_trimmed_and_listed():
    report, tools = load({"name": " search\t", "parameters": SCHEMA}, {"name": "other\u00a0", "parameters": SCHEMA})
    assert [tool.name for tool in tools] == ["search", "other"]
    assert [rewrite.change for rewrite in report.rewrites] == [
        "white space around ' search\\t' removed",
        "white space around 'other\\xa0' removed",
    ]


@pytest.mark.parametrize("key", ["desc", "summary", "tool_description"])
def test_a_description_by_another_name_is_read_and_listed(key):
    tool, changes = read({"name": "t", key: "Adds.", "parameters": SCHEMA})
    assert (tool.description, tool.metadata) == ("Adds.", {})
    assert changes[0].pointer == f"/{key}"


@pytest.mark.parametrize("key", ["output", "outputs", "response", "result_schema", "outputFields"])
def test_an_output_schema_by_another_name_is_read_and_text_is_not(key):
    assert read({"name": "t", key: SCHEMA})[0].output_parameters == SCHEMA
    assert read({"name": "t", key: "a number"})[0].output_parameters == {}


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.mark.parametrize(
    "raw",
    [
        {"toolSpec": {"name": "t", "inputSchema": {"json": CITY}}},
        {"name": "t", "parameters": {"jsonSchema": CITY}},
        {"name": "t", "parameters": json.dumps(CITY)},
        {"name": "t", "run_params_schema": CITY},
        {"api_name": "t", "tool_name": "weather", "description": "d", "parameters": CITY},
        {"name": "t", "parameters": {"type": "object", "properties": CITY["properties"]}, "required": ["city"]},
        {"name": "t", "parameters": CITY["properties"], "required": ["city"]},
        {"id": "tool-1", "name": "t", "source_code": "...", "json_schema": {"name": "t", "parameters": CITY}},
        {"id": "tool-1", "tool_config": {"type": "client", "name": "t", "description": "d", "parameters": CITY}},
        {"name": "t", "description": "d", "schema": CITY},
        {"name": "t", "description": "d", "requestSchema": CITY, "responseSchema": {"type": "string"}},
        {"name": "t", "schema": json.dumps([{"property": "city", "type": "string", "required": True}])},
        {"title": "t", "description": "d", **CITY},
        {"id": "t", "desc": "d", "parameters": CITY},
        {"identity": {"name": "t", "author": "a"}, "description": {"human": {}, "llm": "d"}, "parameters": CITY},
    ],
)
def test_what_other_systems_write_around_or_beside_a_schema_costs_nothing_of_it(raw):
    tool, changes = read_definition(raw, namespace="n")
    assert tool.name == "t"
    assert admit_schema(tool.parameters).schema == CITY
    assert changes


def test_a_nested_object_with_name_and_description_is_not_the_definition():
    raw = {"author": {"name": "Ada", "description": "Writes tools."}}
    with pytest.raises(DefinitionError, match="neither 'description' nor 'parameters', but 'author'"):
        read_definition({"version": "2", **raw}, namespace="n", name="t")
    tool, _ = read_definition({"description": "Count.", **raw}, namespace="n", name="t")
    assert (tool.name, tool.metadata) == ("t", raw)


def test_a_nested_object_with_another_name_is_not_the_definition():
    part = {"name": "other", "description": "x", "parameters": CITY}
    tool, changes = read({"name": "t", "description": "d", "next": part})
    assert (tool.name, tool.parameters, tool.metadata) == ("t", {}, {"next": part})
    assert "'next' looks like parameters" in changes[0].what


def test_parameters_by_where_they_are_sent_are_all_read():
    raw = {
        "name": "t",
        "description": "d",
        "path_parameters": {"id": {"type": "string", "required": True}},
        "query_parameters": {"page": {"type": "int"}},
    }
    tool, _ = read_definition(raw, namespace="n")
    assert tool.parameters.keys() == {"id", "page"}
    assert tool.metadata == {}


def test_the_key_of_a_mapping_is_the_name_whatever_the_entry_calls_its_function():
    tool, _ = read_definition({"function_name": "impl", "parameters": CITY}, namespace="n", name="weather")
    assert (tool.name, tool.metadata) == ("weather", {"function_name": "impl"})


@pytest.mark.parametrize("inner", ["json", "schema"])
def test_a_parameter_may_have_the_name_of_a_schema_wrapper(inner):
    tool, changes = read({"name": "t", "parameters": {inner: CITY}})
    assert tool.parameters == {inner: CITY}
    assert not changes


def test_what_says_parameters_outright_wins_over_where_some_of_them_are_sent():
    places = {"path_params": {"city": {"type": "string"}}, "query_params": {"page": {"type": "int"}}}
    tool, _ = read({"name": "t", "parameters": CITY, **places})
    assert tool.parameters == CITY
    assert tool.metadata == places


def test_required_beside_a_schema_without_parameters_makes_none():
    tool, _ = read({"name": "t", "description": "d", "parameters": {"type": "object"}, "required": ["type"]})
    assert tool.parameters == {"type": "object"}


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"type": "object", "type": "object"}'])
def test_json_text_that_no_document_could_have_is_no_schema(text):
    with pytest.raises(MalformedSource, match="a schema must be an object, not string"):
        ToolRegistry.from_dicts([{"name": "t", "parameters": text}])


def test_lists_of_parameters_by_where_they_are_sent_are_read_unless_two_are_the_same():
    path, query = [{"name": "id", "type": "string"}], [{"name": "page", "type": "integer"}]
    tool, _ = read({"name": "t", "description": "d", "path_params": path, "query_params": query})
    assert tool.parameters == [*path, *query]
    for other in (path, {"id": {"type": "string"}}):
        tool, _ = read({"name": "t", "description": "d", "path_params": path, "query_params": other})
        assert (tool.parameters, tool.metadata) == (path, {"query_params": other})


def test_a_name_inside_metadata_is_not_the_name_of_the_tool():
    own = {"description": "d", "parameters": SCHEMA, "metadata": {"name": "Weather 2", "description": "x", "team": "a"}}
    tool, _ = read(own, name="get_weather")
    assert (tool.name, tool.description, tool.metadata) == ("get_weather", "d", own["metadata"])
    with pytest.raises(DefinitionError, match="needs a 'name'"):
        read({"kind": "ConfigMap", "metadata": {"name": "c", "labels": {}}, "spec": {}})


def test_parameters_as_semantic_kernel_lists_them_keep_type_default_and_whether_they_are_required():
    city = {"name": "city", "type_": "str", "is_required": True, "default_value": "Rome"}
    raw = {"name": "t", "parameters": [city, {"name": "days", "type_": "int", "isRequired": False}]}
    _, (tool,) = load(raw)
    properties = {"city": {"type": "string", "default": "Rome"}, "days": {"type": "integer"}}
    assert tool.parameters == {"type": "object", "properties": properties, "required": ["city"]}


def test_parameters_told_by_sentences_that_begin_with_a_type_keep_type_text_and_what_is_required():
    told = {"id": "[REQUIRED] string: Which one.", "size": "integer: How many.", "rows": " list (The rows.)"}
    tool, _ = read({"name": "t", "description": "d", "api_arguments": {**told, "title": "Any"}})
    assert admit_schema(tool.parameters).schema == {
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "Which one."},
            "size": {"type": "integer", "description": "How many."},
            "rows": {"type": "array", "description": "The rows."},
            "title": {},
        },
        "required": ["id"],
    }
    assert not read({"name": "t", "description": "d", "parameters": {"description": "Note: x", "type": "object"}})[1]
