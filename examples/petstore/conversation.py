"""Calls to a real service: its OpenAPI document becomes tools, and calls become requests.

Starts the petstore beside it, creates, reads, updates and deletes a pet by `execute`, tries a write by `simulate`,
which sends nothing, and stops the petstore again: `python examples/petstore/conversation.py`.
"""

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolyard import ToolCall, Toolyard

HERE = Path(__file__).resolve().parent
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n and so on").decode()


@contextmanager
def petstore() -> Iterator[dict[str, str]]:
    """Run the petstore; gives its URL and key."""
    command = [sys.executable, str(HERE / "server.py"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - a command of our own
        try:
            yield json.loads(server.stdout.readline())
        finally:
            server.terminate()


def config_for(store: dict[str, str]) -> dict:
    """The config of the yard. The key is sent only to the petstore's origin, and is never shown."""
    source = {"type": "rest", "spec": str(HERE / "petstore.yaml"), "namespace": "petstore", "base_url": store["url"]}
    engine = {"type": "rest", "auth": {"type": "bearer", "token": store["key"], "origin": store["url"]}}
    return {"tools": {"registry": [source | {"engine": "keeper"}], "engines": {"keeper": engine}}}


def main() -> None:
    """Make the calls and print their results."""
    with petstore() as store, Toolyard.from_config(config_for(store)) as yard:
        engine = yard.tool_engine
        engine.setup("visit")

        def say(tool: str, /, run=engine.execute, **arguments: object) -> object:
            result = run("visit", [ToolCall(f"petstore::{tool}", arguments)])[0]
            said = json.dumps(arguments, ensure_ascii=False)
            print(f"  {tool}({said if len(said) < 80 else said[:77] + '...'})")
            if result.error_info is None:
                print(f"    -> {json.dumps(result.result)}{f' {result.metadata}' if result.metadata else ''}")
            else:
                print(f"    -> {result.error_info.code}: {result.error_info.message}")
            return result.result

        print(f"{len(yard.tool_registry)} tools: {', '.join(tool.name for tool in yard.tool_registry)}")
        print("Execute")
        tom = say("createPet", name="Tom", tags=["cat"])
        say("getPet", petId=tom["id"])
        say("updatePet", petId=str(tom["id"]), status="sold")
        say("uploadImage", petId=tom["id"], image=PIXEL, caption="Tom, asleep")
        say("getImage", petId=tom["id"])
        say("listPets", tag=["cat"], status="sold")
        print("Simulate")
        say("getPet", run=engine.simulate, petId=tom["id"])
        say("deletePet", run=engine.simulate, petId=tom["id"])
        print("Execute")
        say("deletePet", petId=tom["id"])
        say("getPet", petId=tom["id"])
        kept = engine.get_session_state("visit")["tool_executions"]
        print(f"{len(kept)} calls are kept; the key is in none of them: {store['key'] not in json.dumps(kept)}")


if __name__ == "__main__":
    main()
