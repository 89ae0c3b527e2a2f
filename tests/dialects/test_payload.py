from types import SimpleNamespace

import pytest
from pydantic import BaseModel, Field

from toolyard.dialects.payload import (
    RAW_ARGUMENTS,
    arguments_object,
    arguments_text,
    entries,
    fields,
    pick,
    read_arguments,
    read_id,
    records,
)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ('{"a": 1}', {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ("", {}),
        ("  \n", {}),
        (None, {}),
        ('{"a": 1', '{"a": 1'),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ('{"a": NaN}', '{"a": NaN}'),
        ("[1]", "[1]"),
        ("5", "5"),
        ('"{}"', '"{}"'),
        ([1, 2], "[1, 2]"),
        (True, "true"),
        ({RAW_ARGUMENTS: "{"}, "{"),
        ({RAW_ARGUMENTS: 5}, {RAW_ARGUMENTS: 5}),
    ],
)
def test_arguments_are_an_object_or_stay_the_text_they_were(given, read):
    assert read_arguments(given) == read


def test_text_travels_inside_an_object_where_it_must():
    assert read_arguments(arguments_object("{")) == "{"
    assert arguments_object({"a": 1}) == {"a": 1}
    assert arguments_text("{") == "{"
    assert read_arguments(arguments_text({"é": [1]})) == {"é": [1]}


def test_sdk_objects_are_asked_for_their_fields():
    assert fields(SimpleNamespace(model_dump=lambda: {"a": 1})) == {"a": 1}
    assert fields({"a": 1}) == {"a": 1}
    assert fields([1]) == fields(None) == {}
    assert entries((1, 2)) == [1, 2]
    assert entries("ab") == []


def test_pydantic_models_give_the_names_of_the_wire():
    class Message(BaseModel):
        tool_calls: int = Field(alias="toolCalls")

    assert fields(Message(toolCalls=1)) == {"toolCalls": 1}


def test_both_spellings_of_a_key_are_found_and_null_is_none():
    assert pick({"isError": None, "is_error": False}, "isError", "is_error") is False
    assert pick({}, "a") is None


def test_one_record_or_a_list_of_them():
    assert list(records({"a": 1})) == [{"a": 1}]
    assert list(records([{"a": 1}, {}])) == [{"a": 1}, {}]
    with pytest.raises(TypeError, match="not str"):
        list(records("text"))


def test_ids_are_text():
    assert read_id(7) == "7"
    assert read_id(None) is None
