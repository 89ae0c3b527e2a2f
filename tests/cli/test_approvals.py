"""Approvals from the command line: a held call, deciding on it, and the question at a terminal."""

import os
import pty
import select
import subprocess
from datetime import datetime

import pytest
from waiting import SOON
from warm_python import warm_toolyard

from cli.running import as_json, output

DESK = """\
from toolyard import ToolContext, tool

@tool(effects="write")
def pay(amount: int, password: str = "") -> int:
    with open("paid", "a") as file:
        file.write(f"{amount}\\n")
    return amount

@tool(effects="write")
def keep(amount: int = 0, token: int = 0, secret: list[int] = [], note: str = "") -> int:
    return amount
"""
YARD = """\
tools: [{type: python, target: desk.py, namespace: desk}]
policy: {rules: [{ask: "desk::*"}]}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOLYARD_CONFIG", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "desk.py").write_text(DESK)
    (tmp_path / "yard.yaml").write_text(YARD)
    return tmp_path


def hold(capsys, amount=5, *more):
    code, result = as_json(capsys, "call", "yard.yaml", "desk::pay", f"amount={amount}", *more)
    assert (code, result["error_info"]["code"]) == (3, "tool.held")
    return result["error_info"]["details"]["approval"]["id"]


def paid(folder):
    return (folder / "paid").read_text().split() if (folder / "paid").exists() else []


def test_a_held_call_ends_with_a_code_of_its_own_and_says_what_to_type(capsys, folder):
    code, out, err = output(capsys, "call", "yard.yaml", "desk::pay", "amount=5")
    [approval] = as_json(capsys, "approvals", "list", "yard.yaml")[1]
    assert (code, out) == (3, "") and paid(folder) == []
    decide = f"toolyard approvals approve {approval['id']} -c yard.yaml"
    assert f"{decide} && toolyard call -c yard.yaml desk::pay amount=5\n" in err
    assert err.count("toolyard approvals") == 1
    # A secret that was typed is not repeated where a log may keep it.
    code, _, err = output(capsys, "call", "yard.yaml", "desk::pay", "amount=5", "password=hunter2hunter2")
    assert code == 3 and "then call again" in err and "hunter2" not in err
    for words in (['{"amount": 5, "token": 123456789}'], ['{"amount": 5, "secret": [123456789]}']):
        code, _, err = output(capsys, "call", "yard.yaml", "desk::keep", *words)
        assert code == 3 and "then call again" in err and "123456789" not in err
    # Nor is one that cannot be shown as it is: with another text it would be another call.
    assert "then call again" in output(capsys, "call", "yard.yaml", "desk::keep", "note=a\tb")[2]
    _, _, err = output(capsys, "call", "yard.yaml", "desk::pay", "amount=7", "--timeout", "9", "--skip-bad")
    assert "&& toolyard call -c yard.yaml --timeout 9.0 --skip-bad desk::pay amount=7\n" in err
    held = as_json(capsys, "call", "yard.yaml", "desk::pay", "amount=5")[1]["error_info"]
    assert "CONFIG" not in held["hint"] or not approval["yard"]


@pytest.mark.parametrize("seconds", ["nan", "-1"])
def test_a_wait_that_is_no_time_is_refused(capsys, seconds):
    code, _, err = output(capsys, "call", "yard.yaml", "desk::pay", "amount=5", f"--wait={seconds}")
    assert code == 2 and "must be a number of seconds" in err


@pytest.mark.parametrize("session", [(), ("--session", "s")])
def test_once_approved_the_same_call_runs_and_runs_once(capsys, folder, session):
    approval_id = hold(capsys, 5, *session)
    code, approved = as_json(capsys, "approvals", "approve", "yard.yaml", approval_id, "--reason", "fine")
    assert (code, approved["state"], approved["decided_by"], approved["reason"]) == (0, "approved", "operator", "fine")
    assert as_json(capsys, "call", "yard.yaml", "desk::pay", "amount=5", *session)[1]["result"] == 5
    shown = as_json(capsys, "approvals", "show", "yard.yaml", approval_id)[1]
    assert (shown["outcome"]["code"], shown["caller"]) == ("ok", "program")
    times = [datetime.fromisoformat(shown[name]) for name in ("created", "decided_at", "used_at", "expires")]
    assert times == sorted(times) and times[0].tzinfo is not None
    assert hold(capsys, 5, *session) != approval_id and paid(folder) == ["5"]


def test_an_approval_is_good_for_the_file_it_was_asked_from_and_says_which(capsys, folder):
    (folder / "other").mkdir()
    (folder / "other" / "desk.py").write_text(DESK.replace("return amount", "return -amount"))
    twin = folder / "other" / "yard.yaml"
    twin.write_text(YARD)
    approval_id = hold(capsys)
    output(capsys, "approvals", "approve", "yard.yaml", approval_id)

    code, held = as_json(capsys, "call", str(twin), "desk::pay", "amount=5")
    assert code == 3 and held["error_info"]["details"]["approval"]["id"] != approval_id and paid(folder) == []
    found = as_json(capsys, "approvals", "list", "yard.yaml", "--state", "all")[1]
    assert {one["yard"] for one in found} == {str(folder / "yard.yaml"), str(twin)}
    assert f"from {folder / 'yard.yaml'} at" in output(capsys, "approvals", "show", "yard.yaml", approval_id)[1]
    # However the file is spelt, it is the same one.
    assert as_json(capsys, "call", f"{folder}/other/../yard.yaml", "desk::pay", "amount=5")[1]["result"] == 5


def test_a_store_that_configs_name_is_the_border_of_its_approvals(capsys, folder):
    for name in ("yard.yaml", "second.yaml"):
        (folder / name).write_text(f"{YARD}sessions: {{store: sqlite, path: shared.db}}\n")
    output(capsys, "approvals", "approve", "yard.yaml", hold(capsys))
    assert as_json(capsys, "call", "second.yaml", "desk::pay", "amount=5")[1]["result"] == 5
    assert as_json(capsys, "approvals", "list", "second.yaml", "--state", "all")[1][0]["yard"] == ""


def test_a_denied_call_is_refused_and_nobody_decides_twice(capsys, folder):
    approval_id = hold(capsys)
    assert output(capsys, "approvals", "deny", "yard.yaml", approval_id, "--reason", "no")[0] == 0
    code, out, err = output(capsys, "call", "yard.yaml", "desk::pay", "amount=5")
    assert (code, out) == (1, "") and "tool.denied" in err and "was denied by operator (no)" in err
    code, _, err = output(capsys, "approvals", "approve", "yard.yaml", approval_id)
    assert code == 2 and "is decided already: denied by operator" in err
    assert paid(folder) == []


@pytest.mark.process
@pytest.mark.parametrize(("verb", "ends"), [("approve", (0, "5\n")), ("deny", (1, ""))])
def test_a_call_that_waits_goes_on_when_somebody_else_has_decided(capsys, folder, verb, ends):
    words = ["-m", "toolyard", "call", "yard.yaml", "desk::pay", "amount=5", "--wait", "600"]
    waiting = warm_toolyard().start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "desk::pay waits" in waiting.stderr.readline()
    [approval] = as_json(capsys, "approvals", "list", "yard.yaml")[1]
    assert f"toolyard approvals approve {approval['id']} -c yard.yaml" in waiting.stderr.readline()
    assert output(capsys, "approvals", verb, "yard.yaml", approval["id"])[0] == 0
    out, _ = waiting.communicate(timeout=3 * SOON)
    assert (waiting.returncode, out) == ends and paid(folder) == ["5"] * (verb == "approve")


def test_a_call_that_waited_in_vain_is_held_as_it_was(capsys, folder):
    code, _, err = output(capsys, "call", "yard.yaml", "desk::pay", "amount=5", "--wait", "0.01")
    assert code == 3 and "tool.held" in err and paid(folder) == []


def test_an_approval_that_is_not_there_ends_as_any_name_that_is_not(capsys, folder):
    for verb in ("show", "approve", "deny"):
        code, _, err = output(capsys, "approvals", verb, "yard.yaml", "nothing")
        assert code == 1 and "no approval has the id" in err and "(yard.yaml names no store)" in err


def test_whoever_finds_nothing_is_told_where_they_looked(capsys, folder):
    users = folder / "state" / "toolyard" / "sessions.db"
    assert f"looked in {users} (no file was named" in output(capsys, "approvals", "list")[2]
    (folder / "own.yaml").write_text(f"{YARD}sessions: {{store: sqlite, path: own.db}}\n")
    code, out, err = output(capsys, "approvals", "list", "own.yaml")
    assert code == 0 and "0 approvals" in out and "own.db (of own.yaml)" in err


def test_the_list_shows_what_waits_or_what_was_asked_for_and_no_secret(capsys):
    first, second = hold(capsys, 1), hold(capsys, 2, "password=hunter2hunter2")
    output(capsys, "approvals", "deny", "yard.yaml", first)
    shown = output(capsys, "approvals", "list", "yard.yaml")[1]
    assert second in shown and first not in shown and "1 approval" in shown and "hunter2" not in shown
    listed = as_json(capsys, "approvals", "list", "yard.yaml", "--state", "all")[1]
    assert [each["state"] for each in listed] == ["pending", "denied"]
    told = output(capsys, "approvals", "show", "yard.yaml", second)[1]
    assert "cannot be predicted" in told and "ask desk::*" in told and "hunter2" not in told


class Terminal:
    """`toolyard call` with a pseudo-terminal for its standard input and error."""

    def __init__(self, *arguments):
        self.master, slave = pty.openpty()
        words = ["-m", "toolyard", "call", *arguments]
        self.process = warm_toolyard().start(words, stdin=slave, stderr=slave, stdout=subprocess.PIPE, text=True)
        os.close(slave)
        self.seen = ""

    def read_until(self, words):
        while words not in self.seen:
            assert select.select([self.master], [], [], 3 * SOON)[0], self.seen
            self.seen += os.read(self.master, 65536).decode()
        return self.seen

    def type(self, text):
        os.write(self.master, text.encode())

    def finish(self):
        out, _ = self.process.communicate(timeout=3 * SOON)
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.seen += os.read(self.master, 65536).decode()
            except OSError:
                break
        os.close(self.master)
        return self.process.returncode, out


@pytest.mark.process
class TestTerminal:
    def test_whoever_sits_there_sees_the_call_and_approves_it(self, capsys, folder):
        terminal = Terminal("yard.yaml", "desk::pay", "amount=5", "password=hunter2hunter2")
        seen = terminal.read_until("[a]pprove / [d]eny: ")
        assert "desk::pay needs your approval" in seen and '"amount": 5' in seen and "cannot be predicted" in seen
        # What was typed is echoed; what was given on the command line is redacted.
        assert "hunter2" not in seen and paid(folder) == []
        terminal.type("perhaps\n")
        terminal.type("a\n")
        assert terminal.finish() == (0, "5\n") and terminal.seen.count("[a]pprove") == 2
        assert paid(folder) == ["5"]
        [record] = as_json(capsys, "approvals", "list", "yard.yaml", "--state", "all")[1]
        assert (record["state"], record["decided_by"], record["outcome"]["code"]) == ("used", "operator", "ok")

    @pytest.mark.parametrize("typed", ["d\n", "\x04"])
    def test_no_and_the_end_of_input_are_a_no_for_this_once(self, folder, typed):
        terminal = Terminal("yard.yaml", "desk::pay", "amount=5")
        terminal.read_until("[a]pprove / [d]eny: ")
        terminal.type(typed)
        assert terminal.finish() == (1, "") and "was not approved" in terminal.seen
        again = Terminal("yard.yaml", "desk::pay", "amount=5")
        again.read_until("[a]pprove / [d]eny: ")
        again.type("approve\n")
        assert again.finish()[0] == 0 and paid(folder) == ["5"]
