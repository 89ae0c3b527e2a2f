"""Secrets do not leave: in no encoding, under no key, and no text makes looking for them slow."""

import base64
import json
import re
import threading
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, strategies as st

from toolyard.model.errors import ConfigError
from toolyard.words import redactor
from toolyard.words.redactor import REDACTED, Redactor, is_redacted_at, looks_secret, names_a_secret

SECRET = 'p/ä"ss wörd+\\1'


@pytest.mark.parametrize(
    "shown",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        repr(SECRET),
        ascii(SECRET),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        quote(SECRET, safe="").lower(),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
    ],
)
def test_a_known_secret_is_hidden_in_every_form_a_wire_gives_it(shown):
    hidden = Redactor([SECRET]).text(f"before {shown} after")
    assert hidden.replace('"', "").replace("'", "") == f"before {REDACTED} after"


@given(st.binary(max_size=7), st.binary(max_size=7), st.text(min_size=6, max_size=20).map(str.strip), st.booleans())
def test_a_secret_inside_a_longer_base64_text_is_hidden_at_every_alignment(before, after, secret, urlsafe):
    if len(secret) < 6 or any(0xD800 <= ord(char) < 0xE000 for char in secret):
        return
    encode = base64.urlsafe_b64encode if urlsafe else base64.b64encode
    shown = encode(before + secret.encode() + after).decode()
    hidden = Redactor([secret]).text(shown)
    assert REDACTED in hidden
    # At most the characters that hold bits of a neighbour are left of the secret.
    assert len(hidden.replace(REDACTED, "")) <= len(encode(before)) + len(encode(after)) + 4


@given(st.lists(st.text("abc", min_size=4, max_size=6), min_size=1, max_size=3), st.text("abc", max_size=30))
def test_no_known_secret_survives_even_where_secrets_overlap(secrets, text):
    hidden = Redactor(secrets).text(text)
    assert not any(secret in hidden for secret in secrets)
    # Nothing but parts of secrets is taken away.
    kept = hidden.split(REDACTED)
    assert re.fullmatch("[abc]+".join(map(re.escape, kept)), text)


def test_overlapping_secrets_are_hidden_whole():
    assert Redactor(["abcdef", "defghi"]).text("xabcdefghix") == f"x{REDACTED}x"
    assert Redactor(["abcabc"]).text("abcabcabc") == REDACTED


def test_a_secret_shorter_than_four_characters_is_ignored():
    assert Redactor(["abc", "", "  a\n"]).text("abc a") == "abc a"


def test_the_newline_at_the_end_of_a_secret_file_does_not_matter():
    assert Redactor(["hunter22\n"]).text("key hunter22!") == f"key {REDACTED}!"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("Bearer abc.def-123", "Bearer [redacted]"),
        ("got bearer  xyz12345, sorry", "got bearer  [redacted], sorry"),
        ("Basic dXNlcjpwYXNz", "Basic [redacted]"),
        ("no basic authentication here", "no basic authentication here"),
        ("invalid bearer token", "invalid bearer token"),
        ("sk-abcdEFGH1234", "[redacted]"),
        ("task-management-system", "task-management-system"),
        ("ghp_abcdefgh1234 gho_abcdefgh1234", "[redacted] [redacted]"),
        ("github_pat_11ABCDEFG0", "[redacted]"),
        ("xoxb-123456-abcdef", "[redacted]"),
        ("id AKIAIOSFODNN7EXAMPLE.", "id [redacted]."),
        ("postgres://bob:s3cr3t@db/x", "postgres://bob:[redacted]@db/x"),
        ("redis://:s3@cr3t@db", "redis://:[redacted]@db"),
        ("http://host:8080/a@b", "http://host:8080/a@b"),
        ("//bob:s3cr3t@host/x", "//bob:[redacted]@host/x"),
        ("https://abcdefghij0123456789@host/x", "https://[redacted]@host/x"),
        (
            "ssh://git@host/x https://host?mail=some.body.else@host",
            "ssh://git@host/x https://host?mail=some.body.else@host",
        ),
        ("jwt eyJhbGciOi.eyJzdWIi.c2ln!", "jwt [redacted]!"),
        ("/q?api_key=123&x=1", "/q?api_key=[redacted]&x=1"),
        ("DB_PASSWORD='x y'", "DB_PASSWORD='[redacted] y'"),
        ('body {"client_secret": "a b"}', 'body {"client_secret": "[redacted]"}'),
        ("Authorization: Token abc\nHost: x", "Authorization: [redacted]\nHost: x"),
        ("{'Cookie': 'a=b', 'Host': 'x'}", "{'Cookie': [redacted], 'Host': 'x'}"),
        ("x-api-key: abc", "x-api-key: [redacted]"),
    ],
)
def test_what_looks_like_a_secret_is_hidden_and_what_does_not_stays(text, hidden):
    assert Redactor().text(text) == hidden


