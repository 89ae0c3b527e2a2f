"""Prompts: as much of the history as fits, always its end, and each tool described once."""

import pytest
from hypothesis import given, strategies as st

from engines.lm.support import FREE, WEATHER, call, text
from toolyard.engines.base import ToolEngine
from toolyard.engines.lm import Bounds, Prompts, UnusableAnswer, answer_schema, read_result, response_format
from toolyard.links.lm import likely_tokens
from toolyard.model.errors import ToolFailed
from toolyard.model.tool import Tool
from toolyard.registry import ToolRegistry
from toolyard.schema.compile import compile_schema

REGISTRY = ToolRegistry([WEATHER, FREE])


class Building(ToolEngine):
    """Repeats what it is told, and keeps what each of these would have told a model at the last call."""

    def __init__(self, *prompts):
        super().__init__(REGISTRY)
        self.prompts = prompts

    def answer(self, invocation):
        if invocation.arguments.get("text") == "now":
            self.built = [prompts.build(REGISTRY, invocation) for prompts in self.prompts]
        return {"said": invocation.arguments.get("text", "")}


def built_by(*prompts, after):
    with Building(*prompts) as engine:
        engine.setup("s")
        engine.execute("s", [*(call("note", text=said) for said in after), call("note", text="now")])
        return engine.built


@given(st.lists(st.text(max_size=40), max_size=12), st.integers(0, 1500))
def test_what_is_told_is_the_end_of_the_history_and_fits(texts, budget):
    built, whole = built_by(Prompts(max_tokens=budget), Prompts(), after=texts)
    system, *history, now = built.messages
    assert (system.role, now.role) == ("system", "user")
    assert built.told + built.dropped == len(texts)
    assert [message.role for message in history] == ["user", "assistant"] * built.told
    assert sum(likely_tokens(message.content) for message in history) <= budget
    assert [message.content for message in history[1::2]] == [
        text({"said": said}) for said in texts[len(texts) - built.told :]
    ]
    if built.dropped:
        more = whole.messages[1:-1][-2 * (built.told + 1) :]
        assert sum(likely_tokens(message.content) for message in more) > budget


def test_a_long_history_makes_the_same_prompt_again():
    prompts = Prompts()
    built, again = built_by(prompts, prompts, after=map(str, range(2_000)))
    assert len(built.messages) == 2 * 2_000 + 2
    assert again.messages == built.messages


@pytest.mark.parametrize(("said", "tokens"), [("", 4), ("a" * 40, 14), ("\u6f22" * 40, 34)])
def test_tokens_are_estimated_by_bytes(said, tokens):
    assert likely_tokens(said) == tokens


OBJECT = {"type": "object", "properties": {"a": {}}, "required": ["a"]}


def read(said, schema=None, declared=(), **options):
    return read_result(said, None if schema is None else compile_schema(schema), frozenset(declared), **options)


@pytest.mark.parametrize(
    "said",
    [
        '{"a": 1}',
        '  {"a": 1}\n',
        '```json\n{"a": 1}\n```',
        'Here you are:\n```\n{"a": 1}\n```\nAnything else?',
        'The result is {"a": 1}. Good bye {not JSON}.',
        '<think>It could be {"a": 2}.</think>{"a": 1}',
        'maybe {a} or [b then {"a": 1}',
    ],
)
def test_json_is_found_where_it_stands(said):
    assert read(said) == {"a": 1}
    assert read(said, OBJECT) == {"a": 1}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "it is empty"),
        ("It is warm.", "it is not JSON"),
        ('{"a": 1', "it is not JSON"),
        ("[1]", "it must be a JSON object, not array"),
        ('"a"', "it must be a JSON object, not string"),
        ("null", "it must be a JSON object, not null"),
        ('{"a": 1, "a": 2}', "it is not JSON"),
    ],
)
def test_what_is_no_object_is_refused_with_the_reason(said, why):
    with pytest.raises(UnusableAnswer, match=why):
        read(said)


