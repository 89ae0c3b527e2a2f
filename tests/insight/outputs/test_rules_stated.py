"""What a description states comes first, and what of the rules' own guess stays beside it."""

import re

import pytest
from hypothesis import given, strategies as st

from toolyard import Tool
from toolyard.insight.outputs.rules import output_schema
from toolyard.schema.admission import admit_schema


def answers(name, description, **parameters):
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in parameters.items()}}
    found = output_schema(Tool(name, "n", description, schema))["properties"]
    return {key: _brief(part) for key, part in found.items()}


def _brief(part):
    if part["type"] == "array":
        return [_brief(part["items"])] if "items" in part else []
    if part["type"] == "object":
        return {key: _brief(sub) for key, sub in part.get("properties", {}).items()}
    return part["type"] + ("/" + part["format"] if "format" in part else "")


MADE = [
    ("upload_file", "Upload a file. Returns the URL of the file.", {"url": "string/uri", "file_id": "string"}),
    ("upload_file", "Upload a file and return its URL.", {"url": "string/uri", "file_id": "string"}),
    ("book_flight", "Book a flight and return the booking reference.", {"booking_reference": "string"}),
    ("create_user", "Creates a user and returns its id and the token", {"user_id": "string", "token": "string"}),
    ("register_device", "Register a device and receive an API key.", {"api_key": "string"}),
    (
        "place_order",
        "Places an order; returns the order ID, the delivery date and the total price.",
        {"order_id": "string", "delivery_date": "string/date", "total_price": "number"},
    ),
    (
        "create_checkout",
        "Create a checkout session. The response contains the checkout URL.",
        {"checkout_url": "string/uri", "session_id": "string"},
    ),
    ("make_payment", "Make a payment. Gives back a receipt number.", {"receipt_number": "string"}),
    (
        "create_note",
        "Create a note. Returns `note_id` and `created_at`.",
        {"note_id": "string", "created_at": "string"},
    ),
    ("create_note", 'Create a note. Returns {"note_id": 7}', {"note_id": "integer"}),
]
DONE = [
    ("login", "Log in and get an access token.", {"access_token": "string"}),
    ("run_code", "Run code and return stdout and the exit code.", {"stdout": "string", "exit_code": "string"}),
    ("shorten_url", "Shorten a URL. Output: short_url", {"short_url": "string/uri"}),
]
TURNED = [
    ("geocode", "Returns latitude and longitude of an address", {"latitude": "number", "longitude": "number"}),
    ("to_mp3", "Convert a file to MP3 format", {"converted_file": "string"}),
    ("resize", "Resizes an image and returns the width of the image.", {"width": "number"}),
]
TYPED = [
    ("fetch", "Fetch it. Returns the names as a list of strings.", {"names": ["string"]}),
    ("tally", "Counts. Returns an integer representing the number of words.", {"number_of_words": "integer"}),
    ("count_rows", "Count the rows. Returns an int.", {"rows": "integer"}),
    ("get_user", "Get it. Returns a dict with the name and age of the user.", {"name": "string", "age": "integer"}),
    (
        "find",
        "Find it. Returns:\n    user_id (int): the id\n    tags (list[str]): some",
        {"user_id": "integer", "tags": ["string"]},
    ),
    ("summarize", "Summarize a text.\n\nReturns:\n    str: The summary of the text.", {"summary": "string"}),
]


@pytest.mark.parametrize(("name", "description", "expected"), [*MADE, *DONE, *TURNED, *TYPED])
def test_what_is_stated_comes_first_and_an_id_stays_if_no_other_is_stated(name, description, expected):
    found = answers(name, description)
    assert found == expected and list(found) == list(expected)


@pytest.mark.parametrize(
    ("name", "description", "expected"),
    [
        ("create_note", "Create a note. Returns the created note.", {"note_id": "string", "status": "string"}),
        ("create_note", "Create a note. Returns the details of it.", {"note_id": "string", "status": "string"}),
        ("send_mail", "Sends a mail. Returns: None", {"success": "boolean"}),
        ("delete_it", "Delete it. Returns true if it was there.", {"success": "boolean"}),
        (
            "start_timer",
            "Start a timer. If it runs, it returns the old name.",
            {"timer_id": "string", "status": "string"},
        ),
        ("book_trip", "Book a trip with departure and return dates.", {"booking_id": "string", "status": "string"}),
    ],
)
def test_what_states_nothing_new_leaves_the_guess_alone(name, description, expected):
    assert answers(name, description) == expected


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("bestellung_anlegen", "Legt eine Bestellung an"),
        ("crear_reserva", "Crea una reserva para el cliente"),
        ("commander", "Passe une commande pour le client."),
        ("buscar_vuelos", "Busca vuelos"),
        ("注文", "注文を作成します。"),
        ("zakaz", "Создать заказ"),
    ],
)
def test_text_that_is_not_understood_gives_a_result_and_no_name_made_of_it(name, description):
    assert answers(name, description) == {"result": "string"}


def test_text_that_is_not_understood_leaves_what_the_name_says():
    assert answers("create_order", "Legt eine Bestellung an") == {"order_id": "string", "status": "string"}
    assert list(answers("weather", "Liefert das Wetter in einer Stadt")) == ["weather"]


def test_the_title_of_an_operation_is_no_part_of_its_first_sentence():
    assert list(answers("x", "Create a deployment\n\nDeployments offer a few parameters.")) == [
        "deployment_id",
        "status",
    ]
    assert answers("x", "Sharpe Ratio\n\nCompute the ratio of a portfolio.") == {"ratio": "number"}


_WORDS = st.sampled_from(
    [
        "Returns",
        "return",
        "the",
        "a",
        "user",
        "id",
        "and",
        ",",
        ".",
        ":",
        "(",
        ")",
        "int",
        "create",
        "convert",
        "to",
        "into",
        "URL",
        "of",
        "list",
        "as",
        "get",
        "output",
        "response",
        "with",
        "user_id",
        "created",
        "3d",
        "eine",
        "is",
        "has",
        "sorted",
        "by",
        "its",
    ]
)


@given(st.text(max_size=20), st.lists(_WORDS, max_size=14).map(" ".join) | st.text(max_size=100))
def test_any_text_gives_a_valid_schema_whose_names_are_short_identifiers(name, description):
    schema = output_schema(Tool(name, "n", description, {"type": "object", "properties": {"userId": {}}}))
    plain = {key: part for key, part in schema.items() if key != "x-inferred"}
    assert admit_schema(plain, is_input=False).schema == plain
    for key in schema["properties"]:
        assert re.fullmatch("[A-Za-z][A-Za-z0-9_]*", key)
        assert len(re.findall("[A-Z]?[a-z0-9]+", key)) <= 5
