"""Servers to compare with: `python -m benchmarks.serve_apps constant|starlette FILE`; prints its port once it listens.

`constant` answers every request with the bytes of FILE. `starlette` is a handwritten invocation: it reads and validates
the request, calls the same tool (a plain function, in a thread), and answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

ECHO_SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


def constant(body: bytes) -> Asgi:
    """The minimum that a server can do: ignore the request, and return a constant response."""
    start: Message = {
        "type": "http.response.start",
        "status": 200,
        "headers": [
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", b"00000000-1"),
            (b"content-type", b"application/json; charset=utf-8"),
        ],
    }
    rest: Message = {"type": "http.response.body", "body": body}

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        await send(start)
        await send(rest)

    return app


def starlette(_: bytes) -> Asgi:
    """A handwritten application: route, read, validate, call, answer."""
    import httpx2
    import jsonschema_rs
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    check = jsonschema_rs.validator_for(ECHO_SCHEMA).validate
    client = httpx2.AsyncClient()

    def shout(text: str) -> str:
        return text

    async def whisper(text: str) -> str:
        return text

    async def fetch(text: str) -> Any:
        answer = await client.get(os.environ["BENCH_UPSTREAM"], params={"text": text})
        return answer.json()

    async def call(name: str, arguments: dict[str, Any]) -> Any:
        if name == "shout":
            return await run_in_threadpool(shout, **arguments)
        return await (whisper if name == "whisper" else fetch)(**arguments)

    async def invoke(request: Request) -> JSONResponse:
        body = await request.json()
        check(body["args"])
        result = await call(request.path_params["name"].rpartition("::")[2], body["args"])
        answer = {"schema_version": "0.1.0", "ok": True, "result": {"result": result}, "metrics": {"latency_ms": 0}}
        return JSONResponse(answer)

    return Starlette(routes=[Route("/v1/tools/{name}:invoke", invoke, methods=["POST"])])


def main() -> None:
    """Serve until killed."""
    import uvicorn

    kind, file = sys.argv[1:]
    app = {"constant": constant, "starlette": starlette}[kind](Path(file).read_bytes())
    # With the protocol given, asyncio sets TCP_NODELAY; without it, responses in two writes take 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    config = uvicorn.Config(
        app,
        http="httptools",
        loop="asyncio",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
    asyncio.run(uvicorn.Server(config).serve([listener]))


if __name__ == "__main__":
    main()
