"""An MCP server over stdio with one tool, by the standard library alone."""

import json
import sys

TOOL = {
    "name": "write_note",
    "title": "Write a note",
    "description": "Write a note.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        reply["result"] = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "notebook", "version": "1"},
        }
    elif message["method"] == "tools/list":
        reply["result"] = {"tools": [TOOL]}
    else:
        reply["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(reply), flush=True)
