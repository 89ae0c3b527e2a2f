"""`CredentialFinder`: exact credentials are found in every form, and nothing else is touched."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st

from toolyard.words.redactor import CredentialFinder, find_credentials

SECRET = "s3cr/t+Value=9"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "shown",
    [
        SECRET,
        f"Bearer {SECRET}",
        f"before {SECRET} and after {SECRET}",
        quote(SECRET, safe=""),
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(f"user:{SECRET}".encode()).decode(),
        json.dumps({"inner": SECRET}),
        json.dumps(SECRET).replace("/", "\\/"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda text: text, lambda text: {"a": [text]}, lambda text: {text: 1}])
def test_a_credential_is_hidden_in_every_form_and_place(shown, wrap):
    finder, value = CredentialFinder([SECRET]), wrap(shown)
    assert finder.occur_in(json.dumps(value, ensure_ascii=False).encode())
    left = json.dumps(finder.hide(value))
    assert "[redacted]" in left
    assert "s3cr" not in left and "Value" not in left


@given(JSON)
def test_an_answer_without_the_credential_is_left_as_it_is(value):
    assert CredentialFinder([SECRET]).hide(value) == value


@given(JSON, st.text(min_size=8, max_size=20))
def test_occur_in_finds_every_credential_that_hide_removes(value, secret):
    finder, answer = CredentialFinder([secret]), {"echo": [value, f"<{secret}>"]}
    if len(secret.strip()) < 8:
        assert finder.hide(answer) == answer
        return
    assert finder.occur_in(json.dumps(answer, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    assert secret.strip() not in finder.hide(answer)["echo"][1]


def test_a_numeric_credential_matches_whole_numbers_only():
    assert CredentialFinder(["12345678"]).hide([12345678, 123456789, 1]) == ["[redacted]", 123456789, 1]


def test_data_that_looks_secret_and_short_credentials_are_kept():
    value = {"password": "hunter22", "note": "Bearer abcdefghijkl", "region": "eu-west"}
    assert CredentialFinder([SECRET, "eu-west"]).hide(value) == value


def test_deeply_nested_results_are_redacted():
    deep = SECRET
    for _ in range(500):
        deep = [deep]
    assert SECRET not in str(CredentialFinder([SECRET]).hide(deep))


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("Authorization", "Bearer abcdefgh1", ["Bearer abcdefgh1", "abcdefgh1"]),
        ("authorization", "Basic dXNlcjpwYXNzd29yZDE=", ["dXNlcjpwYXNzd29yZDE=", "user:password1", "password1"]),
        ("X-Api-Key", "abcdefgh1", ["abcdefgh1"]),
        ("X-Whatever", "sk-abcdefghijkl", ["sk-abcdefghijkl"]),
        ("X-Tenant", "acme-corporation", []),
        ("Accept", "application/json", []),
        ("DB_PASS", "correct horse", ["correct horse"]),
        ("API_TOKEN", "short", []),
    ],
)
def test_a_header_or_variable_is_a_credential_by_its_name_or_its_form(name, value, found):
    credentials = find_credentials(name, value)
    assert set(found) <= set(credentials)
    assert bool(found) == bool(credentials)
