"""Clients of wires that carry messages both ways."""

from waiting import until

from serving.mcp.mcp_support import META, SseClient, make_request
from serving.service_support import served


def test_the_subscriptions_of_a_client_are_limited():
    with served() as found:
        client = SseClient(found)
        with client.stream:
            params = {"notifications": {"toolsListChanged": True}, "_meta": META}
            for number in range(17):
                client.post(make_request("subscriptions/listen", params, number))
            error = client.answer(16)["error"]
            assert (error["code"], "16 subscriptions" in error["message"]) == (-32000, True)
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}
            assert client.post(cancel).status == 202
            client.post(make_request("subscriptions/listen", params, 20))
            acknowledged = "notifications/subscriptions/acknowledged"
            assert until(lambda: [each.get("method") for each in client.stream.messages].count(acknowledged) == 17)
