"""What one worker is told and another has to do."""

import codecs
import json

import pytest
from waiting import until

from serving.mcp.mcp_support import make_request
from serving.mcp.test_sse import SseClient
from serving.service_support import CORE, served
from toolyard.serving.http_fault import HttpFault
from toolyard.serving.mcp.mailbox import post_mail
from toolyard.sessions.records import MemoryRecords


async def test_the_number_of_undelivered_messages_is_limited():
    records = MemoryRecords()
    for _ in range(256):
        await post_mail(records, "session", b"{}")
    with pytest.raises(HttpFault, match="not taken yet"):
        await post_mail(records, "session", b"{}")
    await post_mail(records, "another", b"{}")
    assert len(records.all("mcp_mail")) == 257


@pytest.fixture
def shared(tmp_path):
    return {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}


def test_messages_of_other_workers_are_read_once_for_all_streams(shared):
    with served(shared) as one, served(shared) as two:
        asked = []
        records = one.service.records
        real = records.aversion

        async def aversion(kind):
            asked.append(kind)
            return await real(kind)

        records.aversion = aversion
        clients = [SseClient(one) for _ in range(20)]
        assert until(lambda: asked.count("mcp_mail") >= 3)
        asked.clear()
        assert until(lambda: asked.count("mcp_mail") >= 5)
        # Looked at as often as anything else, not twenty times as often.
        assert asked.count("mcp_mail") <= 5 * asked.count("key") + 10
        for client in clients:
            client.found = two
            assert client.post(make_request("ping", number=7)).status == 202
        assert all(client.answer(7)["result"] == {} for client in clients)
        for client in clients:
            client.stream.close()
        assert until(lambda: one.service.records.all("mcp_sse") == [])


def test_an_unreadable_message_does_not_hold_up_others(shared):
    with served(shared) as one, served(shared) as two:
        client, other = SseClient(one), SseClient(one)
        client.found = other.found = two
        with client.stream, other.stream:
            mark = codecs.BOM_UTF8 + json.dumps(make_request("ping", number=1)).encode()
            assert two.post(other.path, mark).status == 202
            two.service.records.put("mcp_mail", "of nobody", "0", b"{")
            two.service.records.put("mcp_mail", other.path.partition("session_id=")[2], "0", b"{")
            assert client.post(make_request("ping", number=2)).status == 202
            assert client.answer(2)["result"] == {} and other.answer(1)["result"] == {}
            assert until(lambda: [record.owner for record in one.service.records.all("mcp_mail")] == ["of nobody"])
