"""Text: JSON or YAML, as strict as possible and as forgiving as safe."""

import json

import pytest

from sources.rest.documents import document, loader_of, notes_of, tool_of
from toolyard import MalformedSource
from toolyard.sources.rest.document import read_text

HEAD = "openapi: 3.0.0\ninfo: {title: t, version: 1.0}\n"
GET = "    get:\n      operationId: call\n      responses:\n        200: {description: fine}\n"


def test_yaml_is_recognised_whatever_the_file_is_called():
    assert tool_of(f"{HEAD}paths:\n  /a:\n{GET}", name="spec.txt").name == "call"
    assert tool_of(json.dumps(document()), name="spec.yaml").name == "call"


@pytest.mark.parametrize(
    "value", ["2001-99-99 25:61:61", "2020-01-01", "=", "yes", "on", "1e3", "0x1F", "010", "~", "1_000", "!!str 5"]
)
def test_scalars_that_trip_other_readers_do_no_harm(value):
    text = f"{HEAD}paths:\n  /a:\n{GET}      x-when: {value}\n      description: a\n"
    assert tool_of(text, name="spec.yaml").description == "a"


def test_status_codes_without_quotes_are_read():
    text = (
        f"{HEAD}paths:\n  /a:\n    get:\n      responses:\n        200:\n          content:\n"
        "            application/json:\n              schema: {type: integer}\n"
    )
    assert tool_of(text, name="spec.yaml").output_parameters == {"type": "integer"}


def test_a_repeated_key_in_yaml_keeps_the_last_and_is_listed():
    text = f"{HEAD}paths:\n  /a:\n{GET}  /a:\n{GET.replace('call', 'second')}"
    assert tool_of(text, name="spec.yaml").name == "second"
    assert "key '/a' appears twice" in notes_of(text, name="spec.yaml")


def test_a_repeated_key_in_json_keeps_the_last_and_is_listed():
    text = json.dumps(document())
    doubled = text[:-1] + ', "paths": {"/b": {"get": {"operationId": "second", "responses": {}}}}}'
    assert tool_of(doubled).name == "second"
    assert "key 'paths' appears twice" in notes_of(doubled)


def test_quotes_spelt_as_code_points_are_no_repeated_keys():
    text = json.dumps({**document(), "x-note": "a"}).replace('"a"', '"\\u0022"')
    assert "appears twice" not in notes_of(text)


def test_tabs_before_comments_in_yaml_are_removed_and_listed():
    text = f"{HEAD}paths:\n  /a:\n\t\t# one\n \t # two\n{GET}      description: a\tb # c\n"
    assert tool_of(text, name="spec.yaml").description == "a\tb"
    assert "those before comments removed" in notes_of(text, name="spec.yaml")


def test_control_characters_in_yaml_are_overlooked_and_listed():
    text = f"{HEAD}paths:\n  /a:\n{GET}      description: bell\x07\n"
    assert tool_of(text, name="spec.yaml").description == "bell"
    assert "control characters" in notes_of(text, name="spec.yaml")


def test_a_byte_order_mark_is_ignored():
    assert tool_of("\ufeff" + json.dumps(document())).name == "call"


@pytest.mark.parametrize("text", ["", "{", "{]", "a: [", "\tb: c"])
def test_what_cannot_be_read_raises_with_its_place(text):
    with pytest.raises(MalformedSource, match=r"spec\.json"):
        loader_of(text)


@pytest.mark.parametrize("odd", ['"x-odd": NaN', "x-odd: 1", '"x-odd": 1,'])
def test_json_with_liberties_is_read_as_yaml_and_listed(odd):
    text = json.dumps(document())[:-1] + f", {odd}}}"
    assert tool_of(text).name == "call"
    assert "read as YAML" in notes_of(text)


def test_bytes_that_are_no_text_raise():
    with pytest.raises(MalformedSource):
        read_text(b"openapi: \xff\xfe", "spec")


def test_an_alias_bomb_is_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(MalformedSource, match="aliases"):
        loader_of("\n".join(lines) + "\n" + HEAD, name="spec.yaml")
