"""The loops of docs/loops.md with the SDKs of the providers, against an endpoint that plays their streams back."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = dict(re.findall(r'```python title="([\w-]+)"\n(.*?)```', (ROOT / "docs/loops.md").read_text(), re.DOTALL))
AGENT = re.search(r'title="agent.py"\n(.*?)```', (ROOT / "docs/first-hour.md").read_text(), re.DOTALL)[1]
BLOCKS["first-hour"] = AGENT.replace("my_tools.py", "yard.yaml")
SDKS = {
    "first-hour": ("openai", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "openai": ("openai", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "openai-responses": ("openai", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "anthropic": ("anthropic", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "gemini": ("google.genai", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
}
YARD = """
tools:
  registry:
    - {type: python, target: weather.py, namespace: weather}
    - {type: python, target: desk.py, namespace: desk}
"""
WEATHER = """
from toolyard import tool

@tool
def get_weather(city: str) -> str:
    return f"sunny in {city}"
"""
DESK = """
from toolyard import tool

@tool
def split_bill(total: float, people: int) -> float:
    return total / people
"""


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@contextmanager
def played_back(provider: str) -> Iterator[tuple[str, list[Any]]]:
    """An endpoint that answers with the turns of a stream, one after another; its address, and what it was asked."""
    turns = iter((ROOT / "tests/data/streams" / f"{provider}.jsonl").read_text().split("\n\n"))
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for line in next(turns).splitlines():
                kind = json.loads(line).get("type")
                named = f"event: {kind}\n" if kind else ""
                self.wfile.write(f"{named}data: {line}\n\n".encode())
            if provider == "openai":
                self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_every_loop_is_of_25_lines_at_most() -> None:
    assert set(BLOCKS) == set(SDKS)
    assert {name: len(block.splitlines()) for name, block in BLOCKS.items() if len(block.splitlines()) > 25} == {}


@pytest.mark.parametrize(
    "provider",
    [
        pytest.param(name, marks=pytest.mark.elsewhere(is_installed(sdk[0]), "make test-frameworks"))
        for name, sdk in SDKS.items()
    ],
)
def test_the_loop_makes_the_calls_of_a_stream_and_goes_on(provider: str, tmp_path: Path) -> None:
    module, address, key = SDKS[provider]
    for name, text in {"yard.yaml": YARD, "weather.py": WEATHER, "desk.py": DESK}.items():
        (tmp_path / name).write_text(text)
    with played_back(provider.replace("first-hour", "openai")) as (url, asked):
        url += "/v1" if module == "openai" else ""
        env = {**os.environ, address: url, key: "none", "NO_PROXY": "127.0.0.1"}
        done = subprocess.run(
            [sys.executable, "-c", BLOCKS[provider]], cwd=tmp_path, env=env, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Let me look.Sunny, 30 each."
    first, second = asked
    assert "weather__get_weather" in json.dumps(first) and "desk__split_bill" in json.dumps(first)
    said = json.dumps(second)
    assert "sunny in Oslo" in said and "30" in said.replace('"total": 90', "")
    assert all(call_id in said for call_id in ("call_a", "call_b"))
    # What a provider signed goes back to it.
    assert ("c2ln" in said) == (provider in ("anthropic", "gemini"))
