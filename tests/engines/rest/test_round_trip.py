"""What a server reads, by libraries that are not ours, is what the arguments were: every place, style and body."""

import base64
import json
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st
from werkzeug.http import parse_options_header

from toolyard import Effects, RestBinding, RESTToolEngine, Tool, ToolCall
from toolyard.model.bindings import RestBody, RestParameter, RestPart

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FULL = TEXT.filter(bool)
STEP = FULL.filter(lambda text: not {".", ".."} & set(text.replace("\\", "/").split("/")))
VISIBLE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=12).filter(
    lambda text: text.strip() == text
)
NUMBER = st.integers(-(10**15), 10**15) | st.floats(allow_nan=False, allow_infinity=False)
KEY = st.text(st.sampled_from("abcXYZ019_-. äß&=+%[]"), min_size=1, max_size=6)
SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(scope="module")
def engine():
    with RESTToolEngine(timeout=30.0, retries=0) as made:
        made.setup("s")
        yield made


def sent(engine, echo, binding, arguments):
    """What the server got for one call."""
    registry = engine.tool_registry
    for tool in registry.all_tools():
        registry.remove(tool.qualified_name)
    registry.add(Tool("t", "n", parameters={"type": "object"}, effects=Effects.WRITE, binding=binding))
    echo.received.clear()
    [result] = engine.execute("s", [ToolCall("n::t", arguments)])
    assert not result.is_error, result.error_info
    [received] = echo.received
    return received


def at(echo, location, style, explode, **more):
    parameter = RestParameter(argument="v", name="the name", location=location, style=style, explode=explode, **more)
    if location in ("header", "cookie"):
        parameter = RestParameter(argument="v", name="x-v", location=location, style=style, explode=explode, **more)
    path = "/base/{the name}/end" if location == "path" else "/base"
    return RestBinding("POST", path, echo.url + "/root", (parameter,), named=echo.named)


def written(value):
    """A value as text, as OpenAPI has it."""
    return value if isinstance(value, str) else json.dumps(value)


def pieces(text, delimiter=","):
    return [unquote(piece) for piece in text.split(delimiter)]


def paired(items):
    return dict(zip(items[::2], items[1::2], strict=True))


def step(received):
    head, root, base, value, end = received.raw_path.split("/")
    assert (head, root, base, end) == ("", "root", "base", "end")
    return value


@SETTINGS
@given(value=STEP)
def test_a_value_inside_of_the_query_of_a_path(engine, echo, value):
    names = {"v": "v", "w": "w"}
    parameters = tuple(RestParameter(argument=name, name=name, location="path", style="simple") for name in names)
    parameters += (RestParameter(argument="q", name="q", location="query", style="form"),)
    binding = RestBinding("POST", "/base?ids={v},{w}&of={v}", echo.url, parameters, named=echo.named)
    received = sent(engine, echo, binding, {"v": value, "w": "&", "q": "x"})
    assert parse_qsl(received.raw_query) == [("ids", f"{value},&"), ("of", value), ("q", "x")]


@SETTINGS
@given(value=STEP | NUMBER | st.booleans(), explode=st.booleans(), style=st.sampled_from(["simple", "label", "matrix"]))
def test_one_value_in_the_path(engine, echo, value, style, explode):
    assume(not (style == "label" and written(value) == "."))
    text = step(sent(engine, echo, at(echo, "path", style, explode), {"v": value}))
    lead = {"simple": "", "label": ".", "matrix": ";the%20name="}[style]
    assert text.startswith(lead) and unquote(text[len(lead) :]) == written(value)


@SETTINGS
@given(
    values=st.lists(FULL, min_size=1, max_size=4),
    explode=st.booleans(),
    style=st.sampled_from(["simple", "label", "matrix"]),
)
def test_an_array_in_the_path(engine, echo, values, style, explode):
    text = _path_of(engine, echo, at(echo, "path", style, explode), values)
    if style == "simple":
        assert pieces(text) == values
    elif style == "label":
        assert "." not in "".join(values) or not explode
        assert pieces(text[1:], "." if explode else ",") == values
    elif explode:
        assert [tuple(pieces(item, "=")) for item in text.split(";")[1:]] == [("the name", value) for value in values]
    else:
        assert text.startswith(";the%20name=") and pieces(text.partition("=")[2]) == values


def _path_of(engine, echo, binding, values):
    [parameter] = binding.parameters
    texts = values if isinstance(values, list) else [*values, *values.values()]
    dotted = parameter.style == "label"
    # A label's own delimiter cannot be told from one inside a value, and steps of dots are refused.
    assume(not (dotted and any("." in text for text in texts)))
    assume(parameter.style != "simple" or ",".join(texts) not in (".", ".."))
    return step(sent(engine, echo, binding, {"v": values}))


