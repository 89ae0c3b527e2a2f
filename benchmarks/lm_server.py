"""A server with the protocol of language model servers that answers after 50 ms: `python -m benchmarks.lm_server`."""

from __future__ import annotations

import asyncio
import json

THINKS = 0.05
CONTENT = json.dumps({"temp": 21.5, "sky": "clear", "notes": []})
BODY = json.dumps(
    {
        "model": "bench",
        "choices": [{"message": {"role": "assistant", "content": CONTENT}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20},
    }
).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


class Line(asyncio.Protocol):
    """One connection, one request at a time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._received = b""

    def data_received(self, data: bytes) -> None:
        """Read the whole request, then schedule the response."""
        self._received += data
        head, end, body = self._received.partition(_END)
        if not end:
            return
        at = head.lower().index(_LENGTH) + len(_LENGTH)
        if len(body) >= int(head[at:].split(b"\r\n", 1)[0]):
            self._received = b""
            asyncio.get_running_loop().call_later(THINKS, self._transport.write, ANSWER)


async def main() -> None:
    """Serve until stopped."""
    server = await asyncio.get_running_loop().create_server(Line, "127.0.0.1", 0, backlog=4096)
    print(json.dumps({"url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
