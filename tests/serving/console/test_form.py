"""A schema as a form and back: what is shown stands for what is sent."""

from html.parser import HTMLParser
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given, strategies as st
from pydantic import Base64Bytes

from toolyard import ToolRegistry, function_tool
from toolyard.schema.subschemas import References
from toolyard.serving.console.form import (
    MAX_FIELDS,
    MAX_STEPS,
    MORE,
    draft_arguments,
    indent_json,
    make_fields,
    make_sample,
    read_form,
    read_json_form,
)
from toolyard.serving.console.rendering import _environment


def of(**properties):
    required = [name for name, part in properties.items() if part.pop("!", False)]
    return make_fields({"type": "object", "properties": properties, "required": required})


class Controls(HTMLParser):
    """What a browser would send of a page that nobody touched."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.sent = {}
        self.text = self.select = None
        self.first = False

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "input" and given.get("type") == "radio":
            if "checked" in given:
                self.sent[given["name"]] = given["value"]
        elif tag == "input":
            self.sent[given["name"]] = given["value"]
        elif tag == "textarea":
            self.text, self.first = given["name"], True
            self.sent[self.text] = ""
        elif tag == "select":
            self.select = given["name"]
        elif tag == "option" and (self.select not in self.sent or "selected" in given):
            self.sent[self.select] = given["value"]

    def handle_data(self, data):
        if self.text is not None:
            # A browser drops the line break right behind the tag.
            self.sent[self.text] += data.removeprefix("\n") if self.first else data
            self.first = False

    def handle_endtag(self, tag):
        if tag == "textarea":
            self.text = None


def untouched(fields):
    """The form as HTML, read by a browser's rules, encoded, and decoded again."""
    template = _environment().from_string(
        '{% from "parts.html" import field_row with context %}'
        '{% for field in fields %}{{ field_row(field, field.shown, "") }}{% endfor %}'
    )
    reader = Controls()
    reader.feed(template.render(fields=fields))
    reader.close()
    body = urlencode({name: value.replace("\n", "\r\n") for name, value in reader.sent.items()})
    return dict(parse_qsl(body, keep_blank_values=True))


scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
# Lone surrogates cannot come out of JSON; everything else can.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.one_of(scalars, texts), lambda inner: st.one_of(st.lists(inner), st.dictionaries(texts, inner)), max_leaves=5
)


@st.composite
def parts(draw):
    """A part of a schema with a default, fitting or not."""
    kind = draw(st.sampled_from(["string", "integer", "number", "boolean", "array", "object", None]))
    part = {"default": draw(st.one_of(values, texts, st.lists(texts), st.integers()))}
    if kind is not None:
        part["type"] = draw(st.sampled_from([kind, [kind, "null"]]))
    if draw(st.booleans()):
        part["items"] = {"type": "string"}
    if draw(st.booleans()):
        part["format"] = draw(st.sampled_from(["date", "date-time", "password", "email"]))
        if draw(st.booleans()):
            part["default"] = draw(
                st.one_of(st.dates().map(str), st.datetimes().map(lambda at: f"{at:%Y-%m-%dT%H:%M:%SZ}"))
            )
    if draw(st.booleans()):
        part["enum"] = draw(st.lists(values, max_size=6)) + [part["default"]] * draw(st.integers(0, 1))
    return part


@given(st.dictionaries(texts, parts(), max_size=4), st.booleans())
def test_an_untouched_form_sends_its_defaults(properties, required):
    schema = {"type": "object", "properties": properties, "required": list(properties) if required else []}
    fields = make_fields(schema)
    filled = read_form(fields, untouched(fields))
    assert filled.mistakes == {}
    assert indent_json(filled.arguments) == indent_json({name: part["default"] for name, part in properties.items()})


@given(st.dictionaries(texts, st.sampled_from(["string", "integer", "number", "object", "boolean"]), max_size=5))
def test_optional_arguments_left_empty_are_not_sent(kinds):
    fields = make_fields({"type": "object", "properties": {name: {"type": kind} for name, kind in kinds.items()}})
    assert read_form(fields, untouched(fields)).arguments == {}


