"""The same program in process and over HTTP: only the line that creates the engine differs."""

import json
import subprocess
import sys
from pathlib import Path

from toolyard import ToolCall, Toolyard
from toolyard.client import RemoteToolEngine

HERE = Path(__file__).resolve().parent
CONFIG = {"tools": [{"type": "python", "target": str(HERE / "desk.py"), "namespace": "desk"}]}


def program(engine) -> None:
    """An application, which does not depend on where its tools run."""
    engine.setup("trip")
    call = ToolCall("desk::split_bill", {"total": "100", "people": 3}, call_id="c1")
    result = engine.execute("trip", [call])[0]
    print("  result   ", result.result, result.metadata)
    failed = engine.simulate("trip", [ToolCall("desk::split_bill", {"total": 1, "people": 0})])[0]
    print("  error    ", failed.error_info.code, "-", failed.error_info.details["violations"][0]["message"])
    engine.setup("what-if", fork_of="trip")
    print("  same hash", engine.state_hash("trip") == engine.state_hash("what-if"))
    engine.teardown("trip")
    engine.teardown("what-if")


def main() -> None:
    """Run the program with a local engine, then with a server."""
    print("In process")
    with Toolyard.from_config(CONFIG) as yard:
        program(yard.tool_engine)

    print("Over HTTP")
    command = [sys.executable, "-m", "toolyard", "serve", str(HERE / "yard.yaml"), "--port", "0", "--log", "off"]
    with subprocess.Popen(  # noqa: S603 - a command of our own
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            url = json.loads(server.stdout.readline())["url"]
            with RemoteToolEngine(url) as engine:
                program(engine)
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
