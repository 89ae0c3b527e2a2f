"""A value is put into a JSON or TOML text, an item into a YAML list, and taken out again; everything else in it stays, to the byte."""

import json
import tomllib

import pytest
import yaml
from hypothesis import example, given, strategies as st

from toolyard.model.errors import ConfigError, MalformedSource
from toolyard.parsing import parse_json, parse_yaml
from toolyard.parsing.text_edits import JSONC, TOML, append_item, erase_value, find_value, write_value

PATH = ("mcpServers", "yard")
ENTRY = {"command": "/usr/bin/python", "args": ["-m", 'a "b"\\', "ü"], "env": {"A": "1"}}

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=6)
KEYS = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(["mcpServers", "yard", "//", "/*", ","])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))
BLANKS = st.sampled_from(["", " ", "\n", "\n\t", "\n  ", '// a, "}\n', "/* { , */", "\n    // x\n", "/*\n*/ "])


@st.composite
def jsonc(draw, value):
    """The value as text, with blanks, comments and last commas wherever they may stand."""
    gap = lambda: draw(BLANKS)  # noqa: E731
    if not isinstance(value, dict | list):
        return gap() + json.dumps(value) + gap()
    each = (
        [gap() + json.dumps(key) + gap() + ":" + draw(jsonc(item)) for key, item in value.items()]
        if isinstance(value, dict)
        else [draw(jsonc(item)) for item in value]
    )
    last = "," + gap() if each and draw(st.booleans()) else ""
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return gap() + opening + gap() + ",".join(each) + last + closing + gap()


@given(
    data=st.data(),
    document=st.dictionaries(KEYS, VALUES, max_size=4),
    others=st.dictionaries(KEYS, VALUES, min_size=1, max_size=3),
)
def test_adding_and_erasing_a_json_entry_keeps_everything_else(data, document, others):
    others.pop("yard", None)
    document.pop("mcpServers", None)
    document = {**document, **data.draw(st.sampled_from([{}, {"mcpServers": others}]))}
    if document.get("mcpServers") == {} or not document:
        document = {"a": 1}
    text = data.draw(jsonc(document))
    assert JSONC.read(text, "f") == document
    changed = write_value(JSONC, text, PATH, ENTRY, what="f")
    assert find_value(JSONC.read(changed, "f"), PATH) == ENTRY
    assert write_value(JSONC, changed, PATH, ENTRY, what="f") == changed
    assert erase_value(JSONC, changed, PATH, what="f") == text


@pytest.mark.parametrize(
    "text", ["", "\ufeff", "{}", "{ // nothing yet\n}", '{"mcpServers": {}}', '\ufeff{\r\n\t"a": [1,],\r\n}\r\n']
)
def test_empty_and_foreign_texts_take_an_entry(text):
    changed = write_value(JSONC, text, PATH, ENTRY, what="f")
    assert find_value(JSONC.read(changed, "f"), PATH) == ENTRY
    assert changed.startswith(text.rstrip("{}\r\n\t, ")) and ("\r\n" in changed) == ("\r\n" in text)
    assert find_value(JSONC.read(erase_value(JSONC, changed, PATH, what="f"), "f"), PATH) is None


def test_an_inserted_entry_has_the_indentation_of_its_surroundings():
    text = '{\n\t"mcpServers": {\n\t\t"x": {} // mine\n\t}\n}\n'
    assert write_value(JSONC, text, PATH, {"command": "y"}, what="f") == (
        '{\n\t"mcpServers": {\n\t\t"x": {}, // mine\n\t\t"yard": {\n\t\t\t"command": "y"\n\t\t}\n\t}\n}\n'
    )


@pytest.mark.parametrize(
    ("form", "text", "where"),
    [
        (JSONC, '{\n  "a": 1\n  "b": 2\n}', r"f:3:3"),
        (JSONC, '{"a": /* 1}', r"f:1"),
        (JSONC, "[]", "the document is not an object"),
        (JSONC, '{"mcpServers": []}', "mcpServers is not an object"),
        (JSONC, '{"a": 1, "a": 2}', "f:1"),
        (TOML, "a = 1\nb = \n", "line 2"),
        (TOML, "mcpServers = 3", "mcpServers is not an object"),
    ],
)
def test_a_broken_text_is_refused_with_its_place(form, text, where):
    with pytest.raises(MalformedSource, match=where):
        write_value(form, text, PATH, ENTRY, what="f")


@pytest.mark.parametrize("name", ["yard", "my yard", "a.b", 'q"q'])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only this\n",
        'model = "x"  # mine\n\n[mcpServers.other]\ncommand = "y"\nargs = [\n  "[mcpServers.yard]",\n]\n\n# about z\n[z]\na = 1\n',
        "a = 1\r\n\r\n[[b]]\r\nc = 1\r\n",
    ],
)
def test_adding_and_erasing_a_toml_entry_keeps_everything_else(text, name):
    path = ("mcpServers", name)
    changed = write_value(TOML, text, path, ENTRY, what="f")
    assert tomllib.loads(changed)["mcpServers"][name] == ENTRY
    assert changed.startswith(text)
    assert write_value(TOML, changed, path, ENTRY, what="f") == changed
    more = changed + "\n# after it\n[after]\nx = 1\n"
    other = write_value(TOML, more, path, {"command": "z"}, what="f")
    assert tomllib.loads(other)["mcpServers"][name] == {"command": "z"} and other.endswith(
        "\n# after it\n[after]\nx = 1\n"
    )
    assert erase_value(TOML, changed, path, what="f") == text