@given(
    texts.filter(lambda text: "\r" not in text), st.integers(), st.floats(allow_nan=False, allow_infinity=False), values
)
def test_the_text_of_controls_is_sent_unchanged(text, whole, number, value):
    fields = of(s={"type": "string", "!": True}, i={"type": "integer"}, n={"type": "number"}, j={"type": "object"})
    data = {"a0": text, "a1": str(whole), "a2": repr(number), "a3": indent_json(value)}
    filled = read_form(fields, data)
    assert filled.mistakes == {}
    assert indent_json(filled.arguments) == indent_json({"s": text, "i": whole, "n": number, "j": value})


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "string"}, "text"),
        ({"type": "string", "maxLength": 5000}, "long"),
        ({"type": "string", "format": "password"}, "secret"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "date-time"}, "datetime"),
        ({"type": "integer"}, "integer"),
        ({"type": ["number", "null"]}, "number"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer"),
        ({"allOf": [{"$ref": "#/$defs/colour"}]}, "choice"),
        ({"allOf": [{"type": "string"}, {"enum": ["a", "b"]}]}, "choice"),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, "choice"),
        ({"type": "boolean"}, "choice"),
        ({"const": 3}, "choice"),
        ({"type": "array", "items": {"type": "string"}}, "lines"),
        ({"type": "array", "items": {"type": "integer"}}, "json"),
        ({"type": "object"}, "json"),
        ({"type": ["string", "integer"]}, "json"),
        ({}, "json"),
        (True, "json"),
    ],
)
def test_each_schema_gets_a_control_of_its_type(part, kind):
    schema = {"type": "object", "properties": {"x": part}, "$defs": {"colour": {"enum": ["red", "blue"]}}}
    assert make_fields(schema)[0].kind == kind


def test_numbers_are_exact_and_whole_numbers_are_whole():
    fields = of(i={"type": "integer"}, n={"type": "number"})
    assert read_form(fields, {"a0": "9007199254740993"}).arguments == {"i": 9007199254740993}
    assert read_form(fields, {"a0": "1e3"}).arguments == {"i": 1000}
    assert read_form(fields, {"a0": "1.5"}).mistakes == {"a0": "write a whole number, without a fraction"}
    assert read_form(fields, {"a0": "many", "a1": "NaN"}).mistakes == {
        "a0": "write a whole number, such as 42",
        "a1": "write a number, such as 3.14",
    }
    assert read_form(fields, {"a0": "true"}).mistakes


def test_a_deleted_default_is_not_restored():
    fields = of(tz={"type": ["string", "null"], "default": "UTC"}, name={"type": "string", "default": "x"})
    assert read_form(fields, {"a0": "", "a1": ""}).arguments == {"tz": None, "name": ""}


def test_an_empty_required_argument_is_a_mistake_and_the_browser_sends_none():
    fields = of(n={"type": "integer", "!": True}, c={"enum": [1, 2], "!": True}, s={"type": "string", "!": True})
    filled = read_form(fields, {})
    assert filled.mistakes == {"a0": "fill this in: the tool needs it", "a1": "choose one"}
    assert filled.arguments == {"s": ""}
    assert all(field.is_mandatory for field in fields)


@pytest.mark.parametrize("raw", ["5", "-1", "x", "٣", "9" * 5000])
def test_an_option_that_was_not_offered_is_refused(raw):
    assert read_form(of(c={"enum": ["a", "b"]}), {"a0": raw}).mistakes == {"a0": "choose one of the options"}


def test_invalid_json_is_reported_with_its_position():
    filled = read_form(of(o={"type": "object"}), {"a0": '{"a": 1,\r\n "a": 2}'})
    assert filled.mistakes["a0"].startswith("not valid JSON at line 2, column ")
    assert "JSON object" in read_json_form("json", "[1]").mistakes["json"]
    assert read_json_form("json", " ").arguments == {}
    assert read_json_form("json", '{"a": 9007199254740993}').arguments == {"a": 9007199254740993}


def test_a_time_without_a_zone_is_utc():
    fields = of(at={"type": "string", "format": "date-time"})
    assert read_form(fields, {"a0": "2026-11-15T09:30"}).arguments == {"at": "2026-11-15T09:30:00Z"}
    assert read_form(fields, {"a0": "2026-11-15T09:30:00+02:00"}).arguments == {"at": "2026-11-15T09:30:00+02:00"}


def test_arguments_without_a_field_are_written_as_json():
    fields = make_fields({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True})
    assert [field.control for field in fields] == ["a0", MORE]
    assert read_form(fields, {"a0": "x", MORE: '{"b": 1}'}).arguments == {"a": "x", "b": 1}
    assert read_form(fields, {"a0": "x", MORE: '{"a": 1}'}).mistakes == {MORE: "'a' has its own field above"}
    assert MORE in read_form(fields, {MORE: "[]"}).mistakes
    crowd = make_fields({"properties": {f"p{number}": {"type": "string"} for number in range(MAX_FIELDS + 1)}})
    assert len(crowd) == MAX_FIELDS + 1 and crowd[-1].control == MORE


