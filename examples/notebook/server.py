"""A notebook as an MCP server over stdio, using only the standard library: JSON-RPC, one message per line.

`yard.yaml` beside this folder starts it as a source; any MCP client can. Notes are lost when the process ends.
"""

import json
import sys

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
MOST_NOTES = 1000
METHOD_NOT_FOUND, INVALID_PARAMS, PARSE_ERROR = -32601, -32602, -32700

NOTE = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "title": {"type": "string"}, "text": {"type": "string"}},
    "required": ["number", "title", "text"],
}
NOTES = {"type": "object", "properties": {"notes": {"type": "array", "items": NOTE}}, "required": ["notes"]}


def arguments(required=(), **properties):
    """The input schema of a tool."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


class Refused(Exception):
    """Refuses a tool call with a reason."""


class Notebook:
    """All notes, and the tools that change them."""

    def __init__(self):
        self.notes = {}
        self.last = 0

    def write(self, title, text=""):
        """Write a note."""
        if len(self.notes) >= MOST_NOTES:
            raise Refused(f"the notebook is full: {MOST_NOTES} notes; tear one out")
        self.last += 1
        self.notes[self.last] = {"number": self.last, "title": title, "text": text}
        return self.notes[self.last]

    def find(self, words=""):
        """Notes that hold all of some words."""
        wanted = words.lower().split()
        found = [
            note for note in self.notes.values() if all(w in f"{note['title']} {note['text']}".lower() for w in wanted)
        ]
        return {"notes": found}

    def tear_out(self, number):
        """Take a note out for good."""
        if number not in self.notes:
            raise Refused(f"there is no note {number}")
        return self.notes.pop(number)


BOOK = Notebook()
TOOLS = {
    "write": (
        BOOK.write,
        {
            "title": "Write a note",
            "description": "Write a note into the notebook.",
            "inputSchema": arguments(
                ["title"],
                title={"type": "string", "description": "What it is about.", "minLength": 1},
                text={"type": "string", "description": "The note itself."},
            ),
            "outputSchema": NOTE,
            "annotations": {"readOnlyHint": False, "destructiveHint": False},
        },
    ),
    "find": (
        BOOK.find,
        {
            "title": "Find notes",
            "description": "Find the notes that hold all of some words; without words, all of them.",
            "inputSchema": arguments(words={"type": "string", "description": "Words to look for."}),
            "outputSchema": NOTES,
            "annotations": {"readOnlyHint": True},
        },
    ),
    "tear_out": (
        BOOK.tear_out,
        {
            "title": "Tear out a note",
            "description": "Take a note out of the notebook for good.",
            "inputSchema": arguments(["number"], number={"type": "integer", "description": "The number of the note."}),
            "outputSchema": NOTE,
            "annotations": {"readOnlyHint": False, "destructiveHint": True},
        },
    ),
}


def call(params):
    """The result of `tools/call`; a refusal is a result too."""
    run, _ = TOOLS[params["name"]]
    try:
        value = run(**params.get("arguments") or {})
    except (Refused, TypeError) as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value, "isError": False}


def answer(method, params):
    """The response to a request: its result or error."""
    if method == "initialize":
        asked = params.get("protocolVersion")
        return {
            "result": {
                "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "notebook", "version": "1"},
            }
        }
    if method == "ping":
        return {"result": {}}
    if method == "tools/list":
        return {"result": {"tools": [{"name": name, **about} for name, (_, about) in TOOLS.items()]}}
    if method != "tools/call":
        return {"error": {"code": METHOD_NOT_FOUND, "message": f"there is no method {method}"}}
    if params.get("name") not in TOOLS:
        return {"error": {"code": INVALID_PARAMS, "message": f"there is no tool {params.get('name')}"}}
    return {"result": call(params)}


def handle(line):
    """The response to one line; None for a notification."""
    try:
        message = json.loads(line)
        number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    except (ValueError, AttributeError):
        return {"id": None, "error": {"code": PARSE_ERROR, "message": "this is no message"}}
    return None if number is None or method is None else {"id": number, **answer(method, params)}


def main():
    """Answer requests until standard input ends."""
    for line in sys.stdin:
        found = handle(line) if line.strip() else None
        if found is not None:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **found}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
