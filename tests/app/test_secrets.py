"""No secret of a config is told by an error about it, and ordinary values are not taken for secrets."""

import json

import pytest

from toolyard import ConfigError, MalformedSource, SourceUnavailable, ToolCall, Toolyard, ToolyardError
from toolyard.app import build_registry, survey
from toolyard.app.config import find_secrets, hide_secrets
from toolyard.model.errors import Denied, InvalidSchemaError

SECRET = "hunter2secret"
LONG = "Zq8" * 100
DESK = "from toolyard import tool\n@tool\ndef add(a: int) -> int:\n    return a\n"


def everything_said(error):
    seen = []
    while error is not None:
        seen += [str(error), repr(error), repr(vars(error))]
        # Tools that print tracebacks may look behind `from None` too.
        error = error.__cause__ or error.__context__
    return " ".join(seen)


def source(**options):
    return {"type": "python", "target": "desk.py", "namespace": "n", **options}


CONFIGS = {
    "store": {"tools": [source()], "sessions": {"store": "${IT}"}},
    "policy": {"tools": [source()], "policy": {"default": "${IT}"}},
    "path": {"tools": [source()], "sessions": {"store": "sqlite", "path": "/proc/${IT}/x"}},
    "timeout": {"tools": {"registry": [source(engine="p")], "engines": {"p": {"type": "python", "timeout": "${IT}"}}}},
    "import": {"tools": [source(target="${IT}")]},
    "namespace": {"tools": [source(namespace="${IT}::")]},
    "file": {"tools": [{"type": "file", "path": "${IT}.yaml"}]},
    "format": {"tools": [{"type": "file", "path": "a.${IT}"}]},
    "level": {"tools": [source()], "tracing": {"logging": {"level": "${IT}"}}},
    "jsonl": {"tools": [source()], "tracing": {"jsonl": {"path": "/proc/${IT}/x"}}},
}


@pytest.mark.parametrize("secret", [SECRET, LONG, "h\u00fcnter2-s\u00e9cret"], ids=["plain", "long", "unicode"])
@pytest.mark.parametrize("case", CONFIGS)
def test_no_error_about_a_config_tells_a_secret(tmp_path, monkeypatch, case, secret):
    monkeypatch.setenv("IT", secret)
    (tmp_path / "desk.py").write_text(DESK)
    path = tmp_path / "yard.json"
    path.write_text(json.dumps(CONFIGS[case]))
    with pytest.raises(ToolyardError) as caught:
        Toolyard.from_config(path)
    said = everything_said(caught.value)
    assert "[redacted]" in said or "must be a number, not text" in said
    assert secret not in said and secret[:12] not in said and ascii(secret)[1:-1] not in said
    for read in (survey, build_registry):
        try:
            outcome = repr(read(path))
        except ToolyardError as error:
            outcome = everything_said(error)
        assert secret not in outcome and secret[:12] not in outcome


def test_the_error_keeps_its_class_and_its_fields():
    with pytest.raises(SourceUnavailable):
        Toolyard.from_config({"tools": [source(target="${IT}")]}, env={"IT": SECRET})
    with pytest.raises(MalformedSource) as caught:
        Toolyard.from_config(
            {"tools": [{"type": "inline", "namespace": "n", "tools": [{"name": "${IT}::"}]}]}, env={"IT": SECRET}
        )
    assert caught.value.where == "inline#/0"
    with pytest.raises(InvalidSchemaError) as schema, hide_secrets([SECRET]):
        raise InvalidSchemaError(f"not {SECRET}", pointer="/a")
    assert (str(schema.value), schema.value.pointer) == ("not [redacted]", "/a")
    with pytest.raises(Denied) as denied, hide_secrets([SECRET]):
        raise Denied(f"not {SECRET}", details={"why": [SECRET]})
    assert (denied.value.info.message, denied.value.info.details) == ("not [redacted]", {"why": ["[redacted]"]})