def test_half_an_answer_is_told_to_be_shorter():
    with pytest.raises(UnusableAnswer, match="make it shorter"):
        read('{"a": "x', cut=True)


@pytest.mark.parametrize("value", [{"a": []}, {"a": ""}, {"a": None}, {"a": {}}, {"a": 0}, {"a": False}])
def test_empty_values_stay(value):
    assert read(text(value), OBJECT) == value


def test_undeclared_keys_stay_where_the_schema_allows_them_and_are_refused_where_not():
    assert read('{"a": 1, "b": 2}', OBJECT) == {"a": 1, "b": 2}
    with pytest.raises(UnusableAnswer, match="unexpected property 'b'"):
        read('{"a": 1, "b": 2}', {**OBJECT, "additionalProperties": False})


@pytest.mark.parametrize(
    ("said", "schema", "declared", "value"),
    [
        ('{"result": {"a": 1}}', OBJECT, (), {"a": 1}),
        ('{"result": {"a": 1}}', {"type": "object", "properties": {"result": {}}}, ("result",), {"result": {"a": 1}}),
        ('{"result": [1]}', {"type": "array"}, (), [1]),
        ('{"result": null}', {"type": ["string", "null"]}, (), None),
        ('{"result": 1}', {"type": "object"}, (), {"result": 1}),
        ('{"result": {"a": 1}, "b": 2}', {"type": "object"}, (), {"result": {"a": 1}, "b": 2}),
        ('{"result": {"a": 1}}', None, (), {"result": {"a": 1}}),
    ],
)
def test_an_envelope_is_taken_off_only_if_the_schema_does_not_know_it(said, schema, declared, value):
    assert read(said, schema, declared) == value


def test_violations_say_where_and_keep_the_value_to_themselves():
    with pytest.raises(UnusableAnswer) as caught:
        read('{"a": "private"}', {"type": "object", "properties": {"a": {"type": "integer"}}})
    assert "/a: must be integer, not string" in str(caught.value)
    assert "private" not in str(caught.value)
    assert [violation.pointer for violation in caught.value.violations] == ["/a"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=4), st.sampled_from(["", "Sure: ", "```json\n"]))
def test_every_object_comes_through_as_it_is(value, before):
    after = "\n```" if before.startswith("```") else ""
    assert read(f"{before}{text(value)}{after}") == value


@given(st.text(max_size=200))
def test_whatever_is_said_gives_an_object_or_a_reason(said):
    try:
        assert isinstance(read(said), dict)
    except UnusableAnswer as error:
        assert str(error)


def test_an_answer_of_empty_lines_is_read_in_no_time():
    said = "```json" + "\n" * 200_000 + "x"
    try:
        read_result(said, None, frozenset())
    except UnusableAnswer as error:
        assert "not JSON" in str(error)
    else:
        raise AssertionError("that is no result")


@pytest.mark.parametrize("schema", [None, {"type": "object"}, OBJECT, {"type": "string"}])
def test_a_failure_in_the_form_of_the_prompt_is_one_whatever_the_schema(schema):
    for said in ('{"error": "no such user"}', 'It fails: ```json\n{"error": "no such user"}\n```'):
        with pytest.raises(ToolFailed, match="^no such user$") as caught:
            read(said, schema)
        assert (caught.value.info.effect, caught.value.info.retryable) == ("none", False)


@pytest.mark.parametrize("said", ['{"error": null}', '{"error": ""}', '{"error": {"a": 1}}', '{"error": "x", "a": 1}'])
def test_what_only_speaks_of_an_error_is_a_result(said):
    assert "error" in read(said)


def test_an_error_that_the_schema_declares_is_a_result():
    schema = {"type": "object", "properties": {"error": {"type": "string"}}}
    assert read('{"error": "none so far"}', schema, declared=["error"]) == {"error": "none so far"}


BOUNDS = Bounds(50, 4)


def inside(**node):
    return answer_schema({"type": "object", "properties": {"x": node}}, BOUNDS)["properties"]["x"]