@SETTINGS
@given(
    values=st.dictionaries(KEY, FULL, min_size=1, max_size=3),
    explode=st.booleans(),
    style=st.sampled_from(["simple", "label", "matrix"]),
)
def test_an_object_in_the_path(engine, echo, values, style, explode):
    text = _path_of(engine, echo, at(echo, "path", style, explode), values)
    if style == "matrix":
        if explode:
            assert dict(pieces(item, "=") for item in text.split(";")[1:]) == values
        else:
            assert paired(pieces(text.partition("=")[2])) == values
        return
    text, delimiter = (text[1:], "." if explode else ",") if style == "label" else (text, ",")
    found = dict(pieces(item, "=") for item in text.split(delimiter)) if explode else paired(pieces(text, delimiter))
    assert found == values


@SETTINGS
@given(
    value=TEXT | NUMBER | st.booleans(),
    explode=st.booleans(),
    reserved=st.booleans(),
    style=st.sampled_from(["form", "spaceDelimited", "pipeDelimited", "deepObject"]),
)
def test_one_value_in_the_query(engine, echo, value, style, explode, reserved):
    received = sent(engine, echo, at(echo, "query", style, explode, allow_reserved=reserved), {"v": value})
    assert parse_qsl(received.raw_query, keep_blank_values=True) == [("the name", written(value))]


@SETTINGS
@given(
    values=st.lists(TEXT, max_size=4),
    explode=st.booleans(),
    reserved=st.booleans(),
    style=st.sampled_from(["form", "spaceDelimited", "pipeDelimited", "deepObject"]),
)
def test_an_array_in_the_query(engine, echo, values, style, explode, reserved):
    delimiter = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(style)
    assume(explode or delimiter is None or not any(delimiter in value for value in values))
    received = sent(engine, echo, at(echo, "query", style, explode, allow_reserved=reserved), {"v": values})
    query = parse_qsl(received.raw_query, keep_blank_values=True)
    if style == "deepObject":
        assert query == [(f"the name[{index}]", value) for index, value in enumerate(values)]
    elif explode:
        assert query == [("the name", value) for value in values]
    elif not values:
        assert query == []
    elif delimiter is None:
        assert pieces(received.raw_query.partition("=")[2]) == values
    else:
        [(_, text)] = query
        assert text.split(delimiter) == values


@SETTINGS
@given(
    values=st.dictionaries(KEY, TEXT, max_size=3),
    explode=st.booleans(),
    style=st.sampled_from(["form", "spaceDelimited", "pipeDelimited", "deepObject"]),
)
def test_an_object_in_the_query(engine, echo, values, style, explode):
    delimiter = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(style)
    assume(explode or delimiter is None or not any(delimiter in text for text in [*values, *values.values()]))
    received = sent(engine, echo, at(echo, "query", style, explode), {"v": values})
    query = parse_qsl(received.raw_query, keep_blank_values=True)
    if style == "deepObject":
        assert query == [(f"the name[{key}]", value) for key, value in values.items()]
    elif explode:
        assert query == list(values.items())
    elif not values:
        assert query == []
    elif delimiter is None:
        assert paired(pieces(received.raw_query.partition("=")[2])) == values
    else:
        [(_, text)] = query
        assert paired(text.split(delimiter)) == values


@SETTINGS
@given(value=VISIBLE | NUMBER | st.booleans(), explode=st.booleans())
def test_one_value_in_a_header(engine, echo, value, explode):
    received = sent(engine, echo, at(echo, "header", "simple", explode), {"v": value})
    assert received.headers["x-v"].encode("latin-1").decode() == written(value)


@SETTINGS
@given(
    values=st.lists(VISIBLE, min_size=1, max_size=4) | st.dictionaries(VISIBLE, VISIBLE, min_size=1, max_size=3),
    explode=st.booleans(),
)
def test_an_array_or_object_in_a_header(engine, echo, values, explode):
    texts = values if isinstance(values, list) else [*values, *values.values()]
    assume(not any("," in text or "=" in text for text in texts))
    received = sent(engine, echo, at(echo, "header", "simple", explode), {"v": values})
    found = received.headers["x-v"].encode("latin-1").decode().split(",")
    if isinstance(values, list):
        assert found == values
    elif explode:
        assert dict(item.split("=") for item in found) == values
    else:
        assert paired(found) == values


@SETTINGS
@given(value=VISIBLE | NUMBER | st.booleans(), explode=st.booleans())
def test_one_value_in_a_cookie(engine, echo, value, explode):
    received = sent(engine, echo, at(echo, "cookie", "form", explode), {"v": value})
    assert {key: unquote(text) for key, text in received.cookies().items()} == {"x-v": written(value)}


@SETTINGS
@given(values=st.lists(VISIBLE, min_size=1, max_size=4), explode=st.booleans())
def test_an_array_in_a_cookie(engine, echo, values, explode):
    received = sent(engine, echo, at(echo, "cookie", "form", explode), {"v": values})
    found = received.cookies().getlist("x-v")
    assert ([unquote(text) for text in found] if explode else pieces(found[0])) == values


