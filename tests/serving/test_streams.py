"""Every open stream."""

import pytest
from waiting import until

from serving.mcp.mcp_support import BOTH, META, Session, SseClient, StreamReader, make_request
from serving.service_support import CORE, served


@pytest.fixture
def shared(tmp_path):
    return {**CORE, "sessions": {"store": "sqlite", "path": str(tmp_path / "s.db")}}


def test_streams_of_a_key_that_is_revoked_end(shared):
    with served(shared) as found:
        mine, other = found.key("*:*"), found.key("*:*")
        body = make_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": META}, 7)
        headers = {**BOTH, "mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
        streams = [
            Session(found, token=mine).listen(),
            SseClient(found, mine).stream,
            StreamReader(found, "POST", "/mcp", body, headers, mine),
        ]
        with Session(found, token=other).listen() as kept:
            assert until(lambda: kept.body and all(each.body for each in streams))
            found.service.keys.revoke(found.service.keys.find(mine).key_id)
            assert until(lambda: all(each.over for each in streams))
            assert not kept.over
        for each in streams:
            each.close()
