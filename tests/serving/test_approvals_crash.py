"""A server that is killed while calls wait for somebody's word: nothing is lost, and nothing runs twice."""

import json
import signal
import threading
from contextlib import closing, suppress

import pytest
from waiting import until

from serving.process_support import served
from toolyard.serving.idempotency import read_entry
from toolyard.sessions.records import open_records
from toolyard.sessions.store.sqlite import SqliteStore

pytestmark = pytest.mark.process

TOOLS = """
from toolyard import tool

@tool(effects="write")
def pay(amount: int, log: str) -> int:
    \"\"\"Pay.\"\"\"
    with open(log, "a") as file:
        file.write("paid\\n")
    return amount
"""


def yard_in(folder):
    (folder / "bank.py").write_text(TOOLS)
    config = {
        "tools": [{"type": "python", "target": str(folder / "bank.py"), "namespace": "bank"}],
        "sessions": {"store": "sqlite", "path": str(folder / "s.db")},
        "policy": {"rules": [{"ask": "bank::pay", "self": True}]},
    }
    (folder / "yard.json").write_text(json.dumps(config))
    return served(folder, "-c", "yard.json", "--port", "0", "--log", "json")


def test_a_server_killed_while_a_request_waits_leaves_the_approval_and_the_request_goes_on_elsewhere(tmp_path):
    log = tmp_path / "paid"
    arp = {"invocation_id": "i", "tool_name": "bank::pay", "args": {"amount": 5, "log": str(log)}}

    def wait(server):
        with suppress(OSError):
            server.ask("/arp/v1/tool-invocations", arp, Prefer="wait=60")

    with yard_in(tmp_path) as first:
        waiting = threading.Thread(target=wait, args=(first,))
        waiting.start()
        until(lambda: first.ask("/v1/approvals?state=pending")[1]["approvals"])
        [before] = first.ask("/v1/approvals")[1]["approvals"]
        # Killed before it has stored that the call is held, its answer would be that this is unknown.
        with closing(SqliteStore(tmp_path / "s.db")) as store:
            answers = open_records(store)
            until(lambda: any(read_entry(each.value).unfinished for each in answers.all("answer")))
        first.process.send_signal(signal.SIGKILL)
        waiting.join()
    with yard_in(tmp_path) as second:
        assert second.ask("/v1/approvals")[1]["approvals"] == [before]
        assert second.ask(f"/v1/approvals/{before['id']}:approve", {})[1]["state"] == "approved"
        for _ in range(2):
            status, answer = second.ask("/arp/v1/tool-invocations", arp)
            assert (status, answer["ok"], answer["result"]) == (200, True, {"result": 5})
        assert log.read_text() == "paid\n"
