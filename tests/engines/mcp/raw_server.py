"""A small MCP server over stdio, in raw JSON-RPC: what tests need of one, and nothing a client could hide behind.

    raw_server.py FOLDER

The folder is where it and its test meet: `tools.json`, if there, adds to the tools and is read for every list;
`log.txt` gets a line for each message. A file `dead` there keeps it from starting, `mute` from answering. The tool
`stir` announces that the list has changed. A tool `task` runs as a task alone, and does what `slow` does.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

FOLDER = Path(sys.argv[1])
PNG = "iVBORw0KGgo="
WRITING = threading.Lock()
CANCELLED = set()
COUNT = [0]
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING = {"type": "object", "properties": {}}
WRAPPED = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
READS = {"readOnlyHint": True}


def tool(name, schema=NOTHING, **more):
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, **more}


TOOLS = [
    tool("echo", TEXT, title="Echo", annotations=READS, icons=[{"src": "data:,"}], _meta={"a": 1}, vendor={"b": 2}),
    tool("structured", TEXT, outputSchema={"type": "object", "properties": {"text": {"type": "string"}}}),
    tool("number", annotations=READS, outputSchema=WRAPPED),
    tool("count", annotations={"readOnlyHint": False, "destructiveHint": True}),
    tool("contents"),
    tool("fail", TEXT),
    tool("refuse"),
    tool("fail_ours"),
    tool("malformed", {"type": "object", "properties": {"result": {}}}),
    tool("slow", {"type": "object", "properties": {"seconds": {"type": "number"}}}, annotations=READS),
    tool("die"),
    tool("env", TEXT),
    tool("ask", {"type": "object", "properties": {"method": {"type": "string"}}}),
    tool("stir"),
]


def send(message):
    with WRITING:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def said(*texts, **more):
    return {"content": [{"type": "text", "text": text} for text in texts], **more}


def listed():
    path = FOLDER / "tools.json"
    return TOOLS + (json.loads(path.read_text()) if path.exists() else [])


def slow(number, arguments, token):
    steps = 20
    for step in range(steps):
        if token is not None and step % 5 == 0:
            notice = {"progressToken": token, "progress": step, "total": steps, "message": f"step {step}"}
            send({"method": "notifications/progress", "params": notice})
        time.sleep(arguments.get("seconds", 1) / steps)
        if number in CANCELLED:
            log(f"stopped {number}")
            return None
    return said("done")


def contents():
    return {
        "content": [
            {"type": "text", "text": "look"},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "b", "mimeType": "text/plain"}},
        ]
    }


WAITING = {}
TASKS = {}


def ask(number, method, params):
    """Ask the client for something, and answer with what it said."""
    asked = f"ask-{number}"
    WAITING[asked] = number
    send({"id": asked, "method": method, "params": params})


def answer(number, name, arguments, meta):
    match name:
        case "echo":
            return said(arguments["text"])
        case "structured":
            return said(json.dumps(arguments), structuredContent=arguments)
        case "number":
            return said("7", structuredContent={"result": 7})
        case "count":
            COUNT[0] += 1
            return said(str(COUNT[0]), structuredContent={"count": COUNT[0], "pid": os.getpid()})
        case "contents":
            return contents()
        case "fail":
            picture = {"type": "image", "data": PNG, "mimeType": "image/png"}
            return {"content": [{"type": "text", "text": arguments["text"]}, picture], "isError": True}
        case "refuse":
            send({"id": number, "error": {"code": -32000, "message": "not today", "data": {"why": "rain"}}})
            return None
        case "fail_ours":
            error = {"code": "tool.denied", "message": "no", "retryable": False, "effect": "none", "hint": "ask"}
            return said(json.dumps({"error": error}), structuredContent={"error": error}, isError=True)
        case "malformed":
            return arguments.get("result")
        case "slow":
            return slow(number, arguments, meta.get("progressToken"))
        case "die":
            os._exit(3)
        case "env":
            return said(f"bad key: {os.environ.get(arguments['text'])}", isError=True)
        case "ask":
            return ask(number, arguments["method"], arguments.get("params", {}))
        case "stir":
            send({"method": "notifications/tools/list_changed"})
            return said("stirred")
    send({"id": number, "error": {"code": -32602, "message": f"Unknown tool: {name}"}})
    return None


def called(number, params):
    result = answer(number, params["name"], params.get("arguments") or {}, params.get("_meta") or {})
    if result is not None:
        send({"id": number, "result": result})


def log(line):
    with WRITING, (FOLDER / "log.txt").open("a") as file:
        file.write(line + "\n")


def handle(message):
    number, params = message.get("id"), message.get("params") or {}
    if "method" not in message:
        asked = WAITING.pop(number, None)
        if asked is not None:
            send({"id": asked, "result": said(json.dumps(message.get("result", message.get("error"))))})
        return
    log(f"{message['method']} {params.get('name', '')}".strip())
    match message["method"]:
        case "initialize":
            (FOLDER / f"pid-{os.getpid()}").touch()
            server = {"name": "raw", "version": "1"}
            able = {"tools": {"listChanged": True}}
            version = "2025-06-18"
            send({"id": number, "result": {"protocolVersion": version, "capabilities": able, "serverInfo": server}})
        case "tools/list":
            tools, start = listed(), int(params.get("cursor", 0))
            more = {"nextCursor": str(start + 10)} if start + 10 < len(tools) else {}
            send({"id": number, "result": {"tools": tools[start : start + 10], **more}})
        case "tools/call" if params["name"] == "task" and "task" in params:
            TASKS[f"t{number}"] = params
            send({"id": number, "result": {"task": {"taskId": f"t{number}", "status": "working"}}})
        case "tasks/result":
            begun = {**TASKS[params["taskId"]], "name": "slow"}
            threading.Thread(target=called, args=(number, begun), daemon=True).start()
        case "tools/call":
            threading.Thread(target=called, args=(number, params), daemon=True).start()
        case "notifications/cancelled":
            CANCELLED.add(params.get("requestId"))
            log(f"cancelled {params.get('requestId')}")
        case _ if number is not None:
            send({"id": number, "error": {"code": -32601, "message": "Method not found"}})


if (FOLDER / "dead").exists():
    sys.exit(f"no start today, whatever {os.environ.get('RAW_SECRET')} says")
for line in sys.stdin:
    if not (FOLDER / "mute").exists():
        handle(json.loads(line))
