"""Sections of docstrings: which part is about the answer, and the fields and types that it names."""

import pytest
from hypothesis import given, strategies as st

from toolyard.insight.outputs.sections import fields_of, read_sections, type_of

GOOGLE = """Creates a user.

Args:
    name (str): The name.

Returns:
    user_id (int): The id of the user.
    token (str): A token.

Raises:
    ValueError: If the name is taken.
"""
NESTED = """Create a user

Returns:
    dict: A dictionary with keys:
        - user_id: the id
        - token: what to sign with

Only for admins.
"""
NUMPY = """Create a user

Parameters
----------
name : str
    The name.

Returns
-------
user_id : int
    The id: of it
token : str
"""
JSON = 'Create a user. Response: {"user_id": 7, "token": "abc", "tags": ["a", 2], "more": {"deep": 1}}'
WHOLE, TEXT = {"type": "integer"}, {"type": "string"}


@pytest.mark.parametrize(
    ("description", "fields"),
    [
        (GOOGLE, {"user_id": WHOLE, "token": TEXT}),
        (NESTED, {"user_id": {}, "token": {}}),
        (NUMPY, {"user_id": WHOLE, "token": TEXT}),
        (JSON, {"user_id": WHOLE, "token": {}, "tags": {"type": "array"}, "more": {"type": "object"}}),
        ("Create a user. Returns: user_id (int): the id, token (str): a token.", {"user_id": WHOLE, "token": TEXT}),
        ("Shorten a URL. Output: short_url", {"short_url": {}}),
        ("Shorten a URL. Output: `short_url`, `expires_at`.", {"short_url": {}, "expires_at": {}}),
        ("Run it.\nOutput:\n- stdout: what it wrote\n- exit_code: int", {"stdout": {}, "exit_code": WHOLE}),
        ("Start. Returns: a job handle (string)", {"job_handle": TEXT}),
        ("Send it. Returns: None", {}),
        ("Send it. Args: to (str): where to", {}),
    ],
)
def test_fields_are_read_with_their_types_whatever_the_style(description, fields):
    assert {field.name: field.kind for field in read_sections(description).fields} == fields


@pytest.mark.parametrize(
    ("description", "told", "kind"),
    [
        ("Log in.\n\n:param name: who\n:returns: the access token\n:rtype: str", "the access token", TEXT),
        ("Log in.\n@param name who\n@return the access token", "the access token", None),
        ("Look it up.\n\nReturns:\n    float: The price in USD.\n", "The price in USD.", {"type": "number"}),
        ("List them. Returns: List[str]: the names", "the names", {"type": "array", "items": TEXT}),
        ("Authenticates a user. Returns: an access token", "an access token", None),
        ("Get the price: it is in dollars.", "", None),
    ],
)
def test_a_section_without_fields_is_kept_as_it_is_told(description, told, kind):
    found = read_sections(description)
    assert (found.told, found.kind, found.fields) == (told, kind, ())


def test_arguments_and_errors_are_no_part_of_the_prose_and_the_text_behind_them_is():
    assert read_sections(GOOGLE).prose.split() == ["Creates", "a", "user."]
    assert read_sections(NESTED).prose.split() == ["Create", "a", "user", "Only", "for", "admins."]
    assert read_sections("No section here.").prose == "No section here."


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("int", WHOLE),
        ("Optional[str]", TEXT),
        ("string | null", TEXT),
        ("int, optional", WHOLE),
        ("a list of strings", {"type": "array", "items": TEXT}),
        ("float[]", {"type": "array", "items": {"type": "number"}}),
        ("list[dict[str, int]]", {"type": "array", "items": {"type": "object"}}),
        ("datetime", {"type": "string", "format": "date-time"}),
        ("the user", None),
        ("", None),
    ],
)
def test_types_are_read_as_programmers_write_them(text, schema):
    assert type_of(text) == schema


def test_plain_words_are_no_fields():
    assert fields_of("the access token of the user") == ()
    assert [field.name for field in fields_of("`note_id` and `created_at`")] == ["note_id", "created_at"]
    assert [field.name for field in fields_of("user_id (int) and token (str)")] == ["user_id", "token"]


_PIECES = st.sampled_from(
    ["Returns:", "\n", "\n\n", "    ", "-----", ":rtype: int", "a_b", "(int)", "{", "}", ":", ","]
)


@given(st.lists(_PIECES | st.text(max_size=8), max_size=20).map(" ".join))
def test_any_text_is_taken_apart_into_fields_that_are_identifiers(text):
    for field in read_sections(text).fields:
        assert field.name.isidentifier() and field.name.isascii()