@pytest.mark.parametrize(
    ("node", "bounded"),
    [
        ({"type": "string"}, {"type": "string", "maxLength": 50}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"], "maxLength": 50}),
        ({"type": "string", "maxLength": 900}, {"type": "string", "maxLength": 900}),
        ({"type": "string", "minLength": 80}, {"type": "string", "minLength": 80, "maxLength": 80}),
        ({"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
        ({"type": "string", "pattern": "^a{99}$"}, {"type": "string", "pattern": "^a{99}$"}),
        ({"type": "array"}, {"type": "array", "maxItems": 4}),
        ({"type": "array", "minItems": 9}, {"type": "array", "minItems": 9, "maxItems": 9}),
        ({"type": "number"}, {"type": "number"}),
        ({"not": {"type": "string"}}, {"not": {"type": "string"}}),
        ({"allOf": [{"type": "array"}, {"minItems": 9}]}, {"allOf": [{"type": "array"}, {"minItems": 9}]}),
        ({"anyOf": [{"type": "string"}, True]}, {"anyOf": [{"type": "string", "maxLength": 50}, True]}),
        ({"default": {"type": "string"}}, {"default": {"type": "string"}}),
    ],
)
def test_texts_and_lists_without_an_end_get_one(node, bounded):
    assert inside(**node) == bounded


def test_definitions_are_bounded_and_the_original_is_left_alone():
    schema = {"type": "object", "$defs": {"t": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/t"}}}
    assert answer_schema(schema, BOUNDS)["$defs"] == {"t": {"type": "string", "maxLength": 50}}
    assert schema["$defs"] == {"t": {"type": "string"}}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "array", "items": {"type": "integer"}}, [1], ["a"]),
        ({"type": "string"}, "a", 1),
        ({"type": ["object", "null"]}, None, 1),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 5, "a"),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, 5, "a"),
        (
            {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#"}]}},
            [1, [2, [3]]],
            [1, ["a"]],
        ),
    ],
)
def test_what_is_no_object_travels_in_an_envelope_that_means_the_same(schema, good, bad):
    asked = answer_schema(schema, BOUNDS)
    assert asked["type"] == "object"
    compiled = compile_schema(asked)
    assert compiled.is_valid({"result": good})
    assert not compiled.is_valid({"result": bad})
    assert not compiled.is_valid(good)


def test_an_object_without_a_type_gets_one():
    assert answer_schema({"properties": {}}, BOUNDS)["type"] == "object"


def test_the_name_is_one_that_servers_take():
    tool = Tool("get weather/now \u00e4" + "x" * 80, "w", output_parameters={"type": "object"})
    name = response_format(tool, BOUNDS)["json_schema"]["name"]
    assert name.startswith("get_weather_now__x") and len(name) == 64


def test_what_is_asked_for_is_no_more_than_the_server_can():
    assert response_format(WEATHER, BOUNDS, "text") is None
    assert response_format(WEATHER, BOUNDS, "json_object") == {"type": "json_object"}
    assert response_format(FREE, BOUNDS) == {"type": "json_object"}


LEAVES = st.sampled_from([{"type": "string"}, {"type": "integer"}, {"type": "null"}, {"enum": ["a", 1]}, True])
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda node: {"type": "array", "items": node}),
        st.dictionaries(st.sampled_from("abc"), inner).map(lambda some: {"type": "object", "properties": some}),
        st.lists(inner, min_size=1, max_size=3).map(lambda some: {"anyOf": some}),
    ),
    max_leaves=8,
)
VALUES = st.recursive(
    st.sampled_from(["a", "b" * 20, 1, None]),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)


@given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), VALUES)
def test_whatever_the_bounded_schema_allows_the_schema_allows(schema, value):
    asked = compile_schema(answer_schema(schema, Bounds(10, 3)))
    real = compile_schema(schema)
    envelope = "result" in answer_schema(schema, BOUNDS).get("properties", {})
    if asked.is_valid({"result": value} if envelope else value):
        assert real.is_valid(value)
