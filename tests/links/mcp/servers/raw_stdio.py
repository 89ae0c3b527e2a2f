"""A single-file MCP server with the mode as its first argument; its tools misbehave as their names say."""

import json
import os
import signal
import sys
import time

MODE = sys.argv[1]
WAITING = {}


def send(message):
    sys.stdout.write(json.dumps(message, indent=2 if MODE == "indented" else None) + "\n")
    sys.stdout.flush()


def reply(number, result):
    send({"jsonrpc": "2.0", "id": number, "result": result})


def refuse(number, code, message):
    send({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})


def text(number, value):
    reply(number, {"content": [{"type": "text", "text": value}]})


def huge(number, id_last):
    size = 20 * 1024 * 1024
    body = '"result":{"content":[{"type":"text","text":"' + "x" * size + '"}]}'
    head = f'"jsonrpc":"2.0","id":{number}'
    sys.stdout.write("{" + (f"{body},{head}" if id_last else f"{head},{body}") + "}\n")
    sys.stdout.flush()


def call(number, params):
    name, arguments = params["name"], params.get("arguments", {})
    if name == "echo":
        text(number, arguments.get("text", ""))
    elif name == "env":
        text(number, json.dumps(dict(os.environ)))
    elif name == "die":
        sys.stderr.write(f"cannot go on, the key was {os.environ.get('API_KEY')}\n")
        sys.stderr.flush()
        os._exit(3)
    elif name in ("remark", "fail", "fail_late"):
        if name == "fail_late":
            reply(number, {"isError": True, "content": []})
        sys.stderr.write(f"{name} {number}: key {os.environ.get('API_KEY')}\x1b[2J\nand half of a li")
        sys.stderr.flush()
        if name != "fail_late":
            reply(number, {"isError": name == "fail", "content": []})
    elif name in ("huge", "huge_last"):
        huge(number, name == "huge_last")
    elif name == "nested":
        deep = 50_000
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{number},"result":' + "[" * deep + "]" * deep + "}\n")
        sys.stdout.flush()
    elif name == "garbage":
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{number},"result":{{"content": [ \x01\n')
        sys.stdout.flush()
    elif name == "other_id":
        text(number + 1000, "for nobody")
        text("x", "for nobody")
        text(None, "for nobody")
        text(number, "for you")
    elif name == "chatter":
        print("[INFO] working\n{almost\n{'not': 'json'}\n[]\n\x00", flush=True)
        text(number, "after all")
    elif name == "silent":
        pass
    elif name == "sleep":
        time.sleep(arguments["seconds"])
        text(number, "slept")
    elif name == "indented":
        print(json.dumps({"jsonrpc": "2.0", "id": number, "result": {"content": [], "a": {}}}, indent=2), flush=True)
    elif name == "refuse":
        error = {"code": -32602, "message": "no\nsuch thing", "data": {"seen": os.environ.get("API_KEY")}}
        send({"jsonrpc": "2.0", "id": number, "error": error})
    elif name == "ours":
        data = {"code": "tool.denied", "message": "policy says no", "retryable": False, "effect": "none"}
        send({"jsonrpc": "2.0", "id": number, "error": {"code": -32000, "message": "x", "data": data}})
    elif name == "odd_error":
        send({"jsonrpc": "2.0", "id": number, "error": "just text"})
    elif name == "odd_result":
        reply(number, [1, 2])
    elif name == "progress":
        token = params.get("_meta", {}).get("progressToken")
        for step in (1, 2):
            note = {"progressToken": token, "progress": step, "total": 2, "message": f"step {step}"}
            send({"jsonrpc": "2.0", "method": "notifications/progress", "params": note})
            send(
                {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 999, "progress": 1}}
            )
            send({"jsonrpc": "2.0", "method": "notifications/progress", "params": [1]})
        log = {"level": "warning", "logger": "raw", "data": f"key {os.environ.get('API_KEY')}"}
        send({"jsonrpc": "2.0", "method": "notifications/message", "params": log})
        text(number, "done")
    elif name == "ask":
        WAITING["ask"] = number
        send({"jsonrpc": "2.0", "id": "a1", "method": arguments["method"], "params": {"hello": 1}})
    elif name == "cancelled":
        text(number, json.dumps(WAITING.get("cancelled", [])))
    elif name == "change":
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        text(number, "changed")
    elif name == "changes":
        line = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}) + "\n"
        sys.stdout.write(line * 15_000)
        text(number, "changed")
    elif name == "ask_on":
        while True:  # and never read the responses
            sys.stdout.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 1000)
    elif name == "close_input":
        os.close(0)  # before the response, so that nothing can be sent in between
        text(number, "closed")
        time.sleep(0.05)
        sys.stderr.write("that was all I wanted to hear\n")
        sys.stderr.flush()
        time.sleep(600)
    elif name == "flood":
        for _ in range(20_000):
            send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 50}})
        text(number, "flooded")
    elif name == "child":
        import subprocess

        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.DEVNULL)
        text(number, str(child.pid))
    elif name == "pid":
        text(number, str(os.getpid()))
    elif name == "is_error":
        reply(number, {"content": [{"type": "text", "text": "it failed"}], "isError": True})