def test_an_edit_that_cannot_be_verified_is_refused():
    with pytest.raises(ConfigError, match="f: is written in a way that cannot be changed safely; nothing was changed"):
        write_value(TOML, 'mcpServers = {x = {command = "y"}}\n', PATH, ENTRY, what="f")


ITEM = {"type": "mcp", "command": "npx", "args": ["-y", "on", "1", "a: b", "ü # no comment"], "namespace": "x"}
LIST, NESTED = ("tools",), ("tools", "registry")


def append(text, path, *, read=parse_yaml, item=ITEM):
    return append_item(text, path, item, read=read, what="f")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", LIST),
        ("# a note\n", LIST),
        ("# a note", LIST),
        ("---", LIST),
        ("---  # mine\r\n", LIST),
        ("{}", LIST),
        ("{}  # nothing yet\n", LIST),
        ("tools: [{type: a},\n  {type: b} # two, and last\n]\n", LIST),
        ("tools: [  # none, yet\n]\n", LIST),
        ("tools: [&a {type: a}, *a  # twice\n  ]\n", LIST),
        ("server: {port: 1}  # and no tools\n", LIST),
        ("tools:\nserver: {}\n", LIST),
        ("tools: ~  # none\n", LIST),
        ("tools: []\n", LIST),
        ("tools:\n- {type: a}\n- type: b\n  x: |\n    text\n\n\n# about the server\nserver: {}\n", LIST),
        ("tools:\n    - a: [1,\n        2]   # two\n    # more?\nserver: {}", LIST),
        ("tools: [{type: a},]\n", LIST),
        ("tools:\r\n  - a: 1\r\nserver: {}\r\n", LIST),
        ("tools:\n  engines: {}\n  # end\n", NESTED),
        ("tools:\n  registry:\n  - a:\n  engines:\n    e: {type: x}\n", NESTED),
        ("tools: {registry: [], engines: {}}\n", NESTED),
        ("---\ntools:\n  registry:\n    - &a {type: x}\n    - *a\n    # that is all\n", NESTED),
    ],
)
def test_the_item_is_last_and_everything_else_stays(text, path):
    made = append(text, path)
    found = parse_yaml(made)
    for key in path:
        found = found[key]
    assert found[-1] == ITEM
    kept = list(made)  # what was there is there, in order
    assert all(char in kept and not kept.__delitem__(slice(0, kept.index(char) + 1)) for char in text.replace("~", ""))
    assert append(made, path).count("npx") == 2


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=5)
ITEMS = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([None, 1, "x", "a\nb\n", [1], {"k": "v"}, "#"])), max_size=4
)


@example(items=[{}], item={"_": ["0E0", "1e999", "0o7", "a\u2028b\x85c\nd"]}, flow=False, style=None)
@given(items=ITEMS, item=st.dictionaries(st.text("abc_", min_size=1), WORDS | st.lists(WORDS, max_size=2), min_size=1),
       flow=st.sampled_from([True, False, None]), style=st.sampled_from([None, "|", '"', ">"]))  # fmt: skip
def test_a_list_of_any_form_takes_any_item(items, item, flow, style):
    text = yaml.safe_dump({"tools": items, "server": {}}, default_flow_style=flow, default_style=style, sort_keys=False)
    if parse_yaml(text) == {"tools": items, "server": {}}:
        assert parse_yaml(append(text, LIST, item=item)) == {"tools": [*items, item], "server": {}}


def test_json_stays_json():
    assert parse_json(append('{"tools": [\n  {"type": "a"}\n]}', LIST, read=parse_json))["tools"][1] == ITEM


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("{}", LIST),
        ('{"tools": null}', LIST),
        ('{\n\t"tools": [\n\t\t{"type": "a"}\n\t],\n\t"server": {}\n}\n', LIST),
        ('{\r\n\t"tools": {"registry": [], "engines": {}}}', NESTED),
        ('{"server": {"port": 1}}', LIST),
    ],
)
def test_an_appended_json_item_has_the_formatting_of_the_others(text, path):
    made = append(text, path, read=parse_json)
    found = parse_json(made)
    for key in path:
        found = found[key]
    assert found[-1] == ITEM and ("\t" in text) == ("\t" in made) and ("\r\n" in text) == ("\r\n" in made)
    assert {**parse_json(text), "tools": parse_json(made)["tools"]} == parse_json(made)


@pytest.mark.parametrize("text", ["a: &x [1]\ntools: *x\n", "{a: 1}"])
def test_an_append_that_cannot_be_verified_is_refused_with_the_item_to_add(text):
    with pytest.raises(ConfigError, match=r'f: tools is written in a way .*; add this by hand: \{"type": "mcp"'):
        append(text, LIST)


@pytest.mark.parametrize("text", ["tools: {a: {b: []}}\n", "tools: word\n", '{"tools": {"deeper": []}}'])
def test_appending_to_a_value_that_is_not_a_list_is_refused(text):
    with pytest.raises(ConfigError, match=r'f: tools is not a list, so this cannot be added to it: \{"type": "mcp"'):
        append(text, LIST)


def test_a_mapping_of_yaml_with_a_comment_behind_the_list_is_added_to():
    text = '{"tools": {"registry": []}, # mine\n "policy": {}}'
    item = {"type": "file", "path": "a.json"}
    made = append_item(text, ["tools", "registry"], item, read=parse_yaml, what="yard.yaml")
    assert parse_yaml(made) == {"tools": {"registry": [item]}, "policy": {}}
