"""What a model said, as a value: found among other words, checked, and never bent."""

import pytest
from hypothesis import given, strategies as st

from engines.lm.support import text
from toolyard.engines.lm.response import Unfit, read_result
from toolyard.model.errors import ToolFailed
from toolyard.schema.compile import compile_schema

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
    with pytest.raises(Unfit, match=why):
        read(said)


def test_half_an_answer_is_told_to_be_shorter():
    with pytest.raises(Unfit, match="make it shorter"):
        read('{"a": "x', cut=True)


@pytest.mark.parametrize("value", [{"a": []}, {"a": ""}, {"a": None}, {"a": {}}, {"a": 0}, {"a": False}])
def test_empty_values_stay(value):
    assert read(text(value), OBJECT) == value


def test_undeclared_keys_stay_where_the_schema_allows_them_and_are_refused_where_not():
    assert read('{"a": 1, "b": 2}', OBJECT) == {"a": 1, "b": 2}
    with pytest.raises(Unfit, match="unexpected property 'b'"):
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
    with pytest.raises(Unfit) as caught:
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
    except Unfit as error:
        assert str(error)


def test_an_answer_of_empty_lines_is_read_in_no_time():
    said = "```json" + "\n" * 200_000 + "x"
    try:
        read_result(said, None, frozenset())
    except Unfit as error:
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
