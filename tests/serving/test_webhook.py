"""The webhook on held calls: signed, tried again, told of where it fails, and never in the way of a call."""

import json
import logging
import re
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from waiting import SOON, until

from serving.service_support import served
from toolyard import Effects, Toolyard, function_tool
from toolyard.app.blocks import ApprovalsBlock, ServerBlock, WebhookBlock
from toolyard.app.config import read_config
from toolyard.model.errors import ConfigError
from toolyard.serving import webhook
from toolyard.serving.service import Service

SECRET = "whsec-4f1d0c9b7e"
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "approvals.md").read_text()


def pay(amount: int, token: str = "") -> int:
    """Pay."""
    return amount


def _is_genuine():
    """What the page tells receivers to do."""
    [code] = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def is_genuine" in block]
    found = {}
    exec(code, found)
    return found["is_genuine"]


class Receiver:
    """A real one, which answers with these statuses in turn, and 204 behind them."""

    def __init__(self, statuses):
        self.statuses = list(statuses)
        self.came = []
        self.blocked = None
        """Set to an event, it answers nobody before that happens."""
        self.server = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/hooks/in?t=path-token-8d2a"

    def take(self, handler):
        body = handler.rfile.read(int(handler.headers["content-length"]))
        self.came.append((handler.path, dict(handler.headers), body))
        if self.blocked is not None:
            assert self.blocked.wait(SOON)
        handler.send_response(self.statuses.pop(0) if self.statuses else 204)
        handler.send_header("content-length", "0")
        handler.end_headers()

    @property
    def ids(self):
        return [headers["Toolyard-Event-Id"] for _, headers, _ in self.came]


