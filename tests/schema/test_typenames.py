import pytest
from hypothesis import given, strategies as st

from toolyard.schema.typenames import read_number, read_type

STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("dict", {"type": "object"}),
        ("float", NUMBER),
        ("str", STRING),
        ("String", STRING),
        ("HashMap", {"type": "object"}),
        ("ArrayList", {"type": "array"}),
        ("tuple", {"type": "array"}),
        ("long", INTEGER),
        ("NoneType", {"type": "null"}),
        ("any", {}),
        ("", {}),
        ("datetime", {"type": "string", "format": "date-time"}),
        ("List[str]", {"type": "array", "items": STRING}),
        ("typing.List[int]", {"type": "array", "items": INTEGER}),
        ("list of strings", {"type": "array", "items": STRING}),
        ("String[]", {"type": "array", "items": STRING}),
        ("ArrayList<String>", {"type": "array", "items": STRING}),
        ("tuple(float, float)", {"type": "array", "items": NUMBER}),
        ("Dict[str, Any]", {"type": "object"}),
        ("HashMap<String,Integer>", {"type": "object", "additionalProperties": INTEGER}),
        ("Optional[int]", {"type": ["integer", "null"]}),
        ("Union[str, int]", {"type": ["string", "integer"]}),
        ("str | None", {"type": ["string", "null"]}),
        ("int or float", {"type": ["integer", "number"]}),
        ("str, optional", STRING),
        ("number?", {"type": ["number", "null"]}),
        ("Optional[List[int]]", {"anyOf": [{"type": "array", "items": INTEGER}, {"type": "null"}]}),
        ("Literal['a', 'b', 3]", {"enum": ["a", "b", 3]}),
        ("Literal[inf, nan, 3]", {"enum": ["inf", "nan", 3]}),
        ("ENUM", {"type": "string"}),
        ("DATE (YYYY-MM-DD)", {"type": "string", "format": "date"}),
        ("Date (dd/mm/yyyy)", {"type": "string", "format": "dd/mm/yyyy"}),
        ("TIME (24-hour HH:MM)", {"type": "string", "format": "24-hour HH:MM"}),
        ("BINARY", {"type": "string", "format": "binary"}),
        ("GEOPOINT (latitude, longitude)", {"type": "string", "format": "latitude, longitude"}),
        ("integer (1-100)", {"type": "integer"}),
        ("VARCHAR(255)", {"type": "string"}),
        ("date-time", {"type": "string", "format": "date-time"}),
        ("any, optional", {}),
        ("Tuple[int, ...]", {"type": "array", "items": INTEGER}),
        ("string (optional)", STRING),
        ("str (required)", STRING),
        ("int, default: 5", {"type": "integer", "default": 5}),
        ("bool = False", {"type": "boolean", "default": False}),
        ("str, optional (default: 'en')", {"type": "string", "default": "en"}),
        ("Optional[int] = None", {"type": ["integer", "null"], "default": None}),
        ("int = many", INTEGER),
    ],
)
def test_what_authors_write_for_a_type_is_read_as_they_meant_it(text, schema):
    assert read_type(text) == schema


@pytest.mark.parametrize(
    "text", ["strng", "Person", "list[", "[[", "(int)", "a b c", "x" * 300, "List[Person]", "|", ","]
)
def test_words_that_mean_nothing_are_not_guessed(text):
    assert read_type(text) is None


@given(st.text(alphabet="intslrod[]<>|,?' \"ofyAO()*", max_size=30))
def test_no_text_crashes_the_reader(text):
    fragment = read_type(text)
    assert fragment is None or isinstance(fragment, dict)


@pytest.mark.parametrize("text", ["9" * 310, "9" * 5000, "1e999", "nan"])
def test_a_text_that_no_number_of_json_can_hold_is_no_number(text):
    assert read_number(text) is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Literal['en-US', 'de-DE']", ["en-US", "de-DE"]),
        ("Literal[-1, 1]", [-1, 1]),
        ("Literal['<b>', 'a?', 'list of int', '(x)']", ["<b>", "a?", "list of int", "(x)"]),
    ],
)
def test_quoted_text_is_a_literal_value(text, values):
    assert read_type(text) == {"enum": values}


def test_long_runs_of_blanks_are_read_in_linear_time():
    assert read_type("a" + " " * 198 + "!") is None
    assert read_type("int" + " (" * 90 + " optional" + " " * 5 + "@") is None