def test_a_private_key_is_hidden_whole_and_a_cut_one_to_the_end():
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\nabc=\n-----END RSA PRIVATE KEY-----"
    assert Redactor().text(f"a {key} b {key} c") == f"a {REDACTED} b {REDACTED} c"
    assert Redactor().text(f"a {key[:50]}") == f"a {REDACTED}"


@given(st.text(), st.text(min_size=4))
def test_redacting_twice_changes_nothing_more(text, secret):
    redactor = Redactor([secret])
    once = redactor.text(text + secret + text)
    if secret.strip() not in REDACTED:
        assert redactor.text(once).count(REDACTED) <= once.count(REDACTED)


def test_clean_text_comes_back_as_the_same_object():
    text = "nothing to see at /a/b: 3 items = fine"
    assert Redactor(["hunter22"]).text(text) is text


def test_a_value_is_copied_with_texts_redacted_and_secret_keys_emptied():
    value = {
        "db_password": {"nested": [1]},
        "Api-Key": 5,
        "X_ACCESS_KEY_ID": None,
        "set-cookie": "a=b",
        "items": ["hunter22", ("x", 1.5, True, None)],
        "hunter22": "key",
        "note": "plain",
    }
    before = json.dumps(value)
    assert Redactor(["hunter22"]).value(value) == {
        "db_password": REDACTED,
        "Api-Key": REDACTED,
        "X_ACCESS_KEY_ID": REDACTED,
        "set-cookie": REDACTED,
        "items": [REDACTED, ["x", 1.5, True, None]],
        REDACTED: "key",
        "note": "plain",
    }
    assert json.dumps(value) == before


@pytest.mark.parametrize(
    "key",
    [
        *("password", "passwd", "secret", "token", "api_key", "apikey", "authorization"),
        *("cookie", "credential", "private_key", "access_key"),
    ],
)
def test_every_secret_word_is_found_in_any_spelling_and_as_part_of_a_longer_key(key):
    for spelt in (key, key.upper(), key.replace("_", "-"), f"my {key.title()}s", f"x.{key}.y", f"db{key}" + "z" * 200):
        assert Redactor().value({spelt: 1}) == {spelt: REDACTED}
    assert Redactor().value({"name": 1, "pass_count": 2}) == {"name": 1, "pass_count": 2}


def test_ordinary_data_under_a_word_that_secrets_use_stays():
    value = {
        "key": "a",
        "primary_key": "id",
        "keys": ["b"],
        "pass": True,
        "auth": "none",
        "salt": 1,
        "path": "/",
        "max_tokens": 100,
        "next_page_token": "abc",
        "nextPageToken": "abc",
        "prompt_tokens": 3,
        "pageToken": "x",
    }
    assert Redactor().value(value) == value
    assert all(map(looks_secret, ["token", "access_token", "tokens", "page_token_secret", "next_token_password"]))


@pytest.mark.parametrize(
    "name",
    [
        *("DB_PASS", "DB_PWD", "OPENAI_KEY", "PASSPHRASE", "SIGNING_SALT", "GH_PAT", "AUTH", "PG_DSN", "KEY"),
        *("dbPass", "openaiKey", "basic-auth", "API_KEY_2", "DB_PASSWORD"),
    ],
)
def test_a_variable_is_known_by_whole_words_of_its_name(name):
    assert names_a_secret(name)