@contextmanager
def receiving(*statuses):
    receiver = Receiver(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            receiver.take(self)

        def log_message(self, *args):
            pass

    receiver.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=receiver.server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield receiver
    finally:
        if receiver.blocked is not None:
            receiver.blocked.set()
        receiver.server.shutdown()
        receiver.server.server_close()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(webhook, "_RETRY_PAUSES", (0.0, 0.01, 0.01))


@contextmanager
def bank(url, folder=None):
    config = {"tools": [], "policy": {"rules": [{"ask": "bank::pay", "self": True}]}}
    if folder is not None:
        config["sessions"] = {"store": "sqlite", "path": str(folder / "s.db")}
    approvals = ApprovalsBlock(webhook=WebhookBlock(url=url, secret=SECRET))
    tools = [function_tool(pay, namespace="bank", effects=Effects.WRITE)]
    with served(config, tools=tools, approvals=approvals) as yard:
        yield yard


def hold(yard, amount=5, **arguments):
    answer = yard.invoke("bank::pay", {"amount": amount, **arguments})
    assert answer.status == 202, answer
    return answer.json["error"]["details"]["approval"]["id"]


def health(yard):
    """What is said of the webhook; None if nothing is wrong."""
    checks = yard.get("/v1/health").json["checks"]
    return next((check["message"] for check in checks if check["name"] == webhook.NAME), None)


def test_a_held_call_is_told_of_once_signed_with_its_arguments_redacted_and_a_decision_is_not():
    is_genuine = _is_genuine()
    with receiving() as receiver:
        with bank(receiver.url) as yard:
            held = hold(yard, token="tok-do-not-tell")
            until(lambda: receiver.came)
            assert hold(yard, token="tok-do-not-tell") == held  # the same call, and the same approval
            shown = yard.get(f"/v1/approvals/{held}").json
            assert yard.post(f"/v1/approvals/{held}:approve").status == 200
        [(path, headers, body)] = receiver.came
    assert path == "/hooks/in?t=path-token-8d2a"
    assert headers["Toolyard-Event-Id"] == held
    assert is_genuine(SECRET, headers, body)
    assert not is_genuine(SECRET, headers, body + b" ")
    assert not is_genuine("another", headers, body)
    later = str(int(headers["Toolyard-Timestamp"]) + 1)
    assert not is_genuine(SECRET, {**headers, "Toolyard-Timestamp": later}, body)
    told = json.loads(body)
    assert told["event"] == "approval.created"
    of_the_reader = ("is_own", "may_decide", "obstacle")
    assert told["approval"] == {name: value for name, value in shown.items() if name not in of_the_reader}
    assert told["approval"]["arguments"]["amount"] == 5
    assert b"tok-do-not-tell" not in body
    assert "owner" not in told["approval"]


def test_a_receiver_that_fails_twice_is_told_the_third_time_under_the_same_id_and_nothing_is_wrong():
    is_genuine = _is_genuine()
    with receiving(500, 302) as receiver, bank(receiver.url) as yard:
        held = hold(yard)
        until(lambda: len(receiver.came) == 3)
        assert receiver.ids == [held] * 3
        assert all(is_genuine(SECRET, headers, body) for _, headers, body in receiver.came)
        assert len({body for _, _, body in receiver.came}) == 1
        other = hold(yard, 6)
        until(lambda: receiver.ids[3:] == [other])
        assert health(yard) is None


def test_after_three_tries_it_stands_in_health_and_log_without_secrets_until_the_call_expired(caplog):
    caplog.set_level(logging.DEBUG)
    with receiving(500, 404, 503) as receiver, bank(receiver.url) as yard:
        held = hold(yard)
        until(lambda: health(yard))
        assert health(yard) == "Unavailable; 1 not sent"
        assert receiver.ids == [held] * 3
        shown = yard.get("/v1/health").body.decode()
        other = hold(yard, 6)
        until(lambda: receiver.ids[3:] == [other])
        assert health(yard) == "Unavailable; 1 not sent"
        now = time.time()
        yard.service.webhook.clock = lambda: now + 901  # when nobody can decide any more
        until(lambda: health(yard) is None)
    [line] = [record.getMessage() for record in caplog.records if record.name == webhook.__name__]
    assert held in line
    assert "answered 503" in line
    for secret in (SECRET, "path-token"):
        assert secret not in shown
        assert secret not in caplog.text


def test_a_receiver_that_never_answers_delays_no_call_and_what_does_not_fit_is_counted(monkeypatch, caplog):
    monkeypatch.setattr(webhook, "MAX_WAITING", 2)
    monkeypatch.setattr(webhook, "_DRAIN_SECONDS", 0.01)
    with receiving() as receiver:
        receiver.blocked = threading.Event()
        with bank(receiver.url) as yard:
            first = hold(yard, 1)
            until(lambda: receiver.ids == [first])
            # It has the first and keeps it; every call below is answered before it answers anything.
            second, third, fourth = hold(yard, 2), hold(yard, 3), hold(yard, 4)
            assert receiver.ids == [first]
            assert health(yard) == "QueueFull; 2 not sent"
            receiver.blocked.set()
            until(lambda: receiver.ids == [first, second])
            fifth = hold(yard, 5)
            until(lambda: receiver.ids == [first, second, fifth])
        lost = [record.getMessage() for record in caplog.records if record.name == webhook.__name__]
        assert len(lost) == 2
        assert third in lost[0]
        assert fourth in lost[1]


def test_an_attempt_that_is_never_answered_times_out(monkeypatch):
    monkeypatch.setattr(webhook, "_TIMEOUT", 0.05)
    with receiving() as receiver:
        receiver.blocked = threading.Event()
        with bank(receiver.url) as yard:
            hold(yard)
            until(lambda: health(yard))
            assert health(yard) == "CallTimeout; 1 not sent"


def test_of_several_processes_that_share_a_store_the_one_that_held_the_call_sends(tmp_path):
    with receiving() as here, receiving() as there:
        with bank(here.url, tmp_path) as one:
            one.token = one.key("bank:execute", name="agent")
            first = hold(one, 1)
            with bank(there.url, tmp_path) as two:
                two.token = one.token
                assert hold(two, 1) == first
                second = hold(two, 2)
        assert (here.ids, there.ids) == ([first], [second])


def test_a_server_that_stops_sends_what_waits_and_says_what_it_could_not(monkeypatch, caplog):
    with receiving() as receiver:
        with bank(receiver.url) as yard:
            held = [hold(yard, amount) for amount in (1, 2, 3)]
        assert receiver.ids == held
        assert caplog.records == []
        monkeypatch.setattr(webhook, "_DRAIN_SECONDS", 0.01)
        receiver.blocked = threading.Event()
        with bank(receiver.url) as yard:
            held = [hold(yard, amount) for amount in (1, 2)]
            until(lambda: len(receiver.came) == 4)
        said = [record.getMessage() for record in caplog.records]
        assert [any(one in line for line in said) for one in held] == [True, True]


@pytest.mark.parametrize("url", ["https://10.1.2.3/in", "https://127.0.0.1/in", "https://[fd00::1]/in"])
def test_an_address_that_the_guard_refuses_is_not_tried_again_and_stands_in_health(url, monkeypatch, caplog):
    monkeypatch.setattr(webhook, "_RETRY_PAUSES", (0.0, SOON))
    with bank(url) as yard:
        held = hold(yard)
        until(lambda: health(yard))
        assert health(yard) == "Blocked; 1 not sent"
    [line] = [record.getMessage() for record in caplog.records if record.name == webhook.__name__]
    assert held in line
    assert "may not be called" in line


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/path-token-8d2a",
        "http://10.1.2.3/path-token-8d2a",
        "ftp://hooks.example.com/path-token-8d2a",
        "https://user:path-token-8d2a@hooks.example.com/",
        "https://hooks.example.com/a b?path-token-8d2a",
        "",
    ],
)
def test_an_invalid_webhook_url_is_refused_at_the_start_and_not_quoted(url):
    block = {"approvals": {"webhook": {"url": url, "secret": "${HOOK}"}}}
    with pytest.raises(ConfigError, match=r"server\.approvals\.webhook\.url: ") as caught:
        read_config({"tools": [], "server": block}, base=Path(), env={"HOOK": SECRET})
    with pytest.raises(ConfigError, match="url: ") as by_code:
        WebhookBlock(url=url, secret=SECRET)
    for error in (caught, by_code):
        assert "path-token" not in str(error.value)
        assert SECRET not in str(error.value)


def test_the_secret_is_read_from_a_variable_and_is_in_no_repr():
    block = {"approvals": {"webhook": {"url": "https://hooks.example.com/path-token-8d2a", "secret": "${HOOK}"}}}
    config = read_config({"tools": [], "server": block}, base=Path(), env={"HOOK": SECRET})
    assert config.server.approvals.webhook.secret == SECRET
    assert SECRET in config.secrets
    assert "https://hooks.example.com'" in repr(config.server)
    assert SECRET not in repr(config.server)
    assert "path-token" not in repr(config.server)
    with pytest.raises(ConfigError, match=r"server\.approvals\.webhook: needs 'secret'"):
        read_config({"tools": [], "server": {"approvals": {"webhook": {"url": "https://a.example"}}}}, base=Path())


@pytest.mark.parametrize("approver", [None, lambda ask: True])
def test_no_webhook_is_sent_where_an_approver_decides_at_once(approver):
    block = ServerBlock(approvals=ApprovalsBlock(webhook=WebhookBlock(url="http://127.0.0.1:9/in", secret=SECRET)))
    with Toolyard.from_config({"tools": [], "policy": {"default": "ask"}}, approver=approver) as yard:
        assert (Service(yard, block).webhook is None) is (approver is not None)