def page(number, params):
    tools = [{"name": "echo", "inputSchema": {"type": "object"}}]
    cursor = params.get("cursor")
    if MODE == "loop":
        reply(number, {"tools": tools, "nextCursor": "a" if cursor != "a" else "b"})
    elif MODE == "endless":
        reply(number, {"tools": tools, "nextCursor": str(int(cursor or 0) + 1)})
    elif MODE == "no_list":
        reply(number, {"tools": "none"})
    elif MODE == "strange" and cursor is None:
        reply(number, {"tools": [1, None, *tools], "nextCursor": "2"})
    elif MODE == "strange":
        reply(number, {"nothing": 1})
    else:
        reply(number, {"tools": tools, "nextCursor": "2"} if cursor is None else {"tools": [{"name": "second"}]})


def handle(message):
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method == "initialize" and MODE == "choke_refuse" and "unknown" in WAITING:
        refuse(number, -32000, "already started")
    elif method == "initialize":
        version = {"future": "2099-01-01", "oldest": "2024-11-05"}.get(MODE, params["protocolVersion"])
        capabilities = {"tools": {"listChanged": True}}
        info = {"name": "raw", "version": "1"}
        reply(number, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})
    elif method == "server/discover" and MODE == "modern":
        capabilities = {"tools": {"listChanged": True}}
        found = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "resultType": "complete"}
        reply(number, found)
    elif method == "subscriptions/listen" and MODE == "modern":
        note = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {}}
        send(note)  # and the response follows when the subscription ends
    elif method == "tools/list":
        page(number, params)
    elif method == "tools/call":
        call(number, params)
    elif method == "notifications/cancelled":
        WAITING.setdefault("cancelled", []).append(params.get("requestId"))
    elif method is None and "ask" in WAITING:
        text(WAITING.pop("ask"), json.dumps({key: message.get(key) for key in ("id", "result", "error")}))
    elif number is not None and MODE == "choke_exit":
        sys.exit("unknown method")
    elif number is not None and MODE == "choke_hang":
        time.sleep(600)
    elif number is not None:
        WAITING["unknown"] = method
        refuse(number, -32601, "Method not found")


if MODE == "mute":
    time.sleep(600)
if MODE == "exit":
    sys.stdin.readline()
    print("+----+\n| hi |\n+----+\n" * 9, file=sys.stderr)
    sys.exit(f"bad start, key {os.environ.get('API_KEY')}")
if MODE == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if MODE == "slow":
    time.sleep(float(os.environ.get("START_SECONDS", "1.5")))
if MODE == "junk":
    print("Welcome to the server!\n\n[not json\n{\n")
    print("the server is ready", file=sys.stderr)
for line in sys.stdin:
    if MODE == "junk":
        print("debug: got a line")
    handle(json.loads(line))
if MODE == "stubborn":
    time.sleep(600)