def test_a_cause_without_secrets_is_kept_and_one_with_some_is_not():
    with pytest.raises(ConfigError) as kept, hide_secrets([SECRET]):
        raise ConfigError("bad") from OSError("disk")
    assert isinstance(kept.value.__cause__, OSError)
    with pytest.raises(ConfigError) as cut, hide_secrets([SECRET]):
        try:
            raise OSError(2, "no", SECRET)
        except OSError:
            raise ConfigError("bad") from None
    assert cut.value.__cause__ is None and cut.value.__context__ is None


def test_secrets_collected_before_the_reader_gave_up_are_hidden():
    document = {"tools": [source(target="${IT}")], "sessions": {"store": SECRET}}
    with pytest.raises(ConfigError) as caught:
        Toolyard.from_config(document, env={"IT": SECRET})
    assert SECRET not in everything_said(caught.value)


@pytest.mark.parametrize(
    "name", ["DB_PASS", "DB_PWD", "OPENAI_KEY", "PASSPHRASE", "SIGNING_SALT", "GH_PAT", "AUTH", "dbPass", "PG_DSN"]
)
@pytest.mark.parametrize("value", ["swordfish", "s3cr3t!", "12345678", "pass", "bob:1234"])
def test_a_name_that_says_so_makes_almost_any_value_a_secret(name, value):
    assert find_secrets(name, value) == [value]


@pytest.mark.parametrize(
    "value", ["swordfish", "eyJhbGci", "aB3$xyz", "/not/there/at/all", "https://u:pw@h/x", "a b c d"]
)
def test_what_comes_from_the_environment_is_a_secret_under_any_name(value):
    assert find_secrets("WHATEVER", value)[0] == value


@pytest.mark.parametrize(
    "value",
    [
        *("", "short", "8", "8080", "12345678", "-1.5e10", "true", "False", "yes", "sqlite", "Warning"),
        *("https://api.example.com/v1", "db.example.com:5432", "localhost:8080", "[::1]:80", "/tmp", "desk.py"),
        *("/tmp/not-yet-there.db", "production"),
    ],
)
def test_an_obviously_harmless_value_is_no_secret(tmp_path, value):
    (tmp_path / "desk.py").write_text("")
    assert find_secrets("WHATEVER", value, defaults={"production"}, base=tmp_path) == []


def test_flags_urls_and_paths_are_no_secrets_under_a_broad_name_either():
    for value in ("true", "https://auth.example.com/login", "/tmp"):
        assert find_secrets("USE_AUTH", value) == []
    assert find_secrets("ACCESS_TOKEN", "https://hooks.example.com/T0/B0") == ["https://hooks.example.com/T0/B0"]


@pytest.mark.parametrize(
    ("dsn", "password"),
    [
        ("postgresql://u:hunt%2Fer2@h/x", "hunt/er2"),
        ("postgresql://u:hunter2/se@cret@127.0.0.1:1/x", "hunter2/se@cret"),
        ("host=h password=hunter2 user=u", "hunter2"),
        ("host=h password='hunter 2' user=u", "hunter 2"),
    ],
)
def test_the_password_in_a_connection_string_is_a_secret_of_its_own(dsn, password):
    assert {dsn, password} <= set(find_secrets("DATABASE", dsn))


def test_the_report_of_a_registry_tells_no_secret_whoever_made_it(monkeypatch):
    monkeypatch.setenv("API_TOKEN", SECRET)
    bad = {"name": "pay", "parameters": {"type": "${API_TOKEN}"}}
    config = {"tools": [{"type": "inline", "namespace": "bank", "tools": [bad, {"name": "ok"}], "on_error": "skip"}]}
    with build_registry(config) as strict, survey(config)[0] as lenient, Toolyard.from_config(config) as yard:
        for registry in (strict, lenient, yard.tool_registry):
            [rejected] = registry.report.rejected
            assert "unknown type" in rejected.reason and SECRET not in rejected.reason
        yard.tool_engine.setup("s")
        [result] = yard.tool_engine.execute("s", [ToolCall("bank::pay")])
    assert "was rejected when it was loaded" in result.error_info.hint and SECRET not in result.error_info.hint
