"""A real server on loopback with the protocol of language model servers; tests provide the model's replies."""

import asyncio
import json
import threading

from waiting import SOON


class Asked:
    """One received request."""

    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, json.loads(body)

    @property
    def messages(self):
        return [(message["role"], message["content"]) for message in self.body["messages"]]


def openai_says(text, *, prompt=10, completion=5, finish="stop", model="m-1"):
    return {
        "id": "c",
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": completion},
    }


def ollama_says(text, *, prompt=10, completion=5, finish="stop", model="m-1"):
    return {
        "model": model,
        "message": {"role": "assistant", "content": text},
        "done": True,
        "done_reason": finish,
        "prompt_eval_count": prompt,
        "eval_count": completion,
    }


def anthropic_says(value, *, prompt=10, completion=5, finish="tool_use", model="m-1"):
    return {
        "model": model,
        "content": [{"type": "tool_use", "id": "t", "name": "answer", "input": value}],
        "stop_reason": finish,
        "usage": {"input_tokens": prompt, "output_tokens": completion},
    }


SAYS = {"/v1/chat/completions": openai_says, "/api/chat": ollama_says, "/v1/messages": anthropic_says}


class ModelServer:
    """Sends `replies` one by one, then calls `otherwise`. Each reply is a text by the model, a body, or
    (status, headers, body). `delay` is in seconds. `most` is the highest number of concurrent requests."""

    def __init__(self, *replies, otherwise=None, delay=0.0, port=0, tls=None):
        self.asked = []
        self.replies = list(replies)
        self.otherwise = otherwise or (lambda asked: "{}")
        self.delay = delay
        self.port, self._tls = port, tls
        self.inside = self.most = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(SOON)
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"

    def close(self):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(SOON)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    async def _serve(self):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._tasks = set()
        server = await asyncio.start_server(self._connection, "127.0.0.1", self.port, backlog=2048, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        try:
            while await self._exchange(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(asyncio.current_task())
            writer.close()

    async def _exchange(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        asked = Asked(method, path, headers, await reader.readexactly(int(headers["content-length"])))
        self.asked.append(asked)
        reply = self.replies.pop(0) if self.replies else self.otherwise(asked)
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(self.delay)
        self.inside -= 1
        if reply is None:
            return False  # hangs up
        status, extra, body = reply if isinstance(reply, tuple) else (200, {}, reply)
        if isinstance(body, str) and status == 200:
            body = SAYS[path](json.loads(body) if path == "/v1/messages" else body)
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json", f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in extra.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
        await writer.drain()
        return True