def test_a_tool_without_parameters_has_no_fields():
    assert make_fields({}) == [] and make_fields({"type": "object", "additionalProperties": False}) == []


def test_a_recursive_schema_gives_a_finite_form():
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"next": {"$ref": "#/$defs/a"}}}}}
    assert [field.kind for field in make_fields(schema)] == ["json"]
    make_fields({"$ref": "#"})


def test_the_parts_of_all_of_are_one_form():
    parts = [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {"type": "integer"}}}]
    assert [(field.name, field.kind, field.required) for field in make_fields({"type": "object", "allOf": parts})] == [
        *(("a", "text", True), ("b", "integer", False)),
    ]


def test_json_begins_with_defaults_and_something_for_what_is_required():
    fields = of(
        a={"type": "string", "default": "x"},
        b={"type": "integer", "minimum": 3, "!": True},
        c={"type": "string"},
        d={"enum": ["u", "v"], "!": True},
    )
    assert draft_arguments(fields) == {"a": "x", "b": 3, "d": "u"}


LINE = {"type": "object", "properties": {"sku": {"type": "string"}, "gift": {}}, "required": ["sku"]}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "array", "items": LINE}, [{"sku": ""}]),
        ({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}, "b": LINE}}, {"a": 3, "b": {"sku": ""}}),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "boolean"}]}, ["", False]),
        ({"type": "object", "properties": {"pair": {"prefixItems": [{"enum": ["x"]}, {"type": "number"}], "type": "array"}}}, {"pair": ["x", 0]}),
        ({"oneOf": [{"type": "null"}, {"properties": {"kind": {"const": "card"}}}]}, {"kind": "card"}),
        ({"type": "object", "properties": {"day": {"type": "string", "format": "date"}}}, {"day": "2026-01-31"}),
        ({"type": "object", "default": {"x": 1}, "properties": {"y": {}}}, {"x": 1}),
        ({"type": "array", "items": {"type": "string"}}, []),
        ({"type": "object"}, {}),
        ({}, {}),
    ],
)  # fmt: skip
def test_a_sample_of_a_nested_schema_has_all_its_levels(schema, expected):
    assert make_sample(schema, References(schema), iter(range(MAX_STEPS))) == expected


def test_a_sample_of_a_recursive_schema_is_finite():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    schema = {"$ref": "#/$defs/node", "$defs": {"node": node}}
    assert make_sample(schema, References(schema), iter(range(MAX_STEPS))) == {"next": {"next": {"next": {"next": {}}}}}


def test_the_default_of_a_property_counts_before_that_of_a_branch():
    branches = [{"type": "integer", "default": 3}, {"type": "string"}]
    assert draft_arguments(make_fields({"type": "object", "properties": {"a": {"default": 5, "anyOf": branches}}})) == {
        "a": 5
    }


def test_all_samples_of_one_form_share_the_steps():
    wide = {"type": "object", "properties": {f"p{n}": {} for n in range(8)}}
    for _ in range(3):
        wide = {"type": "object", "properties": {f"p{n}": wide for n in range(8)}}
    fields = make_fields({"type": "object", "properties": {"a": wide, "b": wide}, "required": ["a", "b"]})
    assert len(str(draft_arguments(fields))) < 50 * MAX_STEPS


def test_a_control_for_json_shows_the_shape_and_one_for_bytes_is_told_apart():
    [lines, file, text] = make_fields(
        {
            "type": "object",
            "properties": {
                "lines": {"type": "array", "items": LINE},
                "file": {"type": "string", "contentEncoding": "base64"},
                "text": {"type": "string"},
            },
        }
    )
    assert '"sku": ""' in lines.placeholder and lines.shown == ""
    assert file.base64 and "bytes, as base64" in file.rules and not text.base64


def test_bytes_that_a_function_takes_as_text_are_not_called_base64():
    def store(plain: bytes, coded: Base64Bytes) -> list[str]:
        return [plain.decode(), coded.decode()]

    tool = function_tool(store, namespace="a")
    [plain, coded] = make_fields(tool.parameters)
    assert (plain.base64, coded.base64) == (False, True)
    assert ToolRegistry([tool]).dispatch("a::store", {"plain": "aGk=", "coded": "aGk="}) == ["aGk=", "hi"]
