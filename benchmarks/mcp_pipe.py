"""Drives an MCP server over a pipe with precomputed bytes, so that only the server is measured."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

WINDOW = 32
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class Pipe:
    """One server process, after its handshake."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin, self.process.stdout
        self._numbers = itertools.count()
        self.ask("initialize", HELLO)
        self._send(line("notifications/initialized", {}, None))

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def _send(self, text: bytes) -> None:
        self._in.write(text)
        self._in.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send one request and return its result."""
        self._send(line(method, params, next(self._numbers)))
        found: dict[str, Any] = json.loads(self._out.readline())
        if "result" not in found:
            raise SystemExit(f"{method} was refused: {found}")
        result: dict[str, Any] = found["result"]
        return result

    def run(self, method: str, params: dict[str, Any], calls: int) -> None:
        """Send the same request `calls` times under new ids, with several in flight; responses come in any order."""
        for begin in range(0, calls, WINDOW):
            self._send(b"".join(line(method, params, next(self._numbers)) for _ in range(WINDOW)))
            if begin:
                self._take()
        self._take()

    def _take(self) -> None:
        for _ in range(WINDOW):
            said = self._out.readline()
            if b'"result"' not in said:
                raise SystemExit(f"a call was not answered as it should be: {said!r}")

    def listed(self) -> int:
        """Count the tools page by page, parsing only what is needed for the next page."""
        count, cursor = 0, None
        while True:
            result = self.ask("tools/list", {} if cursor is None else {"cursor": cursor})
            count, cursor = count + len(result["tools"]), result.get("nextCursor")
            if cursor is None:
                return count

    def close(self) -> None:
        """Stop the server."""
        self._in.close()
        self._out.close()
        self.process.terminate()
        self.process.wait()


def line(method: str, params: dict[str, Any], number: int | str | None) -> bytes:
    """A message as sent over the pipe."""
    head = {"jsonrpc": "2.0"} if number is None else {"jsonrpc": "2.0", "id": number}
    return json.dumps({**head, "method": method, "params": params}).encode() + b"\n"
