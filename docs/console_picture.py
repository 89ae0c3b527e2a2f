"""Makes docs/console.png: `python docs/console_picture.py`, with chromium and the development packages installed.

A yard is served whose shop has a rule `ask`; an agent's call is held, and the inbox shows what it would change.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
SIZE = {"width": 1180, "height": 640}
LARGEST = 200_000

_ORDER = {
    "type": "object",
    "properties": {
        "order_id": {"type": "integer"},
        "customer": {"type": "string"},
        "status": {"type": "string"},
        "total": {"type": "number"},
    },
    "required": ["order_id", "status"],
}


def _define(name: str, description: str, effects: str, *parameters: str) -> dict[str, Any]:
    properties = {parameter: _ORDER["properties"][parameter] for parameter in parameters}  # type: ignore[index]
    taken = {"type": "object", "properties": properties, "required": list(parameters)}
    return {
        "name": name,
        "description": description,
        "effects": effects,
        "parameters": taken,
        "output_parameters": _ORDER,
    }


CONFIG = {
    "tools": [
        {"type": "domains", "domains": ["core"]},
        {"type": "file", "path": str(HERE.parent / "examples" / "catalogs" / "weather.yaml")},
        {
            "type": "inline",
            "namespace": "shop",
            "tools": [
                _define("create_order", "Take an order.", "write", "customer", "status", "total"),
                _define("get_order", "Look an order up.", "read", "order_id"),
                _define("update_order", "Change the status of an order.", "write", "order_id", "status"),
            ],
        },
    ],
    "policy": {"rules": [{"ask": "shop::update_order", "self": True}]},
}


def main() -> None:
    """Serve, call, look, and write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "yard.json"
        path.write_text(json.dumps(CONFIG))
        command = [sys.executable, "-m", "toolyard", "serve", str(path), "--port", "0", "--log", "off"]
        with subprocess.Popen(  # noqa: S603 - a command of our own
            command, stdout=subprocess.PIPE, text=True, cwd=folder
        ) as server:
            try:
                assert server.stdout is not None
                url = json.loads(server.stdout.readline())["url"]
                _have_a_call_held(url)
                _take_picture(url, HERE / "console.png")
            finally:
                server.terminate()


def _have_a_call_held(url: str) -> None:
    _post(f"{url}/v1/sessions", {"session_id": "refunds"})
    made = _call(url, "shop::create_order", customer="Ann", status="paid", total=89.0)
    _call(url, "shop::update_order", order_id=made["result"]["order_id"], status="refunded")


def _call(url: str, name: str, **arguments: Any) -> Any:
    calls = [{"name": name, "arguments": arguments}]
    return _post(f"{url}/v1/sessions/refunds/execute", {"calls": calls})["results"][0]


def _post(url: str, body: Any) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own server
        return json.loads(answer.read())


def _take_picture(url: str, out: Path) -> None:
    with sync_playwright() as playing:
        browser = playing.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, device_scale_factor=1.5, color_scheme="light")
        page.goto(f"{url}/console/approvals")
        page.get_by_text("What it would change").click()
        page.get_by_role("link", name="shop::update_order").click()
        page.get_by_text("predicted by").wait_for()
        page.screenshot(path=out)
        browser.close()
    size = out.stat().st_size
    assert size < LARGEST, f"{size:,} bytes are too many"
    print(f"{out}: {size:,} bytes")  # noqa: T201


if __name__ == "__main__":
    main()
