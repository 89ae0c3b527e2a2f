"""Keys from the command line: made once, listed without secrets, revoked for good."""

import json

import pytest

from cli import running
from toolyard.app.config import read_config
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.keys import KeyRing
from toolyard.sessions.records import open_records
from toolyard.sessions.store.sqlite import SqliteStore


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOLYARD_CONFIG", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "toolyard.yaml").write_text("tools: []\nsessions: {store: sqlite, path: yard.db}\n")
    return tmp_path


def output(capsys, *arguments):
    return running.output(capsys, "key", *arguments)


def as_json(capsys, *arguments):
    code, out, _ = output(capsys, *arguments, "--json")
    return code, json.loads(out)


@pytest.fixture
def ring(folder):
    store = SqliteStore(folder / "yard.db")
    ring = KeyRing(open_records(store))
    ring.load()
    yield ring
    store.close()


def test_a_key_is_made_and_its_token_works(capsys, ring):
    code, made = as_json(capsys, "create", "reports", "--scope", "hr:list,execute", "--scope", "weather*:list")
    assert code == 0
    ring.load()
    principal = ring.find(made["token"])
    assert (principal.key_id, principal.name) == (made["id"], "reports")
    assert principal.scopes.to_texts() == made["scopes"] == ["hr:list,execute", "weather*:list"]
    assert made["expires"] is None


def test_limits_and_expiry_are_kept(capsys, ring):
    options = ["--expires", "30d", "--rate", "2.5", "--burst", "5", "--concurrency", "3"]
    _, made = as_json(capsys, "create", "x", "--scope", "*:*", *options)
    ring.load()
    limits = ring.find(made["token"]).limits
    assert (limits.rate, limits.burst, limits.concurrency) == (2.5, 5.0, 3)
    [key] = ring.list()
    assert key.expires - key.created == pytest.approx(30 * 86400, abs=60)


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_the_token_is_all_of_standard_output_and_is_seen_once(capsys, quiet):
    code, out, err = output(capsys, "create", "reports", "--scope", "*:list", *quiet)
    [token] = out.splitlines()
    assert code == 0 and token.startswith("ty_")
    assert ("not shown again" in err) is (quiet == []) and token not in err
    code, listed, _ = output(capsys, "list")
    assert code == 0 and "1 key" in listed and "reports" in listed and "usable" in listed
    assert token[16:] not in listed
    assert "token" not in as_json(capsys, "list")[1][0]


def test_a_revoked_key_is_refused_by_the_time_the_command_returns(capsys, ring):
    _, made = as_json(capsys, "create", "x", "--scope", "*:*")
    code, out, _ = output(capsys, "revoke", made["id"])
    assert code == 0 and "is revoked" in out
    ring.load()
    with pytest.raises(HttpFault, match="revoked"):
        ring.find(made["token"])
    [listed] = as_json(capsys, "list")[1]
    assert listed["state"] == "revoked" and listed["revoked"]


def test_an_unknown_id_is_told(capsys):
    code, _, err = output(capsys, "revoke", "nobody")
    assert code == 1
    assert "no key is called 'nobody'; `toolyard key list`" in err
    key = as_json(capsys, "create", "x", "--scope", "*:*")[1]["id"]
    assert f"did you mean {key}?" in output(capsys, "revoke", key[:-1])[2]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--scope", "hr:fly"], "no verb is called 'fly'"),
        (["--scope", "*:*", "--expires", "soon"], "30d"),
        (["--scope", "*:*", "--expires", "0d"], "30d"),
        (["--scope", "*:*", "--rate", "0"], "rate must be"),
    ],
)
def test_what_makes_no_sense_is_refused(capsys, arguments, reason):
    code, out, err = output(capsys, "create", "x", *arguments)
    assert (code, out) == (2, "")
    assert reason in err
    assert as_json(capsys, "list") == (0, [])


def test_a_key_needs_a_scope(capsys):
    assert output(capsys, "create", "x")[0] == 2


@pytest.mark.parametrize("text", [None, "tools: []\n", "tools: []\nsessions: {store: memory}\n"])
def test_without_a_store_there_is_nowhere_to_keep_keys(capsys, folder, text):
    (folder / "toolyard.yaml").unlink()
    if text is not None:
        (folder / "toolyard.yaml").write_text(text)
        assert read_config({"tools": []}, base=folder).sessions.store == "memory"
    for command in (["list"], ["create", "x", "--scope", "*:*"], ["revoke", "x"]):
        code, _, err = output(capsys, *command)
        assert code == 2
        assert "store: sqlite" in err and "postgres" in err


def test_the_help_keeps_the_asterisks_of_a_scope(capsys):
    assert "'*:*'" in output(capsys, "create", "--help")[1]


def test_a_key_is_revoked_by_its_name_if_only_one_has_it(capsys, ring):
    ids = [as_json(capsys, "create", name, "--scope", "*:*")[1]["id"] for name in ("one", "two", "two")]
    assert as_json(capsys, "revoke", "one")[1]["id"] == ids[0]
    code, _, err = output(capsys, "revoke", "two")
    assert code == 2 and ids[1] in err and ids[2] in err
    output(capsys, "revoke", ids[1])
    assert as_json(capsys, "revoke", "two")[1]["id"] == ids[2]


def test_a_scope_of_no_namespace_is_made_with_a_warning(capsys, folder):
    (folder / "toolyard.yaml").write_text(
        "tools: [{type: domains, domains: [core]}]\nsessions: {store: sqlite, path: yard.db}\n"
    )
    code, token, err = output(capsys, "create", "x", "--scope", "cor:list", "--scope", "co*:list", "--scope", "*:list")
    assert code == 0 and token.startswith("ty_")
    assert "no namespace is called 'cor'; did you mean core?" in err and "co*'" not in err


def test_a_rule_for_keys_that_there_are_not_is_told_beside_the_keys(capsys, folder):
    config = folder / "toolyard.yaml"
    rules = "policy: {rules: [{deny: '*', keys: [guests]}, {ask: '*', keys: ['ops-*'], approvers: [boss]}]}"
    config.write_text(f"{config.read_text()}\n{rules}\n")
    _, _, err = output(capsys, "create", "guest", "--scope", "*:*")
    assert "policy.rules[0].keys: guests matches no existing key; did you mean guest?" in err
    output(capsys, "create", "ops-1", "--scope", "*:*")
    _, _, err = output(capsys, "list")
    assert "rules[1].keys" not in err and "policy.rules[1].approvers: boss matches no existing key" in err