@pytest.mark.parametrize("name", ["PATH", "MONKEY", "KEYBOARD", "KEY_COUNT", "PASSENGER", "AUTHOR", "BYPASS", "X", ""])
def test_a_part_of_a_word_makes_no_secret_of_a_variable(name):
    assert not names_a_secret(name)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("ab c"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_a_value_without_secrets_is_equal_and_shares_no_container(value):
    copy = Redactor(["hunter22"]).value(value)
    assert copy == value
    if isinstance(value, list | dict):
        assert copy is not value


def test_a_secret_number_is_found_where_json_has_a_number():
    assert Redactor(["12345678"]).value({"pin": 12345678, "n": 1}) == {"pin": REDACTED, "n": 1}


def test_values_that_are_too_deep_or_not_json_are_replaced_and_nothing_raises():
    deep = "hunter22"
    for _ in range(5000):
        deep = [deep]
    redactor = Redactor(["hunter22"])
    assert "hunter22" not in str(redactor.value(deep))
    assert redactor.value({"a": object(), "b": b"hunter22"}) == {"a": "[object]", "b": "[bytes]"}


def test_extra_patterns_hide_their_match_or_their_first_group():
    redactor = Redactor(patterns=[r"ACME-\d+", r"pin (\d+)"])
    assert redactor.text("ACME-12 has pin 99") == "[redacted] has pin [redacted]"
    with pytest.raises(ConfigError, match="not a regular expression"):
        Redactor(patterns=["("])


def test_the_repr_shows_no_secret_and_a_secret_must_be_text():
    assert "hunter22" not in repr(Redactor(["hunter22"], patterns=["hunter22"]))
    with pytest.raises(TypeError, match="bytes"):
        Redactor([b"hunter22"])


def test_secrets_added_from_many_threads_are_all_known():
    redactor = Redactor()
    secrets = [f"secret-{n:04}!" for n in range(80)]
    threads = [
        threading.Thread(target=lambda part: [redactor.add(s) for s in part], args=(secrets[n::8],)) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(redactor.text(secret) == REDACTED for secret in secrets)


HOSTILE = [
    *("bearer ", "bearer a", "basic ", "basic a", "sk-", "sk-a ", "ghp_", "xoxb-", "AKIA", "github_pat_"),
    *(
        "//",
        "//a",
        "//aaaaaaaaaaaaaaaa@",
        "://",
        "://a:",
        "://a:b@",
        "://a:b",
        "eyJ",
        "eyJaaaa.",
        "eyJaaaa.a",
        "password=",
        'password":"',
        "token'",
    ),
    *("authorization: ", 'cookie:"', "api-key:'", "api-key:      ", "-----BEGIN PRIVATE KEY-----"),
    *("-----END PRIVATE KEY-----", "-----BEGIN ", "a", " ", ":", "=", "hunter2", "hunter22", "\n"),
]


def own_seconds(redactor, text):
    """Of this thread alone: servers of other tests may run in theirs."""
    start = time.thread_time()
    redactor.text(text)
    return time.thread_time() - start


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_is_slow_to_search(piece):
    redactor = Redactor(["hunter22"])
    small, large = (piece * (size // len(piece)) for size in (16_000, 128_000))
    ratios = (own_seconds(redactor, large) / max(own_seconds(redactor, small), 1e-4) for _ in range(10))
    # Eight times the text: about 8 if linear, about 64 if quadratic, and that each time.
    assert any(ratio < 32 for ratio in ratios)


def test_a_megabyte_of_mixed_hostile_text_is_redacted():
    text = "".join(HOSTILE * 3000)[:1_000_000]
    assert REDACTED in Redactor(["hunter22"]).text(text)


def test_no_shape_has_a_quantifier_inside_a_quantifier():
    for _, shape in redactor._SHAPES:
        assert not re.search(r"[+*]\)[+*{]", shape), shape


@pytest.mark.parametrize(
    ("pointer", "hidden"),
    [("/a/0/b", True), ("/a", True), ("", True), ("/a/1", False), ("/c~1d", False), ("/none", True), ("/a/9", True)],
)
def test_a_pointer_to_what_was_taken_out_is_known(pointer, hidden):
    value = {"a": [{"b": "Bearer [redacted]"}, 5], "c/d": "plain"}
    assert is_redacted_at(value, pointer) is hidden