@SETTINGS
@given(
    value=st.recursive(
        st.none() | st.booleans() | NUMBER | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=6,
    ),
    location=st.sampled_from(["path", "query", "cookie"]),
)
def test_a_parameter_with_a_media_type_is_that(engine, echo, value, location):
    binding = at(echo, location, "simple", False, media_type="application/json")
    assume(location != "cookie" or "\x7f" not in json.dumps(value, ensure_ascii=False))
    received = sent(engine, echo, binding, {"v": value})
    if location == "path":
        text = unquote(step(received))
    elif location == "query":
        [(_, text)] = parse_qsl(received.raw_query)
    else:
        text = unquote(received.cookies()["x-v"])
    assert json.loads(text) == value


JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def body_of(echo, **body):
    return RestBinding("POST", "/base", echo.url, body=RestBody(**body), named=echo.named)


@SETTINGS
@given(value=JSON)
def test_a_json_body(engine, echo, value):
    received = sent(engine, echo, body_of(echo, media_type="application/vnd.x+json", argument="body"), {"body": value})
    assert received.headers["content-type"] == "application/vnd.x+json" and json.loads(received.body) == value


@SETTINGS
@given(values=st.dictionaries(KEY, JSON, max_size=4))
def test_a_json_body_of_several_arguments(engine, echo, values):
    properties = {f"arg {index}": name for index, name in enumerate(values)}
    binding = body_of(echo, media_type="application/json", properties=properties, required=True)
    received = sent(engine, echo, binding, {argument: values[name] for argument, name in properties.items()})
    assert json.loads(received.body) == values


FIELD = TEXT | st.lists(TEXT, min_size=1, max_size=3) | st.dictionaries(KEY, TEXT, max_size=2)


@SETTINGS
@given(values=st.dictionaries(KEY, FIELD, min_size=1, max_size=4))
def test_a_form(engine, echo, values):
    binding = body_of(echo, media_type="application/x-www-form-urlencoded", argument="body")
    form, _ = sent(engine, echo, binding, {"body": values}).form()
    assert set(form) == set(values)
    for name, value in values.items():
        expected = value if isinstance(value, list) else [value if isinstance(value, str) else json.dumps(value)]
        found = form.getlist(name)
        assert (found if not isinstance(value, dict) else [json.dumps(json.loads(found[0]))]) == expected


@SETTINGS
@given(
    values=st.dictionaries(KEY, TEXT, min_size=1, max_size=3),
    style=st.sampled_from(["form", "deepObject"]),
    kind=st.sampled_from(["application/x-www-form-urlencoded", "multipart/form-data"]),
)
def test_a_property_of_a_form_may_have_a_style(engine, echo, values, style, kind):
    parts = {"p": RestPart(style=style, explode=True)}
    binding = body_of(echo, media_type=kind, properties={"p": "p"}, parts=parts)
    form, _ = sent(engine, echo, binding, {"p": values}).form()
    expected = values if style == "form" else {f"p[{key}]": value for key, value in values.items()}
    assert form.to_dict() == expected


NAME = st.text(st.sampled_from("abcXYZ019_-. äß&=+[]"), min_size=1, max_size=6).filter(
    lambda text: text.strip() == text
)


@SETTINGS
@given(
    texts=st.dictionaries(
        NAME, TEXT | st.lists(TEXT, min_size=1, max_size=3) | st.dictionaries(KEY, TEXT, max_size=2), max_size=3
    ),
    files=st.dictionaries(NAME, st.lists(st.binary(max_size=40), min_size=1, max_size=2), max_size=2),
    style=st.sampled_from([None, "form", "deepObject"]),
)
def test_a_multipart_body(engine, echo, texts, files, style):
    assume(not texts.keys() & files.keys() and (texts or files))
    arguments = {
        **texts,
        **{name: [base64.b64encode(data).decode() for data in several] for name, several in files.items()},
    }
    parts = {name: RestPart(content_type="image/png", binary=True, style=style) for name in files}
    binding = body_of(echo, media_type="multipart/form-data", argument="body", parts=parts)
    received = sent(engine, echo, binding, {"body": arguments})
    form, found = received.form()
    for name, value in texts.items():
        expected = value if isinstance(value, list) else [value if isinstance(value, str) else json.dumps(value)]
        got = form.getlist(name)
        assert ([json.dumps(json.loads(got[0]))] if isinstance(value, dict) else got) == expected
    for name, several in files.items():
        assert [(item.read(), item.content_type, item.filename) for item in found.getlist(name)] == [
            (data, "image/png", name) for data in several
        ]


@SETTINGS
@given(value=TEXT)
def test_a_text_body(engine, echo, value):
    received = sent(engine, echo, body_of(echo, media_type="text/plain", argument="body"), {"body": value})
    kind, options = parse_options_header(received.headers["content-type"])
    assert (kind, received.body.decode(options["charset"])) == ("text/plain", value)


@SETTINGS
@given(data=st.binary(max_size=200))
def test_a_body_of_bytes(engine, echo, data):
    binding = body_of(echo, media_type="image/png", argument="body", binary=True)
    received = sent(engine, echo, binding, {"body": base64.b64encode(data).decode()})
    assert (received.headers["content-type"], received.body) == ("image/png", data)
